//! The pages of the reference as texts.

use super::field::{Field, Origin, fields};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fmt::Write as _;

const MADE: &str = "<!-- made by `cargo xtask reference` -->\n\n";

/// The beginning of the page that leads to the others.
const HEAD: &str = "# Custom resources

The kinds of the group `velero.io`, each with a page of all its fields, as the definitions of `lifeboat install` have them.
`kubectl explain backup.spec` shows the same of the definitions that a cluster has, and `lifeboat install --crds-only --apply` brings these up to date.

In a path `[]` stands for each item of a list, and `{}` for each value of a map. Types are written as `kubectl explain` writes them.
Lengths of time are texts such as `1h30m`. An absent field and one that is `null` are the same.

";

/// A kind in one of its versions.
struct Version {
    name: String,
    is_served: bool,
    description: String,
    columns: Vec<Column>,
    fields: Vec<Field>,
}

/// A column of `kubectl get`.
struct Column {
    name: String,
    path: String,
    is_wide: bool,
}

/// A kind as its definition describes it.
pub(crate) struct Kind {
    name: String,
    group: String,
    scope: String,
    names: Vec<String>,
    short_names: Vec<String>,
    versions: Vec<Version>,
}

impl Kind {
    /// Reads a definition, beside Velero's of the same name.
    pub(crate) fn of(definition: &Value, velero: &Value) -> Result<Self> {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let name = text(&spec["names"]["kind"]).context("a definition without a kind")?;
        let versions = list(&spec["versions"]).iter().map(|version| {
            let theirs = list(&velero["spec"]["versions"]).iter().find(|theirs| theirs["name"] == version["name"]);
            let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
            let ours = schema(version);
            let columns = list(&version["additionalPrinterColumns"]).iter().map(|column| Column {
                name: text(&column["name"]).unwrap_or_default(),
                path: text(&column["jsonPath"]).unwrap_or_default(),
                is_wide: column["priority"].as_i64().is_some_and(|priority| priority > 0),
            });
            Ok(Version {
                name: text(&version["name"]).context("a version without a name")?,
                is_served: version["served"] == true,
                description: text(&ours["description"]).unwrap_or_default(),
                columns: columns.collect(),
                fields: fields(&name, &ours, &theirs.map(schema).unwrap_or_default())?,
            })
        });
        Ok(Self {
            versions: versions.collect::<Result<_>>()?,
            group: text(&spec["group"]).context("a definition without a group")?,
            scope: text(&spec["scope"]).unwrap_or_default(),
            names: [&spec["names"]["plural"], &spec["names"]["singular"]].into_iter().filter_map(text).collect(),
            short_names: list(&spec["names"]["shortNames"]).iter().filter_map(text).collect(),
            name,
        })
    }

    /// The name of the page's file: Velero's documents have the same.
    pub(crate) fn file(&self) -> String {
        format!("{}.md", self.name.to_lowercase())
    }

    pub(crate) fn page(&self) -> String {
        let mut page = format!("{MADE}# {}\n", self.name);
        for version in &self.versions {
            let state = if version.is_served { "" } else { ", which is not served any more" };
            let short = if self.short_names.is_empty() { "none".to_owned() } else { code(&self.short_names) };
            let _ = write!(
                page,
                "\n{}\n\n- API version: `{}/{}`{state}\n- scope: {}\n- names: {}\n- short names: {short}\n- columns of `kubectl get`: {}\n\n\
                 The [overview](custom-resources.md) says how paths and types are written.\n\n\
                 | field | type | what it is | of |\n|---|---|---|---|\n",
                escaped(&version.description),
                self.group,
                version.name,
                self.scope,
                code(&self.names),
                columns(&version.columns),
            );
            for field in &version.fields {
                let of_type = [vec![format!("`{}`", field.of_type)], field.rules.clone()].concat().join("; ");
                let (path, text) = (&field.path, escaped(&field.description));
                let _ = writeln!(page, "| `{path}` | {of_type} | {text} | {} |", field.origin.as_str());
            }
        }
        page
    }

    /// The fields that Velero 1.18 has not, without those inside of them.
    fn additions(&self) -> impl Iterator<Item = &Field> {
        let all = self.versions.iter().flat_map(|version| &version.fields);
        all.filter(|field| field.origin != Origin::Velero && !field.is_in_addition)
    }
}

/// The page that leads to the pages of the kinds, and lists what Velero has not.
pub(crate) fn overview(kinds: &[Kind]) -> String {
    let mut page = format!("{MADE}{HEAD}| kind | versions | short names | what it is |\n|---|---|---|---|\n");
    for kind in kinds {
        let versions: Vec<String> = kind.versions.iter().map(|version| version.name.clone()).collect();
        let text = kind.versions.last().map(|version| escaped(&version.description)).unwrap_or_default();
        let (name, short) = (format!("[{}]({})", kind.name, kind.file()), code(&kind.short_names));
        let _ = writeln!(page, "| {name} | {} | {short} | {text} |", code(&versions));
    }
    page.push_str(
        "\n## Fields that Velero 1.18 does not have\n\n\
         Velero's definitions drop them: where these are installed in the place of Lifeboat's, the fields are gone from what is \
         written afterwards.\n\n\
         | kind | field | what it is | of |\n|---|---|---|---|\n",
    );
    for kind in kinds {
        for field in kind.additions() {
            let (path, text, of) = (&field.path, escaped(&field.description), field.origin.as_str());
            let _ = writeln!(page, "| {} | `{path}` | {text} | {of} |", kind.name);
        }
    }
    page
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn code(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The columns of `kubectl get` behind that of the name. A definition that names none has that of the age.
fn columns(columns: &[Column]) -> String {
    let name = |column: &Column| {
        let wide = if column.is_wide { ", with `-o wide`" } else { "" };
        format!("{} (`{}`{wide})", column.name, column.path)
    };
    let all: Vec<String> = columns.iter().map(name).collect();
    if all.is_empty() { "Age".to_owned() } else { all.join(", ") }
}

/// A text in a cell of a table, in which no sign has a meaning.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\`*_<[|".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition() -> Value {
        let schema = json!({
            "description": "A thing.",
            "type": "object",
            "properties": {
                "a": {"type": "string", "description": "Empty or * for <all>|none.", "enum": ["x"]},
                "b": {"type": "boolean", "description": "Ends it; an addition of Lifeboat."},
            },
        });
        let wide = json!({"name": "Wide", "jsonPath": ".b", "type": "boolean", "priority": 10});
        json!({"spec": {
            "group": "velero.io",
            "names": {"kind": "Kind", "plural": "kinds", "singular": "kind", "shortNames": ["k"]},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1",
                "served": true,
                "additionalPrinterColumns": [{"name": "A", "jsonPath": ".a", "type": "string"}, wide],
                "schema": {"openAPIV3Schema": schema},
            }],
        }})
    }

    fn kind() -> Kind {
        let mut velero = definition();
        let properties = velero.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties").expect("properties");
        properties.as_object_mut().expect("an object").remove("b");
        Kind::of(&definition(), &velero).expect("a kind")
    }

    #[test]
    fn the_page_of_a_kind_has_its_names_its_columns_and_all_its_fields() {
        let expected = "<!-- made by `cargo xtask reference` -->\n\n# Kind\n\nA thing.\n\n- API version: `velero.io/v1`\n- scope: Namespaced\n\
            - names: `kinds`, `kind`\n- short names: `k`\n- columns of `kubectl get`: A (`.a`), Wide (`.b`, with `-o wide`)\n\n\
            The [overview](custom-resources.md) says how paths and types are written.\n\n\
            | field | type | what it is | of |\n|---|---|---|---|\n\
            | `a` | `string`; one of `x` | Empty or \\* for \\<all>\\|none. | Velero |\n\
            | `b` | `boolean` | Ends it; an addition of Lifeboat. | Lifeboat |\n";
        assert_eq!(kind().page(), expected);
        assert_eq!(kind().file(), "kind.md");
    }

    #[test]
    fn the_overview_has_a_row_for_each_kind_and_each_addition() {
        let page = overview(&[kind()]);
        let rows: Vec<&str> =
            page.lines().filter(|line| line.starts_with('|') && !line.contains("what it is")).collect();
        let expected = [
            "|---|---|---|---|",
            "| [Kind](kind.md) | `v1` | `k` | A thing. |",
            "|---|---|---|---|",
            "| Kind | `b` | Ends it; an addition of Lifeboat. | Lifeboat |",
        ];
        assert_eq!(rows, expected);
    }
}
