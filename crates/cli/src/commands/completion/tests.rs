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
        restore plan from_backup Backup
        restore plan from_schedule Schedule
        restore diff from_backup Backup
        restore diff from_schedule Schedule
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
        repo describe names BackupRepository
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
        expiry names Backup
        expiry schedule Schedule
        browse name Backup
        diff before Backup
        diff after Backup
        history what TYPE/
        undelete what TYPE/
        undelete from Backup
        volume ls backup Backup
        volume cat backup Backup
        volume restore backup Backup
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

/// The arguments that take a name or another word of the user and complete none, by the reason.
const UNCOMPLETED: [(&str, &[&str]); 9] = [
    (
        "names what is not there yet",
        &[
            "local backup name",
            "local restore name",
            "backup create name",
            "restore create name",
            "schedule create name",
            "backup-location create name",
            "snapshot-location create name",
            "create backup name",
            "create restore name",
            "create schedule name",
            "create backup-location name",
            "create snapshot-location name",
        ],
    ),
    (
        "is in a bucket or repository, which no shell is made to wait for",
        &[
            "local restore from_backup",
            "local restore from_schedule",
            "local ls name",
            "local describe name",
            "local contents name",
            "local verify name",
            "repo ls entry",
            "repo cat entry",
            "repo mount entry",
            "repo restore entry",
            "repo verify snapshots",
            "repo diff before",
            "repo diff after",
            "repo stats snapshot",
            "volume ls name",
            "volume ls path",
            "volume cat name",
            "volume cat path",
            "volume restore name",
            "volume restore path",
        ],
    ),
    (
        "names an object, of which a cluster may have very many: its type is completed",
        &[
            "local contents get object_name",
            "backup contents get object_name",
            "history object_name",
            "undelete object_name",
            "volume explain claim",
        ],
    ),
    (
        "is a path",
        &[
            "local contents extract folder",
            "backup contents extract folder",
            "repo snapshot path",
            "repo mount folder",
            "repo restore target",
            "man directory",
        ],
    ),
    (
        "names a kind of object that is not listed for shells",
        &[
            "local backup resource_policies_configmap",
            "local restore resource_modifier_configmap",
            "local restore resource_policies_configmap",
            "backup create resource_policies_configmap",
            "restore create resource_modifier_configmap",
            "restore create resource_policies_configmap",
            "restore plan resource_modifier_configmap",
            "restore plan resource_policies_configmap",
            "restore diff resource_modifier_configmap",
            "restore diff resource_policies_configmap",
            "schedule create resource_policies_configmap",
            "create backup resource_policies_configmap",
            "create restore resource_modifier_configmap",
            "create restore resource_policies_configmap",
            "create schedule resource_policies_configmap",
            "volume explain resource_policies_configmap",
            "install directory_claim",
            "install service_account_name",
            "install backup_repository_configmap",
            "install repo_maintenance_job_configmap",
            "install default_resource_modifier_configmap",
            "install node_agent_configmap",
            "install server_priority_class_name",
            "install node_agent_priority_class_name",
        ],
    ),
    (
        "names a location, and no server is asked that could use it",
        &["local backup storage_location", "volume explain storage_location"],
    ),
    (
        "is a word of a provider, an image or a program",
        &[
            "local backup data_mover",
            "backup create data_mover",
            "schedule create data_mover",
            "create backup data_mover",
            "create schedule data_mover",
            "volume explain data_mover",
            "backup-location create provider",
            "backup-location create bucket",
            "snapshot-location create provider",
            "create backup-location provider",
            "create backup-location bucket",
            "create snapshot-location provider",
            "repo create hash",
            "repo create encryption",
            "repo create splitter",
            "plugin add image",
            "plugin remove which",
            "install provider",
            "install bucket",
            "install uploader_type",
        ],
    ),
    (
        "is a free text",
        &[
            "kubecontext",
            "repo snapshot user",
            "repo snapshot host",
            "client config get keys",
            "client config set pairs",
            "browse command",
        ],
    ),
    (
        "stands in a manifest, and is typed by nobody",
        &[
            "node-agent server backup_repository_configmap",
            "node-agent server node_agent_configmap",
            "node-agent server node_name",
            "data-mover backup cbt_sa_name",
            "data-mover backup data_upload",
            "data-mover restore data_download",
            "pod-volume backup pod_volume_backup",
            "pod-volume restore pod_volume_restore",
            "repo-maintenance backup_storage_location",
            "restore-helper uid",
            "server default_backup_storage_location",
            "server uploader_type",
            "server backup_repository_configmap",
            "server repo_maintenance_job_configmap",
            "server global_backup_volume_policies_configmap",
            "server default_resource_modifier_configmap",
            "server identity",
        ],
    ),
];

/// Adds the arguments of a command and those below it that take a word and complete none, as `WORDS ARGUMENT`.
fn add_uncompleted(path: &str, command: &Command, out: &mut BTreeSet<String>) {
    let takes_word = |arg: &&clap::Arg| {
        let is_name =
            arg.is_positional() || arg.get_value_names().unwrap_or_default().iter().any(|name| name == "NAME");
        is_name && arg.get_possible_values().is_empty() && arg.get_action().takes_values()
    };
    let open = command.get_arguments().filter(takes_word).filter(|arg| arg.get::<ArgValueCompleter>().is_none());
    out.extend(open.map(|arg| format!("{path} {}", arg.get_id()).trim_start().to_owned()));
    for below in command.get_subcommands() {
        add_uncompleted(format!("{path} {}", below.get_name()).trim_start(), below, out);
    }
}

#[test]
fn every_command_that_takes_a_name_completes_it_or_says_why_not() {
    let mut found = BTreeSet::new();
    add_uncompleted("", &with_names(Lifeboat::grammar("velero")), &mut found);
    let listed = UNCOMPLETED.iter().flat_map(|(_, arguments)| *arguments).map(|one| (*one).to_owned());
    assert_eq!(found, listed.collect());
}
