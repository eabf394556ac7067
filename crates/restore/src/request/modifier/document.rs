//! The document of resource modifiers (velero: internal/resourcemodifiers).

use lifeboat_api::LabelSelector;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::Value;

/// The whole document.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ModifierDocument {
    #[serde(default)]
    pub(super) version: String,
    #[serde(default)]
    pub(super) resource_modifier_rules: Vec<DocumentRule>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DocumentRule {
    #[serde(default)]
    pub(super) conditions: Conditions,
    #[serde(default)]
    pub(super) patches: Vec<DocumentPatch>,
    #[serde(default)]
    pub(super) merge_patches: Vec<PatchData>,
    #[serde(default)]
    pub(super) strategic_patches: Vec<PatchData>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Conditions {
    pub(super) group_resource: String,
    pub(super) namespaces: Vec<String>,
    pub(super) resource_name_regex: String,
    #[serde(deserialize_with = "lifeboat_select::label_selector")]
    pub(super) label_selector: Option<LabelSelector>,
    pub(super) matches: Vec<Match>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Match {
    #[serde(default)]
    pub(super) path: String,
    #[serde(default, deserialize_with = "text")]
    pub(super) value: String,
}

/// A single operation of a JSON patch, with its value as text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DocumentPatch {
    #[serde(default)]
    pub(super) operation: String,
    #[serde(default)]
    pub(super) from: String,
    #[serde(default)]
    pub(super) path: String,
    #[serde(default, deserialize_with = "text")]
    pub(super) value: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PatchData {
    #[serde(default, deserialize_with = "text")]
    pub(super) patch_data: String,
}

/// A scalar as the text that it is written with; an absent value is empty text.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Null => String::new(),
        Value::Bool(word) => word.to_string(),
        Value::Number(number) => number.to_string(),
        other => return Err(D::Error::custom(format!("{other} is no text: put it into quotes"))),
    })
}
