//! Reports about volumes and claims.

use super::*;
use lifeboat_volume::UnsupportedMethod;
use serde_json::json;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new("", "persistentvolumeclaims"), Some("old"), name)
}

const NOT_SAVED: RestoreMethod = RestoreMethod::Empty(Loss::NotSaved);
const NO_FILES: FilesReport<'_> = FilesReport::Outcomes(&[]);
const FILES: RestoreMethod = RestoreMethod::Empty(Loss::Unsupported(UnsupportedMethod::FsBackup));

/// No volume was to be made from a native snapshot.
fn nothing(_: &str) -> FromNative {
    FromNative::Failed
}

#[test]
fn a_volume_from_a_native_snapshot_is_recorded_by_what_was_done_with_it() {
    let mut snapshot = NativeSnapshot::default();
    snapshot.spec.volume_iops = Some(5);
    snapshot.status.provider_snapshot_id = "snap-1".to_owned();
    let mut volumes = VolumeTreatments::default();
    volumes.volume("pv", RestoreMethod::NativeSnapshot, Some(&snapshot), true);
    volumes.volume("alone", RestoreMethod::NativeSnapshot, Some(&snapshot), true);
    volumes.volume("filtered", RestoreMethod::NativeSnapshot, Some(&snapshot), false);
    for (claim, volume) in [("a", "pv"), ("b", "filtered")] {
        volumes.claim(&key(claim), &json!({"spec": {"volumeName": volume}}), &RecordedVolumes::default());
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
            ItemResult::Created,
            FromNative::Made("clone".into()),
            [made(record("a", "clone", anew)), made(record("", "clone", anew))],
        ),
        (ItemResult::Created, FromNative::WasThere, [record("a", "pv", kept), record("", "alone", kept)]),
        (
            ItemResult::Failed,
            FromNative::Failed,
            [record("a", "pv", "the claim was not restored"), record("", "alone", failed)],
        ),
    ] {
        let told = volumes.tell(&mapped(), |_| Some(claim), |_| done.clone(), NO_FILES);
        let [of_claim, alone] = expected;
        assert_eq!(told, VolumeReport { records: vec![of_claim, filtered.clone(), alone], warning: None }, "{done:?}");
    }
}

fn allowing_empty() -> Restore {
    let mut restore = Restore::default();
    restore.metadata.annotations.insert("lifeboat.io/allow-empty-volumes".to_owned(), "true".to_owned());
    restore
}

fn mapped() -> Restore {
    let mut restore = Restore::default();
    restore.metadata.uid = "u".to_owned();
    restore.spec.namespace_mapping.insert("old".to_owned(), "new".to_owned());
    restore
}

#[test]
fn a_created_claim_gets_its_data_from_its_snapshot_if_volumes_are_wanted() {
    let info = CsiSnapshotInfo {
        snapshot_handle: "snap-1".into(),
        size: 5,
        driver: "d".into(),
        vsc_name: "of the backup".into(),
        operation_id: "of the backup".into(),
        ready_to_use: Some(true),
        ..CsiSnapshotInfo::default()
    };
    let recorded = RecordedVolumes { snapshots: BTreeMap::from([(key("c"), info)]), ..RecordedVolumes::default() };
    let claim = json!({"metadata": {"annotations": {"velero.io/volume-snapshot-name": "velero-c-1"}}, "spec": {"volumeName": "pv"}});
    let mut volumes = VolumeTreatments::default();
    volumes.volume("pv", RestoreMethod::CsiSnapshot, None, false);
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
    let told = |restore: &Restore, action| volumes.tell(restore, |_| action, nothing, NO_FILES);
    let whole = |record: RestoreVolumeInfo| VolumeReport { records: vec![record], warning: None };
    assert_eq!(told(&mapped(), Some(ItemResult::Created)), whole(made));
    let kept = "the claim was not made by this restore: what is there keeps what it holds";
    assert_eq!(told(&mapped(), Some(ItemResult::Skipped)), whole(record("pv", kept)));
    assert_eq!(told(&mapped(), None), whole(record("pv", "the claim was not restored")));
    let mut unwanted = mapped();
    unwanted.spec.restore_pvs = Some(false);
    let empty =
        "the restore leaves volumes out (restorePVs is false): the claim is provisioned anew and comes back empty";
    assert_eq!(told(&unwanted, Some(ItemResult::Created)), whole(record("pv", empty)));
}

#[test]
fn every_claim_and_volume_is_recorded_with_what_became_of_it() {
    let mut volumes = VolumeTreatments::default();
    for (name, verdict, included) in [
        ("kept", RestoreMethod::AsIs, true),
        ("filtered", RestoreMethod::AsIs, false),
        ("alone", RestoreMethod::AsIs, true),
        ("gone", NOT_SAVED, true),
        ("gone-filtered", NOT_SAVED, false),
        ("files", FILES, true),
        ("files-alone", FILES, true),
        ("csi", RestoreMethod::CsiSnapshot, true),
        ("csi-alone", RestoreMethod::CsiSnapshot, true),
        ("unwanted", NOT_SAVED, false),
    ] {
        volumes.volume(name, verdict, None, included);
    }
    let mut expected = Vec::new();
    for (claim, volume, action, message) in [
        ("a", "", Some(ItemResult::Created), "the claim was not bound: it had no data"),
        ("b", "kept", Some(ItemResult::Created), "the volume is made again on its storage, where its data is"),
        (
            "c",
            "elsewhere",
            Some(ItemResult::Created),
            "its volume is not in the backup: the claim asks for the one of that name",
        ),
        ("d", "filtered", Some(ItemResult::Created), "its volume is not part of this restore"),
        (
            "e",
            "gone",
            Some(ItemResult::Created),
            "its data was not saved, and its storage was deleted with it (reclaim policy Delete): the claim is provisioned anew and comes back empty",
        ),
        (
            "f",
            "gone-filtered",
            Some(ItemResult::Created),
            "its data was not saved, and its storage was deleted with it (reclaim policy Delete): the claim is provisioned anew and comes back empty",
        ),
        (
            "g",
            "files",
            Some(ItemResult::Created),
            "its data is in a pod volume backup, and no node agent is there that brings its files back: the claim is held back",
        ),
        (
            "g-failed",
            "files",
            Some(ItemResult::Failed),
            "its data is in a pod volume backup, and no node agent is there that brings its files back: the claim was not restored",
        ),
        (
            "h",
            "gone",
            Some(ItemResult::Skipped),
            "the claim was not made by this restore: what is there keeps what it holds",
        ),
        (
            "i",
            "gone",
            Some(ItemResult::Updated),
            "the claim was not made by this restore: what is there keeps what it holds",
        ),
        ("j", "gone", Some(ItemResult::Failed), "the claim was not restored"),
        ("k", "gone", None, "the claim was not restored"),
        (
            "l",
            "csi",
            Some(ItemResult::Created),
            "its data was not saved when the backup was made: the claim is held back",
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
            "its data is in a pod volume backup, and no node agent is there that brings its files back: the volume is not made again",
        ),
    ] {
        if !claim.is_empty() {
            volumes.claim(&key(claim), &json!({"spec": {"volumeName": volume}}), &RecordedVolumes::default());
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
    let told = volumes.tell(&mapped(), done, |name| FromNative::Made(name.to_owned()), NO_FILES);
    assert_eq!(told.records, expected.iter().map(|(record, _)| record.clone()).collect::<Vec<_>>());
    let warning = "2 claims come back empty, because their data was not saved: new/e, new/f; 2 volumes are not made again, because their data comes with claims that \
                   are not part of this restore, or is in a repository, and no node agent is there: csi-alone, files-alone; describe --details and the volume information file list all";
    assert_eq!(told.warning.as_deref(), Some(warning));
}

#[test]
fn one_warning_counts_the_claims_that_come_back_empty() {
    let told = |claims: usize, verdict: RestoreMethod, action: ItemResult| {
        let mut volumes = VolumeTreatments::default();
        for n in 0..claims {
            volumes.volume(&format!("pv-{n}"), verdict, None, true);
            volumes.claim(
                &key(&format!("c-{n}")),
                &json!({"spec": {"volumeName": format!("pv-{n}")}}),
                &RecordedVolumes::default(),
            );
        }
        volumes.tell(&allowing_empty(), |_| Some(action), nothing, NO_FILES).warning
    };
    let all = "; describe --details and the volume information file list all";
    for (claims, verdict, action, expected) in [
        (0, NOT_SAVED, ItemResult::Created, None),
        (2, RestoreMethod::AsIs, ItemResult::Created, None),
        (2, NOT_SAVED, ItemResult::Skipped, None),
        (1, NOT_SAVED, ItemResult::Created, Some("1 claim comes back empty, because its data was not saved: old/c-0")),
        (
            2,
            NOT_SAVED,
            ItemResult::Created,
            Some("2 claims come back empty, because their data was not saved: old/c-0, old/c-1"),
        ),
        (
            300,
            FILES,
            ItemResult::Created,
            Some(
                "300 claims come back empty, because their data is in a repository, and no node agent is there: old/c-0, old/c-1, old/c-10, old/c-100, old/c-101, old/c-102, old/c-103, old/c-104, old/c-105, old/c-106 and 290 more",
            ),
        ),
    ] {
        assert_eq!(told(claims, verdict, action), expected.map(|text| format!("{text}{all}")), "{claims} {verdict:?}");
    }
}

/// A claim whose snapshot failed, with the annotation of one that was taken and then lost, and of which nothing was.
#[test]
fn without_snapshot_a_kept_volume_returns_and_others_are_held_back() {
    let mut volumes = VolumeTreatments::default();
    let failed_claims = BTreeSet::from([key("kept"), key("gone"), key("unread")]);
    volumes.records(&RecordedVolumes { failed_claims, ..RecordedVolumes::default() }, Movers::default());
    for (name, verdict) in
        [("kept", RestoreMethod::AsIs), ("gone", RestoreMethod::Empty(Loss::NotTaken)), ("unread", FILES)]
    {
        volumes.volume(name, verdict, None, true);
        volumes.failed(name, "no space");
    }
    let claim = |volume: &str| {
        let annotations = json!({"velero.io/volume-snapshot-name": "velero-1"});
        json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": volume}})
    };
    let loss = |name: &str, restore: &Restore| volumes.loss(&key(name), &claim(name), restore).map(|(why, _)| why);
    let reason = "its data was not saved when the backup was made: no space";
    let unread = "its data is in a pod volume backup, and no node agent is there that brings its files back";
    assert_eq!(
        ["kept", "gone", "unread"].map(|name| loss(name, &mapped())),
        [None, Some(reason.into()), Some(unread.into())]
    );
    let unwanted = Restore {
        spec: lifeboat_api::RestoreSpec { restore_pvs: Some(false), ..Default::default() },
        ..Restore::default()
    };
    assert_eq!(["kept", "gone", "unread"].map(|name| loss(name, &unwanted)), [None, None, None]);
    let mut volumes = volumes.clone();
    for name in ["kept", "gone"] {
        volumes.claim(&key(name), &claim(name), &RecordedVolumes::default());
    }
    let done = |key: &ObjectKey| Some(if key.name == "kept" { ItemResult::Created } else { ItemResult::Failed });
    let told = volumes.tell(&mapped(), done, nothing, NO_FILES);
    let messages: Vec<&str> = told.records.iter().map(|record| record.message.as_str()).collect();
    let of_gone = format!("{reason}: the claim was not restored");
    let of_kept = format!("{reason}; the volume is made again on its storage, where its data is");
    let alone = format!("{unread}: the volume is not made again");
    assert_eq!(messages, [of_gone.as_str(), of_kept.as_str(), alone.as_str()]);
    let empty = volumes.tell(&allowing_empty(), |_| Some(ItemResult::Created), nothing, NO_FILES);
    assert!(empty.warning.unwrap().starts_with("1 claim comes back empty, because its data was not saved: old/gone;"));
}
