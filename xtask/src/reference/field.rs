//! The fields of a schema, with all that it says of them.

use anyhow::{Result, bail};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The definitions of Velero 1.18.
pub(crate) const VELERO: &str = "crates/api/tests/golden/crds";

/// The one who has a field in the definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Velero,
    /// Velero's definitions have it after 1.18.
    LaterVelero,
    Lifeboat,
}

impl Origin {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Velero => "Velero",
            Self::LaterVelero => "Velero after 1.18",
            Self::Lifeboat => "Lifeboat",
        }
    }

    /// The origin that the description of an addition names.
    fn named(description: &str) -> Option<Self> {
        if description.contains("an addition of Lifeboat") {
            Some(Self::Lifeboat)
        } else if description.contains("after 1.18") {
            Some(Self::LaterVelero)
        } else {
            None
        }
    }
}

/// A field of a custom resource.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// Its path, in which `[]` stands for each item of a list and `{}` for each value of a map.
    pub(crate) path: String,
    /// Its type, as `kubectl explain` writes it.
    pub(crate) of_type: String,
    /// Further rules of the schema: formats, allowed words, a default, that it is required.
    pub(crate) rules: Vec<String>,
    pub(crate) description: String,
    pub(crate) origin: Origin,
    /// The field around it is an addition already.
    pub(crate) is_in_addition: bool,
}

/// All fields of a schema in order; those that `velero`, its schema there, has are Velero's. An addition whose
/// description does not say by whom is an error, and so is a field of Velero that claims to be one.
pub(crate) fn fields(kind: &str, schema: &Value, velero: &Value) -> Result<Vec<Field>> {
    let mut walk = Walk::default();
    walk.object(&Around { path: String::new(), origin: Origin::Velero }, schema, velero);
    if !walk.wrong.is_empty() {
        bail!("the definition of {kind}:\n  {}", walk.wrong.join("\n  "));
    }
    Ok(walk.fields)
}

/// The object around fields.
struct Around {
    /// Its path, with a dot at the end.
    path: String,
    origin: Origin,
}

#[derive(Default)]
struct Walk {
    fields: Vec<Field>,
    wrong: Vec<String>,
}

impl Walk {
    fn object(&mut self, around: &Around, schema: &Value, velero: &Value) {
        let none = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&none);
        // The order of a JSON map depends on how the parser was built.
        for (name, field) in properties.iter().collect::<BTreeMap<_, _>>() {
            let theirs = &velero["properties"][name];
            let path = format!("{}{name}", around.path);
            let description = field["description"].as_str().unwrap_or_default().to_owned();
            let is_in_addition = around.origin != Origin::Velero;
            let origin = match (theirs.is_object(), Origin::named(&description)) {
                (true, None) => Origin::Velero,
                (true, Some(origin)) => {
                    self.wrong.push(format!("{path} is Velero's, and its description says {}", origin.as_str()));
                    origin
                }
                (false, Some(origin)) => origin,
                (false, None) if is_in_addition => around.origin,
                (false, None) => {
                    self.wrong.push(format!(
                        "{path} is not in {VELERO}: its description must say \"an addition of Lifeboat\", or that Velero has it after 1.18"
                    ));
                    Origin::Lifeboat
                }
            };
            let is_required = schema["required"].as_array().is_some_and(|names| names.contains(&name.as_str().into()));
            let mut rules: Vec<String> = is_required.then(|| "required".to_owned()).into_iter().collect();
            rules.extend(rules_of(field));
            self.fields.push(Field {
                path: path.clone(),
                of_type: type_of(field),
                rules,
                description,
                origin,
                is_in_addition,
            });
            self.inside(&Around { path, origin }, field, theirs);
        }
    }

    /// The fields of a field, which is an object, or a list or map of some.
    fn inside(&mut self, around: &Around, schema: &Value, velero: &Value) {
        let of = |suffix: &str| Around { path: format!("{}{suffix}", around.path), origin: around.origin };
        self.object(&of("."), schema, velero);
        for (key, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
            if schema[key].is_object() {
                self.inside(&of(suffix), &schema[key], &velero[key]);
            }
        }
    }
}

fn type_of(schema: &Value) -> String {
    match schema["type"].as_str() {
        Some("array") => format!("[]{}", type_of(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("map[string]{}", type_of(&schema["additionalProperties"]))
        }
        Some(name) => name.to_owned(),
        None => "any".to_owned(),
    }
}

fn rules_of(schema: &Value) -> Vec<String> {
    let mut rules = Vec::new();
    if let Some(format) = schema["format"].as_str() {
        rules.push(format!("`{format}`"));
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> = words.iter().map(|word| format!("`{}`", word_of(word))).collect();
        rules.push(format!("one of {}", words.join(", ")));
    }
    if let Some(default) = schema.get("default") {
        rules.push(format!("default `{default}`"));
    }
    if let Some(least) = schema["minItems"].as_u64() {
        rules.push(format!("at least {least}"));
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        rules.push("any fields".to_owned());
    }
    // A list or map says what its values may be.
    for key in ["items", "additionalProperties"] {
        if schema[key].is_object() {
            rules.extend(rules_of(&schema[key]));
        }
    }
    rules
}

/// A word of an enumeration, as it is written in YAML.
fn word_of(word: &Value) -> String {
    word.as_str().filter(|word| !word.is_empty()).map_or_else(|| word.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn field(path: &str, of_type: &str, rules: &[&str]) -> Field {
        Field {
            path: path.to_owned(),
            of_type: of_type.to_owned(),
            rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
            description: String::new(),
            origin: Origin::Velero,
            is_in_addition: false,
        }
    }

    #[test]
    fn each_field_has_its_path_its_type_and_its_rules() {
        let schema = json!({"required": ["b"], "properties": {
            "b": {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {
                "c": {"type": "string", "enum": ["x", ""], "default": ""},
            }}},
            "a": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string", "format": "byte"}}},
            "d": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "e": {"type": "object", "additionalProperties": {"properties": {"f": {}}, "type": "object"}},
        }});
        let expected = [
            field("a", "map[string][]string", &["`byte`"]),
            field("b", "[]object", &["required", "at least 1"]),
            field("b[].c", "string", &["one of `x`, `\"\"`", "default `\"\"`"]),
            field("d", "object", &["any fields"]),
            field("e", "map[string]object", &[]),
            field("e{}.f", "any", &[]),
        ];
        assert_eq!(fields("Kind", &schema, &schema).expect("fields"), expected);
    }

    #[test]
    fn an_addition_and_what_is_in_it_are_no_fields_of_velero() {
        let inner = json!({"type": "object", "properties": {"x": {"type": "string"}}});
        let described = |text: &str| {
            let mut schema = inner.clone();
            schema["description"] = json!(text);
            schema
        };
        let ours = json!({"properties": {
            "a": described("Ends it; an addition of Lifeboat."),
            "b": described("Velero's definitions have it after 1.18."),
            "c": described("Both have it."),
        }});
        let velero = json!({"properties": {"c": inner}});
        let of = |field: Field| (field.path, field.origin, field.is_in_addition);
        let found: Vec<_> = fields("Kind", &ours, &velero).expect("fields").into_iter().map(of).collect();
        let expected = [
            ("a", Origin::Lifeboat, false),
            ("a.x", Origin::Lifeboat, true),
            ("b", Origin::LaterVelero, false),
            ("b.x", Origin::LaterVelero, true),
            ("c", Origin::Velero, false),
            ("c.x", Origin::Velero, false),
        ];
        assert_eq!(found, expected.map(|(path, origin, is_in)| (path.to_owned(), origin, is_in)));
    }

    #[test]
    fn a_description_that_says_nothing_of_an_addition_is_refused() {
        let schema = json!({"properties": {"a": {"description": "Ends it."}, "b": {"description": "An addition, an addition of Lifeboat."}}});
        let error = |velero: &Value| fields("Kind", &schema, velero).expect_err("a refusal").to_string();
        let missing = "the definition of Kind:\n  a is not in crates/api/tests/golden/crds: its description must say \
                       \"an addition of Lifeboat\", or that Velero has it after 1.18";
        assert_eq!(error(&Value::Null), missing);
        assert_eq!(error(&schema), "the definition of Kind:\n  b is Velero's, and its description says Lifeboat");
    }
}
