//! The document as it is written.

use lifeboat_api::{LabelSelector, LabelSelectorRequirement};
use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::{Map, Value};
use serde_saphyr::Spanned;
use std::collections::BTreeMap;

/// The whole document.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PolicyDocument {
    #[serde(default)]
    pub(super) version: String,
    pub(super) volume_policies: Option<Spanned<Vec<Spanned<DocumentVolumePolicy>>>>,
    pub(super) include_exclude_policy: Option<Spanned<IncludeExclude>>,
    pub(super) cluster_scoped_filter_policy: Option<Spanned<DocumentClusterPolicy>>,
    #[serde(default)]
    pub(super) namespaced_filter_policies: Vec<Spanned<DocumentNamespacePolicy>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[allow(clippy::struct_field_names, reason = "the names are Velero's")]
pub(super) struct IncludeExclude {
    pub(super) included_cluster_scoped_resources: Vec<String>,
    pub(super) excluded_cluster_scoped_resources: Vec<String>,
    pub(super) included_namespace_scoped_resources: Vec<String>,
    pub(super) excluded_namespace_scoped_resources: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DocumentVolumePolicy {
    #[serde(default)]
    pub(super) conditions: Option<DocumentConditions>,
    pub(super) action: DocumentAction,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct DocumentConditions {
    pub(super) capacity: Option<String>,
    pub(super) storage_class: Vec<String>,
    pub(super) nfs: Option<Nfs>,
    pub(super) csi: Option<Csi>,
    pub(super) volume_types: Vec<String>,
    pub(super) pvc_labels: BTreeMap<String, String>,
    pub(super) pvc_phase: Vec<String>,
    pub(super) pvc_volume_mode: String,
    pub(super) pvc_access_modes: Vec<String>,
}

/// An NFS volume; empty fields match anything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Nfs {
    pub(super) server: String,
    pub(super) path: String,
}

/// A CSI volume; empty fields match anything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Csi {
    pub(super) driver: String,
    pub(super) volume_attributes: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DocumentAction {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) parameters: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DocumentClusterPolicy {
    #[serde(default)]
    pub(super) resource_filters: Vec<Spanned<DocumentFilter>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DocumentNamespacePolicy {
    #[serde(default)]
    pub(super) namespaces: Vec<String>,
    #[serde(default)]
    pub(super) resource_filters: Vec<Spanned<DocumentFilter>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct DocumentFilter {
    pub(super) kinds: Vec<String>,
    #[serde(deserialize_with = "label_selector")]
    pub(super) label_selector: Option<LabelSelector>,
    pub(super) or_label_selectors: Vec<StrictSelector>,
    pub(super) names: Vec<String>,
    pub(super) excluded_names: Vec<String>,
}

/// A label selector without unknown fields.
#[derive(Debug)]
pub(super) struct StrictSelector(pub(super) LabelSelector);

/// The fields of a label selector. Values are texts, also those that are written as YAML's words and numbers.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct SelectorFields {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<RequirementFields>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RequirementFields {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl From<SelectorFields> for LabelSelector {
    fn from(fields: SelectorFields) -> Self {
        let requirement = |RequirementFields { key, operator, values }| LabelSelectorRequirement {
            key,
            operator,
            values,
            ..LabelSelectorRequirement::default()
        };
        let match_expressions = fields.match_expressions.into_iter().map(requirement).collect();
        Self { match_labels: fields.match_labels, match_expressions, ..Self::default() }
    }
}

impl<'de> Deserialize<'de> for StrictSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        SelectorFields::deserialize(deserializer).map(|fields| Self(fields.into()))
    }
}

/// Reads a label selector of a document of rules, where an unknown field is an error; for `deserialize_with`.
///
/// # Errors
/// The deserializer's error about a value of another shape.
pub fn label_selector<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<LabelSelector>, D::Error> {
    Ok(Option::<SelectorFields>::deserialize(deserializer)?.map(LabelSelector::from))
}
