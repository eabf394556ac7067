//! What a plan holds an object to, and the digest of a whole plan (docs/formats/plan.md). Pure.

use crate::planned::{Planned, PreviewItem};
use crate::update;
use lifeboat_object::ObjectKey;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// What a plan was made of for one object: a restore that is pinned to the plan writes only while this holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pin {
    /// The object in the cluster, by its UID and what counts of it; `None` where the plan asks for none of this.
    pub(crate) found: Option<[u8; 16]>,
    /// What would be written, without the labels of the restore; `None` where nothing is.
    pub(crate) written: Option<[u8; 16]>,
}

impl Pin {
    /// That of an object which is in the cluster like this, and of what would be made of it.
    pub(crate) fn of(in_cluster: Option<&Value>, desired: &Value) -> Self {
        Self { found: in_cluster.map(found), written: Some(update::digest(desired)) }
    }

    /// Puts `found` and `written`, in hexadecimal, into the JSON of an object.
    pub(crate) fn write_json(&self, out: &mut Value) {
        for (name, digest) in [("found", self.found), ("written", self.written)] {
            if let Some(digest) = digest {
                out[name] = hex::encode(digest).into();
            }
        }
    }

    /// Reads what [`Pin::write_json`] has written.
    pub(crate) fn read_json(value: &Value) -> Self {
        let digest = |name: &str| <[u8; 16]>::try_from(hex::decode(value[name].as_str()?).ok()?).ok();
        Self { found: digest("found"), written: digest("written") }
    }

    /// That of an object of this UID that the backup lacks.
    pub(crate) fn of_extra(uid: &str) -> Self {
        Self { found: Some(short(uid.as_bytes())), written: None }
    }
}

/// The UID of an object of the cluster and what counts of it, as a digest.
pub(crate) fn found(in_cluster: &Value) -> [u8; 16] {
    let uid = in_cluster["metadata"]["uid"].as_str().unwrap_or_default();
    short(&[uid.as_bytes(), &update::digest(in_cluster)].concat())
}

fn short(bytes: &[u8]) -> [u8; 16] {
    let mut out = [0; 16];
    out.copy_from_slice(&Sha256::digest(bytes)[..16]);
    out
}

/// A line of a plan: `{"action", "type", "namespace", "name", "found", "written"}`, on one line, its keys in alphabetical order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanLine(String);

impl PlanLine {
    /// The line of an item.
    #[must_use]
    pub fn of(item: &PreviewItem) -> Self {
        let mut line =
            json!({"action": item.planned.word(), "type": item.key.resource.to_string(), "name": item.key.name});
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
        let has = |key: &str| line[key].is_string();
        (has("action") && has("type") && has("name")).then(|| Self(line.to_string()))
    }

    /// The text, without an end of line.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The object in the cluster, what would be done with it, and what that depends on.
    pub(crate) fn read(&self) -> Option<(ObjectKey, Word, Pin)> {
        let line: Value = serde_json::from_str(&self.0).ok()?;
        let resource = line["type"].as_str()?.parse().ok()?;
        let key = ObjectKey::new(resource, line["namespace"].as_str(), line["name"].as_str()?);
        let word = match line["action"].as_str()? {
            "create" => Word::Create,
            "update" => Word::Update,
            "recreate" => Word::Recreate,
            "remove" => Word::Remove,
            _ => Word::Nothing,
        };
        Some((key, word, Pin::read_json(&line)))
    }
}

/// What a plan does with an object of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Word {
    Create,
    Update,
    Recreate,
    Remove,
    Nothing,
}

/// Makes the digest of a plan of its lines, in whatever order they come. Takes 16 bytes for each line.
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

impl Planned {
    /// The word for it in plans and previews.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update(_) => "update",
            Self::Recreate(_) => "recreate",
            Self::Unchanged => "unchanged",
            Self::Skip(_) => "skip",
            Self::Conflict(_) => "conflict",
            Self::Refused(_) => "refused",
            Self::Extra => "extra",
            Self::Remove => "remove",
        }
    }

    /// Whether it changes something in the cluster.
    #[must_use]
    pub fn writes(&self) -> bool {
        matches!(self, Self::Create | Self::Update(_) | Self::Recreate(_) | Self::Remove)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::GroupResource;

    fn item(name: &str, planned: Planned, in_cluster: Option<&Value>, desired: &Value) -> PreviewItem {
        let key = ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), name);
        PreviewItem { pin: Pin::of(in_cluster, desired), ..PreviewItem::of(key, planned) }
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
        assert_eq!((key.to_string().as_str(), word), ("configmaps/shop/a", Word::Update));
        assert_eq!(pin, Pin::of(Some(&object("u", "9", "old")), &desired));
        assert_eq!(PlanLine::parse(first.text()), Some(first));
        assert_eq!([PlanLine::parse("{}"), PlanLine::parse("x")], [None, None]);
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
