//! The contents of a backup whose VolumeSnapshots are gone. Since they keep what they stand for, they stay when somebody deletes a
//! VolumeSnapshot, or its namespace.

use super::answer::text;
use super::at::{At, selected};
use super::error::CsiError;
use super::objects::selector;
use serde_json::Value;
use std::collections::HashSet;

/// A content without its VolumeSnapshot.
pub(crate) struct Orphan {
    /// Its name.
    pub(crate) content: String,
    /// The namespace of the VolumeSnapshot that is gone.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) snapshot: String,
    /// Whether another VolumeSnapshot has that name by now.
    pub(crate) is_replaced: bool,
}

/// Finds those of a backup; none that goes already.
pub(crate) async fn orphans(at: At<'_>, backup_uid: &str) -> Result<Vec<Orphan>, CsiError> {
    let mut contents = Vec::new();
    // Before the VolumeSnapshots: that of each was there earlier.
    at.list(selected(&at.types.contents, selector(backup_uid)), |content| {
        let is_being_deleted = content["metadata"]["deletionTimestamp"].is_string();
        contents.extend(Some(content).filter(|_| !is_being_deleted));
    })
    .await?;
    if contents.is_empty() {
        return Ok(Vec::new());
    }
    let mut there = HashSet::new();
    at.list(selected(&at.types.snapshots, selector(backup_uid)), |snapshot| {
        there.insert(text(&snapshot, "/metadata/uid").to_owned());
    })
    .await?;
    let mut orphans = Vec::new();
    for content in contents {
        let reference = |field: &str| text(&content, &format!("/spec/volumeSnapshotRef/{field}"));
        let (namespace, name, uid) = (reference("namespace"), reference("name"), reference("uid"));
        if name.is_empty() || there.contains(uid) {
            continue;
        }
        let found = at.read(&at.types.snapshots, Some(namespace), name).await?;
        let is_its_own = |found: &Value| uid.is_empty() || text(found, "/metadata/uid") == uid;
        if found.as_ref().is_some_and(is_its_own) {
            continue;
        }
        orphans.push(Orphan {
            content: text(&content, "/metadata/name").to_owned(),
            namespace: namespace.to_owned(),
            snapshot: name.to_owned(),
            is_replaced: found.is_some(),
        });
    }
    Ok(orphans)
}
