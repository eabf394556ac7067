//! Objects that VolumeSnapshots of a group need, when they are restored without the group
//! (velero: pkg/restore/actions/csi).

use crate::state::env::Env;
use crate::state::lock::lock;
use crate::walk::scope::RestoreScope;
use lifeboat_api::well_known::ANNOTATION_VOLUME_SNAPSHOT_HANDLE;
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_volume::RecordedVolumes;
use lifeboat_volume::csi::{
    CsiError, GroupHandle, GroupTypes, Readiness, SNAPSHOT_API, SnapshotTypes, StubOf, make_annotated_content,
    make_ready, make_stub,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

/// Longest wait for a snapshot that the driver has, in a cluster that serves no groups.
const READY: Duration = Duration::from_secs(30);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// The groups of a restore.
pub(crate) struct SnapshotGroups {
    /// The driver's names of the snapshots of each group, as far as they are recorded.
    recorded: BTreeMap<GroupHandle, BTreeSet<String>>,
    /// The stubs that were made.
    made: Mutex<HashMap<GroupHandle, Arc<OnceCell<()>>>>,
    env: Env,
}

impl SnapshotGroups {
    pub(crate) fn new(recorded: BTreeMap<GroupHandle, BTreeSet<String>>, env: &Env) -> Self {
        Self { recorded, made: Mutex::default(), env: env.clone() }
    }

    /// Returns true if a stub was made for any group.
    pub(crate) fn has_any(&self) -> bool {
        lock(&self.made).values().any(|made| made.initialized())
    }

    /// Makes a stub for the group of a VolumeSnapshot before the snapshot is made. A failure is a warning, which is returned:
    /// drivers that do not record the snapshots of a group need no stub.
    pub(crate) async fn before(&self, target: &ObjectKey, from_backup: &Value, scope: &RestoreScope) -> Option<String> {
        let group = of_group(target, from_backup)?;
        let types = GroupTypes::of(&scope.catalog)?;
        let mut snapshots = self.recorded.get(&group).cloned().unwrap_or_default();
        let own = from_backup["metadata"]["annotations"][ANNOTATION_VOLUME_SNAPSHOT_HANDLE].as_str();
        snapshots.extend(own.filter(|handle| !handle.is_empty()).map(str::to_owned));
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let stub = Arc::clone(lock(&self.made).entry(group.clone()).or_default());
        let of = StubOf { namespace, snapshots: &snapshots };
        let make = || make_stub(&self.env.cluster, &types, &scope.restore, &group, of);
        let e = stub.get_or_try_init(make).await.err()?;
        let (GroupHandle { handle, .. }, what) = (&group, "nothing stands for the group of the snapshot");
        Some(format!("{what}, {handle}, so that {target} may not become ready: {e}"))
    }

    /// Makes the content of a VolumeSnapshot whose snapshot is named only by annotations in the backup.
    ///
    /// # Errors
    /// [`CsiError`].
    pub(crate) async fn content(
        &self,
        target: &ObjectKey,
        from_backup: &Value,
        scope: &RestoreScope,
    ) -> Result<(), CsiError> {
        if target.resource != GroupResource::new(SNAPSHOT_API, "volumesnapshots") {
            return Ok(());
        }
        let Some(types) = SnapshotTypes::of(&scope.catalog) else { return Ok(()) };
        make_annotated_content(&self.env.cluster, &types, &scope.restore, from_backup).await
    }

    /// Makes a VolumeSnapshot of a group ready that was made under this name, in a cluster that serves no groups. Returns the
    /// warning of one that does not become ready.
    pub(crate) async fn after(
        &self,
        target: &ObjectKey,
        name: &str,
        from_backup: &Value,
        scope: &RestoreScope,
    ) -> Option<String> {
        if of_group(target, from_backup).is_none() || GroupTypes::of(&scope.catalog).is_some() {
            return None;
        }
        let types = SnapshotTypes::of(&scope.catalog)?;
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let deadline = Instant::now() + READY;
        let why = loop {
            let state = make_ready(&self.env.cluster, &types, namespace, name).await;
            let why = match state {
                Ok(Readiness::Ready) => return None,
                Ok(Readiness::Waits) => format!("its content {name} is not ready"),
                Err(e @ (CsiError::Cluster(_) | CsiError::Unreadable { .. })) => e.to_string(),
                Err(e) => break e.to_string(),
            };
            if Instant::now() + PAUSE > deadline {
                break why;
            }
            tokio::select! {
                () = sleep(PAUSE) => {}
                () = self.env.operation.cancel.cancelled() => return None,
            }
        };
        Some(format!(
            "{target} is of a group, and the cluster serves no VolumeGroupSnapshots, without which it may not become ready: {why}"
        ))
    }
}

/// The group of a VolumeSnapshot of the backup.
fn of_group(target: &ObjectKey, from_backup: &Value) -> Option<GroupHandle> {
    (target.resource == GroupResource::new(SNAPSHOT_API, "volumesnapshots"))
        .then(|| GroupHandle::of_archived(from_backup))
        .flatten()
}

/// The groups that the files of a backup record.
pub(crate) fn recorded_groups(recorded: &RecordedVolumes) -> BTreeMap<GroupHandle, BTreeSet<String>> {
    let mut out: BTreeMap<GroupHandle, BTreeSet<String>> = BTreeMap::new();
    for info in recorded.snapshots.values().filter(|info| !info.volume_group_snapshot_handle.is_empty()) {
        let group = GroupHandle { driver: info.driver.clone(), handle: info.volume_group_snapshot_handle.clone() };
        out.entry(group).or_default().insert(info.snapshot_handle.clone());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::known;
    use lifeboat_archive::volume_info::CsiSnapshotInfo;

    #[test]
    fn the_files_of_a_backup_say_which_snapshots_are_of_a_group() {
        let info = |group: &str, snapshot: &str| CsiSnapshotInfo {
            driver: "d".into(),
            snapshot_handle: snapshot.into(),
            volume_group_snapshot_handle: group.into(),
            ..CsiSnapshotInfo::default()
        };
        let snapshots =
            [("a", info("g", "s-a")), ("b", info("g", "s-b")), ("c", info("", "s-c")), ("d", info("h", "s-d"))];
        let snapshots = snapshots.map(|(claim, info)| (known::claim("n", claim), info)).into();
        let groups = recorded_groups(&RecordedVolumes { snapshots, ..RecordedVolumes::default() });
        let of = |handle: &str, all: &[&str]| {
            let all: BTreeSet<String> = all.iter().map(|&one| one.to_owned()).collect();
            (GroupHandle { driver: "d".into(), handle: handle.into() }, all)
        };
        assert_eq!(groups, BTreeMap::from([of("g", &["s-a", "s-b"]), of("h", &["s-d"])]));
    }
}
