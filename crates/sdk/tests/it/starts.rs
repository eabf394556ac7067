//! The start: what a plugin is started with, and the one line that it prints.

use crate::process::{PROGRAM, Plugin, command, ended, log, messages};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

#[tokio::test]
async fn a_person_is_told_what_the_program_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut by_hand = command(folder.path());
    by_hand.env_remove("VELERO_PLUGIN").arg("--log-level=nonsense");
    let output = ended(by_hand).await;
    let expected = "This is a plugin for Velero and Lifeboat, whose servers start it themselves when it lies in their folder for plugins \
         (/plugins).\nIt offers:\n  BackupItemActionV2 example.io/Save_1\n  BackupItemActionV2 example.io/odd\n  \
         VolumeSnapshotter example.io/volumes\n  ObjectStore example.io/files\n  RestoreItemActionV2 example.io/restore\n  \
         DeleteItemAction example.io/delete\n  ItemBlockAction example.io/block\n";
    let printed = (output.status.code(), output.stdout, String::from_utf8(output.stderr).unwrap());
    assert_eq!(printed, (Some(1), vec![], expected.to_owned()));
}

#[tokio::test]
async fn what_is_not_understood_is_refused_in_the_log_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    for (name, value, argument, code, expected) in [
        ("PLUGIN_CLIENT_CERT", "-----BEGIN", "", 1, "The plugin cannot be started: the server asks for TLS"),
        (
            "A",
            "b",
            "--log-level=warn",
            2,
            "The plugin cannot be started: invalid argument \"warn\" for \"--log-level\"",
        ),
        ("TMPDIR", "/nowhere", "", 1, "The plugin cannot serve: a socket could not be made in /nowhere"),
        (
            "PLUGIN_UNIX_SOCKET_GROUP",
            "nobody's",
            "",
            1,
            "The plugin cannot serve: the socket could not be given to the group",
        ),
    ] {
        let mut refused = command(folder.path());
        refused.env(name, value).arg(argument);
        let output = ended(refused).await;
        assert_eq!((output.status.code(), output.stdout), (Some(code), vec![]), "{name} {argument}");
        let log = messages(&log(&output.stderr));
        assert!(log.len() == 1 && log[0].0 == "error" && log[0].1.starts_with(expected), "{log:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn one_line_is_all_that_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let expected = format!("1|2|unix|{}/plugin", folder.path().display());
    let plugin = Plugin::with(command(folder.path()), folder).await;
    assert!(plugin.handshake.starts_with(&expected) && plugin.handshake.ends_with("|grpc|\n"), "{}", plugin.handshake);
    let left = plugin.shut_down().await;
    assert_eq!((left.output, left.log), (vec![], vec![]));
}

#[tokio::test]
async fn any_command_line_is_taken_and_the_level_found_in_it() {
    for (arguments, is_debug) in [
        // Velero 1.0 to 1.14, and from 1.15.
        (&["--log-level", "debug", "--features", "EnableCSI"][..], true),
        (&["--log-level", "info", "--features", ""], false),
        (&["--features=EnableCSI", "--uploader-type=kopia", "--log-level=debug", "--client-qps", "-1.5"], true),
        (&["run-plugins", "--restore-only", "--unknown", "x", "-v", "--", "--log-level=debug"], false),
    ] {
        let left = Plugin::start(arguments).await.shut_down().await;
        let has_address =
            messages(&left.log).iter().any(|line| *line == ("debug".to_owned(), "plugin address".to_owned()));
        assert_eq!((left.status.code(), has_address), (Some(0), is_debug), "{arguments:?}");
    }
}

#[tokio::test]
async fn the_socket_is_where_and_for_whom_the_server_says() {
    let (folder, sockets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let group = std::fs::metadata(sockets.path()).unwrap().gid();
    let mut with_group = command(folder.path());
    with_group.env("PLUGIN_UNIX_SOCKET_DIR", sockets.path()).env("PLUGIN_UNIX_SOCKET_GROUP", group.to_string());
    with_group.env("PLUGIN_MULTIPLEX_GRPC", "true");
    let plugin = Plugin::with(with_group, folder).await;
    assert!(plugin.socket.starts_with(sockets.path()), "{}", plugin.handshake);
    assert!(plugin.handshake.ends_with("|grpc||false\n"), "{}", plugin.handshake);
    let metadata = std::fs::metadata(&plugin.socket).unwrap();
    assert_eq!((metadata.gid(), metadata.permissions().mode() & 0o777), (group, 0o660));
    assert!(!plugin.shut_down().await.is_socket_there);
}

#[tokio::test]
async fn it_says_the_path_by_which_it_was_started() {
    use lifeboat_plugin_proto::generated::plugin_lister_client::PluginListerClient;
    use lifeboat_plugin_proto::generated::{Empty, PluginIdentifier};
    let folder = tempfile::tempdir().unwrap();
    let odd_path = folder.path().join("../..").join(PROGRAM.trim_start_matches('/'));
    let mut by_odd_path = command(folder.path());
    by_odd_path.arg0(&odd_path);
    let plugin = Plugin::with(by_odd_path, folder).await;
    let listed = PluginListerClient::new(plugin.connect().await).list_plugins(Empty {}).await.unwrap().into_inner();
    let expected = [
        ("BackupItemActionV2", "example.io/Save_1"),
        ("BackupItemActionV2", "example.io/odd"),
        ("VolumeSnapshotter", "example.io/volumes"),
        ("ObjectStore", "example.io/files"),
        ("RestoreItemActionV2", "example.io/restore"),
        ("DeleteItemAction", "example.io/delete"),
        ("ItemBlockAction", "example.io/block"),
    ];
    let command = odd_path.to_str().unwrap();
    let plugin = |(kind, name): (&str, &str)| PluginIdentifier {
        command: command.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    };
    assert_eq!(listed.plugins, expected.map(plugin));
}
