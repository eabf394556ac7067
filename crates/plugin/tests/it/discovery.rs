//! Tests of finding programs and asking them for their plugins.

use crate::bed::{Bed, exists};
use lifeboat_plugin::{PluginIdentity, PluginKind};
use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

fn identity(kind: PluginKind, name: &str) -> PluginIdentity {
    PluginIdentity { kind, name: name.parse().unwrap() }
}

#[tokio::test]
async fn handshakes_with_fewer_and_more_fields_are_taken() {
    for switch in ["", "5-fields", "extra-fields"] {
        let bed = Bed::new().with("p", "ObjectStore=a.io/a", switch);
        assert_eq!(bed.discover().await.unwrap().plugins(), [identity(PluginKind::ObjectStore, "a.io/a")], "{switch}");
    }
}

#[tokio::test]
async fn every_wrong_handshake_is_told_at_once_with_the_output_of_the_program() {
    let bed = Bed::new()
        .with_script("a-none", "echo unknown flag: --wrong >&2; exit 3")
        .with_script("b-garbage", "echo Hello, world")
        .with_script("c-core", "echo '2|2|unix|/s|grpc|'")
        .with_script("d-version", "echo '1|1|unix|/s|grpc|'")
        .with_script("e-netrpc", "echo '1|2|unix|/s|netrpc|'")
        .with_script("f-old", "echo '1|2|unix|/s'")
        .with_script("g-nowhere", "echo '1|2|unix|/nowhere/s|grpc|'; exec sleep 100")
        .with_script("h-killed", "kill -9 $$");
    fs::write(bed.program("i-binary"), [0x7f, b'E', b'L', b'F', 2]).unwrap();
    fs::set_permissions(bed.program("i-binary"), fs::metadata(bed.program("h-killed")).unwrap().permissions()).unwrap();
    let problems = bed.problems().await;
    let expected = [
        ("a-none", "plugin exited before we could connect (exit status 3); it printed: \"unknown flag: --wrong\""),
        ("b-garbage", "Unrecognized remote plugin message: \"Hello, world\". A plugin prints `1|2|unix|PATH|grpc|`"),
        ("c-core", "Incompatible core API version with plugin. Plugin version: 2, Core version: 1."),
        ("d-version", "incompatible API version with plugin. Plugin version: 1, Client versions: [2]."),
        ("e-netrpc", "unsupported plugin protocol \"netrpc\". Supported: [grpc] (exit status 0)"),
        ("f-old", "unsupported plugin protocol \"netrpc\". Supported: [grpc] (exit status 0)"),
        ("g-nowhere", "it takes no connection where it says that it listens: "),
        ("h-killed", "plugin exited before we could connect (signal: killed)"),
        ("i-binary", "Exec format error (os error 8); it is no program for this kind of machine"),
    ];
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for ((program, why), problem) in expected.iter().zip(&problems) {
        let start = format!("the plugin {} cannot be started: {why}", bed.program(program).display());
        assert!(problem.starts_with(&start), "{problem}\n{start}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_that_says_nothing_for_a_minute_is_killed_and_told() {
    let bed = Bed::new().with_script("p", "echo $$ > \"$TMPDIR/process\"; exec sleep 1000");
    let problems = bed.problems().await;
    assert!(problems[0].contains("timeout while waiting for plugin to start: no line within 60s"), "{problems:?}");
    // As the clock is no real one, it may be killed before it has noted who it is.
    let process = fs::read_to_string(bed.path("tmp").join("process")).unwrap_or_default();
    let is_gone = || process.trim().parse().is_ok_and(|process: u32| !exists(process)) || process.is_empty();
    let begun = Instant::now();
    while !is_gone() && begun.elapsed() < Duration::from_secs(20) {
        tokio::task::yield_now().await;
    }
    assert!(is_gone());
}

#[tokio::test]
async fn plugins_go_by_program_and_folders_are_in_place() {
    let bed = Bed::new()
        .with("b", "BackupItemAction=b.io/2 BackupItemAction=b.io/1 RestoreItemActionV2=b.io/1", "")
        .with("a/z", "ItemBlockAction=z.io/z", "")
        .with("a-x", "DeleteItemAction=x.io/x", "")
        .with("c", "BackupItemActionV2=c.io/c ItemSnapshotter=c.io/old VolumeSnapshotter=c.io/c", "")
        .with("libc.so", "ObjectStore=never.io/asked", "");
    fs::write(bed.program("README"), "no program").unwrap();
    symlink(bed.program("a"), bed.program("link")).unwrap();
    let host = bed.discover().await.unwrap();
    assert_eq!(
        host.plugins(),
        [
            identity(PluginKind::ItemBlockAction, "z.io/z"),
            identity(PluginKind::DeleteItemAction, "x.io/x"),
            identity(PluginKind::BackupItemAction, "b.io/2"),
            identity(PluginKind::BackupItemAction, "b.io/1"),
            identity(PluginKind::RestoreItemActionV2, "b.io/1"),
            identity(PluginKind::BackupItemActionV2, "c.io/c"),
            identity(PluginKind::VolumeSnapshotter, "c.io/c"),
        ]
    );
    let started = bed.started();
    assert_eq!(started.len(), 4);
    assert!(!started.into_iter().any(exists), "a program is ended when it was asked");
    assert_eq!(bed.sockets(), 0);
}

#[tokio::test]
async fn a_missing_folder_has_no_plugins() {
    let mut bed = Bed::new();
    bed.options.directory = bed.path("none");
    assert_eq!(bed.discover().await.unwrap().plugins(), []);
}

#[tokio::test]
async fn all_that_is_wrong_with_plugins_is_told_in_one_message() {
    let mut bed = Bed::new()
        .with("a", "ObjectStore=a.io/a ObjectStore=none BackupItemAction=velero.io/pod ObjectStore=velero.io/aws", "")
        .with("b", "ObjectStore=a.io/a", "")
        .with("c", "", "lists-badly");
    bed.options.built_in = vec![
        identity(PluginKind::BackupItemAction, "velero.io/pod"),
        identity(PluginKind::ObjectStore, "velero.io/aws"),
    ];
    bed.options.replaceable = vec![identity(PluginKind::ObjectStore, "velero.io/aws")];
    let error = bed.discover().await.unwrap_err();
    let [a, b, c] = ["a", "b", "c"].map(|name| bed.program(name).display().to_string());
    let why = "because another plugin is already registered for this kind and name";
    assert_eq!(
        error.problems,
        [
            format!(
                "{a} reports an invalid plugin name \"none\": it has a prefix and a name with one slash between them"
            ),
            format!(
                "unable to register plugin (kind=BackupItemAction, name=velero.io/pod, command={a}) {why} (it is built in): what it \
                 does is built in; take the program out of the plugin directory, with the init container that puts it there"
            ),
            format!(
                "unable to register plugin (kind=ObjectStore, name=a.io/a, command={b}) {why} (command={a}): take one of both \
                 programs out of the plugin directory"
            ),
            format!(
                "the plugin {c} cannot be started: it does not say which plugins it has: rpc error: code = Unknown desc = no list \
                 today"
            ),
        ]
    );
    assert!(
        error
            .to_string()
            .starts_with(&format!("plugins in {} cannot be used: {a} reports", bed.options.directory.display()))
    );
}

#[tokio::test]
async fn a_program_has_the_given_arguments_and_environment_and_the_protocol_s() {
    let mut bed = Bed::new().with("p", "", "");
    bed.options.arguments = ["--log-level=debug", "--features=EnableCSI"].map(Into::into).to_vec();
    let variables = [
        (
            "FIXTURE_SHOWN",
            "FIXTURE_COMMAND FIXTURE_ARGUMENTS INHERITED VELERO_PLUGIN PLUGIN_MIN_PORT PLUGIN_MAX_PORT \
          PLUGIN_PROTOCOL_VERSIONS PLUGIN_CLIENT_CERT PLUGIN_MULTIPLEX_GRPC PLUGIN_OF_USER CARGO_PKG_NAME",
        ),
        ("INHERITED", "as it is"),
        ("PLUGIN_OF_USER", "kept"),
        ("VELERO_PLUGIN", "wrong"),
        ("PLUGIN_CLIENT_CERT", "a certificate"),
        ("PLUGIN_MULTIPLEX_GRPC", "true"),
    ];
    bed.options.environment.extend(variables.map(|(name, value)| (name.into(), value.into())));
    bed.discover().await.unwrap();
    assert_eq!(
        bed.diary(),
        [
            &format!("FIXTURE_COMMAND={}", bed.program("p").display()),
            "FIXTURE_ARGUMENTS=--log-level=debug --features=EnableCSI",
            "INHERITED=as it is",
            "VELERO_PLUGIN=hello",
            "PLUGIN_MIN_PORT=10000",
            "PLUGIN_MAX_PORT=25000",
            "PLUGIN_PROTOCOL_VERSIONS=2",
            "PLUGIN_CLIENT_CERT=(unset)",
            "PLUGIN_MULTIPLEX_GRPC=(unset)",
            "PLUGIN_OF_USER=kept",
            "CARGO_PKG_NAME=(unset)",
        ]
    );
}

#[tokio::test]
async fn an_old_plugin_without_a_stream_for_what_it_prints_is_taken() {
    let bed = Bed::new().with("p", "ObjectStore=a.io/a", "no-stdio");
    assert_eq!(bed.discover().await.unwrap().plugins(), [identity(PluginKind::ObjectStore, "a.io/a")]);
}
