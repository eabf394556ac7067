//! Detection of a definition in the cluster that is newer than the definition in the backup. Pure.
//!
//! Objects of the cluster may have what only the newer one knows: with the older one in its place, the API server no longer
//! serves their version, or drops those fields of them.

use lifeboat_object::first_names;
use serde_json::{Map, Value};

/// Schemas refer to nothing, but may be nested as deeply as a JSON text.
const DEEPEST: usize = 100;

/// Lists, for people, what the definition in the cluster has and its replacement lacks; `None` when that is nothing.
pub(crate) fn newer(desired: &Value, in_cluster: &Value) -> Option<String> {
    let (old, new) = (versions(desired), versions(in_cluster));
    let is_served = |version: &Value| version["served"] == true;
    let served = |all: &Map<String, Value>, name: &str| all.get(name).is_some_and(is_served);
    let lost: Vec<String> =
        new.iter().filter(|(name, one)| is_served(one) && !served(&old, name)).map(|(name, _)| name.clone()).collect();
    let mut fields = Vec::new();
    for (name, one) in &new {
        if let Some(older) = old.get(name) {
            let (older, newer) = (&older["schema"]["openAPIV3Schema"], &one["schema"]["openAPIV3Schema"]);
            let mut lost = LostFields::default();
            lost.add(older, newer, "", DEEPEST);
            fields.extend(lost.0.into_iter().map(|field| format!("{field} of {name}")));
        }
    }
    let lists = [("serves the version", "serves the versions", lost), ("has the field", "has the fields", fields)];
    let told: Vec<String> = lists.into_iter().filter_map(|(one, some, list)| named(one, some, &list)).collect();
    (!told.is_empty()).then(|| told.join(", and "))
}

fn named(one: &str, some: &str, list: &[String]) -> Option<String> {
    match list {
        [] => None,
        [name] => Some(format!("{one} {name}")),
        names => Some(format!("{some} {}", first_names(names))),
    }
}

/// The versions of a definition by name.
fn versions(definition: &Value) -> Map<String, Value> {
    let all = definition["spec"]["versions"].as_array().into_iter().flatten();
    all.filter_map(|one| Some((one["name"].as_str()?.to_owned(), one.clone()))).collect()
}

/// Paths of fields that the newer of two schemas has and the older one drops.
#[derive(Default)]
struct LostFields(Vec<String>);

impl LostFields {
    /// Adds those below a path, down to so many levels.
    fn add(&mut self, old: &Value, new: &Value, path: &str, depth: usize) {
        let keeps_all = old["x-kubernetes-preserve-unknown-fields"] == true || old["type"].is_null();
        if depth == 0 || keeps_all {
            return;
        }
        for (name, newer) in new["properties"].as_object().into_iter().flatten() {
            let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match old["properties"].get(name) {
                Some(older) => self.add(older, newer, &at, depth - 1),
                None if old["additionalProperties"].is_object() || old["additionalProperties"] == true => {}
                None => self.0.push(at),
            }
        }
        for (inside, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
            if old[inside].is_object() && new[inside].is_object() {
                self.add(&old[inside], &new[inside], &format!("{path}{mark}"), depth - 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition(versions: &[(&str, bool, Value)]) -> Value {
        let version = |(name, served, spec): &(&str, bool, Value)| json!({"name": name, "served": served, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}});
        json!({"kind": "CustomResourceDefinition", "spec": {"versions": versions.iter().map(version).collect::<Vec<_>>()}})
    }

    fn fields(names: &[&str]) -> Value {
        let properties = names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"})));
        json!({"type": "object", "properties": properties.collect::<Map<_, _>>()})
    }

    #[test]
    fn a_definition_is_newer_by_its_served_versions_and_its_fields() {
        let v1 = |names: &[&str]| definition(&[("v1", true, fields(names))]);
        let list = |of: Value| json!({"type": "object", "properties": {"l": {"type": "array", "items": of}}});
        let map =
            |of: Value| json!({"type": "object", "properties": {"m": {"type": "object", "additionalProperties": of}}});
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        for (desired, in_cluster, expected) in [
            (v1(&["a", "b"]), v1(&["a"]), None),
            (v1(&["a"]), v1(&["a"]), None),
            (v1(&["a"]), v1(&["a", "b"]), Some("has the field spec.b of v1")),
            (v1(&[]), v1(&["a", "b", "c"]), Some("has the fields spec.a of v1, spec.b of v1, spec.c of v1")),
            (
                v1(&["a"]),
                definition(&[("v1", true, fields(&["a", "b"])), ("v2", true, fields(&["x"]))]),
                Some("serves the version v2, and has the field spec.b of v1"),
            ),
            (v1(&["a"]), definition(&[("v1", true, fields(&["a"])), ("v2", false, fields(&[]))]), None),
            (
                definition(&[("v1", true, fields(&["a"])), ("v2", false, fields(&[]))]),
                definition(&[("v1", false, fields(&["a"])), ("v2", true, fields(&[]))]),
                Some("serves the version v2"),
            ),
            (
                definition(&[("v1", true, list(fields(&["a"])))]),
                definition(&[("v1", true, list(fields(&["a", "b"])))]),
                Some("has the field spec.l[].b of v1"),
            ),
            (
                definition(&[("v1", true, map(fields(&["a"])))]),
                definition(&[("v1", true, map(fields(&["a", "b"])))]),
                Some("has the field spec.m{}.b of v1"),
            ),
            (definition(&[("v1", true, open)]), v1(&["a", "b"]), None),
            (json!({}), v1(&["a"]), Some("serves the version v1")),
            (v1(&["a"]), json!({"spec": {"versions": "odd"}}), None),
        ] {
            assert_eq!(newer(&desired, &in_cluster).as_deref(), expected, "{desired} over {in_cluster}");
        }
    }
}
