use super::*;
use crate::stub::{OneBucket, api_server, context, sandbox};
use crate::world::MirrorChange;
use lifeboat_api::Time;
use lifeboat_api::{BackupStorageLocationAccessMode, BackupStorageLocationPhase};
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::sidecar::{BackupClaim, CLAIM_FORMAT};
use lifeboat_bucket::{BlobStore, Memory, PutOptions};
use lifeboat_reconcile::MirrorEvent;
use lifeboat_store::ClaimRequest;
use std::sync::Arc;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// The deletion of this backup, beside which there is nothing.
fn target_of(backup: Backup, location: Result<BackupStorageLocation, NoLocation>) -> DeletionTarget {
    let (restores, reading, others, failed) = (vec![], vec![], vec![], vec![]);
    DeletionTarget { backup: Some((backup, location)), restores, reading, others, failed, now: NOW }
}

/// A location whose bucket is there.
fn available() -> BackupStorageLocation {
    let mut location = BackupStorageLocation::default();
    location.spec.provider = "aws".into();
    location.status.phase = Some(BackupStorageLocationPhase::Available);
    location
}

/// A backup of this UID that began at this second.
fn begun(uid: &str, second: i64) -> Backup {
    let mut backup = Backup::default();
    backup.metadata.name = "b".into();
    backup.metadata.uid = uid.into();
    backup.status.start_timestamp = Some(Time::new(Timestamp::from_second(second).unwrap()));
    backup
}

#[tokio::test]
async fn files_of_another_backup_stay() {
    let mut not_begun = begun("u", 0);
    not_begun.status.start_timestamp = None;
    let (b, other) = (begun("u", 5), begun("v", 7));
    let mut renamed = begun("u", 5);
    renamed.metadata.name = "c".into();
    let (mut refused, mut at_the_same_second) = (begun("u", 7), begun("u", 7));
    refused.status.failure_reason = NAME_TAKEN.into();
    at_the_same_second.status.completion_timestamp = at_the_same_second.status.start_timestamp;
    let claim = |uid: &str| {
        let (cluster_uid, namespace) = ("c".to_owned(), "velero".to_owned());
        let (format, claimed) = (CLAIM_FORMAT.to_owned(), Timestamp::UNIX_EPOCH);
        let backup_uid = uid.into();
        serde_json::to_vec(&BackupClaim {
            format,
            cluster_uid,
            backup_uid,
            namespace,
            attempt: 1,
            claimed,
            refreshed: None,
        })
    };
    let record = |backup: &Backup| Some(serde_json::to_vec(backup).unwrap());
    for (what, backup, record, claimed, expected) in [
        ("nothing is there", &b, None, None, Some("u")),
        ("it never began", &not_begun, None, None, None),
        ("it never began, and another did", &not_begun, record(&other), Some("v"), None),
        ("its record", &b, record(&b), Some("u"), Some("u")),
        ("its record, from before it was taken over", &b, record(&begun("original", 5)), None, Some("original")),
        ("the record of another", &b, record(&other), None, None),
        ("the record of another name", &b, record(&renamed), None, None),
        ("the name was taken", &refused, record(&other), None, None),
        ("another began at the same second", &at_the_same_second, record(&other), None, None),
        ("its claim", &b, None, Some("u"), Some("u")),
        ("the claim of another", &b, None, Some("v"), None),
    ] {
        let bucket: Arc<dyn BlobStore> = Arc::new(Memory::default());
        let all = [(BackupFile::Metadata, record), (BackupFile::Claim, claimed.map(|uid| claim(uid).unwrap()))];
        for (file, bytes) in all {
            let Some(bytes) = bytes else { continue };
            bucket.put(&file.key("b"), bytes.into(), PutOptions::default()).await.unwrap();
        }
        let expected = expected.map_or(FilesOwner::Another, |uid: &str| FilesOwner::This(uid.to_owned()));
        assert_eq!(owner_of_files(&Store::new(bucket), backup, NOW).await.unwrap(), expected, "{what}");
    }
}

#[test]
fn a_backup_that_a_restore_reads_stays_and_a_deletion_waits_when_asked() {
    use lifeboat_api::RestorePhase as P;
    let mut location = BackupStorageLocation::default();
    location.metadata.name = "default".to_owned();
    location.status.phase = Some(BackupStorageLocationPhase::Available);
    for (phase, backup, reads) in [
        (None, "b", true),
        (Some(P::InProgress), "b", true),
        (Some(P::WaitingForPluginOperations), "b", true),
        (Some(P::Finalizing), "b", true),
        (Some(P::Completed), "b", false),
        (Some(P::FailedValidation), "b", false),
        (Some(P::InProgress), "another", false),
    ] {
        for waits in [false, true] {
            let mut world = World::default();
            world.put(location.clone().into());
            let mut read = begun("u", 5);
            read.spec.storage_location = "default".to_owned();
            read.status.phase = Some(BackupPhase::Completed);
            world.put(read.clone().into());
            let mut restore = Restore::default();
            restore.metadata.name = "r".to_owned();
            restore.spec.backup_name = backup.to_owned();
            restore.status.phase = phase;
            world.put(restore.into());
            let mut request = DeleteBackupRequest::default();
            request.spec.backup_name = "b".to_owned();
            if waits {
                request
                    .metadata
                    .annotations
                    .insert(well_known::ANNOTATION_WAIT_FOR_RESTORES.to_owned(), "true".to_owned());
            }
            let target = DeletionTarget::of(&request, &world, None, NOW);
            let said = (target.refusal(&request), target.waits_for(&request).map(|restore| restore.name.clone()));
            let expected = (reads.then(|| refusal_for_restore("b", "r")), (reads && waits).then(|| "r".to_owned()));
            assert_eq!(said, expected, "{phase:?} {backup} {waits}");
            // One that has begun goes to its end.
            read.status.phase = Some(BackupPhase::Deleting);
            world.put(read.into());
            assert_eq!(
                DeletionTarget::of(&request, &world, None, NOW).refusal(&request),
                None,
                "{phase:?} {backup} {waits}"
            );
        }
    }
}

/// Each time that it is tried.
#[tokio::test]
async fn a_deletion_takes_nothing_that_another_cluster_has_made_meanwhile() {
    let bucket: Arc<dyn BlobStore> = Arc::new(Memory::default());
    let store = Store::new(Arc::clone(&bucket));
    let put = async |file: BackupFile, bytes: Vec<u8>| {
        bucket.put(&file.key("b"), bytes.into(), PutOptions::default()).await.unwrap();
    };
    let claim = |cluster: &str, uid: &str| {
        let request = ClaimRequest {
            name: "b".into(),
            backup_uid: uid.into(),
            cluster_uid: cluster.into(),
            namespace: "velero".into(),
            take_over: false,
            now: Timestamp::UNIX_EPOCH,
        };
        let store = store.clone();
        async move { store.claim(&request).await.map(drop) }
    };
    // Taken over from the bucket: another UID than the record's.
    let mut backup = begun("u", 5);
    claim("here", "original").await.unwrap();
    put(BackupFile::Metadata, serde_json::to_vec(&begun("original", 5)).unwrap()).await;
    assert_eq!(owner_of_files(&store, &backup, NOW).await.unwrap(), FilesOwner::This("original".into()));
    backup.status.phase = Some(BackupPhase::Deleting);
    backup.metadata.annotations.insert(ANNOTATION_FILES.into(), "original".into());
    // Cut off after the record: the rest is still its own.
    bucket.delete(&[BackupFile::Metadata.key("b")]).await.unwrap();
    assert_eq!(owner_of_files(&store, &backup, NOW).await.unwrap(), FilesOwner::This("original".into()));
    assert!(claim("there", "v").await.is_err(), "no other backup gets the name as long as a file is left");
    store.delete_backup("b").await.unwrap();
    assert_eq!(owner_of_files(&store, &backup, NOW).await.unwrap(), FilesOwner::This("original".into()));
    // Another cluster begins, and ends.
    claim("there", "v").await.unwrap();
    assert_eq!(owner_of_files(&store, &backup, NOW).await.unwrap(), FilesOwner::Another);
    put(BackupFile::Metadata, serde_json::to_vec(&begun("v", 9)).unwrap()).await;
    assert_eq!(owner_of_files(&store, &backup, NOW).await.unwrap(), FilesOwner::Another);
    // As an earlier version noted it.
    backup.metadata.annotations.insert(ANNOTATION_FILES.into(), "own".into());
    assert_eq!(owner_of_files(&store, &backup, NOW).await.unwrap(), FilesOwner::Another);
    for file in [BackupFile::Metadata, BackupFile::Claim] {
        put(file, b"{".to_vec()).await;
        let error = owner_of_files(&store, &backup, NOW).await.unwrap_err();
        assert!(matches!(error, StoreError::Sidecar { .. }), "{error}");
        bucket.delete(&[file.key("b")]).await.unwrap();
    }
}

#[tokio::test]
async fn a_backup_held_by_another_cluster_stays_unless_its_deletion_has_begun() {
    let store = Store::in_memory();
    let hold = |backup: &mut Backup, name: &str| {
        backup.metadata.annotations.insert(name.to_owned(), "forever".to_owned());
    };
    let mut record = begun("u", 5);
    hold(&mut record, well_known::ANNOTATION_HOLD);
    store.replace_record(&record).await.unwrap();
    let mut backup = begun("u", 5);
    assert_eq!(owner_of_files(&store, &backup, NOW).await.unwrap(), FilesOwner::Held(Hold::Forever));
    backup.status.phase = Some(BackupPhase::Deleting);
    assert_eq!(owner_of_files(&store, &backup, NOW).await.unwrap(), FilesOwner::This("u".into()));
    let mut released = begun("u", 5);
    hold(&mut released, well_known::ANNOTATION_HOLD_RECORDED);
    assert_eq!(
        owner_of_files(&store, &released, NOW).await.unwrap(),
        FilesOwner::This("u".into()),
        "it was released here"
    );
    assert_eq!(owner_of_files(&store, &begun("v", 7), NOW).await.unwrap(), FilesOwner::Another);
}

#[tokio::test]
async fn a_deletion_is_counted_when_the_backup_is_gone() {
    for (code, counted) in [(200, ["success", "attempt"]), (403, ["failure", "attempt"])] {
        // It never began, so that no file is its own.
        let mut backup = begun("u", 0);
        (backup.status.start_timestamp, backup.metadata.resource_version) = (None, "1".into());
        let mut request = DeleteBackupRequest::default();
        (request.metadata.name, request.spec.backup_name) = ("d".into(), "b".into());
        let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "code": code, "message": "no"});
        let begins = [(200, serde_json::json!(request)), (200, serde_json::json!(backup)), (code, status)];
        let ends = (200, serde_json::json!(request));
        let mut tasks = tokio::task::JoinSet::new();
        let cluster = api_server(&mut tasks, begins.into_iter().chain([ends]).collect()).await;
        let context = context(cluster, Arc::new(OneBucket(Arc::new(Memory::default()))));
        let effects = delete(&context, request, target_of(backup, Ok(available()))).await.unwrap();
        let is_gone = effects.iter().any(|effect| matches!(effect, Effect::Gone(MirroredKind::Backup, _)));
        assert_eq!(is_gone, code == 200);
        let text = String::from_utf8(context.metrics.text().unwrap()).unwrap();
        for what in ["attempt", "success", "failure"] {
            let line = format!("velero_backup_deletion_{what}_total{{schedule=\"\"}}");
            let expected = format!("{line} {}", i32::from(counted.contains(&what)));
            assert!(text.lines().any(|line| line == expected), "{code}: {expected} in {text}");
        }
    }
}

#[tokio::test]
async fn of_the_requests_that_have_failed_the_last_one_stays() {
    let (_sandbox, cluster) = sandbox().await;
    let context = context(cluster, Arc::new(OneBucket(Arc::new(Memory::default()))));
    let mut made = Vec::new();
    for name in ["d1", "d2", "of-another"] {
        let mut request = DeleteBackupRequest::default();
        (request.metadata.name, request.metadata.namespace) = (name.into(), "velero".into());
        request.spec.backup_name = "b".into();
        made.push(context.client.create(name, &request).await.unwrap().unwrap());
    }
    let failed = [ObjectIdentity::of(&made[0].metadata)];
    let effects = note_processed(&context, &made[1], &failed, vec!["no".to_owned()]).await.unwrap();
    assert_eq!(effects.len(), 2);
    let left: Vec<DeleteBackupRequest> = context.client.list("").await.unwrap();
    let left: Vec<(&str, &[String])> =
        left.iter().map(|one| (one.metadata.name.as_str(), &one.status.errors[..])).collect();
    assert_eq!(left, [("d2", &["no".to_owned()][..]), ("of-another", &[])]);
}

#[test]
fn a_request_is_for_one_backup_of_the_name() {
    let mut world = World::default();
    world.backups.put(begun("u", 5));
    let mut request = DeleteBackupRequest::default();
    request.spec.backup_name = "b".into();
    for (label, expected) in [(None, true), (Some(""), true), (Some("u"), true), (Some("v"), false)] {
        let labels = label.map(|uid| (well_known::LABEL_BACKUP_UID.to_owned(), uid.to_owned()));
        request.metadata.labels = labels.into_iter().collect();
        assert_eq!(DeletionTarget::of(&request, &world, None, NOW).backup.is_some(), expected, "{label:?}");
    }
}

#[test]
fn a_deletion_takes_nothing_of_another_namespace() {
    let mut world = World::default();
    let request = |namespace: &str, name: &str| {
        let mut request = DeleteBackupRequest::default();
        (request.metadata.namespace, request.metadata.name) = (namespace.into(), name.into());
        request.spec.backup_name = "b".into();
        request
    };
    for namespace in ["here", "there"] {
        let mut backup = begun(namespace, 5);
        backup.metadata.namespace = namespace.into();
        world.backups.put(backup);
        let mut restore = Restore::default();
        (restore.metadata.namespace, restore.metadata.name) = (namespace.into(), "r".into());
        restore.metadata.uid = namespace.into();
        restore.spec.backup_name = "b".into();
        world.restores.put(restore);
        let spec = serde_json::json!({"backupName": "b", "itemOperationTimeout": []});
        let metadata = serde_json::json!({"namespace": namespace, "name": "u", "uid": namespace});
        let unreadable = serde_json::json!({"metadata": metadata, "spec": spec}).to_string();
        world.see(MirrorChange { kind: MirroredKind::Restore, what: MirrorEvent::Applied(unreadable.into()) });
        world.delete_requests.put(request(namespace, "d1"));
        world.delete_requests.put(request(namespace, "d2"));
        for (name, uid) in [("d3", namespace), ("d4", "another backup of the name")] {
            let mut failed = request(namespace, name);
            failed.status.phase = Some(DeleteBackupRequestPhase::Processed);
            failed.metadata.labels.insert(well_known::LABEL_BACKUP_UID.into(), uid.into());
            world.delete_requests.put(failed);
        }
    }
    let key = |name: &str| NamespacedName { namespace: "here".into(), name: name.into() };
    let target = DeletionTarget::of(&request("here", "d1"), &world, None, NOW);
    assert_eq!(target.backup.map(|(backup, _)| backup.metadata.uid).as_deref(), Some("here"));
    let restores: Vec<NamespacedName> = target.restores.into_iter().map(|(restore, _)| restore.key).collect();
    assert_eq!(restores, [key("r"), key("u")]);
    let keys = |all: Vec<ObjectIdentity>| all.into_iter().map(|other| other.key).collect::<Vec<_>>();
    assert_eq!(keys(target.others), [key("d2"), key("d3"), key("d4")]);
    assert_eq!(keys(target.failed), [key("d3")]);
}

#[test]
fn what_cannot_be_deleted_is_said_before_anything_is_changed() {
    let mut request = DeleteBackupRequest::default();
    let mut target =
        DeletionTarget { backup: None, restores: vec![], reading: vec![], others: vec![], failed: vec![], now: NOW };
    let why = |request: &DeleteBackupRequest, target: &DeletionTarget| target.check(request).err();
    assert_eq!(why(&request, &target).as_deref(), Some("spec.backupName is required"));
    request.spec.backup_name = "b".into();
    assert_eq!(why(&request, &target).as_deref(), Some("backup not found"));
    let nowhere = Err(NoLocation::Named("here".into()));
    let mut backup = Backup::default();
    for phase in [BackupPhase::InProgress, BackupPhase::Finalizing, BackupPhase::WaitingForPluginOperations] {
        backup.status.phase = Some(phase);
        target.backup = Some((backup.clone(), nowhere.clone()));
        assert_eq!(why(&request, &target).as_deref(), Some("backup is still in progress"), "{phase:?}");
    }
    let held = |value: &str| [(well_known::ANNOTATION_HOLD.to_owned(), value.to_owned())].into();
    for (phase, value, expected) in [
        (BackupPhase::Completed, "forever", "backup b is held until it is released"),
        (BackupPhase::Completed, "1970-01-01T00:00:01Z", "backup b is held until 1970-01-01T00:00:01Z"),
        (BackupPhase::Completed, "1970-01-01T00:00:00Z", "backup storage location here not found"),
        (BackupPhase::Deleting, "forever", "backup storage location here not found"),
    ] {
        let mut backup = Backup { metadata: backup.metadata.clone(), ..backup.clone() };
        backup.metadata.name = "b".into();
        backup.metadata.annotations = held(value);
        backup.status.phase = Some(phase);
        target.backup = Some((backup, nowhere.clone()));
        let why = why(&request, &target).unwrap();
        assert!(why.starts_with(expected), "{phase:?} {value}: {why}");
        let tells = why.ends_with("; `backup release b` releases it, then delete it again");
        assert_eq!(tells, expected.contains("held"), "{why}");
    }
    for phase in [None, Some(BackupPhase::Queued), Some(BackupPhase::Completed), Some(BackupPhase::Deleting)] {
        backup.status.phase = phase;
        target.backup = Some((backup.clone(), nowhere.clone()));
        let expected = "backup storage location here not found";
        assert_eq!(why(&request, &target).as_deref(), Some(expected), "{phase:?}");
    }
    target.backup = Some((backup.clone(), Err(NoLocation::NoDefault)));
    let expected = "the backup names no backup storage location, and there is no default location (mark one with `backup-location set NAME \
                    --default`)";
    assert_eq!(why(&request, &target).as_deref(), Some(expected));
    let mut location = BackupStorageLocation::default();
    location.metadata.name = "here".into();
    for (mode, phase, expected) in [
        (
            Some(BackupStorageLocationAccessMode::ReadOnly),
            Some(BackupStorageLocationPhase::Available),
            Some("cannot delete backup because backup storage location here is currently in read-only mode"),
        ),
        (
            None,
            None,
            Some("cannot delete backup because backup storage location here is currently in Unavailable state"),
        ),
        (None, Some(BackupStorageLocationPhase::Available), None),
    ] {
        location.spec.access_mode = mode;
        location.status.phase = phase;
        target.backup = Some((backup.clone(), Ok(location.clone())));
        assert_eq!(why(&request, &target).as_deref(), expected);
    }
}

#[tokio::test]
async fn a_deletion_waits_for_a_claim_with_a_snapshot_thirty_days_at_most() {
    let (sandbox, cluster) = sandbox().await;
    let definition = serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "volumesnapshots.snapshot.storage.k8s.io"},
        "spec": {"group": "snapshot.storage.k8s.io", "scope": "Namespaced",
            "names": {"plural": "volumesnapshots", "singular": "volumesnapshot", "kind": "VolumeSnapshot", "listKind": "VolumeSnapshotList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    let source = serde_json::json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"});
    let claim = serde_json::json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "velero", "name": "data", "labels": {"velero.io/restore-name": "r", "velero.io/backup-name": "b"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "dataSource": source},
        "status": {"phase": "Pending"},
    });
    let snapshot = serde_json::json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"namespace": "velero", "name": "s"}, "spec": {"source": {"volumeSnapshotContentName": "c"}},
    });
    sandbox.apply(vec![definition, claim, snapshot]).await.unwrap();
    let mut context = context(cluster.clone(), Arc::new(OneBucket(Arc::new(Memory::default()))));
    let mut backup = begun("", 5);
    backup.metadata.namespace = "velero".into();
    backup.status.phase = Some(BackupPhase::Completed);
    let backup = context.client.create("b", &backup).await.unwrap().unwrap();
    let mut request = DeleteBackupRequest::default();
    (request.metadata.name, request.metadata.namespace) = ("d".into(), "velero".into());
    request.spec.backup_name = "b".into();
    let waits = (well_known::ANNOTATION_WAIT_FOR_RESTORES.to_owned(), "true".to_owned());
    request.metadata.annotations = [waits].into();
    context.client.create("d", &request).await.unwrap().unwrap();
    let target = || target_of(backup.clone(), Ok(available()));
    let known = || async { context.client.get::<DeleteBackupRequest>("d").await.unwrap().unwrap() };
    let said = |request: &DeleteBackupRequest| claims_waited_for(request).map(str::to_owned);
    for _ in 0..2 {
        let waits = delete(&context, known().await, target()).await;
        assert!(matches!(waits, Err(StepError::NotYet(_))), "{waits:?}");
        assert_eq!(said(&known().await).as_deref(), Some("velero/data"));
    }
    let mut events = 0;
    let types = lifeboat_object::ApiResource::new("", "v1", "events", "Event");
    cluster.each_metadata(&types, Some("velero"), "", |_: lifeboat_api::ObjectMeta| events += 1).await.unwrap();
    assert_eq!(events, 1, "it is told once");
    assert!(context.client.get::<Backup>("b").await.unwrap().is_some());
    // Thirty days are over when both clocks say so.
    let told = |mut request: DeleteBackupRequest, since: Option<&str>| {
        request.metadata.creation_timestamp = Some(Time::new("2020-01-01T00:00:00Z".parse().unwrap()));
        request.metadata.annotations.remove(well_known::ANNOTATION_WAITS_FOR_CLAIMS);
        if let Some(since) = since {
            tell_of_claims(&mut request, "velero/data", since.parse().unwrap());
        }
        request
    };
    let old = told(known().await, Some("2020-01-01T00:00:00Z"));
    let early = delete(&context, old, target()).await;
    assert!(matches!(early, Err(StepError::NotYet(_))), "the clock of the server lags: {early:?}");
    context.env.clock = crate::options::ServerClock(Arc::new(|| "2090-01-01T00:00:00Z".parse().unwrap()));
    let ahead = delete(&context, told(known().await, Some("2080-01-01T00:00:00Z")), target()).await;
    assert!(matches!(ahead, Err(StepError::NotYet(_))), "the clock of the server is ahead: {ahead:?}");
    let untold = delete(&context, told(known().await, None), target()).await;
    assert!(matches!(untold, Err(StepError::NotYet(_))), "it was made long ago, and nobody was told: {untold:?}");
    delete(&context, told(known().await, Some("2020-01-01T00:00:00Z")), target()).await.unwrap();
    // It goes on, as far as a cluster without a driver lets it.
    let deleting = context.client.get::<Backup>("b").await.unwrap().unwrap();
    assert_eq!(deleting.status.phase, Some(BackupPhase::Deleting));
}

#[tokio::test]
async fn a_deletion_that_waits_for_a_restore_says_nothing_of_claims() {
    let (_sandbox, cluster) = sandbox().await;
    let context = context(cluster, Arc::new(OneBucket(Arc::new(Memory::default()))));
    let mut request = DeleteBackupRequest::default();
    (request.metadata.name, request.metadata.namespace) = ("d".into(), "velero".into());
    request.spec.backup_name = "b".into();
    let waits = (well_known::ANNOTATION_WAIT_FOR_RESTORES.to_owned(), "true".to_owned());
    request.metadata.annotations = [waits.clone()].into();
    tell_of_claims(&mut request, "velero/data", NOW);
    let told = context.client.create("d", &request).await.unwrap().unwrap();
    let mut backup = begun("", 5);
    backup.status.phase = Some(BackupPhase::Completed);
    let reading = vec![crate::stub::named("r")];
    let target = DeletionTarget { reading, ..target_of(backup, Err(NoLocation::NoDefault)) };
    delete(&context, told, target).await.unwrap();
    let known = context.client.get::<DeleteBackupRequest>("d").await.unwrap().unwrap();
    assert_eq!((known.metadata.annotations, known.status), ([waits].into(), request.status));
}

#[tokio::test]
async fn a_deletion_goes_on_without_the_right_to_list_claims_not_after_an_error() {
    let failure = |code: u16, reason: &str| {
        (
            code,
            serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}),
        )
    };
    for (code, reason, goes_on) in [(400, "BadRequest", false), (403, "Forbidden", true)] {
        let mut tasks = tokio::task::JoinSet::new();
        let cluster = api_server(&mut tasks, vec![failure(code, reason)]).await;
        let context = context(cluster, Arc::new(OneBucket(Arc::new(Memory::default()))));
        let found = needed_by_claims(&context, &begun("u", 5)).await;
        // Nor does an API server that tells nobody its time hold up what goes by it.
        assert_eq!(context.earliest_now().await.is_ok(), goes_on);
        match found {
            Ok(claims) => assert_eq!((claims, goes_on), (None, true)),
            Err(why) => {
                let why = format!("{why:?}");
                assert!(!goes_on && why.contains("backup b is not deleted yet"), "{why}");
            }
        }
    }
}

#[tokio::test]
async fn a_deletion_waits_for_a_restore_of_another_cluster_or_is_refused() {
    let (_sandbox, cluster) = sandbox().await;
    let own = cluster.uid().await.unwrap();
    let bucket = Arc::new(Memory::default());
    let (store, context) = (Store::new(bucket.clone()), context(cluster.clone(), Arc::new(OneBucket(bucket.clone()))));
    let mut backup = begun("", 5);
    backup.metadata.namespace = "velero".into();
    backup.status.phase = Some(BackupPhase::Completed);
    let backup = context.client.create("b", &backup).await.unwrap().unwrap();
    let record = serde_json::to_vec(&backup).unwrap();
    bucket.put(&BackupFile::Metadata.key("b"), record.into(), PutOptions::default()).await.unwrap();
    let now = context.env.now();
    let reads = |backup: &str, uid: &str, hours: i64| lifeboat_store::BackupReading {
        backup: backup.into(),
        backup_uid: uid.into(),
        until: now + jiff::SignedDuration::from_hours(hours),
    };
    let uid = backup.metadata.uid.clone();
    let location = available();
    for (n, (what, of, namespace, reads, expected)) in [
        ("another cluster's", "that", "velero", reads("b", &uid, 3), Some("of namespace velero in cluster that")),
        ("another namespace's", &own, "other", reads("b", &uid, 3), Some("of namespace other in cluster")),
        ("a command's", "that", "", reads("b", &uid, 3), Some("of a command in cluster that")),
        ("its own, which is a Restore here", &own, "velero", reads("b", &uid, 3), None),
        ("one that was cut off", "that", "velero", reads("b", &uid, -1), None),
        ("of another backup", "that", "velero", reads("other", &uid, 3), None),
        ("of a backup that had its name before", "that", "velero", reads("b", "before", 3), None),
    ]
    .into_iter()
    .enumerate()
    {
        context.notes.locations.keep_only(|_| false);
        let owner = lifeboat_store::RestoreOwner {
            name: format!("r{n}"),
            uid: "v".into(),
            cluster_uid: of.into(),
            namespace: namespace.into(),
            keep_replaced_until: now,
            reads: Some(reads),
        };
        store.claim_restore(&owner, now).await.unwrap();
        let found = foreign_restore(&context, &backup, &location, &store).await.unwrap();
        assert_eq!(found.is_some(), expected.is_some(), "{what}");
        let Some((reader, place)) = found.zip(expected) else {
            store.release_restore(&owner).await.unwrap();
            continue;
        };
        assert!(reader.named().starts_with(&format!("the restore r{n} {place}")), "{what}: {reader}");
        let target = || target_of(backup.clone(), Ok(location.clone()));
        for waits in [false, true] {
            let name = format!("d{n}-{waits}");
            let mut request = DeleteBackupRequest::default();
            (request.metadata.name, request.metadata.namespace) = (name.clone(), "velero".into());
            request.spec.backup_name = "b".into();
            let annotation = (well_known::ANNOTATION_WAIT_FOR_RESTORES.to_owned(), waits.to_string());
            request.metadata.annotations = [annotation].into();
            let request = context.client.create(&name, &request).await.unwrap().unwrap();
            let deleted = delete(&context, request, target()).await;
            let after = context.client.get::<DeleteBackupRequest>(&name).await.unwrap().unwrap();
            let told = lifeboat_lifecycle::phase::request::restore_waited_for(&after).map(str::to_owned);
            match waits {
                true => {
                    assert!(matches!(deleted, Err(StepError::NotYet(_))), "{what}: {deleted:?}");
                    assert_eq!(told, Some(reader.to_string()), "{what}");
                }
                false => assert!(after.status.errors[0].contains("reads the backup and has not ended"), "{after:?}"),
            }
            assert!(context.client.get::<Backup>("b").await.unwrap().is_some(), "{what}");
        }
        store.release_restore(&owner).await.unwrap();
    }
}
