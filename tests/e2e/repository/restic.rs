//! `lifeboat repo`: repositories that restic wrote, read without a cluster.

use crate::repository_ground::RepositoryGround;
use crate::support::{gunzip, program, run};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Repositories that restic wrote; the README there says how.
const GOLDEN: &str = "../../crates/restic/tests/golden";

/// Unpacks a repository that restic wrote.
pub(crate) fn unpack(name: &str, target: &Path) {
    std::fs::create_dir_all(target).expect("folders");
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN).join(format!("{name}.tar.gz"));
    tar::Archive::new(gunzip(&archive).as_slice()).unpack(target).expect("it is unpacked");
}

fn ground_of(name: &str) -> RepositoryGround {
    let ground = RepositoryGround::new(name, "matrix-passw0rd\n");
    unpack(name, &ground.path(name));
    ground
}

#[test]
fn a_repository_of_restic_is_found_listed_and_restored() {
    for version in ["v1", "v2"] {
        let ground = ground_of(version);
        let snapshots = ground.json(&["snapshots"]);
        assert_eq!(snapshots.as_array().map(Vec::len), Some(2), "{snapshots}");
        let newest = &snapshots[1];
        let tags =
            serde_json::json!({"backup": "b1", "backup-uid": "u1", "ns": "old-shop", "pod": "web-0", "volume": "data"});
        assert_eq!((&newest["tags"], &newest["source"]["host"]), (&tags, &"velero".into()));
        // The ID that Velero has noted.
        let short = &newest["id"].as_str().expect("an ID")[..8];
        assert_eq!(ground.ok(&["ls", &format!("{short}:d")]), "dangling\ne/\nempty\nlarge-again\none\n");
        assert_eq!(ground.ok(&["cat", "latest:d/one"]), "1\n");
        assert_eq!(ground.ok(&["cat", "latest:link"]), "d/e/deep");
        let long = ground.ok(&["ls", "latest:d/one", "--long"]);
        assert!(long.starts_with("-0640   1234   5678              2 2017-07-14T02:40:00.000000001Z"), "{long}");
        let pipe: Value = serde_json::from_str(&ground.ok(&["ls", "latest:pipe", "-o", "json"])).expect("JSON");
        assert_eq!((&pipe["type"], &pipe["mode"]), (&"pipe".into(), &"0620".into()));

        let target = ground.path("back").display().to_string();
        let report = ground.json(&["restore", "latest:d", &target, "--no-owners"]);
        assert_eq!((&report["files"], &report["failed"]), (&4.into(), &0.into()), "{report}");
        assert_eq!(std::fs::read_to_string(ground.path("back/e/deep")).expect("a file"), "deep");
        let again = ground.json(&["restore", "latest:d", &target, "--no-owners", "--format", "restic"]);
        assert_eq!((&again["bytesFetched"], &again["failed"]), (&0.into(), &0.into()), "{again}");
    }
}

#[test]
fn commands_that_write_refuse_a_repository_of_restic() {
    let ground = ground_of("v2");
    let files = || walk(&ground.path("v2"));
    let before = files();
    for args in
        [&["verify"][..], &["stats"], &["snapshot", "."], &["maintenance", "run"], &["diff", "latest", "latest"]]
    {
        let run = ground.repo(args);
        assert_eq!(run.code, if args[0] == "diff" { 2 } else { 1 }, "{args:?}: {run:?}");
        assert!(
            run.err.contains("holds a restic repository, and this command is for those of kopia"),
            "{args:?}: {run:?}"
        );
    }
    let wrong = ground.repo(&["snapshots", "--format", "kopia"]);
    assert!(wrong.err.contains("holds no kopia repository"), "{wrong:?}");
    std::fs::write(ground.path("password"), "another").expect("write");
    let wrong = ground.repo(&["snapshots"]);
    assert!(wrong.err.contains("the password does not open the restic repository"), "{wrong:?}");
    assert_eq!(files(), before);
}

#[test]
fn of_two_repositories_of_a_namespace_the_format_chooses_one() {
    let ground = ground_of("v2");
    let bucket = ground.path("bucket");
    unpack("v2", &bucket.join("restic/shop"));
    std::fs::create_dir_all(bucket.join("kopia/shop")).expect("folders");
    std::fs::write(bucket.join("kopia/shop/kopia.repository"), "none").expect("write");
    let listed = |more: &[&str]| {
        let mut command = Command::new(program());
        command.args(["repo", "snapshots", "--velero", "shop", "--bucket"]).arg(&bucket).args(more);
        run(command.arg("--password-file").arg(ground.path("password")).env("KUBECONFIG", ground.path("none")))
    };
    let restic = listed(&["--format", "restic"]);
    assert_eq!(restic.code, 0, "{restic:?}");
    assert_eq!(restic.out.lines().filter(|line| line.contains("ns=old-shop")).count(), 2, "{restic:?}");
    let kopia = listed(&[]);
    assert!(
        kopia.err.contains("has a restic repository of an older Velero as well: --format restic reads that"),
        "{kopia:?}"
    );
    assert!(kopia.err.contains("kopia.repository"), "{kopia:?}");
}

/// The files below a folder with their lengths.
fn walk(folder: &Path) -> Vec<(String, u64)> {
    let (mut files, mut waiting) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                files.push((path.display().to_string(), path.metadata().expect("metadata").len()));
            }
        }
    }
    files.sort();
    files
}
