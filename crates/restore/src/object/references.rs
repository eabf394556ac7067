//! Maps the namespaces to which objects refer, by the namespace mapping of the restore. Pure.
//!
//! `table` has the places. The namespace of the object itself, the claim of a volume and the service accounts in role bindings
//! follow elsewhere: in [`crate::object::desired`], [`crate::volumes::binding`] and the actions for bindings.

mod table;
#[cfg(test)]
mod tests;

use lifeboat_object::GroupResource;
use serde_json::Value;
use std::collections::BTreeMap;
use table::{Reference, ReferenceForm, TABLE};

/// The label that every namespace has with its own name: a selector that asks for it names namespaces.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Returns true if objects of a type may hold references to namespaces that follow a mapping.
pub(crate) fn is_mapped(resource: &GroupResource) -> bool {
    of(resource).next().is_some()
}

/// Lets every reference in an object follow the mapping. What has another form than the API's is left alone.
pub(crate) fn follow(resource: &GroupResource, item: &mut Value, mapping: &BTreeMap<String, String>) {
    if mapping.is_empty() {
        return;
    }
    of(resource).for_each(|reference| reference.follow(item, mapping));
}

fn of(resource: &GroupResource) -> impl Iterator<Item = &'static Reference> {
    TABLE.iter().filter(|reference| {
        reference.types.iter().any(|(group, name)| *group == resource.group && *name == resource.resource)
    })
}

impl Reference {
    fn follow(&self, item: &mut Value, mapping: &BTreeMap<String, String>) {
        at_each(item, self.within, &mut |part| {
            for path in self.paths {
                at_each(part, path, &mut |value| self.what.follow(value, mapping));
            }
        });
    }
}

impl ReferenceForm {
    fn follow(self, value: &mut Value, mapping: &BTreeMap<String, String>) {
        match self {
            Self::Selector => follow_selector(value, mapping),
            Self::Name => follow_text(value, |text| mapping.get(text).cloned()),
            Self::NamespacedName => follow_text(value, |text| {
                let (namespace, name) = text.split_once('/')?;
                Some(format!("{}/{name}", mapping.get(namespace)?))
            }),
            Self::Account => follow_text(value, |text| account(text, mapping)),
            Self::Host => follow_text(value, |text| host(text, mapping)),
        }
    }
}

/// Changes the values at the end of a path: the pointer of RFC 6901, where `*` is every element of a list.
fn at_each(value: &mut Value, path: &str, change: &mut dyn FnMut(&mut Value)) {
    let Some(path) = path.strip_prefix('/') else { return change(value) };
    let (step, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
    match value {
        Value::Array(list) if step == "*" => list.iter_mut().for_each(|element| at_each(element, rest, change)),
        Value::Object(map) => {
            if let Some(field) = map.get_mut(&step.replace("~1", "/")) {
                at_each(field, rest, change);
            }
        }
        _ => {}
    }
}

fn follow_text(value: &mut Value, target: impl Fn(&str) -> Option<String>) {
    if let Value::String(text) = value
        // An empty name is none, whatever the mapping says of it.
        && !text.is_empty()
        && let Some(target) = target(text)
    {
        *text = target;
    }
}

/// Maps the names by which a label selector selects namespaces; requirements on other labels stay.
fn follow_selector(selector: &mut Value, mapping: &BTreeMap<String, String>) {
    let name = |value: &mut Value| ReferenceForm::Name.follow(value, mapping);
    if let Some(value) = selector.get_mut("matchLabels").and_then(|labels| labels.get_mut(NAME_LABEL)) {
        name(value);
    }
    let expressions = selector.get_mut("matchExpressions").and_then(Value::as_array_mut);
    for expression in expressions.into_iter().flatten().filter(|one| one["key"] == NAME_LABEL) {
        let values = expression.get_mut("values").and_then(Value::as_array_mut);
        values.into_iter().flatten().for_each(name);
    }
}

/// The name that the API server gives to a service account, or to all of a namespace, where the mapping has that.
fn account(text: &str, mapping: &BTreeMap<String, String>) -> Option<String> {
    if let Some(namespace) = text.strip_prefix("system:serviceaccounts:") {
        return Some(format!("system:serviceaccounts:{}", mapping.get(namespace)?));
    }
    let (namespace, name) = text.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    Some(format!("system:serviceaccount:{}:{name}", mapping.get(namespace)?))
}

/// The name by which the cluster's name server knows a service or a pod of it (`web.shop.svc.cluster.local`), where the mapping
/// has its namespace.
fn host(text: &str, mapping: &BTreeMap<String, String>) -> Option<String> {
    let mut labels: Vec<&str> = text.split('.').collect();
    let namespace = labels.iter().rposition(|label| *label == "svc").filter(|at| *at >= 2)? - 1;
    labels[namespace] = mapping.get(labels[namespace])?;
    Some(labels.join("."))
}
