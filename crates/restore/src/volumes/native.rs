//! Volumes that are made anew from native snapshots, before their PersistentVolumes and these before their claims
//! (velero: pkg/restore/restore.go).

use crate::object::apply::PrepareError;
use crate::object::identity_fields::strip;
use crate::object::refused::Refused;
use crate::state::env::Env;
use crate::state::lock::lock;
use crate::state::stop::BrokenOff;
use crate::state::terminating::TerminatingObject;
use crate::walk::scope::RestoreScope;
use lifeboat_api::well_known::{ANNOTATION_ORIGINAL_PV_NAME, LABEL_RESTORE_NAME};
use lifeboat_api::{Restore, label_value};
use lifeboat_archive::native_snapshot::NativeSnapshot;
use lifeboat_cluster::ClusterError;
use lifeboat_object::{ApiResource, GroupResource, ObjectKey, ResultScope};
use lifeboat_volume::native::{MadeVolume, NativeVolumes, NotMadeVolume};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, OnceLock};

/// Prefix of the names of PersistentVolumes that are made beside the original ones.
const CLONE: &str = "velero-clone-";

/// The volumes of a restore that are made from native snapshots.
#[derive(Debug)]
pub(crate) struct NativeVolumeRestore {
    /// By the names of their PersistentVolumes in the backup.
    snapshots: BTreeMap<String, NativeSnapshot>,
    volumes: NativeVolumes,
    restore_uid: String,
    /// The reason why none is made: the volumes that an earlier run has made are not known.
    refusal: OnceLock<String>,
    /// Names that PersistentVolumes get in the cluster, where they are others than in the backup.
    names: Mutex<BTreeMap<String, String>>,
    /// Volumes that could not be restored.
    lost: Mutex<BTreeSet<String>>,
}

/// Where a volume is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VolumeDestination {
    /// It is made for a PersistentVolume of this name.
    Free(String),
    /// Its PersistentVolume is in the cluster, and stays.
    Taken,
}

/// The reason why a PersistentVolume is not restored.
pub(crate) enum NotPrepared {
    /// The reason, for people.
    Because(String),
    /// As any other object.
    Refused(Refused),
}

impl From<ClusterError> for NotPrepared {
    fn from(error: ClusterError) -> Self {
        Self::Refused(Refused::Because(Box::new(error)))
    }
}

impl NativeVolumeRestore {
    pub(crate) fn new(snapshots: BTreeMap<String, NativeSnapshot>, restore: &Restore, env: &Env) -> Self {
        let uid = &restore.metadata.uid;
        Self {
            snapshots,
            volumes: NativeVolumes::new(&env.operation, uid, &env.actions.volume_snapshotters),
            restore_uid: uid.clone(),
            refusal: OnceLock::new(),
            names: Mutex::default(),
            lost: Mutex::default(),
        }
    }

    /// Loads the volumes that an earlier run of this restore has made. When they are not known, no volume is made.
    pub(crate) async fn load(&self) {
        if self.snapshots.is_empty() {
            return;
        }
        if let Err(e) = self.volumes.load().await {
            let _ = self.refusal.set(format!("it is not known what an earlier run of this restore has made: {e}"));
        }
        for volume in self.snapshots.keys() {
            if let Some(made) = self.volumes.made(volume).filter(|made| made.name != *volume) {
                lock(&self.names).insert(volume.clone(), made.name);
            }
        }
    }

    /// Returns true if the volume of a PersistentVolume of the backup is made from a native snapshot.
    pub(crate) fn has(&self, key: &ObjectKey) -> bool {
        self.snapshot(key).is_some()
    }

    fn snapshot(&self, key: &ObjectKey) -> Option<&NativeSnapshot> {
        let is_volume = key.resource == GroupResource::new("", "persistentvolumes");
        self.snapshots.get(&key.name).filter(|_| is_volume)
    }

    /// Returns the reason why its volume cannot be made; `None` when it can, as far as is known.
    pub(crate) fn refusal(&self, key: &ObjectKey) -> Option<String> {
        let snapshot = self.snapshot(key)?;
        let why = self.refusal.get().cloned().or_else(|| self.volumes.refusal(&snapshot.spec.location))?;
        Some(not_made(snapshot, &why))
    }

    /// Where the volume of a PersistentVolume goes. One that is in the cluster already stays, unless its claim goes to another
    /// namespace: then another one is made beside it. One that goes away is waited for.
    ///
    /// # Errors
    /// [`NotPrepared`].
    pub(crate) async fn room(
        &self,
        key: &ObjectKey,
        from_backup: &Value,
        scope: &RestoreScope,
        env: &Env,
    ) -> Result<VolumeDestination, NotPrepared> {
        if let Some(made) = self.volumes.made(&key.name) {
            return Ok(VolumeDestination::Free(made.name));
        }
        let Some(existing) = get(&volumes(), None, &key.name, env).await? else {
            return Ok(VolumeDestination::Free(key.name.clone()));
        };
        let namespace = from_backup.pointer("/spec/claimRef/namespace").and_then(Value::as_str).unwrap_or_default();
        if scope.namespace(namespace) != namespace {
            return Ok(VolumeDestination::Free(clone_name(&self.restore_uid, &key.name)));
        }
        let terminating = |terminating| Err(NotPrepared::Refused(Refused::Leaving(terminating)));
        if let Some(gone) = TerminatingObject::of(&existing) {
            return terminating(gone);
        }
        if existing["status"]["phase"] == "Released" {
            return match existing["spec"]["persistentVolumeReclaimPolicy"].as_str() {
                Some("Delete") => {
                    terminating(TerminatingObject::soon("was released by its claim, and is to be deleted with it"))
                }
                policy => Err(NotPrepared::Because(format!(
                    "the PersistentVolume in the cluster was released by its claim, and stays with what it holds (reclaim policy \
                     {}): delete it, and run the restore again",
                    policy.unwrap_or("Retain")
                ))),
            };
        }
        match goes_with_claim(&existing, env).await? {
            Some(why) => terminating(TerminatingObject::soon(why)),
            None => Ok(VolumeDestination::Taken),
        }
    }

    /// The PersistentVolume with a new volume behind it, under this name. The volume is made once, however often this is called.
    ///
    /// # Errors
    /// [`NotPrepared`].
    pub(crate) async fn make(&self, key: &ObjectKey, item: &Value, name: &str) -> Result<Value, NotPrepared> {
        let Some(snapshot) = self.snapshot(key) else { return Ok(item.clone()) };
        if let Some(why) = self.refusal(key) {
            return Err(NotPrepared::Because(why));
        }
        let refused = |e: NotMadeVolume| match e {
            NotMadeVolume::Because(why) => NotPrepared::Because(not_made(snapshot, &why)),
            NotMadeVolume::Ended => NotPrepared::Refused(Refused::Stopped),
            NotMadeVolume::Fatal { snapshotter, message } => {
                let broken = BrokenOff::Action { action: snapshotter, object: key.clone(), why: message };
                NotPrepared::Refused(Refused::Unprepared(PrepareError::Fatal(Box::new(broken))))
            }
        };
        let MadeVolume { name, volume_id } = self.volumes.make(snapshot, name).await.map_err(refused)?;
        let set = self.volumes.set_volume_id(&snapshot.spec.location, item, &volume_id).await;
        let mut set = set.map_err(refused)?;
        // A snapshotter passes it through a type of its own.
        strip(&mut set);
        let told = set["metadata"]["name"].as_str().unwrap_or_default();
        let name = if told == key.name { name } else { told.to_owned() };
        if name != key.name {
            set["metadata"]["name"] = name.as_str().into();
            if !set["metadata"]["annotations"].is_object() {
                set["metadata"]["annotations"] = json!({});
            }
            set["metadata"]["annotations"][ANNOTATION_ORIGINAL_PV_NAME] = key.name.as_str().into();
            lock(&self.names).insert(key.name.clone(), name);
        }
        Ok(set)
    }

    /// A claim with the name that its PersistentVolume has in the cluster; `None` for other objects, and when the name is the same.
    ///
    /// # Errors
    /// The name of its PersistentVolume, when that could not be restored: the claim would wait for it for ever.
    pub(crate) fn follow(&self, key: &ObjectKey, claim: &Value) -> Result<Option<Value>, String> {
        if key.resource != GroupResource::new("", "persistentvolumeclaims") {
            return Ok(None);
        }
        let Some(volume) = claim.pointer("/spec/volumeName").and_then(Value::as_str) else { return Ok(None) };
        if lock(&self.lost).contains(volume) {
            return Err(volume.to_owned());
        }
        let name = lock(&self.names).get(volume).cloned();
        Ok(name.map(|name| {
            let mut claim = claim.clone();
            claim["spec"]["volumeName"] = name.into();
            claim
        }))
    }

    /// Remembers an object of the backup that could not be restored, when its volume was to be made.
    pub(crate) fn lose(&self, key: &ObjectKey) {
        if self.has(key) {
            lock(&self.lost).insert(key.name.clone());
        }
    }

    /// The name that a PersistentVolume of the backup has in the cluster.
    pub(crate) fn name_of(&self, volume: &str) -> String {
        lock(&self.names).get(volume).map_or(volume, String::as_str).to_owned()
    }

    /// Ends the making of volumes, and reports volumes that nothing uses. These PersistentVolumes of the backup were
    /// made.
    pub(crate) async fn end<'a>(&self, made: impl Iterator<Item = &'a str>, env: &Env) {
        made.for_each(|volume| self.volumes.uses(volume));
        tell_unused(&self.volumes, env).await;
    }

    /// Reports unused volumes of a restore that broke off before its results were known: finds those in use in the
    /// cluster.
    pub(crate) async fn break_off(&self, restore: &Restore, env: &Env) {
        look_for_uses(&self.volumes, restore, env).await;
        tell_unused(&self.volumes, env).await;
    }
}

/// Tells of the volumes that a restore has made which ends without another attempt, as far as nothing uses them: its notes are all that
/// knows of them, and go with it.
pub(crate) async fn tell_made(restore: &Restore, env: &Env) {
    let volumes = NativeVolumes::new(&env.operation, &restore.metadata.uid, &env.actions.volume_snapshotters);
    if let Err(e) = volumes.load().await {
        let text = format!("volumes that this restore has made from snapshots may lie in the storage unused: {e}");
        env.operation.journal.warn(&ResultScope::Velero, text);
        return;
    }
    look_for_uses(&volumes, restore, env).await;
    tell_unused(&volumes, env).await;
}

/// Looks in the cluster which volumes are used by PersistentVolumes of this restore.
async fn look_for_uses(made: &NativeVolumes, restore: &Restore, env: &Env) {
    let label = label_value(&restore.metadata.name);
    let mut is_seen = true;
    for (volume, name) in made.all_made() {
        // A cluster that has not answered once is not asked for each of them.
        let found = if is_seen { get(&volumes(), None, &name, env).await.ok() } else { None };
        is_seen = found.is_some();
        match found.map(Option::unwrap_or_default) {
            Some(found) if found["metadata"]["labels"][LABEL_RESTORE_NAME].as_str() == Some(&label) => {
                made.uses(&volume);
            }
            Some(_) => {}
            None => made.may_use(&volume),
        }
    }
}

/// Reports unused volumes that were not reported before.
async fn tell_unused(volumes: &NativeVolumes, env: &Env) {
    let journal = &env.operation.journal;
    let unused = volumes.end().await;
    if unused.is_empty() {
        return;
    }
    let told = journal.close().results.warnings;
    let texts = unused.into_iter().filter(|text| !told.messages().any(|message| message == text));
    texts.for_each(|text| journal.warn(&ResultScope::Velero, text));
}

fn not_made(snapshot: &NativeSnapshot, why: &str) -> String {
    format!("its volume could not be made from the snapshot {}: {why}", snapshot.status.provider_snapshot_id)
}

/// Returns the reason why the PersistentVolume is about to be deleted with its claim; `None` when it stays.
async fn goes_with_claim(volume: &Value, env: &Env) -> Result<Option<&'static str>, ClusterError> {
    let text = |field: &str| volume["spec"]["claimRef"][field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    if name.is_empty() {
        return Ok(None);
    }
    let claims = ApiResource::persistent_volume_claims();
    let Some(claim) = get(&claims, Some(namespace), name, env).await? else {
        return Ok(Some("was of a claim that is gone"));
    };
    if TerminatingObject::of(&claim).is_some() {
        return Ok(Some("is of a claim that is being deleted"));
    }
    let namespaces = ApiResource::namespaces();
    let namespace = get(&namespaces, None, namespace, env).await?;
    let goes = namespace.is_none_or(|namespace| TerminatingObject::of(&namespace).is_some());
    Ok(goes.then_some("is of a claim whose namespace is being deleted"))
}

fn volumes() -> ApiResource {
    cluster_scoped("persistentvolumes", "PersistentVolume")
}

fn cluster_scoped(resource: &str, kind: &str) -> ApiResource {
    ApiResource { namespaced: false, ..ApiResource::new("", "v1", resource, kind) }
}

async fn get(
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
    env: &Env,
) -> Result<Option<Value>, ClusterError> {
    let body = env.cluster.get(resource, namespace, name).await?;
    // An answer that is no JSON is an object of which nothing is known.
    Ok(body.map(|body| serde_json::from_slice(&body).unwrap_or_default()))
}

/// The name of a PersistentVolume that is made beside the one of this name: the same name in each run of a restore.
fn clone_name(restore_uid: &str, volume: &str) -> String {
    let hash = hex::encode(Sha256::digest(format!("{restore_uid}/{volume}")));
    let parts = [&hash[..8], &hash[8..12], &hash[12..16], &hash[16..20], &hash[20..32]];
    format!("{CLONE}{}", parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_beside_another_follows_from_the_restore_and_the_volume() {
        let name = clone_name("u", "pv-1");
        assert_eq!(name, clone_name("u", "pv-1"));
        assert!(name != clone_name("v", "pv-1") && name != clone_name("u", "pv-2"));
        assert_eq!((name.len(), name.starts_with(CLONE)), (CLONE.len() + 36, true));
    }
}
