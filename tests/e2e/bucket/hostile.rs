//! Archives that are damaged or made to do harm are refused before anything is changed in the cluster.

use crate::support::{Run, Sandbox, program, run};
use crate::tea::undelete;
use flate2::Compression;
use flate2::write::GzEncoder;
use lifeboat_archive::gzip::unpack;
use lifeboat_archive::tarball::entry_hash;
use lifeboat_testbed::Binaries;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

const MANIFEST: &str = r#"
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}, data: {a: "1"}}
"#;

fn local(sandbox: &Sandbox, folder: &Path, args: &[&str]) -> Run {
    let mut command = Command::new(program());
    command.arg("local").args(args).arg("--bucket").arg(folder.join("bucket"));
    command.env("KUBECONFIG", sandbox.kubeconfig()).env("XDG_STATE_HOME", folder.join("state"));
    run(&mut command)
}

/// Browses the backup `one` with kubectl.
fn looked_into(folder: &Path) -> Run {
    let kubectl = Binaries::ensure().expect("kubectl").path("kubectl");
    let mut command = Command::new(program());
    command.args(["browse", "one", "--bucket"]).arg(folder.join("bucket")).arg("--").arg(kubectl);
    run(command.args(["get", "configmaps", "--all-namespaces", "--output=json"]))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// A tar.gz of the entries that `build` adds.
fn archive(build: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    build(&mut builder);
    gzip(&builder.into_inner().expect("memory"))
}

/// A regular file under any path, also one that the library would refuse to write.
fn file(builder: &mut tar::Builder<Vec<u8>>, path: &str, content: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
    header.set_cksum();
    builder.append(&header, content).expect("memory");
}

/// An object under its two paths.
fn object(builder: &mut tar::Builder<Vec<u8>>, place: &str, content: &[u8]) {
    for version in ["", "v1-preferredversion/"] {
        file(builder, &format!("resources/configmaps/{version}namespaces/{place}.json"), content);
    }
}

fn config_map(name: &str, data: &str) -> Vec<u8> {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"evil"}},"data":{data}}}"#
    )
    .into_bytes()
}

/// A well-behaved object first, so that a restore that only fails on the way would have made it.
fn with_first(build: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
    archive(|builder| {
        object(builder, "evil/first", &config_map("first", "{}"));
        build(builder);
    })
}

/// An index that fits the objects of an archive: who can write the one can write the other.
fn index_of(tarball: &[u8]) -> Vec<u8> {
    let tar = unpack(tarball, 1 << 30).expect("an archive of ours");
    let mut rows = Vec::new();
    for entry in tar::Archive::new(tar.as_slice()).entries().expect("an archive of ours") {
        let mut entry = entry.expect("an archive of ours");
        let path = entry.path().expect("a path").display().to_string();
        let parts: Vec<&str> = path.split('/').collect();
        let ["resources", resource, "namespaces", namespace, file] = parts[..] else { continue };
        let (offset, mut body) = (entry.raw_header_position(), Vec::new());
        entry.read_to_end(&mut body).expect("an archive of ours");
        let name = file.strip_suffix(".json").expect("an object");
        rows.push(json!([resource, "v1", 1, namespace, name, 0, offset, body.len(), hex::encode(entry_hash(&body))]));
    }
    let tarball_of = json!({"size": tarball.len(), "sha256": "", "objects": rows.len(), "tarLength": tar.len()});
    let members = json!([[0, tarball.len(), tar.len()]]);
    let index = json!({"format": "lifeboat.io/index/v1", "objects": rows, "members": members, "tarball": tarball_of});
    gzip(index.to_string().as_bytes())
}

/// Archives to attack with beside an index of their own.
fn with_index() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let mut cases = cases(&gzip(b"x"));
    cases.retain(|(what, ..)| ["bomb", "deep", "other name", "other namespace", "no object"].contains(what));
    let allowed = "allowed are 67108864";
    let padded = with_first(|b| file(b, "metadata/x", &vec![0; 200 << 20]));
    cases.push(("a member that unpacks to 200 MiB", padded, allowed));
    let twice = with_first(|b| {
        object(b, "evil/first", &config_map("first", r#"{"a":"b"}"#));
    });
    cases.push(("twice", twice, "configmaps/evil/first stands in the archive twice"));
    cases
}

fn cases(good: &[u8]) -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let deep = format!("{}1{}", r#"{"a":"#.repeat(20_000), "}".repeat(20_000));
    let mut flipped = good.to_vec();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0xff;
    let link = with_first(|builder| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        builder.append_link(&mut header, "resources/configmaps/namespaces/evil/x.json", "/etc/passwd").expect("memory");
    });
    vec![
        ("truncated", good[..middle].to_vec(), "truncated"),
        ("flipped", flipped, "cannot read the archive"),
        ("no gzip", b"this is no archive".to_vec(), "cannot read the archive"),
        ("empty", Vec::new(), "truncated"),
        ("link", link, "is a link"),
        ("escape", with_first(|b| file(b, "../../etc/cron.d/x", b"x")), "escapes target directory"),
        ("absolute", with_first(|b| file(b, "/etc/cron.d/x", b"x")), "escapes target directory"),
        ("bomb", with_first(|b| object(b, "evil/x", &vec![b' '; (64 << 20) + 1])), "allowed are 67108864"),
        ("deep", with_first(|b| object(b, "evil/x", &config_map("x", &deep))), "is nested deeper than 10000 levels"),
        ("other name", with_first(|b| object(b, "evil/x", &config_map("y", "{}"))), "x.json"),
        ("other namespace", with_first(|b| object(b, "shop/x", &config_map("x", "{}"))), "x.json"),
        ("no object", with_first(|b| object(b, "evil/x", b"[1, 2")), "is no Kubernetes object"),
    ]
}

#[test]
fn hostile_archives_change_nothing() {
    let sandbox = Sandbox::start(MANIFEST);
    let folder = tempfile::tempdir().expect("a folder");
    let made = local(&sandbox, folder.path(), &["backup", "one"]);
    assert_eq!(made.code, 0, "{made:?}");
    let backup = folder.path().join("bucket/backups/one");
    let tarball: PathBuf = backup.join("one.tar.gz");
    let good = std::fs::read(&tarball).expect("the archive");
    let state = || sandbox.kubectl().try_run(&["get", "namespaces,configmaps", "-A", "-o", "json"]).expect("the state");
    let before = state();

    let index = backup.join("one-index.json.gz");
    let good_index = std::fs::read(&index).expect("the index");
    for (what, bytes, expected) in with_index() {
        std::fs::write(&index, index_of(&bytes)).expect("write");
        std::fs::write(&tarball, bytes).expect("write");
        let run = local(&sandbox, folder.path(), &["restore", "r", "--from-backup", "one"]);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{what}, with an index of its own: {run:?}");
        assert!(run.err.contains(expected), "{what}, with an index of its own: {run:?} does not say {expected:?}");
        let run = looked_into(folder.path());
        assert_eq!(run.code, 1, "{what}, with an index of its own: {run:?}");
        assert!(run.err.contains(expected), "{what}, with an index of its own: {run:?} does not say {expected:?}");
    }
    std::fs::write(&index, good_index).expect("write");

    // Beside its index the archive must be what was written; without index it is read as Velero's would be.
    for with_index in [true, false] {
        if !with_index {
            std::fs::remove_file(&index).expect("the index");
        }
        for (what, bytes, expected) in cases(&good) {
            std::fs::write(&tarball, bytes).expect("write");
            for args in
                [&["restore", "r", "--from-backup", "one"][..], &["restore", "r", "--from-backup", "one", "--dry-run"]]
            {
                let run = local(&sandbox, folder.path(), args);
                assert_eq!((run.code, run.out.as_str()), (1, ""), "{what}, index {with_index}: {run:?}");
                assert!(run.err.contains(expected), "{what}, index {with_index}: {run:?} does not say {expected:?}");
            }
            let run = local(&sandbox, folder.path(), &["verify", "one"]);
            assert_eq!(run.code, 1, "{what}, index {with_index}: {run:?}");
            let run = looked_into(folder.path());
            let says = |text: &str| run.err.contains(text);
            assert_eq!(run.code, 1, "{what}, index {with_index}: {run:?}");
            // Only what is asked for is read, and held against the index.
            let is_told = says(expected) || (with_index && says("the archive does not match its index"));
            assert!(is_told, "{what}, index {with_index}: {run:?} does not say {expected:?}");
        }
    }
    assert_eq!(before, state());
    std::fs::write(&tarball, good).expect("write");
    let run = local(&sandbox, folder.path(), &["restore", "r", "--from-backup", "one"]);
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn names_in_an_archive_drive_no_terminal() {
    let sandbox = Sandbox::start(MANIFEST);
    let folder = tempfile::tempdir().expect("a folder");
    let made = local(&sandbox, folder.path(), &["backup", "one"]);
    assert_eq!(made.code, 0, "{made:?}");
    let map = |name: &str, metadata: Value| {
        let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        map["metadata"]["name"] = name.into();
        map["metadata"]["namespace"] = "evil".into();
        map.to_string().into_bytes()
    };
    let name = "a\u{1b}[2J\nb";
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "first", "uid": "u"}]);
    let bytes = archive(|builder| {
        object(builder, "evil/first", &map("first", json!({"uid": "u"})));
        object(builder, &format!("evil/{name}"), &map(name, json!({"ownerReferences": owner})));
    });
    let backup = folder.path().join("bucket/backups/one");
    std::fs::write(backup.join("one.tar.gz"), bytes).expect("write");
    std::fs::remove_file(backup.join("one-index.json.gz")).expect("the index");
    let line = "cm/first --object-namespace evil --with-owned --dry-run";
    for run in [
        local(&sandbox, folder.path(), &["restore", "r", "--from-backup", "one", "--dry-run", "--details"]),
        undelete(&sandbox.kubeconfig(), folder.path(), line),
    ] {
        let told = |text: &str| text.split('\n').any(|line| line.contains(char::is_control));
        assert!(!told(&run.out) && !told(&run.err), "{run:?}");
        let lines: Vec<&str> = run.out.lines().filter(|line| line.contains("2J")).collect();
        assert_eq!((run.code, lines), (0, vec![r"create    configmaps/evil/a\u{1b}[2J\nb"]), "{run:?}");
    }
}
