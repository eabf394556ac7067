use super::*;
use crate::world::World;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use lifeboat_api::{BackupStorageLocation, BackupStorageLocationPhase, Schedule, SchedulePhase, Time, well_known};
use lifeboat_lifecycle::coverage::{EndedBackup, NamespaceState};
use lifeboat_lifecycle::phase::taken_over::note_taken_over;

fn lines(metrics: &Metrics, part: &str) -> Vec<String> {
    let text = String::from_utf8(metrics.text().unwrap()).unwrap();
    let of = |line: &&str| !line.starts_with('#') && line.contains(part) && !line.ends_with(" 0");
    text.lines().filter(of).map(str::to_owned).collect()
}

/// A backup of a schedule that ran for 90 s.
fn backup(phase: BackupPhase) -> Backup {
    let at = |second| Some(Time::new(Timestamp::from_second(second).unwrap()));
    let mut backup = Backup::default();
    backup.metadata.labels.insert(well_known::LABEL_SCHEDULE_NAME.into(), "daily".into());
    backup.status.phase = Some(phase);
    (backup.status.start_timestamp, backup.status.completion_timestamp) = (at(10), at(100));
    backup.status.warnings = 2;
    backup.status.errors = 3;
    backup.status.progress = Some(lifeboat_api::BackupProgress {
        total_items: 7,
        items_backed_up: 7,
        ..lifeboat_api::BackupProgress::default()
    });
    backup
}

/// A world with these schedules and nothing else.
fn with_schedules(names: &[&str]) -> World {
    let mut world = World::default();
    for name in names {
        let mut schedule = Schedule::default();
        schedule.metadata.name = (*name).into();
        world.schedules.put(schedule);
    }
    world
}

/// Metrics that know the schedule of [`backup`].
fn of_daily() -> Metrics {
    let metrics = Metrics::new().unwrap();
    metrics.observe(&with_schedules(&["daily"]), &TimeZone::UTC, Timestamp::UNIX_EPOCH);
    metrics
}

#[test]
fn of_each_namespace_there_is_the_time_of_its_last_good_backup() {
    let metrics = Metrics::new().unwrap();
    let state = |name: &str, start: Option<i64>| NamespaceState {
        name: name.into(),
        last_good: start.map(|second| EndedBackup {
            backup: "b".into(),
            phase: BackupPhase::Completed,
            start: Some(Time::new(Timestamp::from_second(second).unwrap())),
        }),
        age_seconds: None,
        schedules: vec!["daily".into(), "weekly".into()],
        claims: None,
        last_good_with_volumes: None,
        volumes_are_scheduled: true,
    };
    let text = |metrics: &Metrics| String::from_utf8(metrics.text().unwrap()).unwrap();
    metrics.observe_namespaces(&[state("shop", Some(90)), state("web", None)]);
    let all = text(&metrics);
    for line in [
        r#"lifeboat_namespace_last_good_backup_timestamp{namespace="shop"} 90"#,
        r#"lifeboat_namespace_last_good_backup_timestamp{namespace="web"} 0"#,
        r#"lifeboat_namespace_schedules{namespace="web"} 2"#,
    ] {
        assert!(all.contains(line), "{line}: {all}");
    }
    metrics.observe_namespaces(&[state("web", None)]);
    assert!(!text(&metrics).contains("shop"), "it is gone");
}

#[test]
fn a_backup_is_counted_by_how_it_ends() {
    let metrics = of_daily();
    metrics.backup_begins(&backup(BackupPhase::InProgress));
    metrics.backup_ends(&backup(BackupPhase::Completed), Some(4096));
    assert_eq!(
        lines(&metrics, "\"daily\""),
        [
            r#"velero_backup_attempt_total{schedule="daily"} 1"#,
            r#"velero_backup_duration_seconds_bucket{schedule="daily",le="300"} 1"#,
            r#"velero_backup_duration_seconds_bucket{schedule="daily",le="600"} 1"#,
            r#"velero_backup_duration_seconds_bucket{schedule="daily",le="900"} 1"#,
            r#"velero_backup_duration_seconds_bucket{schedule="daily",le="1800"} 1"#,
            r#"velero_backup_duration_seconds_bucket{schedule="daily",le="3600"} 1"#,
            r#"velero_backup_duration_seconds_bucket{schedule="daily",le="7200"} 1"#,
            r#"velero_backup_duration_seconds_bucket{schedule="daily",le="10800"} 1"#,
            r#"velero_backup_duration_seconds_bucket{schedule="daily",le="14400"} 1"#,
            r#"velero_backup_duration_seconds_bucket{schedule="daily",le="+Inf"} 1"#,
            r#"velero_backup_duration_seconds_sum{schedule="daily"} 90"#,
            r#"velero_backup_duration_seconds_count{schedule="daily"} 1"#,
            r#"velero_backup_items_errors{schedule="daily"} 3"#,
            r#"velero_backup_items_total{schedule="daily"} 7"#,
            r#"velero_backup_last_status{schedule="daily"} 1"#,
            r#"velero_backup_success_total{schedule="daily"} 1"#,
            r#"velero_backup_tarball_size_bytes{schedule="daily"} 4096"#,
            r#"velero_backup_warning_total{schedule="daily"} 1"#,
        ]
    );
    metrics.backup_ends(&backup(BackupPhase::PartiallyFailed), None);
    metrics.backup_ends(&backup(BackupPhase::Failed), None);
    metrics.backup_refused(&backup(BackupPhase::FailedValidation));
    for name in ["partial_failure", "failure", "validation_failure"] {
        let name = format!("velero_backup_{name}_total{{schedule=\"daily\"}}");
        assert_eq!(lines(&metrics, &name), [format!("{name} 1")]);
    }
    assert!(lines(&metrics, "last_status{schedule=\"daily\"}").is_empty(), "0 after a failure, and it stays so");
}

#[test]
fn snapshots_are_counted_when_they_are_begun_and_when_their_backup_ends() {
    let metrics = of_daily();
    let mut backup = backup(BackupPhase::Completed);
    backup.metadata.name = "daily-1".into();
    let status = &mut backup.status;
    (status.volume_snapshots_attempted, status.volume_snapshots_completed) = (3, 2);
    (status.csi_volume_snapshots_attempted, status.csi_volume_snapshots_completed) = (5, 4);
    status.unprotected_volumes = 6;
    metrics.backup_ran(&backup);
    let csi = |what: &str| format!(r#"velero_csi_snapshot_{what}_total{{backupName="daily-1",schedule="daily"}}"#);
    let native = |what: &str| format!(r#"velero_volume_snapshot_{what}_total{{schedule="daily"}}"#);
    let begun = [csi("attempt") + " 5", native("attempt") + " 3", native("failure") + " 1", native("success") + " 2"];
    assert_eq!(lines(&metrics, "_snapshot_"), begun);
    metrics.backup_ends(&backup, None);
    assert_eq!(lines(&metrics, "csi_snapshot_s"), [csi("success") + " 4"]);
    assert_eq!(lines(&metrics, "csi_snapshot_f"), [csi("failure") + " 1"]);

    let mut world = with_schedules(&["daily"]);
    let mut older = backup.clone();
    older.metadata.name = "daily-0".into();
    older.status.start_timestamp = Some(Time::new(Timestamp::UNIX_EPOCH));
    older.status.unprotected_volumes = 9;
    world.backups.put(backup);
    world.backups.put(older);
    let see = |world: &World| metrics.observe(world, &TimeZone::UTC, Timestamp::UNIX_EPOCH);
    see(&world);
    let unprotected = r#"lifeboat_backup_unprotected_volumes{schedule="daily"} 6"#;
    assert_eq!(lines(&metrics, "unprotected"), [unprotected], "of the newest");
    assert_eq!(lines(&metrics, "csi_snapshot_a"), [csi("attempt") + " 5"]);
    see(&World::default());
    assert!(lines(&metrics, "csi_snapshot").is_empty() && lines(&metrics, "unprotected").is_empty());
}

#[test]
fn backups_of_another_cluster_do_not_count_for_a_schedule_of_their_name() {
    let metrics = Metrics::new().unwrap();
    let mut world = with_schedules(&["daily"]);
    let mut found = backup(BackupPhase::Completed);
    found.metadata.name = "daily-2".into();
    (found.status.start_timestamp, found.status.completion_timestamp) =
        (found.status.completion_timestamp, found.status.completion_timestamp);
    found.status.unprotected_volumes = 9;
    note_taken_over(&mut found.metadata, false);
    world.backups.put(found);
    let mut own = backup(BackupPhase::PartiallyFailed);
    own.status.unprotected_volumes = 1;
    world.backups.put(own);
    metrics.observe(&world, &TimeZone::UTC, Timestamp::UNIX_EPOCH);
    let own = r#"lifeboat_backup_unprotected_volumes{schedule="daily"} 1"#;
    assert_eq!(lines(&metrics, "unprotected_volumes{schedule=\"daily\"}"), [own]);
    for zero in ["last_successful_timestamp{schedule=\"daily\"}", "last_status{schedule=\"daily\"}"] {
        assert!(lines(&metrics, zero).is_empty(), "{zero}");
    }
}

#[test]
fn a_schedule_that_is_enabled_has_a_next_run() {
    let metrics = Metrics::new().unwrap();
    let mut world = World::default();
    for name in ["due", "later", "paused", "wrong", "new"] {
        let mut schedule = Schedule::default();
        schedule.metadata.name = name.into();
        schedule.metadata.creation_timestamp = Some(Time::new(Timestamp::UNIX_EPOCH));
        schedule.spec.schedule = "30 0 * * *".into();
        schedule.spec.paused = name == "paused";
        schedule.status.phase = match name {
            "new" => None,
            "wrong" => Some(SchedulePhase::FailedValidation),
            _ => Some(SchedulePhase::Enabled),
        };
        if name == "later" {
            schedule.status.last_backup = Some(Time::new(Timestamp::from_second(3600).unwrap()));
        }
        world.schedules.put(schedule);
    }
    let see = |world: &World| metrics.observe(world, &TimeZone::UTC, Timestamp::from_second(90_000).unwrap());
    see(&world);
    let line = |name: &str, at: u32| format!("lifeboat_schedule_next_run_timestamp{{schedule={name:?}}} {at}");
    let shown = || lines(&metrics, "next_run_timestamp{");
    assert_eq!(shown(), [line("due", 1800), line("later", 88_200)], "of yesterday, and never made");
    let mut paused = world.schedules.iter().find(|s| s.metadata.name == "due").unwrap().clone();
    paused.spec.paused = true;
    world.schedules.put(paused);
    see(&world);
    assert_eq!(shown(), [line("later", 88_200)]);
    see(&World::default());
    assert!(shown().is_empty());
}

#[test]
fn a_gauge_loses_what_is_gone() {
    let metrics = Metrics::new().unwrap();
    let mut world = with_schedules(&["daily"]);
    for name in ["here", "gone"] {
        let mut location = BackupStorageLocation::default();
        location.metadata.name = name.into();
        location.status.phase = Some(BackupStorageLocationPhase::Available);
        metrics.observe_location(&location);
        if name == "here" {
            world.locations.put(location);
        }
    }
    world.backups.put(backup(BackupPhase::Completed));
    let see = |world: &World| metrics.observe(world, &TimeZone::UTC, Timestamp::UNIX_EPOCH);
    see(&world);
    let gauge = |name: &str| format!("velero_backup_location_status_gauge{{backup_location_name={name:?}}}");
    assert_eq!(lines(&metrics, "location_status_gauge{"), [gauge("here") + " 1"]);
    let success = r#"velero_backup_last_successful_timestamp{schedule="daily"}"#;
    assert_eq!(lines(&metrics, success), [format!("{success} 100")]);
    see(&World::default());
    assert!(lines(&metrics, "location_status_gauge{").is_empty() && lines(&metrics, success).is_empty());
}

#[test]
fn a_schedule_is_shown_as_long_as_it_is_there() {
    let metrics = Metrics::new().unwrap();
    let mut world = World::default();
    for (name, times) in [("daily", "@daily"), ("other", "@every 90s"), ("wrong", "@")] {
        let mut schedule = Schedule::default();
        schedule.metadata.name = name.into();
        schedule.spec.schedule = times.into();
        world.schedules.put(schedule);
    }
    world.backups.put(backup(BackupPhase::Failed));
    metrics.observe(&world, &TimeZone::UTC, Timestamp::UNIX_EPOCH);
    let interval = |name: &str| format!("velero_schedule_expected_interval_seconds{{schedule={name:?}}}");
    assert_eq!(lines(&metrics, "expected_interval"), [interval("daily") + " 86400", interval("other") + " 90"]);
    let status = |name: &str| format!("velero_backup_last_status{{schedule={name:?}}} 1");
    assert_eq!(lines(&metrics, "last_status"), [status(""), status("other"), status("wrong")], "daily has failed");
    let text = || String::from_utf8(metrics.text().unwrap()).unwrap();
    assert!(text().contains("velero_backup_success_total{schedule=\"daily\"} 0"));
    metrics.backup_ends(&backup(BackupPhase::Completed), Some(1));
    metrics.observe(&World::default(), &TimeZone::UTC, Timestamp::UNIX_EPOCH);
    assert!(!text().contains("daily") && !text().contains("other") && text().contains("schedule=\"\""));
}

#[test]
fn what_ends_after_its_schedule_is_gone_counts_for_none() {
    let metrics = of_daily();
    let mut backup = backup(BackupPhase::Completed);
    backup.metadata.name = "daily-1".into();
    (backup.status.csi_volume_snapshots_attempted, backup.status.csi_volume_snapshots_completed) = (1, 1);
    metrics.backup_begins(&backup);
    metrics.backup_ran(&backup);
    let mut world = World::default();
    world.backups.put(backup.clone());
    let see = || metrics.observe(&world, &TimeZone::UTC, Timestamp::UNIX_EPOCH);
    see();
    let of_last = || {
        ["last_status", "tarball_size_bytes", "items_total", "items_errors"]
            .map(|what| lines(&metrics, &format!("velero_backup_{what}{{schedule=\"\"}}")))
    };
    let before = of_last();
    metrics.backup_ends(&backup, Some(4096));
    backup.status.phase = Some(BackupPhase::FailedValidation);
    metrics.backup_refused(&backup);
    assert_eq!(of_last(), before, "the last one without a schedule is another backup");
    let mut restore = Restore::default();
    (restore.spec.schedule_name, restore.status.phase) = ("daily".into(), Some(RestorePhase::Completed));
    metrics.restore_begins(&restore);
    metrics.restore_ends(&restore);
    metrics.deletion_begins(&backup);
    metrics.deletion_ends(&backup, true);
    for moment in ["at once", "after a look"] {
        assert!(!String::from_utf8(metrics.text().unwrap()).unwrap().contains("\"daily\""), "{moment}");
        for what in ["backup_success", "restore_attempt", "restore_success", "backup_deletion_success"] {
            let line = format!("velero_{what}_total{{schedule=\"\"}} 1");
            assert_eq!(lines(&metrics, &line), [line.as_str()], "{moment}");
        }
        see();
    }
}

#[test]
fn restores_deletions_and_locations_are_counted() {
    let metrics = of_daily();
    let mut restore = Restore::default();
    restore.spec.schedule_name = "daily".into();
    for phase in
        [RestorePhase::Completed, RestorePhase::PartiallyFailed, RestorePhase::FailedValidation, RestorePhase::Failed]
    {
        metrics.restore_begins(&restore);
        restore.status.phase = Some(phase);
        metrics.restore_ends(&restore);
    }
    metrics.deletion_begins(&backup(BackupPhase::Completed));
    metrics.deletion_ends(&backup(BackupPhase::Completed), true);
    metrics.deletion_ends(&backup(BackupPhase::Completed), false);
    let mut location = BackupStorageLocation::default();
    location.metadata.name = "here".into();
    location.status.phase = Some(BackupStorageLocationPhase::Available);
    metrics.observe_location(&location);
    let mut found = [lines(&metrics, "\"daily\""), lines(&metrics, "\"here\"")].concat();
    found.sort();
    assert_eq!(
        found,
        [
            r#"velero_backup_deletion_attempt_total{schedule="daily"} 1"#,
            r#"velero_backup_deletion_failure_total{schedule="daily"} 1"#,
            r#"velero_backup_deletion_success_total{schedule="daily"} 1"#,
            r#"velero_backup_last_status{schedule="daily"} 1"#,
            r#"velero_backup_location_status_gauge{backup_location_name="here"} 1"#,
            r#"velero_restore_attempt_total{schedule="daily"} 4"#,
            r#"velero_restore_failed_total{schedule="daily"} 1"#,
            r#"velero_restore_partial_failure_total{schedule="daily"} 1"#,
            r#"velero_restore_success_total{schedule="daily"} 1"#,
            r#"velero_restore_validation_failed_total{schedule="daily"} 1"#,
        ]
    );
}

#[test]
fn a_schedule_whose_last_backup_lost_its_objects_says_how_many() {
    let metrics = Metrics::new().unwrap();
    let mut world = with_schedules(&["daily"]);
    let mut location = BackupStorageLocation::default();
    location.metadata.name = "main".into();
    location.status.phase = Some(BackupStorageLocationPhase::Available);
    world.locations.put(location);
    for (name, items) in [("daily-20261121030000", "120"), ("daily-20261122030000", "20")] {
        let mut backup = backup(BackupPhase::Completed);
        backup.spec.storage_location = "main".into();
        backup.metadata.name = name.into();
        backup.metadata.annotations.insert(well_known::ANNOTATION_NAMESPACED_ITEMS.into(), items.into());
        world.backups.put(backup);
        metrics.observe(&world, &TimeZone::UTC, Timestamp::UNIX_EPOCH);
        let expected: &[&str] =
            if items == "20" { &[r#"lifeboat_backup_lost_objects{schedule="daily"} 100"#] } else { &[] };
        assert_eq!(lines(&metrics, "lost_objects"), expected, "{items}");
    }
    metrics.observe(&World::default(), &TimeZone::UTC, Timestamp::UNIX_EPOCH);
    assert!(lines(&metrics, "lost_objects").is_empty());
}

#[test]
fn maintenance_is_counted_for_the_repositories_that_are_there() {
    let metrics = Metrics::new().unwrap();
    let (mut world, name) = (World::default(), "shop-default-kopia");
    let mut repository = lifeboat_api::BackupRepository::default();
    repository.metadata.name = name.into();
    world.repositories.put(repository);
    for repository in [name, "gone"] {
        metrics.maintenance_ended(repository, true, 70.0);
        metrics.maintenance_ended(repository, false, -1.0);
        metrics.maintenance_ended(repository, false, 400.0);
    }
    metrics.observe(&world, &TimeZone::UTC, Timestamp::UNIX_EPOCH);
    let told: Vec<String> =
        lines(&metrics, "repo_maintenance").into_iter().filter(|line| !line.contains("_bucket")).collect();
    assert_eq!(
        told,
        [
            format!("velero_repo_maintenance_duration_seconds_sum{{repository_name=\"{name}\"}} 470"),
            format!("velero_repo_maintenance_duration_seconds_count{{repository_name=\"{name}\"}} 3"),
            format!("velero_repo_maintenance_failure_total{{repository_name=\"{name}\"}} 2"),
            format!("velero_repo_maintenance_success_total{{repository_name=\"{name}\"}} 1"),
        ]
    );
}
