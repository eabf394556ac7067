//! The `resources` of a container.

use crate::Quantity;
use serde_json::{Map, Value, json};

/// The request and the limit of a resource, as they are written.
#[derive(Clone, Copy, Debug)]
pub struct ResourceTexts<'a> {
    /// The resource, such as `memory`.
    pub name: &'a str,
    /// The request; zero for none.
    pub request: &'a str,
    /// The limit; zero for none.
    pub limit: &'a str,
}

/// The `resources` of a container; `None` where every value is zero.
///
/// # Errors
/// A text that is no quantity, or a request above its limit, as a message for people. One wrong value is an error of all.
pub fn container_resources(resources: &[ResourceTexts<'_>]) -> Result<Option<Value>, String> {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    for ResourceTexts { name, request, limit } in resources {
        let parse = |text: &str| Quantity::parse(text).ok_or_else(|| format!("{name} {text:?} is no quantity"));
        let (least, most) = (parse(request)?, parse(limit)?);
        if !most.is_zero() && least.exceeds(most) {
            return Err(format!("the {name} request {request} must be less than or equal to the limit {limit}"));
        }
        for (into, quantity, text) in [(&mut requests, least, request), (&mut limits, most, limit)] {
            if !quantity.is_zero() {
                into.insert((*name).to_owned(), json!(text));
            }
        }
    }
    let mut out = Map::new();
    for (key, of) in [("requests", requests), ("limits", limits)] {
        if !of.is_empty() {
            out.insert(key.to_owned(), Value::Object(of));
        }
    }
    Ok((!out.is_empty()).then_some(Value::Object(out)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_that_are_zero_are_left_out_and_wrong_ones_are_told() {
        let of = |name, request, limit| container_resources(&[ResourceTexts { name, request, limit }]);
        assert_eq!(of("cpu", "0", "0"), Ok(None));
        assert_eq!(of("cpu", "500m", "0"), Ok(Some(json!({"requests": {"cpu": "500m"}}))));
        let both = json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "1024Mi"}});
        assert_eq!(of("memory", "1Gi", "1024Mi"), Ok(Some(both)));
        let above = "the memory request 2Gi must be less than or equal to the limit 1Gi";
        assert_eq!(of("memory", "2Gi", "1Gi"), Err(above.to_owned()));
        assert_eq!(of("cpu", "", "1"), Err("cpu \"\" is no quantity".to_owned()));
    }
}
