//! Reports about the volumes and claims of a restore. Pure.

use crate::state::item_result::ItemResult;
use crate::volumes::treatment::{Loss, Recorded, RestoreMethod, allows_empty};
use lifeboat_api::Restore;
use lifeboat_archive::native_snapshot::NativeSnapshot;
use lifeboat_archive::volume_info::{
    CSI_SNAPSHOT, CsiSnapshotInfo, NATIVE_SNAPSHOT, NativeSnapshotInfo, RestoreVolumeInfo,
};
use lifeboat_object::{ObjectKey, first_names};
use lifeboat_volume::csi::{restored_name, snapshot_of_claim};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

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
}

#[derive(Clone, Debug)]
struct Volume {
    verdict: RestoreMethod,
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
    /// The name of the VolumeSnapshot with its data, and the record of it in the backup.
    snapshot: Option<(String, CsiSnapshotInfo)>,
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

/// The source of the data of a claim that is made, or its loss.
enum Data<'a> {
    /// It comes with its volume, from this native snapshot.
    WithVolume(&'a NativeSnapshotInfo),
    /// It comes from the VolumeSnapshot of this name.
    FromSnapshot(&'a str, &'a CsiSnapshotInfo),
    /// It does not come.
    Lost(Loss),
    /// It is on the storage of its volume, which is made again as it is.
    AsIs,
    /// It is elsewhere, as this text says, whatever is done with the claim.
    Elsewhere(&'static str),
}

impl VolumeTreatments {
    /// Adds a volume of the archive. A claim is provisioned anew also when its volume is not part of the restore.
    pub(crate) fn volume(
        &mut self,
        name: &str,
        (verdict, snapshot): (RestoreMethod, Option<&NativeSnapshot>),
        included: bool,
    ) {
        let native = snapshot.map(|NativeSnapshot { spec, status }| NativeSnapshotInfo::of(spec, status));
        self.volumes.insert(name.to_owned(), Volume { verdict, native, included });
    }

    /// Notes why the data of a volume was not saved that was to be; empty where the backup does not say it.
    pub(crate) fn failed(&mut self, volume: &str, why: &str) {
        self.failures.insert(volume.to_owned(), why.to_owned());
    }

    /// Notes the claims whose CSI snapshot failed when the backup was made.
    pub(crate) fn failed_claims(&mut self, claims: &BTreeSet<ObjectKey>) {
        self.failed_claims.clone_from(claims);
    }

    /// Adds a claim to restore.
    pub(crate) fn claim(&mut self, key: &ObjectKey, claim: &Value, recorded: &Recorded) {
        let info = recorded.snapshots.get(key).cloned().unwrap_or_default();
        let claim = self.read(key, claim, info);
        self.claims.push(claim);
    }

    fn read(&self, key: &ObjectKey, claim: &Value, info: CsiSnapshotInfo) -> RestoredClaim {
        let volume = claim.pointer("/spec/volumeName").and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = snapshot_of_claim(claim).filter(|_| !self.failed_claims.contains(key));
        RestoredClaim { key: key.clone(), volume, snapshot: name.map(|name| (name.to_owned(), info)) }
    }

    /// The reason why a claim of the backup would come back without data that the backup was to have, as a part of a
    /// sentence. `None` when its data is restored, or was not requested.
    pub(crate) fn loss(&self, key: &ObjectKey, claim: &Value, restore: &Restore) -> Option<String> {
        let claim = self.read(key, claim, CsiSnapshotInfo::default());
        match self.data(&claim, restore) {
            Data::Lost(loss) if loss.holds_back() => Some(self.why(loss, &claim.volume)),
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

    fn data<'a>(&'a self, claim: &'a RestoredClaim, restore: &Restore) -> Data<'a> {
        let is_wanted = restore.spec.restore_pvs != Some(false);
        match (&claim.snapshot, self.volumes.get(&claim.volume)) {
            (Some((name, info)), _) if is_wanted => Data::FromSnapshot(name, info),
            (Some(_), _) => Data::Lost(Loss::NotWanted),
            (None, None) if claim.volume.is_empty() => Data::Elsewhere("the claim was not bound: it had no data"),
            (None, None) => Data::Elsewhere("its volume is not in the backup: the claim asks for the one of that name"),
            (None, Some(Volume { verdict: RestoreMethod::AsIs, included: true, .. })) => Data::AsIs,
            (None, Some(Volume { verdict: RestoreMethod::FromNative, native: Some(native), included: true })) => {
                Data::WithVolume(native)
            }
            (None, Some(Volume { verdict: RestoreMethod::AsIs | RestoreMethod::FromNative, .. })) => {
                Data::Elsewhere("its volume is not part of this restore")
            }
            (
                None,
                Some(Volume {
                    verdict: RestoreMethod::FromSnapshot | RestoreMethod::Provision(Loss::NotTaken), ..
                }),
            ) if is_wanted => Data::Lost(Loss::NotTaken),
            (None, Some(Volume { verdict: RestoreMethod::FromSnapshot, .. })) => Data::Lost(Loss::NotWanted),
            (None, Some(Volume { verdict: RestoreMethod::Provision(loss), .. })) => Data::Lost(match loss {
                Loss::NotTaken | Loss::Unreadable(_) if !is_wanted => Loss::NotWanted,
                loss => *loss,
            }),
        }
    }

    /// Reports about every claim and volume. `done` returns the outcome for a claim of the backup: one that existed
    /// before keeps its data. `from_native` returns the outcome for volumes that were to be made from native snapshots.
    pub(crate) fn tell(
        &self,
        restore: &Restore,
        done: impl Fn(&ObjectKey) -> Option<ItemResult>,
        from_native: impl Fn(&str) -> FromNative,
    ) -> VolumeReport {
        let mut claims: Vec<&RestoredClaim> = self.claims.iter().collect();
        claims.sort_by(|a, b| a.key.cmp(&b.key));
        let claimed: BTreeSet<&str> = claims.iter().map(|claim| claim.volume.as_str()).collect();
        let (mut empty, mut unmade) = (Lost::default(), Lost::default());
        let of_claim = |claim: &RestoredClaim| {
            let outcome = VolumeOutcome { action: done(&claim.key), native: from_native(&claim.volume) };
            self.record_of_claim(claim, restore, outcome, &mut empty)
        };
        let mut records: Vec<RestoreVolumeInfo> = claims.into_iter().map(of_claim).collect();
        let alone = self.volumes.iter().filter(|(name, volume)| volume.included && !claimed.contains(name.as_str()));
        records.extend(alone.map(|(name, volume)| self.record_of_volume(name, volume, from_native(name), &mut unmade)));
        VolumeReport { records, warning: warning(&empty, &unmade) }
    }

    /// The record of a claim; one that comes back empty is added to these.
    fn record_of_claim(
        &self,
        claim: &RestoredClaim,
        restore: &Restore,
        outcome: VolumeOutcome,
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
            (Data::Elsewhere(told), _) => told.to_owned(),
            (Data::AsIs, Some(ItemResult::Failed)) => "the claim was not restored: its error says why".to_owned(),
            (Data::AsIs, _) => self.retained(&claim.volume),
            (Data::WithVolume(native), Some(ItemResult::Created | ItemResult::Recreated)) => {
                with_native(&mut record, native, outcome.native)
            }
            (_, Some(ItemResult::Updated | ItemResult::Skipped | ItemResult::Differs)) => {
                "the claim was not made by this restore: what is there keeps what it holds".to_owned()
            }
            (Data::Lost(loss), Some(ItemResult::Failed)) if loss.holds_back() => {
                format!("{}: the claim was not restored", self.why(loss, &claim.volume))
            }
            (_, Some(ItemResult::Failed | ItemResult::Removed) | None) => "the claim was not restored".to_owned(),
            // Only a preview takes it for made.
            (Data::Lost(loss), Some(ItemResult::Created | ItemResult::Recreated))
                if loss.holds_back() && !allows_empty(restore) =>
            {
                format!("{}: the claim is held back", self.why(loss, &claim.volume))
            }
            (Data::Lost(loss), Some(ItemResult::Created | ItemResult::Recreated)) => {
                if loss != Loss::NotWanted {
                    empty.add(format!("{namespace}/{}", key.name), loss);
                }
                let why = self.why(loss, &claim.volume);
                format!("{why}: the claim is provisioned anew and comes back empty")
            }
            (Data::FromSnapshot(name, info), Some(ItemResult::Created | ItemResult::Recreated)) => {
                CSI_SNAPSHOT.clone_into(&mut record.restore_method);
                record.pv_name.clear();
                record.csi_snapshot_info = Some(CsiSnapshotInfo {
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
        record.message = match (volume.verdict, &volume.native) {
            (RestoreMethod::FromNative, Some(snapshot)) => with_native(&mut record, snapshot, native),
            (RestoreMethod::AsIs, _) => match native {
                FromNative::Failed => "the volume was not made: its error says why".to_owned(),
                FromNative::Made(_) | FromNative::WasThere => self.retained(name),
            },
            (RestoreMethod::FromNative, _) => KEPT.to_owned(),
            (RestoreMethod::FromSnapshot, _) => lost(Loss::WithClaim),
            (RestoreMethod::Provision(loss), _) => lost(loss),
        };
        record
    }
}

/// The outcome of a restore for a claim and with the native snapshot of its volume.
struct VolumeOutcome {
    action: Option<ItemResult>,
    native: FromNative,
}

/// Records the outcome for a volume that was to be made from this snapshot, with a message.
fn with_native(record: &mut RestoreVolumeInfo, native: &NativeSnapshotInfo, done: FromNative) -> String {
    match done {
        FromNative::Made(name) => {
            record.pv_name = name;
            NATIVE_SNAPSHOT.clone_into(&mut record.restore_method);
            record.native_snapshot_info = Some(native.clone());
            "the volume is made anew from the native snapshot of its data".to_owned()
        }
        FromNative::WasThere => "a volume of its name was there, and keeps what it holds".to_owned(),
        FromNative::Failed => "the volume was not made from the native snapshot of its data".to_owned(),
    }
}

const KEPT: &str = "the volume is made again on its storage, where its data is";

impl Loss {
    /// Says whether a claim is held back rather than made empty: the backup was to have its data.
    fn holds_back(self) -> bool {
        matches!(self, Self::NotTaken | Self::Unreadable(_))
    }

    /// Describes the reason why the data of a volume is lost.
    fn why(self) -> String {
        match self {
            Self::NotSaved => {
                "its data was not saved, and its storage was deleted with it (reclaim policy Delete)".to_owned()
            }
            Self::NotTaken => "its snapshot was not taken when the backup was made".to_owned(),
            Self::WithClaim => "its data comes with its claim, which is not part of this restore".to_owned(),
            Self::NotWanted => "the restore leaves volumes out (restorePVs is false)".to_owned(),
            Self::Unreadable(how) => format!("its data is in a {how}, which this version cannot read"),
        }
    }

    /// The same of many, without a subject.
    fn reason(self) -> &'static str {
        match self {
            Self::NotSaved | Self::NotTaken => "was not saved",
            Self::WithClaim => "comes with claims that are not part of this restore",
            Self::NotWanted => "was not asked for",
            Self::Unreadable(_) => "is in a form that this version cannot read",
        }
    }
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
