//! An object as a value, whatever stands in it. Pure.
//!
//! Of an object that was read only the head is known to be in order. The parser of JSON passes over all else without a look at what it refuses
//! when it builds values: more than 127 levels, halves of surrogate pairs, and bytes that are no UTF-8.

use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Levels of such an object down to which its fields are told apart.
const LEVELS: usize = 32;

/// The object. A part of it that cannot be a value is the text of its JSON, so that two states of the object differ where their bytes do, at
/// the path where they do.
pub(crate) fn object_value(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| part(&text(body), LEVELS))
}

fn part(json: &str, levels: usize) -> Value {
    if let Ok(value) = serde_json::from_str(json) {
        return value;
    }
    let inside = levels.checked_sub(1).and_then(|levels| match json.as_bytes().first()? {
        b'{' => {
            let fields: BTreeMap<String, &RawValue> = serde_json::from_str(json).ok()?;
            Some(fields.into_iter().map(|(name, field)| (name, part(field.get(), levels))).collect())
        }
        b'[' => {
            let elements: Vec<&RawValue> = serde_json::from_str(json).ok()?;
            Some(elements.into_iter().map(|element| part(element.get(), levels)).collect())
        }
        _ => None,
    });
    inside.unwrap_or_else(|| json.into())
}

/// The bytes as a text; those that are no UTF-8 are written as `\\xff`, which is a text in JSON too.
fn text(body: &[u8]) -> String {
    let mut text = String::with_capacity(body.len());
    for chunk in body.trim_ascii_start().utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\\\x{byte:02x}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::Head;
    use lifeboat_patch::{Difference, differences};
    use serde_json::json;

    /// An object with a value inside so many lists.
    fn deep(levels: usize, value: u8) -> Value {
        let object = format!(
            r#" {{"metadata":{{"name":"x"}},"deep":{}{value}{},"other":1}}"#,
            "[".repeat(levels),
            "]".repeat(levels)
        );
        assert!(Head::parse(object.as_bytes()).is_ok());
        object_value(object.as_bytes())
    }

    #[test]
    fn what_is_nested_deeply_differs_where_it_does() {
        for (levels, path, lists) in [
            (100, format!("/deep{}", "/0".repeat(100)), None),
            (140, format!("/deep{}", "/0".repeat(140)), None),
            (9_000, format!("/deep{}", "/0".repeat(LEVELS - 1)), Some(9_000 - (LEVELS - 1))),
        ] {
            let side = |value: u8| match lists {
                Some(lists) => json!(format!("{}{value}{}", "[".repeat(lists), "]".repeat(lists))),
                None => json!(value),
            };
            let expected = Difference { path, left: Some(side(1)), right: Some(side(2)) };
            assert_eq!(differences(&deep(levels, 1), &deep(levels, 2)), [expected], "{levels}");
            assert_eq!(differences(&deep(levels, 1), &deep(levels, 1)), []);
        }
    }

    #[test]
    fn what_can_be_no_value_is_the_text_of_it() {
        for (odd, expected) in [
            (&br#""\ud800""#[..], json!(r#""\ud800""#)),
            (br#"{"\ud800":1}"#, json!(r#"{"\ud800":1}"#)),
            (b"\"\xff<\"", json!(r"\xff<")),
            (br#"["\ud800",{"b":[2]}]"#, json!([r#""\ud800""#, {"b": [2]}])),
        ] {
            let object = [br#"{"metadata":{"name":"x"},"odd":"#, odd, b"}"].concat();
            assert!(Head::parse(&object).is_ok());
            assert_eq!(object_value(&object), json!({"metadata": {"name": "x"}, "odd": expected}));
        }
    }
}
