//! The columns that a CustomResourceDefinition declares.

use super::columns::ColumnDefinition;
use super::duration::since;
use super::field::name;
use super::json_path::{JsonPath, Visits};
use crate::types::served::Column;
use jiff::Timestamp;
use serde_json::{Number, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Values that the paths of all columns may visit in each row.
const OF_ROW: usize = 2_000;
/// Values that they may visit beyond that in all rows of a request: there may be a hundred thousand.
const OF_REQUEST: usize = 10_000_000;
/// And of those in one row.
const OF_ROW_AT_MOST: usize = 1_000_000;
/// Bytes of text that take as long as a value that is visited.
const BYTES: usize = 16;

/// The columns of a custom type, their paths parsed, for one request.
#[derive(Clone, Debug)]
pub(super) struct CustomColumns {
    columns: Vec<(ColumnDefinition, JsonPath)>,
    /// The unspent part of [`OF_REQUEST`].
    spare: Arc<AtomicUsize>,
}

impl CustomColumns {
    /// Without columns there is that of the age. A path that cannot be parsed ends the columns, as it does in the server.
    pub(super) fn new(columns: &[Column]) -> Self {
        let column = |column: &Column| Some((definition(column), JsonPath::parse(&column.json_path)?));
        let columns = if columns.is_empty() {
            let age = JsonPath::parse(".metadata.creationTimestamp");
            age.into_iter().map(|path| (ColumnDefinition::made("Age"), path)).collect()
        } else {
            columns.iter().map_while(column).collect()
        };
        Self { columns, spare: Arc::new(AtomicUsize::new(OF_REQUEST)) }
    }

    /// All columns, that of the name first.
    pub(super) fn definitions(&self) -> Vec<ColumnDefinition> {
        let more = self.columns.iter().map(|(definition, _)| definition.clone());
        std::iter::once(ColumnDefinition::name()).chain(more).collect()
    }

    /// The cells of an object, the first that of its name. Those that would take too long to find are empty.
    pub(super) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let spare = self.spare.load(Ordering::Relaxed);
        let most = OF_ROW + spare.min(OF_ROW_AT_MOST);
        let mut visits = Visits(most);
        let mut cells = vec![name(object)];
        for (definition, path) in &self.columns {
            // compat: of several results the server shows the first.
            let found = path.find(object, &mut visits).and_then(|found| found.first().copied());
            let cell = found.map_or(Value::Null, |value| cell(&definition.r#type, value, now));
            let is_short = visits.spend(cell.as_str().map_or(0, str::len) / BYTES).is_ok();
            cells.push(if is_short { cell } else { Value::Null });
        }
        // The rows of a request are made one after the other.
        let beyond = (most - visits.0).saturating_sub(OF_ROW);
        self.spare.store(spare.saturating_sub(beyond), Ordering::Relaxed);
        cells
    }
}

fn definition(column: &Column) -> ColumnDefinition {
    let description = match column.description.as_str() {
        "" => format!("Custom resource definition column (in JSONPath format): {}", column.json_path),
        description => description.to_owned(),
    };
    ColumnDefinition {
        name: column.name.clone().into(),
        r#type: column.r#type.clone().into(),
        format: column.format.clone().into(),
        description: description.into(),
        priority: column.priority,
    }
}

/// A value in a column of a type; nothing where it does not fit.
fn cell(of: &str, value: &Value, now: Timestamp) -> Value {
    match (of, value) {
        ("string", value) => text(value).into(),
        ("boolean", Value::Bool(_)) => value.clone(),
        ("integer", Value::Number(number)) => integer(number),
        ("number", Value::Number(number)) => integral(number).map_or_else(|| value.clone(), Value::from),
        ("date", Value::String(time)) if time.is_empty() || time == "null" => "<unknown>".into(),
        ("date", Value::String(time)) if time.parse::<Timestamp>().is_err() => "<invalid>".into(),
        ("date", Value::String(_)) => since(value, now).into(),
        _ => Value::Null,
    }
}

/// A whole number, without what follows its point.
#[allow(clippy::cast_possible_truncation, reason = "the server cuts it off as well")]
fn integer(number: &Number) -> Value {
    let whole = number.as_i64().or_else(|| number.as_f64().map(|n| n as i64));
    whole.map_or(Value::Null, Value::from)
}

/// A number that is whole, however it is written.
#[allow(clippy::cast_possible_truncation, reason = "it is in the range")]
fn integral(number: &Number) -> Option<i64> {
    let whole = |n: &f64| n.fract() == 0.0 && n.abs() < 1e15;
    number.as_i64().or_else(|| number.as_f64().filter(whole).map(|n| n as i64))
}

/// The text that Go prints for a value.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::String(text) => text.clone(),
        Value::Number(number) => integral(number).map_or_else(|| number.to_string(), |whole| whole.to_string()),
        Value::Array(_) | Value::Object(_) => escaped(&value.to_string()),
    }
}

/// JSON as Go writes it, which takes care that it can stand in a page.
fn escaped(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn column(r#type: &str, json_path: &str) -> Column {
        Column {
            name: "C".into(),
            json_path: json_path.into(),
            r#type: r#type.into(),
            format: String::new(),
            description: String::new(),
            priority: 0,
        }
    }

    #[test]
    fn a_value_is_shown_by_the_type_of_its_column() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for (of, value, expected) in [
            ("string", json!("a"), json!("a")),
            ("string", json!(null), json!("<no value>")),
            ("string", json!(true), json!("true")),
            ("string", json!(3.0), json!("3")),
            ("string", json!(["<a>", {"b": 1}]), json!(r#"["\u003ca\u003e",{"b":1}]"#)),
            ("integer", json!(3), json!(3)),
            ("integer", json!(3.9), json!(3)),
            ("integer", json!("3"), json!(null)),
            ("number", json!(3), json!(3)),
            ("number", json!(2.5), json!(2.5)),
            ("boolean", json!(false), json!(false)),
            ("boolean", json!("false"), json!(null)),
            ("date", json!("2025-12-31T21:00:00Z"), json!("3h")),
            ("date", json!("yesterday"), json!("<invalid>")),
            ("date", json!(""), json!("<unknown>")),
            ("date", json!(3), json!(null)),
            ("other", json!("a"), json!(null)),
        ] {
            let columns = CustomColumns::new(&[column(of, ".v"), column(of, ".none")]);
            let object = json!({"metadata": {"name": "n"}, "v": value});
            assert_eq!(columns.cells(&object, now), [json!("n"), expected, json!(null)], "{of} {value}");
        }
    }

    #[test]
    fn paths_of_a_request_share_the_time_that_they_may_take() {
        // Each path counts, each of its steps, and what that looks at: more than a row may take by itself.
        let elements = 2 * OF_ROW;
        let beyond = elements + 2 + 3 + 2 - OF_ROW;
        let object =
            json!({"metadata": {"name": "n"}, "list": vec!["x"; elements], "text": "x".repeat(BYTES * 2 * OF_ROW)});
        let columns =
            CustomColumns::new(&[column("string", ".none"), column("string", ".list[*]"), column("string", ".none")]);
        columns.spare.store(2 * beyond, Ordering::Relaxed);
        let cells = || columns.cells(&object, Timestamp::UNIX_EPOCH)[2].clone();
        assert_eq!([cells(), cells(), cells()], [json!("x"), json!("x"), json!(null)]);
        // A text takes its time as well; what takes little of it is always there.
        let columns = CustomColumns::new(&[column("string", ".metadata.name"), column("string", ".text")]);
        let cells = || columns.cells(&object, Timestamp::UNIX_EPOCH);
        assert_eq!(cells()[2], object["text"]);
        columns.spare.store(0, Ordering::Relaxed);
        assert_eq!(cells(), [json!("n"), json!("n"), json!(null)]);
    }

    #[test]
    fn columns_end_at_a_path_that_cannot_be_parsed() {
        let columns = CustomColumns::new(&[column("string", ".a"), column("string", ".a["), column("string", ".b")]);
        assert_eq!(columns.definitions(), [ColumnDefinition::name(), definition(&column("string", ".a"))]);
    }
}
