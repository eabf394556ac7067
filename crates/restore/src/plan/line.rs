//! A plan as lines, and its digest (docs/formats/plan.md). Pure.

use crate::plan::guard::{PlanGuard, short};
use crate::plan::planned::PreviewItem;
use crate::plan::word::PlanWord;
use lifeboat_object::ObjectKey;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A line of a plan: `{"action", "type", "namespace", "name", "found", "written"}`, on one line, its keys in alphabetical order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanLine(String);

impl PlanLine {
    /// The line of an item.
    #[must_use]
    pub fn of(item: &PreviewItem) -> Self {
        let mut line = json!({"action": item.planned.word().as_str(), "type": item.key.resource.to_string(), "name": item.key.name});
        if let Some(namespace) = &item.key.namespace {
            line["namespace"] = namespace.as_str().into();
        }
        // What is left alone does not depend on how it is.
        if item.planned.writes() {
            item.pin.write_json(&mut line);
        }
        Self(line.to_string())
    }

    /// A line that was read; `None` when it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let line: Value = serde_json::from_str(text).ok()?;
        let line = Self(line.to_string());
        line.read().is_some().then_some(line)
    }

    /// Returns the planned action for the object.
    pub(crate) fn action(&self) -> Option<PlanWord> {
        self.read().map(|(_, word, _)| word)
    }

    /// The object in the cluster.
    pub(crate) fn object(&self) -> Option<String> {
        self.read().map(|(key, ..)| key.to_string())
    }

    /// The text, without an end of line.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The object in the cluster, its planned action, and the state that this depends on.
    pub(crate) fn read(&self) -> Option<(ObjectKey, PlanWord, PlanGuard)> {
        let line: Value = serde_json::from_str(&self.0).ok()?;
        let resource = line["type"].as_str()?.parse().ok()?;
        let key = ObjectKey::new(resource, line["namespace"].as_str(), line["name"].as_str()?);
        Some((key, line["action"].as_str()?.parse().ok()?, PlanGuard::read_json(&line)))
    }
}

/// Computes the digest of a plan from its lines, in any order. Takes 16 bytes for each line.
#[derive(Debug, Default)]
pub struct PlanDigest(Vec<[u8; 16]>);

impl PlanDigest {
    /// Takes a line.
    pub fn add(&mut self, line: &PlanLine) {
        self.0.push(short(line.text().as_bytes()));
    }

    /// The digest, as `sha256:` and hexadecimal digits.
    #[must_use]
    pub fn end(mut self) -> String {
        self.0.sort_unstable();
        let mut sum = Sha256::new();
        self.0.iter().for_each(|line| sum.update(line));
        format!("sha256:{}", hex::encode(sum.finalize()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::planned::Planned;
    use lifeboat_object::GroupResource;

    fn item(name: &str, planned: Planned, in_cluster: Option<&Value>, desired: &Value) -> PreviewItem {
        let key = ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), name);
        PreviewItem { pin: PlanGuard::of(in_cluster, desired), ..PreviewItem::of(key, planned) }
    }

    fn object(uid: &str, revision: &str, data: &str) -> Value {
        json!({"kind": "ConfigMap", "metadata": {"name": "a", "uid": uid, "resourceVersion": revision,
            "labels": {"velero.io/restore-name": revision}}, "data": {"a": data}})
    }

    #[test]
    fn a_line_depends_on_what_counts_of_the_object_and_on_nothing_else() {
        let desired = object("", "", "new");
        let line = |planned: Planned, in_cluster: &Value| PlanLine::of(&item("a", planned, Some(in_cluster), &desired));
        let update = || Planned::Update(Vec::new());
        let first = line(update(), &object("u", "1", "old"));
        assert_eq!(first, line(update(), &object("u", "2", "old")), "another revision, the same content");
        assert_ne!(first, line(update(), &object("u", "1", "other")));
        assert_ne!(first, line(update(), &object("v", "1", "old")), "another object of the name");
        assert_ne!(first, line(Planned::Recreate(Vec::new()), &object("u", "1", "old")));
        assert_ne!(first, PlanLine::of(&item("a", update(), Some(&object("u", "1", "old")), &object("", "", "newer"))));
        let left = |content| line(Planned::Conflict(Vec::new()), &object("u", "1", content));
        assert_eq!(left("old"), left("other"), "what is left alone may change");
        let (key, word, pin) = first.read().unwrap();
        assert_eq!((key.to_string().as_str(), word), ("configmaps/shop/a", PlanWord::Update));
        assert_eq!(pin, PlanGuard::of(Some(&object("u", "9", "old")), &desired));
        assert_eq!(first.action(), Some(PlanWord::Update));
        assert_eq!(PlanLine::parse(first.text()), Some(first));
        for wrong in [
            "{}",
            "x",
            r#"{"action":"create","name":"a","type":""}"#,
            r#"{"action":"delete","name":"a","type":"pods"}"#,
        ] {
            assert_eq!(PlanLine::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_digest_does_not_depend_on_the_order_of_the_lines() {
        let digest = |names: &[&str]| {
            let mut digest = PlanDigest::default();
            names.iter().for_each(|name| digest.add(&PlanLine::of(&item(name, Planned::Create, None, &json!({})))));
            digest.end()
        };
        let both = digest(&["a", "b"]);
        assert_eq!((both.len(), both == digest(&["b", "a"])), ("sha256:".len() + 64, true));
        assert!(both != digest(&["a"]) && both != digest(&["a", "b", "b"]));
    }
}
