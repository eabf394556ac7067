//! Waits until the claims that a restore has made have their volumes, and brings these in line with those of the backup
//! (velero: pkg/controller/restore_finalizer_controller.go). Each call is short: the caller that finalizes the restore
//! calls again later.

use crate::state::env::Env;
use crate::volumes::patch::{ClaimState, VolumeState, claim_state, volume_state};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use lifeboat_api::{NamespacedName, OperationPhase, Restore, label_value, well_known};
use lifeboat_archive::layout::{BackupFile, RestoreFile};
use lifeboat_archive::operations::RestoreOperation;
use lifeboat_archive::volume_info::{BackupVolumeInfo, CSI_SNAPSHOT, POD_VOLUME_RESTORE, PvInfo, RestoreVolumeInfo};
use lifeboat_cluster::{ClusterError, ListRequest, MergePatch};
use lifeboat_object::{ApiResource, ResultScope, first_names};
use lifeboat_store::StoreError;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// The note of when a restore was first looked at.
const SINCE: &str = "waits-for-volumes-since";
/// Time in which pods of the restore are placed. A claim that still has no pod then is not waited for any longer.
const FOR_PODS: Duration = Duration::from_secs(30);
/// Namespaces that are listed one by one; all at once where there are more.
const FEW: usize = 8;
/// Volumes that are read and changed at once.
const AT_ONCE: usize = 16;

/// A claim that the restore has made, in its target namespace, with the facts about its volume in the backup.
struct DueClaim {
    claim: NamespacedName,
    volume: String,
    before: PvInfo,
}

/// Progress of a claim towards its volume.
enum ClaimProgress {
    /// It has the volume of this name.
    Bound(String),
    /// It is waited for no more: its volume is made when a pod uses it.
    Late,
    /// This goes on, for this reason.
    Waits(String),
    /// It cannot be brought in line, for this reason.
    Failed(String),
}

/// Returns true if the volume information describes a claim whose volume is awaited, and is given what that of the backup had.
pub(crate) fn is_awaited(info: &RestoreVolumeInfo) -> bool {
    let is_provisioned = info.restore_method == CSI_SNAPSHOT || info.restore_method == POD_VOLUME_RESTORE;
    is_provisioned && !info.pvc_name.is_empty()
}

/// Warns of claims that get their volumes after a restore has ended early; `None` when there are none.
pub(crate) fn unwaited(infos: &[RestoreVolumeInfo]) -> Option<String> {
    let names = infos.iter().filter(|info| is_awaited(info));
    let names: Vec<String> = names.map(|info| format!("{}/{}", info.pvc_namespace, info.pvc_name)).collect();
    let text = || {
        format!(
            "nobody looks whether these claims get their volumes, nor gives those the reclaim policies and labels \
             of the backup: {}",
            first_names(&names)
        )
    };
    (!names.is_empty()).then(text)
}

/// Looks after the claims of a restore; says whether nothing is left to wait for. What failed, or was not there in time, is in the
/// journal then, and the volume information of the restore names the volumes. Doing it again does no harm.
pub(crate) async fn look(restore: &Restore, patience: Duration, env: &Env) -> Result<bool, StoreError> {
    let name = &restore.metadata.name;
    let mut infos: Vec<RestoreVolumeInfo> =
        env.store.restore_file(name, RestoreFile::VolumeInfo).await?.unwrap_or_default();
    let unmoved = unmoved(name, env).await?;
    let is_due = |info: &RestoreVolumeInfo| is_awaited(info) && !unmoved.contains(&moved_by(info));
    let awaited: Vec<&RestoreVolumeInfo> = infos.iter().filter(|info| is_due(info)).collect();
    let due = due(restore, &awaited, env).await?;
    if due.is_empty() {
        return Ok(true);
    }
    let waited = waited(restore, env).await;
    let is_over = restore.spec.cancel || waited >= patience;
    let looker = ClaimChecker { env, types: VolumeTypes::new() };
    let mut came = looker.claims(restore, &due, waited).await;
    let has_any = |came: &[ClaimProgress]| came.iter().any(|one| matches!(one, ClaimProgress::Waits(_)));
    // A volume is looked at once: not before all claims have theirs.
    if has_any(&came) && !is_over {
        return Ok(false);
    }
    came = looker.volumes(&due, came).await;
    if has_any(&came) && !is_over {
        return Ok(false);
    }
    let why = if restore.spec.cancel { "the restore was cancelled".to_owned() } else { over(patience) };
    looker.tell(&due, &came, &why).await;
    name_volumes(infos.iter_mut().filter(|info| is_due(info)), &due, &came);
    let bytes = StoreError::encoded("the volume information", lifeboat_archive::sidecar::encode(&infos))?;
    env.store.put_restore_file(name, RestoreFile::VolumeInfo, bytes).await?;
    Ok(true)
}

/// The operations of a restore that have not brought the data of their claims: nobody waits for those volumes.
async fn unmoved(name: &str, env: &Env) -> Result<BTreeSet<String>, StoreError> {
    let operations: Option<Vec<RestoreOperation>> = env.store.restore_file(name, RestoreFile::ItemOperations).await?;
    let unmoved =
        operations.unwrap_or_default().into_iter().filter(|one| one.status.phase != Some(OperationPhase::Completed));
    Ok(unmoved.map(|one| one.spec.operation_id).collect())
}

/// The operation that brings the data of a claim; empty where none does.
fn moved_by(info: &RestoreVolumeInfo) -> String {
    info.snapshot_data_movement_info.as_ref().map(|moved| moved.operation_id.clone()).unwrap_or_default()
}

fn over(patience: Duration) -> String {
    format!("gave up after {} s (--resource-timeout of the server)", patience.as_secs())
}

/// The claims to look after.
async fn due(restore: &Restore, infos: &[&RestoreVolumeInfo], env: &Env) -> Result<Vec<DueClaim>, StoreError> {
    if infos.is_empty() {
        return Ok(Vec::new());
    }
    let backup = &restore.spec.backup_name;
    let backup: Option<Vec<BackupVolumeInfo>> = env.store.backup_file(backup, BackupFile::VolumeInfo).await?;
    let mapping = &restore.spec.namespace_mapping;
    let target = |namespace: &str| mapping.get(namespace).map_or(namespace, String::as_str).to_owned();
    let before: HashMap<NamespacedName, BackupVolumeInfo> = backup
        .unwrap_or_default()
        .into_iter()
        .map(|info| (NamespacedName::new(target(&info.pvc_namespace), &info.pvc_name), info))
        .collect();
    let due = infos.iter().map(|info| {
        let claim = NamespacedName::new(&info.pvc_namespace, &info.pvc_name);
        let before = before.get(&claim);
        DueClaim {
            claim,
            volume: before.map(|before| before.pv_name.clone()).unwrap_or_default(),
            before: before.and_then(|before| before.pv_info.clone()).unwrap_or_default(),
        }
    });
    Ok(due.collect())
}

/// Total time that the restore has waited, over all processes.
pub(crate) async fn waited(restore: &Restore, env: &Env) -> Duration {
    let now = (env.operation.clock)();
    let records = &env.operation.records;
    let noted = records.read(SINCE).await;
    let noted = noted.map(|note| note.and_then(|note| std::str::from_utf8(&note).ok()?.parse::<Timestamp>().ok()));
    let since = match noted {
        Ok(Some(since)) => since,
        Ok(None) => {
            // Without the note it is waited longer, by as much as the next process comes later.
            let _ = records.write(BTreeMap::from([(SINCE.to_owned(), Some(now.to_string().into()))])).await;
            now
        }
        // The wait ends also when notes can never be read.
        Err(_) => restore.status.start_timestamp.map_or(now, lifeboat_api::Time::timestamp),
    };
    now.duration_since(since).try_into().unwrap_or_default()
}

/// The types that are asked for; each is served by every cluster, but for that of snapshots.
struct VolumeTypes {
    claims: Arc<ApiResource>,
    volumes: ApiResource,
    classes: ApiResource,
    snapshots: ApiResource,
}

impl VolumeTypes {
    fn new() -> Self {
        let of_cluster = |resource: ApiResource| ApiResource { namespaced: false, ..resource };
        Self {
            claims: Arc::new(ApiResource::persistent_volume_claims()),
            volumes: of_cluster(ApiResource::new("", "v1", "persistentvolumes", "PersistentVolume")),
            classes: of_cluster(ApiResource::new("storage.k8s.io", "v1", "storageclasses", "StorageClass")),
            snapshots: ApiResource::new("snapshot.storage.k8s.io", "v1", "volumesnapshots", "VolumeSnapshot"),
        }
    }
}

struct ClaimChecker<'a> {
    env: &'a Env,
    types: VolumeTypes,
}

impl ClaimChecker<'_> {
    /// Returns the progress of each claim.
    async fn claims(&self, restore: &Restore, due: &[DueClaim], waited: Duration) -> Vec<ClaimProgress> {
        let claims = match self.list(restore, due).await {
            Ok(claims) => claims,
            Err(e) => {
                return due.iter().map(|_| ClaimProgress::Waits(format!("the claims cannot be listed: {e}"))).collect();
            }
        };
        let mut late: HashMap<String, bool> = HashMap::new();
        let mut out = Vec::with_capacity(due.len());
        for one in due {
            let claim = claims.get(&one.claim);
            let class = claim.and_then(|claim| claim.pointer("/spec/storageClassName")).and_then(Value::as_str);
            let is_pending = claim.is_some_and(|claim| claim["status"]["phase"] == "Pending");
            let makes_late = match class.filter(|_| is_pending) {
                None => false,
                Some(class) => match late.get(class) {
                    Some(known) => *known,
                    None => match self.env.cluster.get(&self.types.classes, None, class).await {
                        Ok(body) => {
                            let class_of = |body: bytes::Bytes| serde_json::from_slice::<Value>(&body).ok();
                            let mode = body.and_then(class_of).map(|class| class["volumeBindingMode"].clone());
                            let is_late = mode.is_some_and(|mode| mode == "WaitForFirstConsumer");
                            late.insert(class.to_owned(), is_late);
                            is_late
                        }
                        Err(_) => false,
                    },
                },
            };
            out.push(match claim_state(claim, makes_late) {
                ClaimState::Bound(volume) => ClaimProgress::Bound(volume),
                ClaimState::WaitsForPod if waited >= FOR_PODS => ClaimProgress::Late,
                ClaimState::WaitsForPod => ClaimProgress::Waits("no pod that uses the claim is placed yet".to_owned()),
                ClaimState::Waits(why) => ClaimProgress::Waits(why),
            });
        }
        out
    }

    /// The claims of the restore in these namespaces.
    async fn list(&self, restore: &Restore, due: &[DueClaim]) -> Result<HashMap<NamespacedName, Value>, ClusterError> {
        let namespaces: BTreeSet<&str> = due.iter().map(|one| one.claim.namespace.as_str()).collect();
        let places = match namespaces.len() {
            0..=FEW => namespaces.into_iter().map(|namespace| Some(namespace.to_owned())).collect(),
            _ => vec![None],
        };
        let mut out = HashMap::new();
        for namespace in places {
            let mut list = self.env.cluster.list(
                ListRequest::all(Arc::clone(&self.types.claims)).in_namespace(namespace).labelled(format!(
                    "{}={}",
                    well_known::LABEL_RESTORE_NAME,
                    label_value(&restore.metadata.name)
                )),
            );
            while let Some(bodies) = list.next().await? {
                for claim in bodies.iter().filter_map(|body| serde_json::from_slice::<Value>(body).ok()) {
                    let text = |field: &str| claim["metadata"][field].as_str().unwrap_or_default();
                    out.insert(NamespacedName::new(text("namespace"), text("name")), claim);
                }
            }
        }
        Ok(out)
    }

    /// Brings the volumes of bound claims in line.
    async fn volumes(&self, due: &[DueClaim], came: Vec<ClaimProgress>) -> Vec<ClaimProgress> {
        let mut works: Vec<BoxFuture<'_, ClaimProgress>> = Vec::with_capacity(due.len());
        for (due, came) in due.iter().zip(came) {
            works.push(match came {
                ClaimProgress::Bound(volume) => self.volume(due, volume).boxed(),
                came => std::future::ready(came).boxed(),
            });
        }
        futures::stream::iter(works).buffered(AT_ONCE).collect().await
    }

    async fn volume(&self, due: &DueClaim, name: String) -> ClaimProgress {
        let (cluster, volumes) = (&self.env.cluster, &self.types.volumes);
        let refused = |e: &ClusterError| match e.can_pass() {
            true => ClaimProgress::Waits(e.to_string()),
            false => ClaimProgress::Failed(e.to_string()),
        };
        let volume = match cluster.get(volumes, None, &name).await {
            Ok(body) => body.and_then(|body| serde_json::from_slice::<Value>(&body).ok()),
            Err(e) => return refused(&e),
        };
        match volume_state(volume.as_ref(), &due.claim.namespace, &due.claim.name, &due.before) {
            VolumeState::Waits(why) => ClaimProgress::Waits(why),
            VolumeState::Taken(why) => ClaimProgress::Failed(why),
            VolumeState::InLine => ClaimProgress::Bound(name),
            VolumeState::Differs(patch) => {
                match cluster.patch(volumes, None, &name, MergePatch::of(patch.to_string().into())).await {
                    Ok(_) => ClaimProgress::Bound(name),
                    Err(e) => refused(&e),
                }
            }
        }
    }

    /// Writes the progress of the claims into the journal. `over` is the reason why claims that still wait are not
    /// waited for.
    async fn tell(&self, due: &[DueClaim], came: &[ClaimProgress], over: &str) {
        let mut late = Vec::new();
        for (due, came) in due.iter().zip(came) {
            let why = match came {
                ClaimProgress::Bound(_) => continue,
                ClaimProgress::Late => {
                    late.push(due.claim.to_string());
                    continue;
                }
                ClaimProgress::Failed(why) => why.clone(),
                ClaimProgress::Waits(why) => format!("{over}: {why}{}", self.of_snapshot(due).await),
            };
            let (name, volume) = (&due.claim.name, &due.volume);
            let text = format!("fail to patch dynamic PV, err: {why}, PVC: {name}, PV: {volume}");
            self.env.operation.journal.error(&ResultScope::of(Some(&due.claim.namespace)), text);
        }
        if !late.is_empty() {
            let (count, names) = (late.len(), first_names(&late));
            let text = format!(
                "{count} claims get their volumes when a pod uses them; the reclaim policies and labels of the backup's volumes are not \
                 brought over to these: {names}"
            );
            self.env.operation.journal.warn(&ResultScope::Velero, text);
        }
    }

    /// Describes, for people, the state of the VolumeSnapshot from which a claim is made.
    async fn of_snapshot(&self, due: &DueClaim) -> String {
        let read = |body: bytes::Bytes| serde_json::from_slice::<Value>(&body).ok();
        let namespace = Some(due.claim.namespace.as_str());
        let claim =
            self.env.cluster.get(&self.types.claims, namespace, &due.claim.name).await.ok().flatten().and_then(read);
        let Some(name) = claim.as_ref().and_then(|claim| claim["spec"]["dataSource"]["name"].as_str()) else {
            return String::new();
        };
        match self.env.cluster.get(&self.types.snapshots, namespace, name).await {
            Ok(None) => format!("; its VolumeSnapshot {name} is not there"),
            Ok(Some(body)) => match read(body).unwrap_or_default()["status"] {
                ref status if status["readyToUse"] == true => {
                    "; its snapshot is ready: the events of the claim say what its provisioner waits for".to_owned()
                }
                ref status => {
                    let said = status["error"]["message"].as_str().unwrap_or("its driver says nothing");
                    format!("; its VolumeSnapshot {name} is not ready: {said}")
                }
            },
            Err(e) => format!("; its VolumeSnapshot {name} cannot be read: {e}"),
        }
    }
}

/// Puts the names of the volumes into the volume information.
fn name_volumes<'a>(infos: impl Iterator<Item = &'a mut RestoreVolumeInfo>, due: &[DueClaim], came: &[ClaimProgress]) {
    for ((info, due), came) in infos.zip(due).zip(came) {
        debug_assert_eq!((&info.pvc_namespace, &info.pvc_name), (&due.claim.namespace, &due.claim.name));
        match came {
            ClaimProgress::Bound(volume) => {
                info.pv_name.clone_from(volume);
                if info.csi_snapshot_info.is_none() {
                    // What is said of its data holds.
                    continue;
                }
                info.message = "the claim has a new volume from the CSI snapshot of its data".to_owned();
            }
            ClaimProgress::Late if info.csi_snapshot_info.is_none() => {}
            ClaimProgress::Late => {
                info.message =
                    "the claim gets a new volume from the CSI snapshot of its data when a pod uses it".to_owned();
            }
            ClaimProgress::Waits(_) | ClaimProgress::Failed(_) => {
                info.message = "the claim had no volume when the restore ended: its errors say why".to_owned();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_whose_volumes_nobody_waits_for_are_named() {
        let info = |name: &str, method: &str, snapshot_data_moved: bool| RestoreVolumeInfo {
            pvc_namespace: "shop".to_owned(),
            pvc_name: name.to_owned(),
            restore_method: method.to_owned(),
            snapshot_data_moved,
            ..RestoreVolumeInfo::default()
        };
        let others = [
            info("native", "NativeSnapshot", false),
            info("empty", "", false),
            RestoreVolumeInfo { pvc_name: String::new(), ..info("", POD_VOLUME_RESTORE, false) },
        ];
        assert_eq!(unwaited(&others), None);
        let named =
            [info("a", CSI_SNAPSHOT, false), info("b", CSI_SNAPSHOT, true), info("c", POD_VOLUME_RESTORE, false)];
        let all = [&others[..], &named].concat();
        let told = unwaited(&all).unwrap();
        assert!(told.ends_with("of the backup: shop/a, shop/b, shop/c"), "{told}");
    }
}
