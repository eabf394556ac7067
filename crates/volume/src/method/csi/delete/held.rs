//! The objects of the snapshots that a backup holds.

use crate::method::csi::objects::SNAPSHOT_API;
use lifeboat_api::NamespacedName;
use lifeboat_object::ObjectKey;
use std::collections::BTreeSet;

/// VolumeSnapshots and their contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldSnapshots {
    /// VolumeSnapshots.
    pub snapshots: BTreeSet<NamespacedName>,
    /// Names of VolumeSnapshotContents.
    pub contents: BTreeSet<String>,
}

impl HeldSnapshots {
    /// Notes an object that the backup holds. Others say nothing.
    pub fn note(&mut self, key: &ObjectKey) {
        if key.resource.group != SNAPSHOT_API {
            return;
        }
        match key.resource.resource.as_str() {
            "volumesnapshots" => {
                self.snapshots.insert(NamespacedName::new(key.namespace.as_deref().unwrap_or_default(), &*key.name));
            }
            "volumesnapshotcontents" => {
                self.contents.insert(key.name.clone());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::GroupResource;

    #[test]
    fn of_all_objects_the_snapshots_and_their_contents_count() {
        let mut held = HeldSnapshots::default();
        for (group, resource, namespace, name) in [
            (SNAPSHOT_API, "volumesnapshots", Some("shop"), "s"),
            (SNAPSHOT_API, "volumesnapshotcontents", None, "c"),
            (SNAPSHOT_API, "volumesnapshotclasses", None, "class"),
            ("example.com", "volumesnapshots", Some("shop"), "another"),
        ] {
            held.note(&ObjectKey::new(GroupResource::new(group, resource), namespace, name));
        }
        let snapshots = [NamespacedName::new("shop", "s")].into();
        assert_eq!(held, HeldSnapshots { snapshots, contents: ["c".to_owned()].into() });
    }
}
