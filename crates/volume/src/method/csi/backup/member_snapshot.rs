//! The snapshots of a group, as the objects of the cluster show them. Pure.

use crate::method::csi::answer::text;
use crate::method::csi::content::SnapshotContent;
use serde_json::Value;

/// The driver's names of the snapshots of a group, as its content lists them in each version of the API.
pub(crate) fn snapshots_in(content: &Value) -> Vec<String> {
    let lists = ["volumeSnapshotInfoList", "volumeSnapshotHandlePairList"];
    let all = lists.iter().filter_map(|list| content["status"][*list].as_array()).flatten();
    all.filter_map(|one| one["snapshotHandle"].as_str().map(str::to_owned)).collect()
}

/// A VolumeSnapshot of a group, with its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemberSnapshot {
    pub(crate) name: String,
    /// Its VolumeSnapshotClass; empty for none.
    pub(crate) class: String,
    /// The claim that it says it is of; empty when the controller did not know that.
    pub(crate) claim: String,
    /// The driver's name of the volume that it is of.
    pub(crate) volume: String,
    pub(crate) content: SnapshotContent,
}

impl MemberSnapshot {
    pub(crate) fn of(snapshot: &Value, content: &Value) -> Self {
        Self {
            name: text(snapshot, "/metadata/name").to_owned(),
            class: text(snapshot, "/spec/volumeSnapshotClassName").to_owned(),
            claim: text(snapshot, "/spec/source/persistentVolumeClaimName").to_owned(),
            volume: text(content, "/spec/source/volumeHandle").to_owned(),
            content: SnapshotContent::of(content),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_content_lists_the_snapshots_of_its_group_in_each_version() {
        for list in ["volumeSnapshotInfoList", "volumeSnapshotHandlePairList"] {
            let content =
                json!({"status": {list: [{"snapshotHandle": "a", "volumeHandle": "v"}, {"snapshotHandle": "b"}, {}]}});
            assert_eq!(snapshots_in(&content), ["a", "b"], "{list}");
        }
        assert!(snapshots_in(&json!({})).is_empty());
    }
}
