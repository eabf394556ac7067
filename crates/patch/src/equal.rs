//! Equality of two values in the eyes of an API server.

use serde_json::{Number, Value};

/// Returns true if two values are the same to an API server that reads both. Numbers are compared as it reads them, so
/// that `1.0`, `1e0` and `1` are the same, and everything else exactly.
#[must_use]
pub fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(l), Value::Number(r)) => {
            l == r || ApiNumber::of(l).zip(ApiNumber::of(r)).is_some_and(|(l, r)| l == r)
        }
        (Value::Array(l), Value::Array(r)) => l.len() == r.len() && l.iter().zip(r).all(|(l, r)| equal(l, r)),
        (Value::Object(l), Value::Object(r)) => {
            l.len() == r.len() && l.iter().all(|(key, l)| r.get(key).is_some_and(|r| equal(l, r)))
        }
        (l, r) => l == r,
    }
}

/// A number as API servers read it: an integer where 64 bits hold it, a double otherwise (`sigs.k8s.io/json`,
/// "preserve ints").
enum ApiNumber {
    Integer(i64),
    Double(f64),
}

impl ApiNumber {
    /// `None` for a number that no API server takes, such as `1e999`.
    fn of(number: &Number) -> Option<Self> {
        number.as_str().parse().map(Self::Integer).ok().or_else(|| number.as_f64().map(Self::Double))
    }
}

impl PartialEq for ApiNumber {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Integer(l), Self::Integer(r)) => l == r,
            (Self::Double(l), Self::Double(r)) => l == r,
            // An API server writes a double with as few digits as needed, and its next reader may see an integer.
            (Self::Integer(i), Self::Double(d)) | (Self::Double(d), Self::Integer(i)) => {
                d.to_string().parse() == Ok(*i)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_compared_as_an_api_server_reads_them() {
        for (left, right, expected) in [
            ("1", "1.0", true),
            ("1", "1e0", true),
            ("100", "1E2", true),
            ("0.1", "1e-1", true),
            ("-0", "0.0", true),
            ("1", "1.0000000000000002", false),
            ("18.724158270135618", "18.724158270135614", false),
            ("9223372036854775807", "9223372036854775806", false),
            // Integers of 64 bits are exact, larger ones are doubles.
            ("9223372036854775807", "9223372036854775808", false),
            ("9007199254740993", "9007199254740992.0", false),
            ("123456789012345678901234567890", "1.2345678901234568e+29", true),
            ("123456789012345678901234567890", "123456789012345678901234567891", true),
            ("1e999", "1e999", true),
            ("1e999", "1e998", false),
            ("1", r#""1""#, false),
            (r#"{"a":[1.0,{"b":2}]}"#, r#"{"a":[1,{"b":2.0}]}"#, true),
            (r#"{"a":1}"#, r#"{"a":1,"b":null}"#, false),
            ("[1]", "[1,1]", false),
        ] {
            let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(equal(&parsed(left), &parsed(right)), expected, "{left} and {right}");
            assert_eq!(equal(&parsed(right), &parsed(left)), expected, "{right} and {left}");
        }
    }

    proptest! {
        /// A number that a client reads as a double and writes back is the same number to the API server.
        #[test]
        fn a_double_in_another_writing_is_the_same(number in any::<f64>().prop_filter("JSON", |n| n.is_finite())) {
            let (plain, exponent) = (format!("{number}"), format!("{number:e}"));
            let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            prop_assert!(equal(&parsed(&plain), &parsed(&exponent)), "{plain} and {exponent}");
        }
    }
}
