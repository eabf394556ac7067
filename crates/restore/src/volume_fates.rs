//! What is told of the volumes and claims of a restore. Pure.

use crate::action::Action;
use crate::volumes::{Loss, Recorded, Verdict};
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
pub(crate) struct VolumeFates {
    /// The volumes of the archive, by name.
    volumes: BTreeMap<String, Volume>,
    /// Claims to restore.
    claims: Vec<Claim>,
}

#[derive(Clone, Debug)]
struct Volume {
    verdict: Verdict,
    /// The native snapshot of its data.
    native: Option<NativeSnapshotInfo>,
    /// Whether it is part of the restore.
    included: bool,
}

/// A claim to restore.
#[derive(Clone, Debug)]
struct Claim {
    key: ObjectKey,
    /// The name of its volume; empty for none.
    volume: String,
    /// The name of the VolumeSnapshot with its data, and what is recorded of that.
    snapshot: Option<(String, CsiSnapshotInfo)>,
}

/// What is told of the volumes of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// One record for each claim, then one for each volume without a claim in the restore.
    pub(crate) records: Vec<RestoreVolumeInfo>,
    /// One warning for all data that does not come back.
    pub(crate) warning: Option<String>,
}

/// What was done with a volume that was to be made from its native snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FromNative {
    /// It was made, with this name.
    Made(String),
    /// One of its name was there.
    WasThere,
    /// It was not made.
    Failed,
}

/// What becomes of the data of a claim that is made.
enum Data<'a> {
    /// It comes with its volume, from this native snapshot.
    WithVolume(&'a NativeSnapshotInfo),
    /// It comes from the VolumeSnapshot of this name.
    FromSnapshot(&'a str, &'a CsiSnapshotInfo),
    /// It does not come.
    Lost(Loss),
    /// This holds, whatever is done with the claim.
    Elsewhere(&'static str),
}

impl VolumeFates {
    /// Adds a volume of the archive. A claim is provisioned anew also when its volume is not part of the restore.
    pub(crate) fn volume(
        &mut self,
        name: &str,
        (verdict, snapshot): (Verdict, Option<&NativeSnapshot>),
        included: bool,
    ) {
        let native = snapshot.map(|NativeSnapshot { spec, status }| NativeSnapshotInfo::of(spec, status));
        self.volumes.insert(name.to_owned(), Volume { verdict, native, included });
    }

    /// Adds a claim to restore.
    pub(crate) fn claim(&mut self, key: &ObjectKey, claim: &Value, recorded: &Recorded) {
        let volume = claim.pointer("/spec/volumeName").and_then(Value::as_str).unwrap_or_default().to_owned();
        let info = || recorded.snapshots.get(key).cloned().unwrap_or_default();
        let snapshot = snapshot_of_claim(claim).map(|name| (name.to_owned(), info()));
        self.claims.push(Claim { key: key.clone(), volume, snapshot });
    }

    fn data<'a>(&'a self, claim: &'a Claim, restore: &Restore) -> Data<'a> {
        let is_wanted = restore.spec.restore_pvs != Some(false);
        match (&claim.snapshot, self.volumes.get(&claim.volume)) {
            (Some((name, info)), _) if is_wanted => Data::FromSnapshot(name, info),
            (Some(_), _) => Data::Lost(Loss::NotWanted),
            (None, None) if claim.volume.is_empty() => Data::Elsewhere("the claim was not bound: it had no data"),
            (None, None) => Data::Elsewhere("its volume is not in the backup: the claim asks for the one of that name"),
            (None, Some(Volume { verdict: Verdict::AsIs, included: true, .. })) => Data::Elsewhere(KEPT),
            (None, Some(Volume { verdict: Verdict::FromNative, native: Some(native), included: true })) => {
                Data::WithVolume(native)
            }
            (None, Some(Volume { verdict: Verdict::AsIs | Verdict::FromNative, .. })) => {
                Data::Elsewhere("its volume is not part of this restore")
            }
            (None, Some(Volume { verdict: Verdict::FromSnapshot, .. })) => Data::Lost(Loss::NotTaken),
            (None, Some(Volume { verdict: Verdict::Provision(loss), .. })) => Data::Lost(*loss),
        }
    }

    /// Says what became of every claim and volume. `done` knows what was done with a claim of the backup: one that was
    /// there before keeps what it holds. `from_native` knows it of the volumes that were to be made from native snapshots.
    pub(crate) fn tell(
        &self,
        restore: &Restore,
        done: impl Fn(&ObjectKey) -> Option<Action>,
        from_native: impl Fn(&str) -> FromNative,
    ) -> Told {
        let mut claims: Vec<&Claim> = self.claims.iter().collect();
        claims.sort_by(|a, b| a.key.cmp(&b.key));
        let (mut records, mut empty) = (Vec::with_capacity(claims.len()), Lost::default());
        let mut claimed = BTreeSet::new();
        for claim in claims {
            let key = &claim.key;
            claimed.insert(claim.volume.as_str());
            let source = key.namespace.clone().unwrap_or_default();
            let namespace = restore.spec.namespace_mapping.get(&source).cloned().unwrap_or_else(|| source.clone());
            let mut record = RestoreVolumeInfo {
                pvc_name: key.name.clone(),
                pvc_namespace: namespace.clone(),
                pv_name: claim.volume.clone(),
                ..RestoreVolumeInfo::default()
            };
            record.message = match (self.data(claim, restore), done(key)) {
                (Data::Elsewhere(told), _) => told.to_owned(),
                (Data::WithVolume(native), Some(Action::Created | Action::Recreated)) => {
                    with_native(&mut record, native, from_native(&claim.volume))
                }
                (_, Some(Action::Updated | Action::Skipped | Action::Differs)) => {
                    "the claim was not made by this restore: what is there keeps what it holds".to_owned()
                }
                (_, Some(Action::Failed | Action::Removed) | None) => "the claim was not restored".to_owned(),
                (Data::Lost(loss), Some(Action::Created | Action::Recreated)) => {
                    if loss != Loss::NotWanted {
                        empty.add(format!("{namespace}/{}", key.name), loss);
                    }
                    format!("{}: the claim is provisioned anew and comes back empty", loss.why())
                }
                (Data::FromSnapshot(name, info), Some(Action::Created | Action::Recreated)) => {
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
            records.push(record);
        }
        let mut unmade = Lost::default();
        let alone = self.volumes.iter().filter(|(name, volume)| volume.included && !claimed.contains(name.as_str()));
        for (name, volume) in alone {
            let mut record = RestoreVolumeInfo { pv_name: name.clone(), ..RestoreVolumeInfo::default() };
            let mut lost = |loss: Loss| {
                unmade.add(name.clone(), loss);
                format!("{}: the volume is not made again", loss.why())
            };
            record.message = match (volume.verdict, &volume.native) {
                (Verdict::FromNative, Some(native)) => with_native(&mut record, native, from_native(name)),
                (Verdict::AsIs | Verdict::FromNative, _) => KEPT.to_owned(),
                (Verdict::FromSnapshot, _) => lost(Loss::WithClaim),
                (Verdict::Provision(loss), _) => lost(loss),
            };
            records.push(record);
        }
        Told { records, warning: warning(&empty, &unmade) }
    }
}

/// Records what was done with a volume that was to be made from this snapshot, and says it.
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
    /// What happened to the data of one volume.
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
mod tests {
    use super::*;
    use serde_json::json;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(lifeboat_object::GroupResource::new("", "persistentvolumeclaims"), Some("old"), name)
    }

    const NOT_SAVED: Verdict = Verdict::Provision(Loss::NotSaved);
    const FILES: Verdict = Verdict::Provision(Loss::Unreadable("pod volume backup"));

    /// No volume was to be made from a native snapshot.
    fn nothing(_: &str) -> FromNative {
        FromNative::Failed
    }

    #[test]
    fn a_volume_from_a_native_snapshot_is_recorded_by_what_was_done_with_it() {
        let mut snapshot = NativeSnapshot::default();
        snapshot.spec.volume_iops = Some(5);
        snapshot.status.provider_snapshot_id = "snap-1".to_owned();
        let mut volumes = VolumeFates::default();
        volumes.volume("pv", (Verdict::FromNative, Some(&snapshot)), true);
        volumes.volume("alone", (Verdict::FromNative, Some(&snapshot)), true);
        volumes.volume("filtered", (Verdict::FromNative, Some(&snapshot)), false);
        for (claim, volume) in [("a", "pv"), ("b", "filtered")] {
            volumes.claim(&key(claim), &json!({"spec": {"volumeName": volume}}), &Recorded::default());
        }
        let info = NativeSnapshotInfo { snapshot_handle: "snap-1".into(), iops: "5".into(), ..Default::default() };
        let record = |claim: &str, volume: &str, message: &str| RestoreVolumeInfo {
            pvc_name: claim.into(),
            pvc_namespace: if claim.is_empty() { "" } else { "new" }.into(),
            pv_name: volume.into(),
            message: message.into(),
            ..RestoreVolumeInfo::default()
        };
        let made = |record: RestoreVolumeInfo| RestoreVolumeInfo {
            restore_method: "NativeSnapshot".into(),
            native_snapshot_info: Some(info.clone()),
            ..record
        };
        let anew = "the volume is made anew from the native snapshot of its data";
        let kept = "a volume of its name was there, and keeps what it holds";
        let failed = "the volume was not made from the native snapshot of its data";
        let filtered = record("b", "filtered", "its volume is not part of this restore");
        for (claim, done, expected) in [
            (
                Action::Created,
                FromNative::Made("clone".into()),
                [made(record("a", "clone", anew)), made(record("", "clone", anew))],
            ),
            (Action::Created, FromNative::WasThere, [record("a", "pv", kept), record("", "alone", kept)]),
            (
                Action::Failed,
                FromNative::Failed,
                [record("a", "pv", "the claim was not restored"), record("", "alone", failed)],
            ),
        ] {
            let told = volumes.tell(&mapped(), |_| Some(claim), |_| done.clone());
            let [of_claim, alone] = expected;
            assert_eq!(told, Told { records: vec![of_claim, filtered.clone(), alone], warning: None }, "{done:?}");
        }
    }

    fn mapped() -> Restore {
        let mut restore = Restore::default();
        restore.metadata.uid = "u".to_owned();
        restore.spec.namespace_mapping.insert("old".to_owned(), "new".to_owned());
        restore
    }

    #[test]
    fn a_claim_with_a_snapshot_gets_its_data_from_it_if_it_is_made_and_volumes_are_wanted() {
        let info = CsiSnapshotInfo {
            snapshot_handle: "snap-1".into(),
            size: 5,
            driver: "d".into(),
            vsc_name: "of the backup".into(),
            operation_id: "of the backup".into(),
            ready_to_use: Some(true),
            ..CsiSnapshotInfo::default()
        };
        let recorded = Recorded { snapshots: BTreeMap::from([(key("c"), info)]), ..Recorded::default() };
        let claim = json!({"metadata": {"annotations": {"velero.io/volume-snapshot-name": "velero-c-1"}}, "spec": {"volumeName": "pv"}});
        let mut volumes = VolumeFates::default();
        volumes.volume("pv", (Verdict::FromSnapshot, None), false);
        volumes.claim(&key("c"), &claim, &recorded);
        let record = |pv: &str, message: &str| RestoreVolumeInfo {
            pvc_name: "c".into(),
            pvc_namespace: "new".into(),
            pv_name: pv.into(),
            message: message.into(),
            ..RestoreVolumeInfo::default()
        };
        let made = RestoreVolumeInfo {
            restore_method: "CSISnapshot".into(),
            csi_snapshot_info: Some(CsiSnapshotInfo {
                snapshot_handle: "snap-1".into(),
                size: 5,
                driver: "d".into(),
                vsc_name: restored_name("u", "old", "velero-c-1"),
                ..CsiSnapshotInfo::default()
            }),
            ..record("", "the claim gets a new volume from the CSI snapshot of its data")
        };
        let told = |restore: &Restore, action| volumes.tell(restore, |_| action, nothing);
        let whole = |record: RestoreVolumeInfo| Told { records: vec![record], warning: None };
        assert_eq!(told(&mapped(), Some(Action::Created)), whole(made));
        let kept = "the claim was not made by this restore: what is there keeps what it holds";
        assert_eq!(told(&mapped(), Some(Action::Skipped)), whole(record("pv", kept)));
        assert_eq!(told(&mapped(), None), whole(record("pv", "the claim was not restored")));
        let mut unwanted = mapped();
        unwanted.spec.restore_pvs = Some(false);
        let empty =
            "the restore leaves volumes out (restorePVs is false): the claim is provisioned anew and comes back empty";
        assert_eq!(told(&unwanted, Some(Action::Created)), whole(record("pv", empty)));
    }

    #[test]
    fn every_claim_and_volume_is_recorded_with_what_became_of_it() {
        let mut volumes = VolumeFates::default();
        for (name, verdict, included) in [
            ("kept", Verdict::AsIs, true),
            ("filtered", Verdict::AsIs, false),
            ("alone", Verdict::AsIs, true),
            ("gone", NOT_SAVED, true),
            ("gone-filtered", NOT_SAVED, false),
            ("files", FILES, true),
            ("files-alone", FILES, true),
            ("csi", Verdict::FromSnapshot, true),
            ("csi-alone", Verdict::FromSnapshot, true),
            ("unwanted", NOT_SAVED, false),
        ] {
            volumes.volume(name, (verdict, None), included);
        }
        let mut expected = Vec::new();
        for (claim, volume, action, message) in [
            ("a", "", Some(Action::Created), "the claim was not bound: it had no data"),
            ("b", "kept", Some(Action::Created), "the volume is made again on its storage, where its data is"),
            (
                "c",
                "elsewhere",
                Some(Action::Created),
                "its volume is not in the backup: the claim asks for the one of that name",
            ),
            ("d", "filtered", Some(Action::Created), "its volume is not part of this restore"),
            (
                "e",
                "gone",
                Some(Action::Created),
                "its data was not saved, and its storage was deleted with it (reclaim policy Delete): the claim is provisioned anew and comes back empty",
            ),
            (
                "f",
                "gone-filtered",
                Some(Action::Created),
                "its data was not saved, and its storage was deleted with it (reclaim policy Delete): the claim is provisioned anew and comes back empty",
            ),
            (
                "g",
                "files",
                Some(Action::Created),
                "its data is in a pod volume backup, which this version cannot read: the claim is provisioned anew and comes back empty",
            ),
            (
                "h",
                "gone",
                Some(Action::Skipped),
                "the claim was not made by this restore: what is there keeps what it holds",
            ),
            (
                "i",
                "gone",
                Some(Action::Updated),
                "the claim was not made by this restore: what is there keeps what it holds",
            ),
            ("j", "gone", Some(Action::Failed), "the claim was not restored"),
            ("k", "gone", None, "the claim was not restored"),
            (
                "l",
                "csi",
                Some(Action::Created),
                "its snapshot was not taken when the backup was made: the claim is provisioned anew and comes back empty",
            ),
            ("", "alone", None, "the volume is made again on its storage, where its data is"),
            (
                "",
                "csi-alone",
                None,
                "its data comes with its claim, which is not part of this restore: the volume is not made again",
            ),
            (
                "",
                "files-alone",
                None,
                "its data is in a pod volume backup, which this version cannot read: the volume is not made again",
            ),
        ] {
            if !claim.is_empty() {
                volumes.claim(&key(claim), &json!({"spec": {"volumeName": volume}}), &Recorded::default());
            }
            let record = RestoreVolumeInfo {
                pvc_name: claim.into(),
                pvc_namespace: if claim.is_empty() { "" } else { "new" }.into(),
                pv_name: volume.into(),
                message: message.into(),
                ..RestoreVolumeInfo::default()
            };
            expected.push((record, action));
        }
        let done = |key: &ObjectKey| expected.iter().find(|(record, _)| record.pvc_name == key.name)?.1;
        let told = volumes.tell(&mapped(), done, nothing);
        assert_eq!(told.records, expected.iter().map(|(record, _)| record.clone()).collect::<Vec<_>>());
        let warning = "4 claims come back empty, because their data was not saved, or is in a form that this version cannot \
                       read: new/e, new/f, new/g, new/l; 2 volumes are not made again, because their data comes with claims that \
                       are not part of this restore, or is in a form that this version cannot read: csi-alone, files-alone; describe --details and the volume information file list all";
        assert_eq!(told.warning.as_deref(), Some(warning));
    }

    #[test]
    fn one_warning_counts_the_claims_that_come_back_empty() {
        let told = |claims: usize, verdict: Verdict, action: Action| {
            let mut volumes = VolumeFates::default();
            for n in 0..claims {
                volumes.volume(&format!("pv-{n}"), (verdict, None), true);
                volumes.claim(
                    &key(&format!("c-{n}")),
                    &json!({"spec": {"volumeName": format!("pv-{n}")}}),
                    &Recorded::default(),
                );
            }
            volumes.tell(&Restore::default(), |_| Some(action), nothing).warning
        };
        let all = "; describe --details and the volume information file list all";
        for (claims, verdict, action, expected) in [
            (0, NOT_SAVED, Action::Created, None),
            (2, Verdict::AsIs, Action::Created, None),
            (2, NOT_SAVED, Action::Skipped, None),
            (1, NOT_SAVED, Action::Created, Some("1 claim comes back empty, because its data was not saved: old/c-0")),
            (
                2,
                NOT_SAVED,
                Action::Created,
                Some("2 claims come back empty, because their data was not saved: old/c-0, old/c-1"),
            ),
            (
                300,
                FILES,
                Action::Created,
                Some(
                    "300 claims come back empty, because their data is in a form that this version cannot read: old/c-0, old/c-1, old/c-10, old/c-100, old/c-101, old/c-102, old/c-103, old/c-104, old/c-105, old/c-106 and 290 more",
                ),
            ),
        ] {
            assert_eq!(
                told(claims, verdict, action),
                expected.map(|text| format!("{text}{all}")),
                "{claims} {verdict:?}"
            );
        }
    }
}
