//! JSON values as YAML text.

use serde::{Serialize, Serializer};
use serde_json::Value;

/// A value as a YAML document.
///
/// # Errors
/// None that a JSON value can bring about.
pub fn print(value: &Value) -> Result<String, serde_saphyr::SerializeError> {
    serde_saphyr::to_string(&Yaml(value))
}

/// Numbers are numbers: by itself a number that keeps its digits goes to another format as a map.
struct Yaml<'a>(&'a Value);

impl Serialize for Yaml<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(integer), _, _) => serializer.serialize_i64(integer),
                (_, Some(integer), _) => serializer.serialize_u64(integer),
                (_, _, Some(double)) => serializer.serialize_f64(double),
                // No API server takes such a number; as text its digits are at least seen.
                _ => serializer.serialize_str(&number.to_string()),
            },
            Value::Array(items) => serializer.collect_seq(items.iter().map(Yaml)),
            Value::Object(map) => serializer.collect_map(map.iter().map(|(key, value)| (key, Yaml(value)))),
            other => other.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_stand_as_numbers() {
        let text = r#"{"a":1,"b":-7.5,"c":18.724158270135618,"d":[18446744073709551615,{"e":1e999}],"f":"1","g":null}"#;
        let value = serde_json::from_str(text).unwrap();
        let expected =
            "a: 1\nb: -7.5\nc: 18.724158270135618\nd:\n- 18446744073709551615\n- e: \"1e+999\"\nf: \"1\"\ng: null\n";
        assert_eq!(super::print(&value).unwrap(), expected);
    }
}
