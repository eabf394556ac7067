//! Values of JSON patches, which the document holds as text (velero: internal/resourcemodifiers).

use serde_json::{Number, Value};

/// Reads a value: JSON where the text looks like it, text otherwise.
///
/// Velero pastes the text into a patch, so that quotes and backslashes in it break the patch; here they are part of the text.
///
/// # Errors
/// Returns the reason why the text is neither, and a correct spelling.
pub(super) fn value(text: &str) -> Result<Value, String> {
    if text.len() > 1
        && let Some(quoted) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'))
    {
        return Ok(serde_json::from_str(text).unwrap_or_else(|_| quoted.into()));
    }
    if text.starts_with(['{', '[']) {
        return serde_json::from_str(text).map_err(|e| format!("the value {text} looks like JSON, and is not: {e}"));
    }
    match text {
        "null" => return Ok(Value::Null),
        "true" | "false" => return Ok(Value::Bool(text == "true")),
        _ => {}
    }
    if ["true", "false"].contains(&text.to_lowercase().as_str()) {
        let (plain, quotes) = (text.to_lowercase(), '"');
        return Err(format!("the value {text} is ambiguous: write {plain}, or '{quotes}{text}{quotes}' for the text"));
    }
    if text.trim() != text {
        return Ok(text.into());
    }
    match serde_json::from_str(text) {
        Ok(Value::Number(number)) => Ok(plain(&number)),
        // What Go takes for a number, and JSON does not.
        _ if text.parse::<f64>().is_ok() => {
            Err(format!("the value {text} is a number that JSON does not know: write '\"{text}\"' for the text"))
        }
        _ => Ok(text.into()),
    }
}

/// A whole number without exponent and sign of zero: API servers take no other for integers.
fn plain(number: &Number) -> Value {
    let whole = number.as_f64().filter(|_| number.to_string().contains(['e', 'E']) || number.to_string() == "-0");
    match whole {
        // Up to here a double is exact.
        Some(whole) if whole.fract() == 0.0 && whole.abs() < 9e15 => {
            format!("{whole:.0}").parse::<i64>().map_or(Value::Null, Value::from)
        }
        _ => Value::Number(number.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_is_json_where_it_looks_like_it() {
        for (text, expected) in [
            ("", json!("")),
            ("word", json!("word")),
            ("\"5\"", json!("5")),
            ("\"a\\nb\"", json!("a\nb")),
            ("\"a\\b\"", json!("a\u{8}")),
            ("\"say \"x\"\"", json!("say \"x\"")),
            ("a \"quoted\" word", json!("a \"quoted\" word")),
            ("C:\\temp", json!("C:\\temp")),
            ("null", json!(null)),
            ("true", json!(true)),
            ("5", json!(5)),
            ("-0.5", json!(-0.5)),
            ("1e3", json!(1000)),
            ("-0", json!(0)),
            ("0x10", json!("0x10")),
            (" 7", json!(" 7")),
            ("{\"a\": [1]}", json!({"a": [1]})),
            ("10Gi", json!("10Gi")),
            ("\"", json!("\"")),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
        assert_eq!(value("12345678901234567890123").unwrap().to_string(), "12345678901234567890123");
        for text in ["True", "FALSE", "+5", ".5", "007", "NaN", "Inf", "{a", "[1,"] {
            assert!(value(text).is_err(), "{text}");
        }
    }
}
