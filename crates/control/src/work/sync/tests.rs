use super::*;
use crate::stub::{OneBucket, context, named, sandbox};
use lifeboat_api::OwnerReference;
use lifeboat_archive::sidecar::{BackupClaim, CLAIM_FORMAT};
use lifeboat_bucket::{BlobStore, Memory, PutOptions};
use lifeboat_lifecycle::phase::taken_over::source_cluster;

#[tokio::test]
async fn what_is_not_taken_over_is_told_beside_the_location_and_by_one_event() {
    let (_sandbox, cluster) = sandbox().await;
    let bucket = Arc::new(Memory::default());
    let context = context(cluster.clone(), Arc::new(OneBucket(bucket.clone())));
    let began = |second| Some(Time::new(Timestamp::from_second(second).unwrap()));
    let backup = |name: &str, second, phase| {
        let mut backup = Backup::default();
        (backup.metadata.name, backup.metadata.namespace) = (name.to_owned(), "velero".to_owned());
        backup.status.start_timestamp = began(second);
        backup.status.phase = Some(phase);
        backup
    };
    for (record, phase) in [
        (backup("of-another-location", 5, BackupPhase::Completed), BackupPhase::Completed),
        (backup("copied-from-there", 5, BackupPhase::Completed), BackupPhase::Completed),
        (backup("is-written-here", 5, BackupPhase::Completed), BackupPhase::InProgress),
    ] {
        let name = record.metadata.name.clone();
        let location = if phase == BackupPhase::InProgress { "main" } else { "other" };
        let second = if name == "of-another-location" { 7 } else { 5 };
        let mut known = backup(&name, second, phase);
        known.metadata.labels.insert(well_known::LABEL_STORAGE_LOCATION.into(), location.into());
        context.client.create(&name, &known).await.unwrap().unwrap();
        let bytes = serde_json::to_vec(&record).unwrap();
        bucket.put(&BackupFile::Metadata.key(&name), bytes.into(), PutOptions::default()).await.unwrap();
    }
    let waits = backup("waits", -6 * 3600, BackupPhase::WaitingForPluginOperations);
    let mut goes_on = backup("goes-on", 5, BackupPhase::WaitingForPluginOperations);
    goes_on.status.start_timestamp = Some(Time::new(context.env.now()));
    let record = |backup: &Backup| serde_json::to_vec(backup).unwrap();
    for (name, bytes) in [("waits", record(&waits)), ("goes-on", record(&goes_on)), ("damaged", b"{".to_vec())] {
        bucket.put(&BackupFile::Metadata.key(name), bytes.into(), PutOptions::default()).await.unwrap();
    }
    let mut location = BackupStorageLocation::default();
    (location.metadata.name, location.metadata.namespace) = ("main".into(), "velero".into());
    location.spec.provider = "aws".into();
    let mut location = context.client.create("main", &location).await.unwrap().unwrap();
    let names: BackupNames =
        Arc::new(["of-another-location", "copied-from-there", "is-written-here"].map(str::to_owned).into());
    for _ in 0..2 {
        let known = SyncFacts::of(&World::default(), &location, names.clone());
        sync(&context, location.clone(), known).await.unwrap();
        location = context.client.get("main").await.unwrap().unwrap();
        let of = |name: &str| PassedNames::of(vec![name.to_owned()]);
        let expected =
            PassedOver { waiting: of("waits"), same_name: of("of-another-location"), damaged: of("damaged") };
        assert_eq!(PassedOver::of(&location), expected);
    }
    let mut events = 0;
    let types = lifeboat_object::ApiResource::new("", "v1", "events", "Event");
    cluster.each_metadata(&types, Some("velero"), "", |_: ObjectMeta| events += 1).await.unwrap();
    assert_eq!(events, 1);
}

#[tokio::test]
async fn what_is_taken_over_says_which_cluster_has_made_it() {
    let (_sandbox, cluster) = sandbox().await;
    let (bucket, own) = (Arc::new(Memory::default()), cluster.uid().await.unwrap());
    let context = context(cluster, Arc::new(OneBucket(bucket.clone())));
    let put = async |file: BackupFile, name: &str, bytes: Vec<u8>| {
        bucket.put(&file.key(name), bytes.into(), PutOptions::default()).await.unwrap();
    };
    let claim = |cluster: &str| BackupClaim {
        format: CLAIM_FORMAT.into(),
        cluster_uid: cluster.into(),
        backup_uid: "u".into(),
        namespace: "velero".into(),
        attempt: 1,
        claimed: Timestamp::UNIX_EPOCH,
        refreshed: None,
    };
    for (name, claimed) in [
        ("by-this", Some(serde_json::to_vec(&claim(&own)).unwrap())),
        ("by-that", Some(serde_json::to_vec(&claim("that")).unwrap())),
        ("by-nobody", Some(serde_json::to_vec(&claim("")).unwrap())),
        ("by-velero", None),
        ("damaged", Some(b"{".to_vec())),
    ] {
        let mut record = Backup::default();
        record.metadata.name = name.into();
        record.status.phase = Some(BackupPhase::Completed);
        put(BackupFile::Metadata, name, serde_json::to_vec(&record).unwrap()).await;
        if let Some(claim) = claimed {
            put(BackupFile::Claim, name, claim).await;
        }
    }
    let mut location = BackupStorageLocation::default();
    (location.metadata.name, location.metadata.namespace) = ("main".into(), "velero".into());
    location.spec.provider = "aws".into();
    let known = SyncFacts::of(&World::default(), &location, BackupNames::default());
    sync_backups(&context, &location, &known).await.unwrap();
    let found: Vec<Backup> = context.client.list("").await.unwrap();
    let origin = |backup: &Backup| backup.metadata.annotations[well_known::ANNOTATION_TAKEN_OVER].clone();
    let source = |backup: &Backup| source_cluster(backup).map(|uid| if uid == own { "own" } else { uid }.to_owned());
    let found: Vec<_> = found.iter().map(|b| (b.metadata.name.as_str(), origin(b), source(b))).collect();
    let expected = [
        ("by-nobody", "another-cluster", None),
        ("by-that", "another-cluster", Some("that")),
        ("by-this", "this-cluster", Some("own")),
        ("by-velero", "another-cluster", None),
        ("damaged", "another-cluster", None),
    ];
    assert_eq!(found, expected.map(|(name, origin, of)| (name, origin.to_owned(), of.map(str::to_owned))));
}

#[test]
fn only_backups_that_ended_or_expired_unfinished_are_taken_over() {
    let now: Timestamp = "2026-11-22T00:00:00Z".parse().unwrap();
    let time = |text: &str| Some(Time::new(text.parse().unwrap()));
    let (past, future) = (time("2026-11-21T00:00:00Z"), time("2026-11-23T00:00:00Z"));
    let mut location = BackupStorageLocation::default();
    location.metadata.name = "here".into();
    location.metadata.namespace = "velero".into();
    use BackupPhase as P;
    for (phase, expiration, expected) in [
        (Some(P::Completed), past, Some(P::Completed)),
        (Some(P::PartiallyFailed), None, Some(P::PartiallyFailed)),
        (Some(P::Failed), None, Some(P::Failed)),
        (Some(P::Finalizing), None, None),
        (Some(P::Finalizing), future, None),
        (Some(P::Finalizing), past, Some(P::PartiallyFailed)),
        (Some(P::WaitingForPluginOperations), past, Some(P::PartiallyFailed)),
        (Some(P::InProgress), past, None),
        (Some(P::Deleting), past, None),
        (Some(P::New), None, None),
        (None, None, None),
    ] {
        let mut found = Backup::default();
        found.status.phase = phase;
        found.status.expiration = expiration;
        let got = as_taken_over(found, &location, &BTreeMap::new(), now).map(|b| b.status.phase.unwrap());
        assert_eq!(got, expected, "{phase:?}");
    }
}

#[test]
fn a_backup_of_a_living_cluster_is_no_alarm_while_its_operations_go_on() {
    use BackupPhase as P;
    let now: Timestamp = "2026-11-22T12:00:00Z".parse().unwrap();
    let (default, two) = (lifeboat_api::Duration::default(), lifeboat_api::Duration::from_secs(2 * 3600));
    for (phase, began, timeout, expected) in [
        (P::WaitingForPluginOperations, Some("2026-11-22T07:00:01Z"), default, false),
        (P::WaitingForPluginOperations, Some("2026-11-22T07:00:00Z"), default, true),
        (P::WaitingForPluginOperationsPartiallyFailed, Some("2026-11-22T09:00:01Z"), two, false),
        (P::FinalizingPartiallyFailed, Some("2026-11-22T09:00:00Z"), two, true),
        (P::Finalizing, None, two, true),
        (P::InProgress, Some("2026-11-01T00:00:00Z"), two, false),
        (P::Completed, Some("2026-11-01T00:00:00Z"), two, false),
    ] {
        let mut found = Backup::default();
        found.status.phase = Some(phase);
        found.status.start_timestamp = began.map(|began| Time::new(began.parse().unwrap()));
        found.spec.item_operation_timeout = timeout;
        assert_eq!(is_overdue(&found, now), expected, "{phase:?} {began:?}");
    }
}

#[test]
fn operations_that_moved_lately_are_no_alarm() {
    let now: Timestamp = "2026-11-22T12:00:00Z".parse().unwrap();
    let of = |phase: &str, updated: Option<&str>| {
        let status = serde_json::json!({"phase": phase, "updated": updated});
        let operation = serde_json::json!({"spec": {"operationID": "o"}, "status": status});
        have_moved_lately(&[serde_json::from_value(operation).unwrap()], now)
    };
    assert!(of("InProgress", Some("2026-11-22T10:00:01Z")));
    assert!(of("New", Some("2026-11-22T12:10:00Z")), "a clock that is ahead");
    assert!(!of("InProgress", Some("2026-11-22T13:00:00Z")), "a clock that is wrong");
    assert!(!of("InProgress", Some("2026-11-22T10:00:00Z")));
    assert!(!of("InProgress", None));
    assert!(!of("Completed", Some("2026-11-22T11:59:00Z")));
}

#[test]
fn failed_backups_of_a_location_hide_no_other_backup_of_a_known_name() {
    let mut world = World::default();
    let mut location = BackupStorageLocation::default();
    location.metadata.name = "here".into();
    let mut add = |name: &str, location: &str, phase| {
        let mut backup = Backup::default();
        backup.metadata.name = name.into();
        backup.metadata.labels.insert(well_known::LABEL_STORAGE_LOCATION.into(), location.into());
        backup.status.phase = Some(phase);
        world.backups.put(backup);
        name.to_owned()
    };
    let mut folders: BTreeSet<String> =
        (0..60).map(|n| add(&format!("a-nightly-{n:02}"), "here", BackupPhase::Failed)).collect();
    folders.insert(add("b-runs", "here", BackupPhase::InProgress));
    folders.insert(add("c-completed", "here", BackupPhase::Completed));
    folders.insert(add("weekly", "there", BackupPhase::Completed));
    folders.insert("unknown".to_owned());
    let names = names(&world, &location, std::iter::empty());
    let known = SyncFacts::of(&world, &location, names);
    assert_eq!(known.of_other_locations(&folders), ["weekly".to_owned()].into());
}

#[test]
fn files_of_backups_that_ended_here_are_expected() {
    use BackupPhase as P;
    let mut world = World::default();
    let all = [
        ("completed", "here", P::Completed, 5, 9),
        ("partially", "here", P::PartiallyFailed, 5, 9),
        ("elsewhere", "there", P::Completed, 5, 9),
        ("running", "here", P::InProgress, 5, 9),
        ("deleting", "here", P::Deleting, 5, 9),
        ("failed-here", "here", P::Failed, 5, 9),
        ("failed-and-found", "here", P::Failed, 100, 9),
    ];
    for (name, location, phase, made, ended) in all {
        let time = |second| Some(Time::new(Timestamp::from_second(second).unwrap()));
        let mut backup = Backup::default();
        backup.metadata.name = name.into();
        backup.metadata.labels.insert(well_known::LABEL_STORAGE_LOCATION.into(), location.into());
        backup.metadata.creation_timestamp = time(made);
        backup.status.phase = Some(phase);
        backup.status.completion_timestamp = time(ended);
        world.backups.put(backup);
    }
    let mut location = BackupStorageLocation::default();
    location.metadata.name = "here".into();
    let busy = ["gone-and-ending", "gone-elsewhere"].map(named);
    let elsewhere = |key: &NamespacedName| NamespacedName { namespace: "other".into(), name: key.name.clone() };
    // Of another namespace there may be everything once more.
    let mut completed = world.backups.get(&named("completed")).unwrap().clone();
    (completed.metadata.namespace, completed.metadata.name) = ("other".into(), "other".into());
    world.backups.put(completed);
    let names = names(&world, &location, [&busy[0], &elsewhere(&busy[1])].into_iter());
    let known = SyncFacts::of(&world, &location, Arc::clone(&names));
    let expected: Vec<&str> = vec!["completed", "failed-and-found", "partially"];
    assert_eq!(known.stored.keys().collect::<Vec<_>>(), expected);
    // One whose object is gone while its task still ends it is not taken over.
    assert_eq!(names.len(), all.len() + 1);
    assert!(names.contains("gone-and-ending"));
}

#[test]
fn volumes_go_with_their_backup() {
    let mut backup = Backup::default();
    backup.metadata.name = "b".into();
    backup.metadata.namespace = "velero".into();
    backup.metadata.uid = "new".into();
    backup.spec.storage_location = "here".into();
    let volume = |owner: &str, namespace: &str, location: &str| {
        let mut volume = PodVolumeBackup::default();
        volume.metadata.name = "b-x".into();
        volume.metadata.namespace = namespace.into();
        volume.metadata.labels.insert("velero.io/backup-uid".into(), owner.into());
        volume.metadata.owner_references = vec![OwnerReference {
            kind: "Backup".into(),
            name: "b".into(),
            uid: owner.into(),
            ..OwnerReference::default()
        }];
        volume.spec.backup_storage_location = location.into();
        volume
    };
    let mut found = volume("old", "other", "there");
    found.metadata.uid = "1".into();
    found.metadata.resource_version = "7".into();
    assert_eq!(of_backup(found, &backup), volume("new", "velero", "here"));
}

#[test]
fn it_becomes_one_of_this_cluster() {
    let mut found = Backup::default();
    found.metadata.name = "b".into();
    found.metadata.namespace = "other".into();
    found.metadata.uid = "1".into();
    found.metadata.resource_version = "7".into();
    found.spec.storage_location = "there".into();
    found.status.phase = Some(BackupPhase::Completed);
    let owner = |name: &str, uid: &str| OwnerReference {
        kind: "Schedule".into(),
        name: name.into(),
        uid: uid.into(),
        ..OwnerReference::default()
    };
    found.metadata.owner_references = vec![owner("nightly", "s"), owner("nightly", "t"), owner("gone", "u")];
    let mut location = BackupStorageLocation::default();
    location.metadata.name = "here".into();
    location.metadata.namespace = "velero".into();
    let schedules = BTreeMap::from([("nightly".to_owned(), "s".to_owned())]);
    let got = as_taken_over(found, &location, &schedules, Timestamp::UNIX_EPOCH).unwrap();
    let mut expected = Backup::default();
    expected.metadata.name = "b".into();
    expected.metadata.namespace = "velero".into();
    expected.metadata.labels.insert("velero.io/storage-location".into(), "here".into());
    expected.metadata.owner_references = vec![owner("nightly", "s")];
    expected.spec.storage_location = "here".into();
    expected.status.phase = Some(BackupPhase::Completed);
    assert_eq!(got, expected);
}
