//! The snapshots of a backup, from the first to the last of its stages.

use crate::action_lane::save::SaveContext;
use crate::actions::pv::volume_key;
use crate::env::Env;
use crate::hook::Commands;
use crate::volumes::outcomes::Volumes;
use crate::volumes::useless::{LONGEST, late, stop_useless_files, stop_useless_uploads};
use lifeboat_api::well_known::LABEL_BACKUP_UID;
use lifeboat_api::{Backup, NamespacedName};
use lifeboat_cluster::Cluster;
use lifeboat_object::{Catalog, ObjectKey, ResultScope};
use lifeboat_operation::Operation;
use lifeboat_volume::csi::{
    self, ClaimGroup, CsiBackup, CsiError, CsiSnapshots, GroupMember, HeldSnapshots, MovedSnapshots, SNAPSHOT_API,
    SnapshotTypes, WantedSnapshot, release_all, remove_all, remove_moved, served, untaken,
};
use lifeboat_volume::facts::{PersistentVolume, claim_object_key};
use lifeboat_volume::native::{
    NativeBackup, NativeSnapshots, RemainingSnapshot, Removal, SnapshotNote, noted, remove_noted,
};
use lifeboat_volume::{DecidedVolume, DriverSnapshot, Group, GroupKey, Method, Priority, Verdicts};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// The longest time for which CSI snapshots are cleaned up in all, however many there are.
const IN_ALL: Duration = Duration::from_secs(900);

/// Creates the taker of the CSI snapshots of a backup; `None` when the cluster serves none.
pub(crate) fn csi_snapshots(backup: &Backup, catalog: &Catalog, env: &Env) -> Option<CsiSnapshots> {
    Some(csi_snapshots_of(backup, SnapshotTypes::of(catalog)?, env))
}

/// The same, of a cluster whose types of snapshots are known.
pub(crate) fn csi_snapshots_of(backup: &Backup, types: SnapshotTypes, env: &Env) -> CsiSnapshots {
    CsiSnapshots::new(&env.cluster, &env.operation, CsiBackup { backup: backup.clone(), types })
}

/// Creates the taker of the native snapshots of an attempt at a backup; `None` when there is no location for them.
pub(crate) fn native_snapshots(backup: &Backup, attempt: u32, env: &Env) -> Option<NativeSnapshots> {
    let snapshotters = &env.actions.volume_snapshotters;
    let of = NativeBackup { backup: backup.clone(), attempt };
    (!snapshotters.is_empty()).then(|| NativeSnapshots::new(&env.operation, of, snapshotters))
}

/// Claims and volumes of a backup whose snapshots are due, by numbers in the index.
pub(crate) struct DueSnapshots {
    csi: Option<CsiSnapshots>,
    native: Option<NativeSnapshots>,
    verdicts: Arc<Verdicts>,
    claims: HashMap<u32, NamespacedName>,
    /// Claims that are snapshotted together. They have their turn in one block.
    groups: BTreeMap<GroupKey, Vec<NamespacedName>>,
    /// The names of PersistentVolumes.
    volumes: HashMap<u32, String>,
    /// Weak, so that reads which are still to come stop when the backup has ended.
    context: Weak<SaveContext>,
}

impl DueSnapshots {
    pub(crate) fn new(context: &Arc<SaveContext>) -> Self {
        let (csi, native) = (context.scope.lane.csi.clone(), context.scope.volumes.native.clone());
        let (mut claims, mut volumes) = (HashMap::new(), HashMap::new());
        for decided in context.verdicts.iter() {
            let is_of_driver = csi.is_some() && context.verdicts.driver_snapshot(decided).is_some();
            match (&decided.verdict.method, &decided.claim, &decided.volume) {
                (_, Some(claim), _) if is_of_driver => {
                    if let Some(number) = context.items.index.number(&claim_object_key(claim).digest()) {
                        claims.insert(number, claim.clone());
                    }
                }
                (Method::NativeSnapshot, _, Some(volume)) if native.is_some() => {
                    if let Some(number) = context.items.index.number(&volume_key(volume).digest()) {
                        volumes.insert(number, volume.clone());
                    }
                }
                _ => {}
            }
        }
        let mut groups = context.verdicts.groups();
        let is_here: HashSet<&NamespacedName> = claims.values().collect();
        groups.values_mut().for_each(|members| members.retain(|claim| is_here.contains(claim)));
        let verdicts = Arc::clone(&context.verdicts);
        Self { csi, native, verdicts, claims, groups, volumes, context: Arc::downgrade(context) }
    }

    /// Returns true if no snapshots are due.
    pub(crate) fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.volumes.is_empty()
    }

    /// The names of the PersistentVolumes among these objects of whose volumes native snapshots are due.
    pub(crate) fn volumes<'a>(&'a self, block: &'a [u32]) -> impl Iterator<Item = &'a str> {
        block.iter().filter_map(|number| self.volumes.get(number)).map(String::as_str)
    }

    /// Waits until it is certain of the claims among these objects what becomes of their CSI snapshots.
    pub(crate) async fn csi_ended(&self, block: &[u32]) {
        let Some(csi) = &self.csi else { return };
        for claim in block.iter().filter_map(|number| self.claims.get(number)) {
            let _ = csi.taken(claim).await;
        }
    }

    /// Begins the snapshots that are due of these objects, unless that was done before.
    pub(crate) fn begin(&self, block: &[u32], line: Priority) {
        if let Some(native) = &self.native {
            for (number, volume) in block.iter().filter_map(|number| self.volumes.get_key_value(number)) {
                let (number, context) = (*number, Weak::clone(&self.context));
                native.begin(volume, line, async move {
                    let context = context.upgrade().ok_or("the backup has ended")?;
                    context.items.look_at(number, &context.env).await
                });
            }
        }
        let Some(csi) = &self.csi else { return };
        for key in block.iter().filter_map(|number| self.claims.get(number)) {
            let Some((snapshot, driver)) = self.wanted(key) else { continue };
            match (snapshot.group, self.verdicts.claim(key)) {
                (None, Some(claim)) => {
                    let (driver, class) = (driver.to_owned(), snapshot.class.to_owned());
                    csi.begin(claim, line, WantedSnapshot { driver, class, is_moved: snapshot.data_mover.is_some() });
                }
                (None, None) => {}
                (Some(group), _) => csi.begin_group(self.group(&key.namespace, group, driver), line),
            }
        }
    }

    /// The snapshot that is wanted of a claim, and its driver.
    fn wanted(&self, key: &NamespacedName) -> Option<(DriverSnapshot<'_>, &str)> {
        let decided = self.verdicts.of_claim(key)?;
        let driver = self.volume(decided).and_then(PersistentVolume::driver).unwrap_or_default();
        Some((self.verdicts.driver_snapshot(decided)?, driver))
    }

    fn volume(&self, decided: &DecidedVolume) -> Option<&PersistentVolume> {
        self.verdicts.volume(decided.volume.as_deref()?)
    }

    /// All that is snapshotted with a claim.
    fn group(&self, namespace: &str, group: &Group, driver: &str) -> ClaimGroup {
        let key = GroupKey { namespace: namespace.to_owned(), value: group.value.clone() };
        let members = self.groups.get(&key).map(Vec::as_slice).unwrap_or_default();
        let members = members.iter().filter_map(|key| {
            let (claim, decided) = (self.verdicts.claim(key)?.clone(), self.verdicts.of_claim(key)?);
            let DriverSnapshot { class, data_mover, .. } = self.verdicts.driver_snapshot(decided)?;
            let handle = self.volume(decided).map(|volume| volume.handle.clone()).unwrap_or_default();
            Some(GroupMember { claim, handle, class: class.to_owned(), is_moved: data_mover.is_some() })
        });
        let members: Vec<GroupMember> = members.collect();
        let beside = self.verdicts.beside_group(&key).to_vec();
        let GroupKey { namespace, value } = key;
        ClaimGroup { namespace, value, class: group.class.clone(), driver: driver.to_owned(), members, beside }
    }
}

/// Removes the snapshots of a backup that nobody will use, because it did not come to its end: those of CSI drivers,
/// and the native ones that are noted among its records. Returns true if all snapshots with a known name are gone;
/// others are reported, and another call finds them. Only people can find a snapshot whose name was never received.
pub async fn remove_snapshots(backup: &Backup, env: &Env) -> bool {
    let left = remove_native(env, |_| true).await;
    tell_native(left.as_deref().unwrap_or_default(), &backup.metadata.name, env);
    let is_unheard = |left: &RemainingSnapshot| left.note.snapshot_id.is_empty();
    let is_before_gone = remove_before(&backup.metadata.name, env).await;
    remove_unwanted(backup, None, env).await && is_before_gone && left.is_some_and(|left| left.iter().all(is_unheard))
}

/// Removes the snapshots of an ended backup whose data was moved, or was to be, as far as their data movers have left them. What could
/// not be is a warning: it is removed with the backup.
pub(crate) async fn remove_moved_snapshots(backup: &Backup, moved: &MovedSnapshots, env: &Env) {
    if moved.claims.is_empty() {
        return;
    }
    let removing = async {
        let Some(types) = served(&env.cluster).await.map_err(|e| e.to_string())? else { return Ok(Vec::new()) };
        remove_moved(&env.cluster, &types, backup, moved).await.map_err(|e| e.to_string())
    };
    match timeout(IN_ALL, Box::pin(removing)).await.unwrap_or_else(|_| Err(late())) {
        Ok(left) => left.iter().for_each(|(name, e)| match e {
            // A driver deletes nothing from which a volume is still made or read, and does so when the data mover has removed that.
            CsiError::Remains(..) => {
                let fields = [("name", name.as_str()), ("why", &e.to_string())];
                env.operation.journal.info("A snapshot whose data was moved is being deleted still", &fields);
            }
            _ => tell_left(&env.operation, &format!("{name}: {e}")),
        }),
        Err(e) => tell_left(&env.operation, &e),
    }
}

/// Removes the CSI snapshots of backups before this one that had its name and were never committed, each by its own
/// UID. Returns true if all are gone; others are reported, and another call finds them.
pub(crate) async fn remove_before(name: &str, env: &Env) -> bool {
    let before = match env.store.backups_before(name).await {
        Ok(before) => before,
        Err(e) => {
            tell_left(&env.operation, &format!("it is not known which backups had the name {name} before: {e}"));
            return false;
        }
    };
    let mut all_gone = true;
    for uid in before {
        let is_gone = remove_csi(&uid, env, |_| false).await;
        all_gone &= is_gone && env.store.forget_backup_before(name, &uid).await.is_ok();
    }
    all_gone
}

/// A message about the CSI snapshots of a backup that ends where nobody can see whether its bucket has its record: they
/// stay, for it may be restored from them. `None` when there are none.
pub async fn snapshots_that_stay(backup: &Backup, cluster: &Cluster) -> Option<String> {
    let uid = &backup.metadata.uid;
    let found = async {
        let Some(types) = served(cluster).await.map_err(|e| e.to_string())? else { return Ok(0) };
        csi::count(cluster, &types, uid).await.map_err(|e| e.to_string())
    };
    let label = format!("they have the label {LABEL_BACKUP_UID}={uid}");
    match timeout(LONGEST, found).await.unwrap_or_else(|_| Err(late())) {
        Ok(0) => None,
        Ok(count) => Some(format!("{count} objects of its volume snapshots stay in the cluster: {label}")),
        Err(e) => Some(format!("whether volume snapshots of it stay in the cluster is not known ({e}): {label}")),
    }
}

/// Stops the data movers of a backup, and removes the CSI snapshots that it has taken, but those of the volumes that it has.
pub(crate) async fn remove_unwanted(backup: &Backup, volumes: Option<&Volumes>, env: &Env) -> bool {
    stop_useless_uploads(backup, env, |name| volumes.is_some_and(|all| all.has_upload(name))).await;
    // Of a backup that comes to its end they have ended.
    if volumes.is_none() {
        stop_useless_files(backup, env).await;
    }
    let is_kept = |snapshot: &NamespacedName| volumes.is_some_and(|all| all.has_snapshot(snapshot));
    remove_csi(&backup.metadata.uid, env, is_kept).await
}

/// Removes the CSI snapshots that a backup has taken, but those that are to be kept.
pub(crate) async fn remove_csi(backup_uid: &str, env: &Env, is_kept: impl Fn(&NamespacedName) -> bool + Sync) -> bool {
    let operation = &env.operation;
    let left = match removed_csi(backup_uid, env, is_kept).await {
        Ok(left) => left,
        Err(e) => {
            tell_left(operation, &e);
            return false;
        }
    };
    for (name, e) in &left {
        tell_left(operation, &format!("{name}: {e}"));
    }
    left.is_empty()
}

/// The same; gives the snapshots that are left, which are not reported yet.
async fn removed_csi(
    backup_uid: &str,
    env: &Env,
    is_kept: impl Fn(&NamespacedName) -> bool + Sync,
) -> Result<Vec<csi::RemovalFailure>, String> {
    let cluster = &env.cluster;
    let (steps, seen) = watch::channel(0_u64);
    let step = || steps.send_modify(|count| *count += 1);
    let removing = async {
        let Some(types) = served(cluster).await.map_err(|e| e.to_string())? else { return Ok(Vec::new()) };
        remove_all(cluster, &types, backup_uid, is_kept, &step).await.map_err(|e| e.to_string())
    };
    match timeout(IN_ALL, unless_stalled(seen, Box::pin(removing))).await {
        Ok(Some(removed)) => removed,
        Ok(None) => Err(format!("nothing was removed for {} s", LONGEST.as_secs())),
        Err(_) => Err(format!("it took longer than {} s", IN_ALL.as_secs())),
    }
}

/// Waits for the result of some work; `None` when it makes no step for too long.
async fn unless_stalled<T>(mut steps: watch::Receiver<u64>, work: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Some(done),
            step = timeout(LONGEST, steps.changed()) => match step {
                Ok(Ok(())) => {}
                // Who tells of steps has ended, and the work with it.
                Ok(Err(_)) | Err(_) => return None,
            }
        }
    }
}

/// The CSI snapshots that an attempt before has asked for while pods stood still, and that no driver has taken yet:
/// they would be of a moment in which the pods go on. `None` when no pod is owed anything.
pub(crate) async fn asked_for_in_vain(
    commands: &Commands,
    backup_uid: &str,
    env: &Env,
) -> Option<BTreeSet<NamespacedName>> {
    if !commands.owes().await {
        return None;
    }
    let found = async {
        match served(&env.cluster).await.map_err(|e| e.to_string())? {
            Some(types) => untaken(&env.cluster, &types, backup_uid).await.map_err(|e| e.to_string()),
            None => Ok(BTreeSet::new()),
        }
    };
    match found.await {
        Ok(found) => Some(found).filter(|found| !found.is_empty()),
        Err(e) => {
            let text = format!(
                "snapshots that an attempt before has asked for may be of a moment in which their pods were not quiesced: they \
                 cannot be listed: {e}"
            );
            env.operation.journal.warn(&ResultScope::Velero, text);
            None
        }
    }
}

/// Removes such snapshots. Those that are being deleted still are waited for where they are to be taken again.
pub(crate) async fn remove_untaken(backup_uid: &str, env: &Env, untaken: &BTreeSet<NamespacedName>) {
    let is_kept = |snapshot: &NamespacedName| !untaken.contains(snapshot);
    let left = match removed_csi(backup_uid, env, is_kept).await {
        Ok(left) => left.into_iter().map(|(name, e)| (!matches!(e, CsiError::Remains(..)), format!("{name}: {e}"))),
        Err(e) => return tell_left(&env.operation, &e),
    };
    left.filter(|(is_told, _)| *is_told).for_each(|(_, why)| tell_left(&env.operation, &why));
}

/// Removes the native snapshots that are noted among the records of a backup and `which` selects. Gives the snapshots
/// that are left, which are not reported yet; `None` when they are not known, which is reported.
pub(crate) async fn remove_native(env: &Env, which: impl Fn(&SnapshotNote) -> bool) -> Option<Vec<RemainingSnapshot>> {
    let (operation, journal) = (&env.operation, &env.operation.journal);
    let removing = remove_noted(operation, &env.actions.volume_snapshotters, &which);
    let removed = match timeout(LONGEST, removing).await {
        Ok(removed) => removed,
        Err(_) => noted(operation, &which, &late()).await,
    };
    match removed {
        Ok(Removal { left, unreadable }) => {
            for key in unreadable {
                let text =
                    format!("the note {key} of a native snapshot cannot be read: one may be left in the storage");
                journal.warn(&ResultScope::Velero, text);
            }
            Some(left)
        }
        Err(e) => {
            let text = format!(
                "native snapshots that this backup has taken and does not need may be left in the storage: {e}"
            );
            journal.warn(&ResultScope::Velero, text);
            None
        }
    }
}

/// Returns true if native snapshots are noted among the records of a backup that has ended, so that deleting the backup
/// finds them, and if that cannot be known.
pub async fn has_noted_snapshots(operation: &Operation) -> bool {
    match noted(operation, |_| true, "").await {
        Ok(Removal { left, unreadable }) => !left.is_empty() || !unreadable.is_empty(),
        Err(_) => true,
    }
}

/// Tells of native snapshots that are left, unless that was told before.
pub(crate) fn tell_native(left: &[RemainingSnapshot], backup: &str, env: &Env) {
    if left.is_empty() {
        return;
    }
    let journal = &env.operation.journal;
    let told = journal.close().results.warnings;
    let texts = left.iter().map(|one| one.tell(backup)).filter(|text| !told.messages().any(|message| message == text));
    texts.for_each(|text| journal.warn(&ResultScope::Velero, text));
}

fn tell_left(operation: &Operation, why: &str) {
    let text = format!(
        "snapshots that this backup has taken and does not need may be left in the cluster and its storage: {why}; they have \
         the label velero.io/backup-uid with the UID of this backup"
    );
    operation.journal.warn(&ResultScope::Velero, text);
}

/// Takes the objects of snapshots out of the cluster whose backup has ended, and leaves the snapshots in the storage: of all of these
/// `objects` that are VolumeSnapshots or their contents. What could not be is a warning: it does no harm, for its contents keep the
/// snapshots.
pub(crate) async fn release_snapshots<'a>(backup_uid: &str, objects: impl Iterator<Item = &'a ObjectKey>, env: &Env) {
    let mut held = HeldSnapshots::default();
    objects.for_each(|key| held.note(key));
    if held.snapshots.is_empty() {
        return;
    }
    let types = match Box::pin(served(&env.cluster)).await {
        Ok(Some(types)) => types,
        untold => {
            let why =
                untold.err().map_or_else(|| format!("it does not serve {SNAPSHOT_API} any more"), |e| e.to_string());
            let text = format!(
                "the objects of {} snapshots could not be taken out of the cluster: {why}; they do no harm, and may be deleted when it \
                 serves it again",
                held.snapshots.len()
            );
            env.operation.journal.warn(&ResultScope::Velero, text);
            return;
        }
    };
    for (name, e) in release_all(&env.cluster, &types, backup_uid, &held).await {
        let text = format!("the objects of the snapshot {name} stay in the cluster: {e}");
        let namespace = name.split('/').next().unwrap_or_default();
        env.operation.journal.warn(&ResultScope::Namespace(namespace.to_owned()), text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    #[tokio::test(start_paused = true)]
    async fn cleaning_up_goes_on_as_long_as_there_are_steps() {
        let work = |pause: Duration| async move {
            let (steps, seen) = watch::channel(0);
            let stepping = async {
                for _ in 0..10 {
                    sleep(pause).await;
                    steps.send_modify(|count| *count += 1);
                }
                "all"
            };
            unless_stalled(seen, stepping).await
        };
        assert_eq!(work(Duration::from_secs(59)).await, Some("all"));
        assert_eq!(work(Duration::from_secs(61)).await, None);
    }
}
