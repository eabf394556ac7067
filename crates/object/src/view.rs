//! Views of objects: the few fields of one that a reader asks for, whatever the others are.

use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use std::fmt;

/// The few fields of an object that a view of it has; the others are passed over. `None` of what is shaped otherwise: no API
/// server sends it.
#[must_use]
pub fn view<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    serde_json::from_slice(body).ok()
}

/// Returns true if the field is there at all, whatever it holds; for `deserialize_with`.
///
/// # Errors
/// The deserializer's error, for a text that is not JSON.
pub fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

/// A field that should be a text; empty when it is anything else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(pub String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Anything)
    }
}

struct Anything;

impl<'de> Visitor<'de> for Anything {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
        Ok(Text(text.to_owned()))
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_unit<E: de::Error>(self) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Text, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Seen {
        name: Text,
        #[serde(deserialize_with = "is_there")]
        extra: bool,
    }

    #[test]
    fn a_text_that_is_none_is_empty_and_spoils_nothing() {
        let seen = |name: &str, extra| Some(Seen { name: Text(name.to_owned()), extra });
        for (body, expected) in [
            (r#"{"name": "a", "extra": null, "more": [1]}"#, seen("a", true)),
            (r#"{"name": 7}"#, seen("", false)),
            (r#"{"name": null, "extra": {}}"#, seen("", true)),
            (r#"{"name": {"a": ["b"]}, "extra": 1.5}"#, seen("", true)),
            (r#"{"name": [true]}"#, seen("", false)),
            ("[", None),
        ] {
            assert_eq!(view::<Seen>(body.as_bytes()), expected, "{body}");
        }
    }
}
