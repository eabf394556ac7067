//! Reports about the volumes and claims of a restore. Pure.

use crate::state::item_result::ItemResult;
use crate::volumes::repository_records::{FilesReport, by_mover_pod, filled, is_overwritten, moved, of_pod_volume};
use lifeboat_api::well_known::{ANNOTATION_ALLOW_EMPTY_VOLUMES, ANNOTATION_DATA_UPLOAD_NAME};
use lifeboat_api::{NamespacedName, Restore};
use lifeboat_archive::native_snapshot::NativeSnapshot;
use lifeboat_archive::volume_info::{
    CSI_SNAPSHOT, CsiSnapshotInfo, NATIVE_SNAPSHOT, NativeSnapshotInfo, RestoreVolumeInfo,
};
use lifeboat_object::{GroupResource, ObjectKey, first_names};
use lifeboat_volume::csi::{restored_name, snapshot_of_claim};
use lifeboat_volume::data_movement::restore::operation_id;
use lifeboat_volume::facts::name_of_object;
use lifeboat_volume::fs_backup::FileOutcome;
use lifeboat_volume::{
    ClaimCopy, ClaimData, FilesOfPods, Loss, MovedSnapshot, Movers, RecordedVolumes, RepositoryCopy, RestoreMeans,
    RestoreMethod, SavedClaim, SavedFiles, VolumeOfClaim, plan_claim,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The volumes and claims of a restore, for its volume information file and its warning.
#[derive(Clone, Debug, Default)]
pub(crate) struct VolumeTreatments {
    /// The volumes of the archive, by name.
    volumes: BTreeMap<String, Volume>,
    /// Claims to restore.
    claims: Vec<RestoredClaim>,
    /// Claims whose CSI snapshot failed when the backup was made.
    failed_claims: BTreeSet<ObjectKey>,
    /// The reasons why data was not saved that was to be, by volume.
    failures: BTreeMap<String, String>,
    /// The movers that the restore has.
    movers: Movers,
    /// The files of claims in repositories.
    files: BTreeMap<ObjectKey, SavedFiles>,
    /// The snapshots of claims that were moved, as the volume information has them, and by their DataUploads.
    moved: BTreeMap<ObjectKey, MovedSnapshot>,
    uploads: BTreeMap<String, MovedSnapshot>,
    /// The pods through which claims are filled.
    pods: Arc<FilesOfPods>,
}

#[derive(Clone, Debug)]
struct Volume {
    method: RestoreMethod,
    /// The native snapshot of its data.
    native: Option<NativeSnapshotInfo>,
    /// True when it is part of the restore.
    included: bool,
}

/// A claim to restore.
#[derive(Clone, Debug)]
struct RestoredClaim {
    key: ObjectKey,
    /// The name of its volume; empty for none.
    volume: String,
    /// Its UID in the backup.
    uid: String,
    /// The name of the VolumeSnapshot with its data, and the record of it in the backup.
    snapshot: Option<(String, CsiSnapshotInfo)>,
    /// The DataUpload that its annotation names.
    upload: Option<String>,
}

/// The report about the volumes of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VolumeReport {
    /// A record for each claim, then a record for each volume without a claim in the restore.
    pub(crate) records: Vec<RestoreVolumeInfo>,
    /// A single warning for all data that is not restored.
    pub(crate) warning: Option<String>,
}

/// The outcome for a volume that was to be made from its native snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FromNative {
    /// It was made, with this name.
    Made(String),
    /// A volume of its name was there.
    WasThere,
    /// It was not made.
    Failed,
}

impl VolumeTreatments {
    /// Adds a volume of the archive. A claim is provisioned anew also when its volume is not part of the restore.
    pub(crate) fn volume(
        &mut self,
        name: &str,
        method: RestoreMethod,
        snapshot: Option<&NativeSnapshot>,
        included: bool,
    ) {
        let native = snapshot.map(|NativeSnapshot { spec, status }| NativeSnapshotInfo::of(spec, status));
        self.volumes.insert(name.to_owned(), Volume { method, native, included });
    }

    /// Notes why the data of a volume was not saved that was to be; empty where the backup does not say it.
    pub(crate) fn failed(&mut self, volume: &str, why: &str) {
        self.failures.insert(volume.to_owned(), why.to_owned());
    }

    /// Notes the records of the backup about its claims, and the movers that the restore has.
    pub(crate) fn records(&mut self, recorded: &RecordedVolumes, movers: Movers) {
        self.failed_claims.clone_from(&recorded.failed_claims);
        self.files.clone_from(&recorded.pod_volumes);
        self.moved.clone_from(&recorded.moved);
        self.movers = movers;
    }

    /// Notes the pods through which claims are filled, and the DataUploads of the backup. Gives the volumes that must not be made
    /// again, which only their claims tell.
    pub(crate) fn settle(
        &mut self,
        pods: Arc<FilesOfPods>,
        uploads: &BTreeMap<String, MovedSnapshot>,
    ) -> BTreeSet<String> {
        (self.pods, self.uploads) = (pods, uploads.clone());
        let mut anew = BTreeSet::new();
        for claim in self.claims.iter().filter(|claim| !claim.volume.is_empty()) {
            let known = self.volumes.get(&claim.volume).map(|volume| volume.method);
            let is_anew = match self.copy(claim) {
                Some(ClaimCopy::Moved { .. }) => known.is_none_or(|method| method == RestoreMethod::AsIs),
                Some(ClaimCopy::Files(_)) => known.is_none(),
                Some(ClaimCopy::Snapshot) | None => false,
            };
            if is_anew {
                anew.insert(claim.volume.clone());
            }
        }
        for name in &anew {
            if let Some(volume) = self.volumes.get_mut(name) {
                volume.method = RestoreMethod::DataMovement;
            }
        }
        anew
    }

    /// The data of a claim of the backup that a data mover brings; `None` for other claims.
    pub(crate) fn moved(&self, claim: &Value, restore: &Restore) -> Option<MovedSnapshot> {
        let text = |field: &str| claim["metadata"][field].as_str().unwrap_or_default();
        let claims = GroupResource::new("", "persistentvolumeclaims");
        let key = ObjectKey::new(claims, Some(text("namespace")), text("name"));
        let claim = self.read(&key, claim, CsiSnapshotInfo::default());
        let is_moved = self.data(&claim, restore) == ClaimData::FromMovedSnapshot;
        self.moved_snapshot(&claim).filter(|_| is_moved).cloned()
    }

    /// The data of a claim of the backup that a pod of the restore brings from a repository; `None` for other claims.
    pub(crate) fn by_mover_pod(&self, key: &ObjectKey, claim: &Value, restore: &Restore) -> Option<RepositoryCopy> {
        self.copy_by_mover_pod(&self.read(key, claim, CsiSnapshotInfo::default()), restore)
    }

    /// The claims that pods of the restore fill.
    pub(crate) fn filled_by_mover_pods(&self, restore: &Restore) -> BTreeSet<NamespacedName> {
        let filled = self.claims.iter().filter(|claim| self.copy_by_mover_pod(claim, restore).is_some());
        filled.map(|claim| name_of_object(&claim.key)).collect()
    }

    fn copy_by_mover_pod(&self, claim: &RestoredClaim, restore: &Restore) -> Option<RepositoryCopy> {
        if self.data(claim, restore) != ClaimData::ByMoverPod {
            return None;
        }
        let namespace = claim.key.namespace.clone().unwrap_or_default();
        Some(match self.moved_snapshot(claim) {
            Some(moved) => RepositoryCopy {
                namespace: if moved.source_namespace.is_empty() { namespace } else { moved.source_namespace.clone() },
                snapshot_id: moved.snapshot_id.clone(),
            },
            None => RepositoryCopy { namespace, snapshot_id: self.files.get(&claim.key)?.snapshot_id.clone() },
        })
    }

    /// Returns true if the data of any claim was moved.
    pub(crate) fn has_moved(&self) -> bool {
        !self.moved.is_empty() || !self.uploads.is_empty()
    }

    fn moved_snapshot(&self, claim: &RestoredClaim) -> Option<&MovedSnapshot> {
        if self.failed_claims.contains(&claim.key) {
            return None;
        }
        let of_upload = claim.upload.as_ref().and_then(|upload| self.uploads.get(upload));
        of_upload.or_else(|| self.moved.get(&claim.key))
    }

    /// The copy of its data that the backup records of a claim itself.
    fn copy(&self, claim: &RestoredClaim) -> Option<ClaimCopy> {
        if claim.snapshot.is_some() {
            return Some(ClaimCopy::Snapshot);
        }
        if let Some(moved) = self.moved_snapshot(claim) {
            return Some(ClaimCopy::Moved { is_foreign: moved.is_foreign() });
        }
        self.files.get(&claim.key).map(|files| ClaimCopy::Files(files.format))
    }

    /// Adds a claim to restore.
    pub(crate) fn claim(&mut self, key: &ObjectKey, claim: &Value, recorded: &RecordedVolumes) {
        let info = recorded.snapshots.get(key).cloned().unwrap_or_default();
        let claim = self.read(key, claim, info);
        self.claims.push(claim);
    }

    fn read(&self, key: &ObjectKey, claim: &Value, info: CsiSnapshotInfo) -> RestoredClaim {
        let volume = claim.pointer("/spec/volumeName").and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = snapshot_of_claim(claim).filter(|_| !self.failed_claims.contains(key));
        let snapshot = name.map(|name| (name.to_owned(), info));
        let upload = claim["metadata"]["annotations"][ANNOTATION_DATA_UPLOAD_NAME].as_str().map(str::to_owned);
        let uid = claim["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        RestoredClaim { key: key.clone(), volume, uid, snapshot, upload }
    }

    /// The reason why a claim of the backup would come back without data that the backup was to have, as a part of a
    /// sentence, and the next step. `None` when its data is restored, or was not requested.
    pub(crate) fn loss(&self, key: &ObjectKey, claim: &Value, restore: &Restore) -> Option<(String, &'static str)> {
        let claim = self.read(key, claim, CsiSnapshotInfo::default());
        match self.data(&claim, restore) {
            ClaimData::Lost(loss) if loss.holds_back() => Some((self.why(loss, &claim.volume), loss.next())),
            _ => None,
        }
    }

    /// The reason of a loss, with the record of the volume in the backup.
    fn why(&self, loss: Loss, volume: &str) -> String {
        match self.failures.get(volume).filter(|why| loss == Loss::NotTaken && !why.is_empty()) {
            Some(why) => format!("{}: {why}", loss.why()),
            None => loss.why(),
        }
    }

    /// That a volume comes back as it is.
    fn retained(&self, volume: &str) -> String {
        match self.failures.contains_key(volume) {
            true => format!("{}; {KEPT}", self.why(Loss::NotTaken, volume)),
            false => KEPT.to_owned(),
        }
    }

    fn data(&self, claim: &RestoredClaim, restore: &Restore) -> ClaimData {
        let of_claim = |volume: &Volume| VolumeOfClaim { method: volume.method, is_included: volume.included };
        let saved = SavedClaim {
            volume_name: &claim.volume,
            volume: self.volumes.get(&claim.volume).map(of_claim),
            copy: self.copy(claim),
            has_pod: self.pods.is_filled(&name_of_object(&claim.key)),
        };
        plan_claim(saved, RestoreMeans { wants_volumes: restore.spec.restore_pvs != Some(false), movers: self.movers })
    }

    /// Reports about every claim and volume. `done` returns the outcome for a claim of the backup: one that existed
    /// before keeps its data. `from_native` returns the outcome for volumes that were to be made from native snapshots, and
    /// `files` has those of files from repositories.
    pub(crate) fn tell(
        &self,
        restore: &Restore,
        done: impl Fn(&ObjectKey) -> Option<ItemResult>,
        from_native: impl Fn(&str) -> FromNative,
        files: FilesReport<'_>,
    ) -> VolumeReport {
        let mut claims: Vec<&RestoredClaim> = self.claims.iter().collect();
        claims.sort_by(|a, b| a.key.cmp(&b.key));
        let claimed: BTreeSet<&str> = claims.iter().map(|claim| claim.volume.as_str()).collect();
        let (mut empty, mut unmade) = (Lost::default(), Lost::default());
        let of_claim = |claim: &RestoredClaim| {
            let outcome = VolumeOutcome { action: done(&claim.key), native: from_native(&claim.volume), files };
            self.record_of_claim(claim, restore, outcome, &mut empty)
        };
        let mut records: Vec<RestoreVolumeInfo> = claims.into_iter().map(of_claim).collect();
        let alone = self.volumes.iter().filter(|(name, volume)| volume.included && !claimed.contains(name.as_str()));
        records.extend(alone.map(|(name, volume)| self.record_of_volume(name, volume, from_native(name), &mut unmade)));
        if let FilesReport::Outcomes(outcomes) = files {
            // The claim of an ephemeral volume may not be part of the restore.
            let is_alone = |one: &&FileOutcome| {
                let is_of = |claim: &RestoredClaim| {
                    claim.key.namespace.as_deref() == Some(one.source_namespace.as_str())
                        && one.claim.as_deref() == Some(claim.key.name.as_str())
                };
                !self.claims.iter().any(is_of)
            };
            records.extend(outcomes.iter().filter(is_alone).map(of_pod_volume));
        }
        VolumeReport { records, warning: warning(&empty, &unmade) }
    }

    /// The record of a claim; one that comes back empty is added to these.
    fn record_of_claim(
        &self,
        claim: &RestoredClaim,
        restore: &Restore,
        outcome: VolumeOutcome<'_>,
        empty: &mut Lost,
    ) -> RestoreVolumeInfo {
        let key = &claim.key;
        let source = key.namespace.clone().unwrap_or_default();
        let namespace = restore.spec.namespace_mapping.get(&source).cloned().unwrap_or_else(|| source.clone());
        let mut record = RestoreVolumeInfo {
            pvc_name: key.name.clone(),
            pvc_namespace: namespace.clone(),
            pv_name: claim.volume.clone(),
            ..RestoreVolumeInfo::default()
        };
        record.message = match (self.data(claim, restore), outcome.action) {
            (ClaimData::NotBound, _) => "the claim was not bound: it had no data".to_owned(),
            (ClaimData::VolumeUnknown, _) => {
                "its volume is not in the backup: the claim asks for the one of that name".to_owned()
            }
            (ClaimData::VolumeLeftOut, _) => "its volume is not part of this restore".to_owned(),
            (ClaimData::OnStorage, Some(ItemResult::Failed)) => {
                "the claim was not restored: its error says why".to_owned()
            }
            (ClaimData::OnStorage, _) => self.retained(&claim.volume),
            (ClaimData::WithVolume, Some(ItemResult::Created | ItemResult::Recreated)) => {
                let native = self.volumes.get(&claim.volume).and_then(|volume| volume.native.as_ref());
                with_native(&mut record, native, outcome.native)
            }
            (ClaimData::FromFiles, Some(ItemResult::Updated | ItemResult::Skipped | ItemResult::Differs))
                if is_overwritten(key, restore, outcome.files) =>
            {
                let said = filled(&mut record, &key.name, &source, outcome.files);
                // Nothing is changed in its volume but the files.
                record.restore_method.clear();
                format!("{said}; the claim was in the cluster before, and files that it had may be overwritten")
            }
            (_, Some(ItemResult::Updated | ItemResult::Skipped | ItemResult::Differs)) => {
                "the claim was not made by this restore: what is there keeps what it holds".to_owned()
            }
            (ClaimData::Lost(loss), Some(ItemResult::Failed)) if loss.holds_back() => {
                format!("{}: the claim was not restored", self.why(loss, &claim.volume))
            }
            (_, Some(ItemResult::Failed | ItemResult::Removed) | None) => "the claim was not restored".to_owned(),
            // Only a preview takes it for made.
            (ClaimData::Lost(loss), Some(ItemResult::Created | ItemResult::Recreated))
                if loss.holds_back() && !allows_empty(restore) =>
            {
                format!("{}: the claim is held back", self.why(loss, &claim.volume))
            }
            (ClaimData::Lost(loss), Some(ItemResult::Created | ItemResult::Recreated)) => {
                if loss != Loss::NotWanted {
                    empty.add(format!("{namespace}/{}", key.name), loss);
                }
                let why = self.why(loss, &claim.volume);
                format!("{why}: the claim is provisioned anew and comes back empty")
            }
            (ClaimData::FromFiles, Some(ItemResult::Created | ItemResult::Recreated)) => {
                record.pv_name.clear();
                filled(&mut record, &key.name, &source, outcome.files)
            }
            (ClaimData::ByMoverPod, Some(ItemResult::Created | ItemResult::Recreated)) => {
                record.pv_name.clear();
                by_mover_pod(&mut record, self.moved_snapshot(claim), outcome.files)
            }
            (ClaimData::FromMovedSnapshot, Some(ItemResult::Created | ItemResult::Recreated)) => {
                record.pv_name.clear();
                let moved_snapshot = self.moved_snapshot(claim).cloned().unwrap_or_default();
                moved(&mut record, &moved_snapshot, operation_id(&restore.metadata.uid, &claim.uid))
            }
            (ClaimData::FromSnapshot, Some(ItemResult::Created | ItemResult::Recreated)) => {
                CSI_SNAPSHOT.clone_into(&mut record.restore_method);
                record.pv_name.clear();
                record.csi_snapshot_info = claim.snapshot.as_ref().map(|(name, info)| CsiSnapshotInfo {
                    snapshot_handle: info.snapshot_handle.clone(),
                    size: info.size,
                    driver: info.driver.clone(),
                    vsc_name: restored_name(&restore.metadata.uid, &source, name),
                    ..CsiSnapshotInfo::default()
                });
                "the claim gets a new volume from the CSI snapshot of its data".to_owned()
            }
        };
        record
    }

    /// The record of a volume that no claim of the backup asks for; one that is not made again is added to these.
    fn record_of_volume(
        &self,
        name: &str,
        volume: &Volume,
        native: FromNative,
        unmade: &mut Lost,
    ) -> RestoreVolumeInfo {
        let mut record = RestoreVolumeInfo { pv_name: name.to_owned(), ..RestoreVolumeInfo::default() };
        let mut lost = |loss: Loss| {
            unmade.add(name.to_owned(), loss);
            format!("{}: the volume is not made again", self.why(loss, name))
        };
        record.message = match volume.method {
            RestoreMethod::NativeSnapshot => with_native(&mut record, volume.native.as_ref(), native),
            RestoreMethod::AsIs => match native {
                FromNative::Failed => "the volume was not made: its error says why".to_owned(),
                FromNative::Made(_) | FromNative::WasThere => self.retained(name),
            },
            RestoreMethod::CsiSnapshot | RestoreMethod::FsBackup | RestoreMethod::DataMovement => lost(Loss::WithClaim),
            RestoreMethod::Empty(loss) => lost(loss),
        };
        record
    }
}

/// The outcome of a restore for a claim and with the native snapshot of its volume.
struct VolumeOutcome<'a> {
    action: Option<ItemResult>,
    native: FromNative,
    files: FilesReport<'a>,
}

/// Records the outcome for a volume that was to be made from this snapshot, with a message.
fn with_native(record: &mut RestoreVolumeInfo, native: Option<&NativeSnapshotInfo>, done: FromNative) -> String {
    match done {
        FromNative::Made(name) => {
            record.pv_name = name;
            NATIVE_SNAPSHOT.clone_into(&mut record.restore_method);
            record.native_snapshot_info = native.cloned();
            "the volume is made anew from the native snapshot of its data".to_owned()
        }
        FromNative::WasThere => "a volume of its name was there, and keeps what it holds".to_owned(),
        FromNative::Failed => "the volume was not made from the native snapshot of its data".to_owned(),
    }
}

const KEPT: &str = "the volume is made again on its storage, where its data is";

/// Returns true if claims whose data cannot be restored are made empty: the user allows it, or wants no volumes.
pub(crate) fn allows_empty(restore: &Restore) -> bool {
    restore.metadata.says_true(ANNOTATION_ALLOW_EMPTY_VOLUMES) || restore.spec.restore_pvs == Some(false)
}

/// Names of claims or volumes whose data does not come back.
#[derive(Debug, Default)]
struct Lost {
    names: Vec<String>,
    losses: BTreeSet<Loss>,
}

impl Lost {
    fn add(&mut self, name: String, loss: Loss) {
        self.names.push(name);
        self.losses.insert(loss);
    }

    /// A sentence such as `2 claims come back empty, because their data was not saved: a/x, a/y`, of words for one and for
    /// many.
    fn sentence(&self, what: [&str; 2]) -> Option<String> {
        if self.names.is_empty() {
            return None;
        }
        let (what, whose) = if self.names.len() == 1 { (what[0], "its") } else { (what[1], "their") };
        let mut why: Vec<&str> = self.losses.iter().map(|loss| loss.reason()).collect();
        why.dedup();
        let why = why.join(", or ");
        Some(format!("{} {what}, because {whose} data {why}: {}", self.names.len(), first_names(&self.names)))
    }
}

fn warning(empty: &Lost, unmade: &Lost) -> Option<String> {
    let empty = empty.sentence(["claim comes back empty", "claims come back empty"]);
    let unmade = unmade.sentence(["volume is not made again", "volumes are not made again"]);
    let sentences: Vec<String> = [empty, unmade].into_iter().flatten().collect();
    (!sentences.is_empty())
        .then(|| format!("{}; describe --details and the volume information file list all", sentences.join("; ")))
}

#[cfg(test)]
mod tests;
