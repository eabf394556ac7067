//! The columns of built-in types.

use serde::Serialize;
use std::borrow::Cow;

/// The columns of a Kubernetes 1.34 server, with its own descriptions. A line that begins with `=` is a description that several
/// columns have; a type is `GROUP/RESOURCE`; below it its columns: name, type, format, priority, description.
const TABLE: &str = include_str!("columns.txt");

/// A column, as a table declares it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ColumnDefinition {
    pub(super) name: Cow<'static, str>,
    pub(super) r#type: Cow<'static, str>,
    pub(super) format: Cow<'static, str>,
    pub(super) description: Cow<'static, str>,
    pub(super) priority: i64,
}

impl ColumnDefinition {
    /// The column that each type has.
    pub(super) fn name() -> Self {
        let description = shared("name");
        Self { name: "Name".into(), r#type: "string".into(), format: "name".into(), description, priority: 0 }
    }

    /// A column with the time at which the object was made.
    pub(super) fn made(name: &'static str) -> Self {
        let description = shared("created");
        Self { name: name.into(), r#type: "date".into(), format: "".into(), description, priority: 0 }
    }
}

/// The columns of a type for which Kubernetes has no printer.
pub(super) fn name_and_time() -> Vec<ColumnDefinition> {
    vec![ColumnDefinition::name(), ColumnDefinition::made("Created At")]
}

/// The columns of a built-in type; none if it has no printer.
pub(super) fn of(group: &str, resource: &str) -> Vec<ColumnDefinition> {
    let path = match (group, resource) {
        ("" | "events.k8s.io", resource) => resource.to_owned(),
        _ => format!("{group}/{resource}"),
    };
    let of_type = TABLE.lines().skip_while(|line| *line != path).skip(1);
    of_type.map_while(|line| line.strip_prefix("  ")).map(definition).collect()
}

fn definition(line: &'static str) -> ColumnDefinition {
    let mut parts = line.splitn(5, '|');
    let mut part = || parts.next().unwrap_or_default();
    let (name, r#type, format, priority) = (part(), part(), part(), part());
    let description = part();
    let description = description.strip_prefix('=').map_or_else(|| unescaped(description), shared);
    ColumnDefinition {
        name: name.into(),
        r#type: r#type.into(),
        format: format.into(),
        description,
        priority: priority.parse().unwrap_or(0),
    }
}

/// A description that several columns have.
fn shared(name: &str) -> Cow<'static, str> {
    let mut texts = TABLE.lines().filter_map(|line| line.strip_prefix('=')?.split_once('|'));
    unescaped(texts.find(|(found, _)| *found == name).map(|(_, text)| text).unwrap_or_default())
}

fn unescaped(text: &'static str) -> Cow<'static, str> {
    if text.contains("\\n") { text.replace("\\n", "\n").into() } else { text.into() }
}
