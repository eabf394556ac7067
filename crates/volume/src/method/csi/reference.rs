//! Reads from a content the VolumeSnapshot, or VolumeGroupSnapshot, that it is of.

use super::answer::text;
use serde_json::Value;

/// The object that a content names as its own; each part is empty where the content does not give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference<'a> {
    /// Its namespace.
    pub(crate) namespace: &'a str,
    /// Its name.
    pub(crate) name: &'a str,
    /// Its UID. A content that was made by hand need not say one.
    pub(crate) uid: &'a str,
}

impl<'a> Reference<'a> {
    /// The VolumeSnapshot of a VolumeSnapshotContent.
    pub(crate) fn to_snapshot(content: &'a Value) -> Self {
        Self::of(&content["spec"]["volumeSnapshotRef"])
    }

    /// The VolumeGroupSnapshot of a VolumeGroupSnapshotContent.
    pub(crate) fn to_group(content: &'a Value) -> Self {
        Self::of(&content["spec"]["volumeGroupSnapshotRef"])
    }

    fn of(reference: &'a Value) -> Self {
        Self { namespace: text(reference, "/namespace"), name: text(reference, "/name"), uid: text(reference, "/uid") }
    }

    /// Returns true if an object of the same namespace and name is the one that is meant, not one that was made after
    /// it.
    pub(crate) fn is_to(self, object: &Value) -> bool {
        self.uid.is_empty() || text(object, "/metadata/uid") == self.uid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_content_names_one_object_and_none_that_was_made_after_it() {
        let reference = json!({"namespace": "shop", "name": "s", "uid": "1"});
        let named = Reference { namespace: "shop", name: "s", uid: "1" };
        assert_eq!(Reference::to_snapshot(&json!({"spec": {"volumeSnapshotRef": reference}})), named);
        assert_eq!(Reference::to_group(&json!({"spec": {"volumeGroupSnapshotRef": reference}})), named);
        let none = Reference { namespace: "", name: "", uid: "" };
        assert_eq!([json!({"spec": {}}), json!("odd")].each_ref().map(Reference::to_group), [none, none]);

        let is_to = |uid: &str, found: &str| Reference { uid, ..named }.is_to(&json!({"metadata": {"uid": found}}));
        assert_eq!([is_to("1", "1"), is_to("1", "2"), is_to("", "2")], [true, false, true]);
    }
}
