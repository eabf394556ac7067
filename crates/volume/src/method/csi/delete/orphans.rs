//! Finds the contents of a backup whose VolumeSnapshots, or VolumeGroupSnapshots, are gone. Since they retain their
//! snapshots in the storage, they stay when somebody deletes these objects, or their namespace.

use crate::method::csi::answer::{is_being_deleted, text};
use crate::method::csi::api::{SnapshotApi, each, selected};
use crate::method::csi::at_once::all_or_none;
use crate::method::csi::backup::members::is_named_for;
use crate::method::csi::content::DeletionPolicy;
use crate::method::csi::delete::clean::remove_content;
use crate::method::csi::delete::group_clean::Groups;
use crate::method::csi::error::CsiError;
use crate::method::csi::objects::{GroupTypes, selector};
use crate::method::csi::reference::Reference;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use std::collections::HashSet;

/// The kind of object that a content is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrphanKind {
    /// A VolumeSnapshot.
    Snapshot,
    /// A VolumeGroupSnapshot.
    Group,
}

impl OrphanKind {
    fn reference(self, content: &Value) -> Reference<'_> {
        match self {
            Self::Snapshot => Reference::to_snapshot(content),
            Self::Group => Reference::to_group(content),
        }
    }
}

/// A content without the object that it is of.
pub(crate) struct Orphan {
    /// The kind of object that it is of.
    pub(crate) kind: OrphanKind,
    content: Value,
    /// True when another object has by now the name of the one that is gone.
    pub(crate) is_replaced: bool,
}

impl Orphan {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        text(&self.content, "/metadata/name")
    }

    /// The object that is gone.
    pub(crate) fn reference(&self) -> Reference<'_> {
        self.kind.reference(&self.content)
    }

    /// Returns true if it stays, and keeps its snapshot in the storage.
    pub(crate) fn keeps(&self) -> bool {
        let policy = text(&self.content, "/spec/deletionPolicy");
        policy == DeletionPolicy::Retain.as_str() && !is_being_deleted(&self.content)
    }
}

/// Finds the orphans of this kind of a backup; contents of VolumeSnapshots that are being deleted already are left out.
/// Calls `step` after each content that was asked about.
///
/// # Errors
/// [`CsiError`].
pub(crate) async fn orphans(
    api: SnapshotApi<'_>,
    kind: OrphanKind,
    backup_uid: &str,
    step: &(dyn Fn() + Sync),
) -> Result<Vec<Orphan>, CsiError> {
    let (objects, contents) = match (kind, &api.types.groups) {
        (OrphanKind::Snapshot, _) => (&api.types.snapshots, of_snapshots(api, backup_uid).await?),
        (OrphanKind::Group, Some(groups)) => (&groups.groups, of_groups(api, groups, backup_uid).await?),
        (OrphanKind::Group, None) => return Ok(Vec::new()),
    };
    let mut asked: Vec<BoxFuture<'_, Result<Option<Orphan>, CsiError>>> = Vec::with_capacity(contents.len());
    for content in contents {
        let ask = async move {
            let reference = kind.reference(&content);
            let found = api.read(objects, Some(reference.namespace), reference.name).await;
            step();
            let is_replaced = match found? {
                Some(found) if reference.is_to(&found) => return Ok(None),
                found => found.is_some(),
            };
            Ok(Some(Orphan { kind, content, is_replaced }))
        };
        asked.push(ask.boxed());
    }
    Ok(all_or_none(asked).await?.into_iter().flatten().collect())
}

/// The contents of VolumeSnapshots of a backup that are not known to be there.
async fn of_snapshots(api: SnapshotApi<'_>, backup_uid: &str) -> Result<Vec<Value>, CsiError> {
    let mut contents = Vec::new();
    // Before the VolumeSnapshots: that of each was there earlier.
    each(api.cluster, selected(&api.types.contents, selector(backup_uid)), |content| {
        let is_wanted = !is_being_deleted(&content) && !Reference::to_snapshot(&content).name.is_empty();
        contents.extend(is_wanted.then_some(content));
    })
    .await?;
    if contents.is_empty() {
        return Ok(contents);
    }
    let mut there = HashSet::new();
    each(api.cluster, selected(&api.types.snapshots, selector(backup_uid)), |snapshot| {
        there.insert(text(&snapshot, "/metadata/uid").to_owned());
    })
    .await?;
    contents.retain(|content| !there.contains(Reference::to_snapshot(content).uid));
    Ok(contents)
}

/// The contents of all VolumeGroupSnapshots of a backup. They have no label of it: the name of the group tells.
async fn of_groups(api: SnapshotApi<'_>, groups: &GroupTypes, backup_uid: &str) -> Result<Vec<Value>, CsiError> {
    let is_of_backup = |content: &Value| {
        let group = Reference::to_group(content);
        !group.uid.is_empty() && is_named_for(backup_uid, group.name)
    };
    Groups { api, groups }.contents(is_of_backup).await
}

/// Removes an orphan; its snapshot is deleted or stays, as this policy says. An orphan that is gone is no error.
///
/// # Errors
/// [`CsiError`].
pub(crate) async fn remove(api: SnapshotApi<'_>, orphan: &Orphan, policy: DeletionPolicy) -> Result<(), CsiError> {
    match (orphan.kind, &api.types.groups) {
        (OrphanKind::Snapshot, _) => remove_content(api, orphan.name(), policy).await,
        (OrphanKind::Group, Some(groups)) => Groups { api, groups }.remove_content(&orphan.content, policy).await,
        (OrphanKind::Group, None) => Err(CsiError::NoGroups),
    }
}
