//! The CSI snapshots of a backup, from the first to the last of its stages.

use crate::env::Env;
use crate::index::Index;
use lifeboat_api::Backup;
use lifeboat_cluster::Cluster;
use lifeboat_object::{Catalog, ObjectKey, Place};
use lifeboat_operation::Operation;
use lifeboat_volume::csi::{
    ClaimGroup, CsiBackup, CsiSnapshots, GROUP, GroupMember, SnapshotTypes, release_all, remove_all,
};
use lifeboat_volume::facts::{ClaimKey, PersistentVolume};
use lifeboat_volume::{Decided, Group, Verdicts, Way};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long what a backup leaves is cleaned up, at its end.
const LONGEST: Duration = Duration::from_secs(60);

/// What takes the CSI snapshots of a backup; `None` when the cluster serves none.
pub(crate) fn csi_snapshots(backup: &Backup, catalog: &Catalog, env: &Env) -> Option<CsiSnapshots> {
    let of = CsiBackup { backup: backup.clone(), types: SnapshotTypes::of(catalog)? };
    Some(CsiSnapshots::new(&env.cluster, &env.operation, of))
}

/// The claims of a backup of which snapshots are due.
pub(crate) struct Due {
    csi: Option<CsiSnapshots>,
    verdicts: Arc<Verdicts>,
    /// By their numbers in the index.
    claims: HashMap<u32, ClaimKey>,
    /// Those that are snapshotted together, by namespace and value of their label. They have their turn in one block.
    groups: BTreeMap<(String, String), Vec<ClaimKey>>,
}

impl Due {
    pub(crate) fn new(csi: Option<CsiSnapshots>, verdicts: Arc<Verdicts>, index: &Index) -> Self {
        let is_due = |decided: &&Decided| csi.is_some() && matches!(decided.verdict.way, Way::CsiSnapshot { .. });
        let claims = verdicts.iter().filter(is_due).filter_map(|decided| {
            let claim = decided.claim.as_ref()?;
            Some((index.number(&claim.object().digest())?, claim.clone()))
        });
        let claims: HashMap<u32, ClaimKey> = claims.collect();
        let mut groups = verdicts.groups();
        let is_here: HashSet<&ClaimKey> = claims.values().collect();
        groups.values_mut().for_each(|members| members.retain(|claim| is_here.contains(claim)));
        Self { csi, verdicts, claims, groups }
    }

    /// Begins the snapshots of the claims among these objects, unless that was done before.
    pub(crate) fn begin(&self, block: &[u32]) {
        let Some(csi) = &self.csi else { return };
        for key in block.iter().filter_map(|number| self.claims.get(number)) {
            let Some((Way::CsiSnapshot { class, group }, driver)) = self.way(key) else { continue };
            match group {
                None => self.verdicts.claim(key).into_iter().for_each(|claim| csi.begin(claim, driver, class)),
                Some(group) => csi.begin_group(self.group(&key.namespace, group, driver)),
            }
        }
    }

    /// What is to be done with a claim, and its driver.
    fn way(&self, key: &ClaimKey) -> Option<(&Way, &str)> {
        let decided = self.verdicts.of_claim(key)?;
        Some((&decided.verdict.way, self.volume(decided).and_then(PersistentVolume::driver).unwrap_or_default()))
    }

    fn volume(&self, decided: &Decided) -> Option<&PersistentVolume> {
        self.verdicts.volume(decided.volume.as_deref()?)
    }

    /// All that is snapshotted with a claim.
    fn group(&self, namespace: &str, group: &Group, driver: &str) -> ClaimGroup {
        let Group { value, class } = group;
        let members = self.groups.get(&(namespace.to_owned(), value.clone())).map(Vec::as_slice).unwrap_or_default();
        let members = members.iter().filter_map(|key| {
            let (claim, decided) = (self.verdicts.claim(key)?.clone(), self.verdicts.of_claim(key)?);
            let Way::CsiSnapshot { class, .. } = &decided.verdict.way else { return None };
            let handle = self.volume(decided).map(|volume| volume.handle.clone()).unwrap_or_default();
            Some(GroupMember { claim, handle, class: class.clone() })
        });
        ClaimGroup {
            namespace: namespace.to_owned(),
            value: value.clone(),
            class: class.clone(),
            driver: driver.to_owned(),
            members: members.collect(),
            beside: self.verdicts.beside_group(namespace, value).to_vec(),
        }
    }
}

/// Removes the snapshots that a backup has taken and that nobody will use: of one that did not come to its end, or of an attempt
/// before. Those that are to be kept go by namespace and name. Gives whether all are gone; what is left is told, and another call
/// finds it.
pub async fn remove_snapshots(
    cluster: &Cluster,
    operation: &Operation,
    backup_uid: &str,
    is_kept: impl Fn(&str, &str) -> bool + Sync,
) -> bool {
    let removed = async {
        let catalog = cluster.discover().await.map_err(|e| e.to_string())?;
        let Some(types) = SnapshotTypes::of(&catalog) else { return Ok(Vec::new()) };
        remove_all(cluster, &types, backup_uid, is_kept).await.map_err(|e| e.to_string())
    };
    let left = match timeout(LONGEST, removed).await {
        Ok(Ok(left)) => left,
        Ok(Err(e)) => {
            tell_left(operation, &e);
            return false;
        }
        Err(_) => {
            tell_left(operation, &format!("it took longer than {} s", LONGEST.as_secs()));
            return false;
        }
    };
    for (name, e) in &left {
        tell_left(operation, &format!("{name}: {e}"));
    }
    left.is_empty()
}

fn tell_left(operation: &Operation, why: &str) {
    let text = format!(
        "snapshots that this backup has taken and does not need may be left in the cluster and its storage: {why}; they have \
         the label velero.io/backup-uid with the UID of this backup"
    );
    operation.journal.warn(&Place::Velero, text);
}

/// Takes the objects of snapshots out of the cluster whose backup has ended, and leaves the snapshots in the storage. What could not
/// be is a warning: it does no harm, but whoever deletes these objects deletes the snapshot.
pub(crate) async fn release_snapshots<'a>(objects: impl Iterator<Item = &'a ObjectKey>, env: &Env) {
    let is_snapshot = |key: &&ObjectKey| key.resource.group == GROUP && key.resource.resource == "volumesnapshots";
    let names = |key: &ObjectKey| (key.namespace.clone().unwrap_or_default(), key.name.clone());
    let snapshots: Vec<(String, String)> = objects.filter(is_snapshot).map(names).collect();
    if snapshots.is_empty() {
        return;
    }
    let types = match env.cluster.discover().await {
        Ok(catalog) => SnapshotTypes::of(&catalog),
        Err(e) => {
            let text = format!("the objects of {} snapshots stay in the cluster: {e}", snapshots.len());
            env.operation.journal.warn(&Place::Velero, text);
            return;
        }
    };
    let Some(types) = types else { return };
    for (name, e) in release_all(&env.cluster, &types, &snapshots).await {
        let text = format!("the objects of a snapshot stay in the cluster: {name}: {e}");
        let namespace = name.split('/').next().unwrap_or_default();
        env.operation.journal.warn(&Place::Namespace(namespace.to_owned()), text);
    }
}
