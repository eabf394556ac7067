//! A single rule: the objects that it is for, and its change to them (velero: internal/resourcemodifiers).

use super::document::{Conditions, DocumentPatch, DocumentRule, PatchData};
use super::value::value;
use lifeboat_object::{GroupResource, labels};
use lifeboat_patch::{JsonOperation, JsonPatch, holds};
use lifeboat_select::{Globs, RulesText, Selector, TypeGlob};
use regex::Regex;
use serde_json::Value;

/// An object that may be changed, as it is before any rule.
#[derive(Clone, Copy)]
pub(crate) struct ModifierTarget<'a> {
    /// Its type in the backup.
    pub(crate) resource: &'a GroupResource,
    /// Its namespace in the backup; `None` for cluster-scoped objects.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) object: &'a Value,
}

/// A rule.
#[derive(Debug)]
pub(super) struct Rule {
    /// Its number in the document, from 1.
    pub(super) number: usize,
    types: TypeGlob,
    /// Empty for all.
    namespaces: Globs,
    name: Option<Regex>,
    selector: Option<Selector>,
    matches: Vec<(String, Value)>,
    pub(super) change: RulePatch,
}

/// The change that a rule makes to an object.
#[derive(Debug)]
pub(super) enum RulePatch {
    Json(JsonPatch),
    Merge(Vec<Value>),
    Strategic(Vec<Value>),
}

const OPERATIONS: [&str; 6] = ["add", "remove", "replace", "move", "copy", "test"];

impl Rule {
    /// Checks a rule of the document.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(super) fn of(number: usize, rule: DocumentRule) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        let types = types(&rule.conditions, &mut problems);
        let regex = &rule.conditions.resource_name_regex;
        let name = (!regex.is_empty()).then(|| Regex::new(regex)).transpose();
        let name = name.map_err(|e| problems.push(format!("error in matching regex {e}"))).ok().flatten();
        let selector = rule.conditions.label_selector.as_ref().map(Selector::compile).transpose();
        let selector =
            selector.map_err(|e| problems.push(format!("error in creating label selector {e}"))).ok().flatten();
        let matches = matches(&rule.conditions, &mut problems);
        let namespaces = Globs::new(&rule.conditions.namespaces);
        let change = change(rule, &mut problems);
        match (types, change) {
            (Some(types), Some(change)) if problems.is_empty() => {
                Ok(Self { number, types, namespaces, name, selector, matches, change })
            }
            _ => Err(problems.into_iter().map(|problem| format!("rule {number}: {problem}")).collect()),
        }
    }

    /// Returns true if the rule is for objects of this type.
    pub(super) fn is_for_type(&self, resource: &GroupResource) -> bool {
        self.types.matches(&resource.to_string())
    }

    /// Returns true if the rule is for this object.
    pub(super) fn is_for(&self, candidate: ModifierTarget<'_>) -> bool {
        let ModifierTarget { resource, namespace, object } = candidate;
        let metadata = &object["metadata"];
        self.is_for_type(resource)
            && (self.namespaces.is_empty() || namespace.is_none_or(|namespace| self.namespaces.matches(namespace)))
            && self.name.as_ref().is_none_or(|regex| regex.is_match(metadata["name"].as_str().unwrap_or_default()))
            && self.selector.as_ref().is_none_or(|selector| selector.matches(&labels(object)))
            && self.matches.iter().all(|(path, value)| holds(object, path, value))
    }
}

fn types(conditions: &Conditions, problems: &mut Vec<String>) -> Option<TypeGlob> {
    if conditions.group_resource.is_empty() {
        // compat: the words are Velero's.
        problems.push("groupkResource cannot be empty".to_owned());
        return None;
    }
    TypeGlob::new(&conditions.group_resource).map_err(|e| problems.push(format!("groupResource: {e}"))).ok()
}

fn matches(conditions: &Conditions, problems: &mut Vec<String>) -> Vec<(String, Value)> {
    let mut matches = Vec::new();
    for one in &conditions.matches {
        if one.path.is_empty() {
            problems.push("path is required for match rule".to_owned());
        } else if !one.path.starts_with('/') {
            problems.push(format!("matches: the path {:?} does not begin with a slash", one.path));
        }
        match value(&one.value) {
            Ok(value) => matches.push((one.path.clone(), value)),
            Err(e) => problems.push(format!("matches: {e}")),
        }
    }
    matches
}

fn change(rule: DocumentRule, problems: &mut Vec<String>) -> Option<RulePatch> {
    let DocumentRule { patches, merge_patches, strategic_patches, .. } = rule;
    let kinds = [patches.is_empty(), merge_patches.is_empty(), strategic_patches.is_empty()];
    match kinds.iter().filter(|is_empty| !**is_empty).count() {
        0 => {
            problems.push("no patch data found".to_owned());
            None
        }
        1 if !patches.is_empty() => {
            let operations: Vec<_> = patches.into_iter().filter_map(|patch| operation(patch, problems)).collect();
            JsonPatch::new(operations).map_err(|e| problems.push(e.to_string())).ok().map(RulePatch::Json)
        }
        1 if !merge_patches.is_empty() => Some(RulePatch::Merge(data(merge_patches, problems))),
        1 => Some(RulePatch::Strategic(data(strategic_patches, problems))),
        _ => {
            problems.push("only one of patches, mergePatches, strategicPatches can be specified".to_owned());
            None
        }
    }
}

fn operation(patch: DocumentPatch, problems: &mut Vec<String>) -> Option<JsonOperation> {
    let op = patch.operation.to_lowercase();
    if op.is_empty() {
        problems.push("operation cannot be empty".to_owned());
    } else if !OPERATIONS.contains(&op.as_str()) {
        problems.push(format!("unsupported operation {}", patch.operation));
    }
    if patch.path.is_empty() {
        problems.push("path cannot be empty".to_owned());
    }
    let takes_from = ["move", "copy"].contains(&op.as_str());
    for path in [&patch.path, &patch.from].into_iter().filter(|path| !path.is_empty()) {
        if !path.starts_with('/') {
            problems.push(format!("the path {path:?} does not begin with a slash"));
        }
    }
    if takes_from && patch.from.is_empty() {
        problems.push(format!("the operation {op} needs a path in from"));
    }
    let value = value(&patch.value).map_err(|e| problems.push(e)).ok()?;
    Some(JsonOperation { op, path: patch.path, from: takes_from.then_some(patch.from), value: Some(value) })
}

fn data(patches: Vec<PatchData>, problems: &mut Vec<String>) -> Vec<Value> {
    let mut all = Vec::new();
    for patch in patches {
        match serde_saphyr::from_str::<Value>(&patch.patch_data) {
            Ok(data @ Value::Object(_)) => all.push(data),
            Ok(_) => problems.push("patchData holds no object".to_owned()),
            Err(e) => problems.push(format!("patchData is neither YAML nor JSON: {}", RulesText::yaml_error(&e))),
        }
    }
    all
}
