//! Reads the snapshots of a backup in the cluster with two lists, however many there are. They are not read again.

use crate::method::csi::answer::{is_being_deleted, text};
use crate::method::csi::api::{SnapshotApi, each, selected};
use crate::method::csi::content::{DeletionPolicy, SnapshotContent};
use crate::method::csi::error::CsiError;
use crate::method::csi::objects::selector;
use crate::method::csi::reference::Reference;
use lifeboat_api::well_known::LABEL_BACKUP_NAME;
use lifeboat_api::{Backup, NamespacedName, label_value};
use serde_json::Value;
use std::collections::HashMap;

/// The VolumeSnapshots of a backup and their contents, as they were in the cluster at one moment.
#[derive(Debug, Default)]
pub(crate) struct ListedSnapshots {
    snapshots: HashMap<NamespacedName, Bound>,
    contents: HashMap<String, SnapshotContent>,
    /// The names of the contents that stay, and keep their snapshots, when their VolumeSnapshots are deleted; by the names
    /// of these.
    kept: HashMap<NamespacedName, String>,
}

/// The state of a VolumeSnapshot, as its status tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bound {
    /// The name of the content that it is bound to; empty for none.
    pub(crate) content: String,
    /// The last error of its controller; empty for none.
    pub(crate) error: String,
}

impl Bound {
    /// Reads one.
    pub(crate) fn of(snapshot: &Value) -> Self {
        let text = |pointer: &str| text(snapshot, pointer).to_owned();
        Self { content: text("/status/boundVolumeSnapshotContentName"), error: text("/status/error/message") }
    }
}

impl ListedSnapshots {
    /// Reads the snapshots of a backup.
    pub(crate) async fn take(api: SnapshotApi<'_>, backup: &Backup) -> Result<Self, CsiError> {
        let mut look = Self::default();
        each(api.cluster, selected(&api.types.snapshots, selector(&backup.metadata.uid)), |snapshot| {
            let (namespace, name) = (text(&snapshot, "/metadata/namespace"), text(&snapshot, "/metadata/name"));
            look.snapshots.insert(NamespacedName::new(namespace, name), Bound::of(&snapshot));
        })
        .await?;
        let of_backup = format!("{LABEL_BACKUP_NAME}={}", label_value(&backup.metadata.name));
        each(api.cluster, selected(&api.types.contents, of_backup), |object| {
            let content = SnapshotContent::of(&object);
            if content.deletion_policy == DeletionPolicy::Retain.as_str() && !is_being_deleted(&object) {
                let Reference { namespace, name, .. } = Reference::to_snapshot(&object);
                look.kept.insert(NamespacedName::new(namespace, name), content.name.clone());
            }
            look.contents.insert(content.name.clone(), content);
        })
        .await?;
        Ok(look)
    }

    /// A VolumeSnapshot that was seen.
    pub(crate) fn snapshot(&self, namespace: &str, name: &str) -> Option<&Bound> {
        self.snapshots.get(&NamespacedName::new(namespace, name))
    }

    /// The name of the content that keeps the snapshot behind a VolumeSnapshot, also when the VolumeSnapshot is gone.
    pub(crate) fn kept_of(&self, namespace: &str, name: &str) -> Option<&str> {
        self.kept.get(&NamespacedName::new(namespace, name)).map(String::as_str)
    }

    /// A content that was seen. A content without the label of its backup is not.
    pub(crate) fn content(&self, name: &str) -> Option<&SnapshotContent> {
        self.contents.get(name)
    }
}
