//! The completions, held against the tree of commands.

use super::*;
use crate::command::Lifeboat;

/// The places on command lines where names are completed, as `FIRST SECOND ARGUMENT KIND`, or without SECOND.
fn places() -> Vec<String> {
    let grammar = with_names(Lifeboat::grammar("velero"));
    let mut found = Vec::new();
    for outer in grammar.get_subcommands() {
        for arg in outer.get_arguments().filter(|arg| arg.get::<ArgValueCompleter>().is_some()) {
            let what = match of_command(outer.get_name(), arg.get_id().as_str()).unwrap() {
                Completed::Kind(kind) => kind,
                Completed::Types => "TYPE/",
            };
            found.push(format!("{} {} {what}", outer.get_name(), arg.get_id()));
        }
        for inner in outer.get_subcommands() {
            let (first, second) = (outer.get_name(), inner.get_name());
            for arg in inner.get_arguments().filter(|arg| arg.get::<ArgValueCompleter>().is_some()) {
                let kind = named_by(first, second, arg.get_id().as_str()).unwrap();
                found.push(format!("{first} {second} {} {kind}", arg.get_id()));
            }
        }
    }
    found
}

#[test]
fn names_are_completed_wherever_velero_completes_them() {
    let expected = "\
        backup create from_schedule Schedule
        backup create storage_location BackupStorageLocation
        backup create volume_snapshot_locations VolumeSnapshotLocation
        backup get names Backup
        backup describe names Backup
        backup logs name Backup
        backup download name Backup
        backup contents name Backup
        backup cancel names Backup
        backup hold names Backup
        backup release names Backup
        backup delete names Backup
        restore create from_backup Backup
        restore create from_schedule Schedule
        restore get names Restore
        restore describe names Restore
        restore logs name Restore
        restore cancel names Restore
        restore delete names Restore
        schedule create storage_location BackupStorageLocation
        schedule create volume_snapshot_locations VolumeSnapshotLocation
        schedule get names Schedule
        schedule describe names Schedule
        schedule delete names Schedule
        schedule pause names Schedule
        schedule unpause names Schedule
        schedule retention name Schedule
        backup-location get names BackupStorageLocation
        backup-location set name BackupStorageLocation
        backup-location delete names BackupStorageLocation
        snapshot-location get names VolumeSnapshotLocation
        snapshot-location set name VolumeSnapshotLocation
        repo get names BackupRepository
        get backups names Backup
        get restores names Restore
        get schedules names Schedule
        get backup-locations names BackupStorageLocation
        get snapshot-locations names VolumeSnapshotLocation
        describe backups names Backup
        describe restores names Restore
        describe schedules names Schedule
        create backup from_schedule Schedule
        create backup storage_location BackupStorageLocation
        create backup volume_snapshot_locations VolumeSnapshotLocation
        create restore from_backup Backup
        create restore from_schedule Schedule
        create schedule storage_location BackupStorageLocation
        create schedule volume_snapshot_locations VolumeSnapshotLocation
        delete backup names Backup
        delete restore names Restore
        delete schedule names Schedule
        delete backup-location names BackupStorageLocation
        browse name Backup
        diff before Backup
        diff after Backup
        history what TYPE/
        undelete what TYPE/
        undelete from Backup
        debug backup Backup
        debug restore Restore";
    assert_eq!(places(), expected.lines().map(str::trim).collect::<Vec<_>>());
}

#[test]
fn types_of_the_contents_of_a_backup_are_completed() {
    let mut grammar = with_names(Lifeboat::grammar("velero"));
    let found = ["backup", "local"].map(|outer| {
        let outer = grammar.find_subcommand_mut(outer).unwrap();
        let get = outer.find_subcommand_mut("contents").and_then(|one| one.find_subcommand_mut("get")).unwrap();
        let completed = get.get_arguments().filter(|arg| arg.get::<ArgValueCompleter>().is_some());
        completed.map(|arg| arg.get_id().to_string()).collect::<Vec<_>>()
    });
    assert_eq!(found, [["what"], ["what"]]);
}

#[test]
fn an_alias_is_completed_by_a_function_of_veleros_name() {
    assert_eq!(for_aliases("velero"), "__start_velero() {\n    _clap_complete_velero \"$@\"\n}\n");
    assert!(for_aliases("velero-1").contains("__start_velero-1() {\n    _clap_complete_velero_1 "));
}

#[test]
fn names_are_offered_once() {
    let words: Vec<OsString> = ["backup", "get", "a-1", "a"].map(Into::into).into();
    let found = ["a", "a-1", "a-2", "b"].map(String::from);
    assert_eq!(fitting(found.into(), &words, OsStr::new("a")), ["a", "a-2"]);
}

#[test]
fn the_line_says_where_to_ask() {
    let words: Vec<OsString> =
        ["-n", "x", "backup", "get", "--kubeconfig=/k", "--details", "a", "--kubecontext"].map(Into::into).into();
    assert_eq!(where_to(&words), ["-n", "x", "--kubeconfig=/k"]);
    assert_eq!(globals(&words).unwrap().namespace, "x");
}
