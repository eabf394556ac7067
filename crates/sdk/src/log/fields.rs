//! The fields of a line.

use serde_json::{Map, Value};
use std::error::Error;
use std::fmt::Debug;
use tracing::field::{Field, Visit};

/// The fields of a line or of a span, with the message as one of them.
#[derive(Default)]
pub(super) struct LogFields(Map<String, Value>);

/// The name that a line's message has among its fields.
const MESSAGE: &str = "message";

impl LogFields {
    /// Adds others, which stand for those of the same name.
    pub(super) fn extend(&mut self, others: &Self) {
        self.0.extend(others.0.iter().map(|(name, value)| (name.clone(), value.clone())));
    }

    /// The message, and all other fields.
    pub(super) fn into_parts(mut self) -> (String, Map<String, Value>) {
        let message = match self.0.remove(MESSAGE) {
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
            None => String::new(),
        };
        (message, self.0)
    }

    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for LogFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has neither infinity nor what is no number.
        if value.is_finite() {
            self.add(field, value);
        } else {
            self.add(field, value.to_string());
        }
    }

    /// With all of its causes: nobody else writes them.
    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut text = value.to_string();
        let mut cause = value.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        self.add(field, text);
    }
}
