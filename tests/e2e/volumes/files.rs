//! `lifeboat volume ls`, `cat` and `restore`: volumes of Velero's backups, read from the bucket without a cluster.

use crate::support::{Run, gunzip, program, run};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A bucket of Velero's, unpacked.
struct VeleroBucket(TempDir);

impl VeleroBucket {
    fn unpacked() -> Self {
        let bucket = Self(tempfile::tempdir().expect("a folder"));
        let archive =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testbed/fixtures/repository/bucket.tar.gz");
        tar::Archive::new(gunzip(&archive).as_slice()).unpack(bucket.path("bucket")).expect("it is unpacked");
        bucket
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn volume(&self, args: &[&str]) -> Run {
        let mut command = Command::new(program());
        command.arg("volume").args(args).arg("--bucket").arg(self.path("bucket"));
        run(command.env("KUBECONFIG", self.path("none")).env("HOME", self.0.path()))
    }

    fn ok(&self, args: &[&str]) -> String {
        let run = self.volume(args);
        assert_eq!(run.code, 0, "{args:?}: {run:?}");
        run.out
    }

    fn refused(&self, args: &[&str]) -> String {
        let run = self.volume(args);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{args:?}: {run:?}");
        run.err
    }
}

#[test]
fn volumes_of_veleros_backups_are_listed_and_read_without_a_cluster() {
    let bucket = VeleroBucket::unpacked();
    // Saved through the node agent, by claim and by pod.
    let listed = bucket.ok(&["ls", "fs2", "vol/data-web-0"]);
    for name in ["added", "dir with space/", "random5m", "rel-link", "sparse8m"] {
        assert!(listed.lines().any(|line| line == name), "{name} is not in {listed}");
    }
    assert_eq!(bucket.ok(&["ls", "fs2", "vol/web-0:data"]), listed);
    assert_eq!(bucket.ok(&["ls", "fs2", "vol/data-web-0", "odd", "--recursive"]), "deep/\ndeep/s\n");
    let lines = bucket.ok(&["ls", "fs2", "web-0:scratch", "--object-namespace=vol", "-o=json", "-r"]);
    let mut entries: Vec<(String, u64)> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter(|entry| entry["type"] == "file")
        .map(|entry| (entry["path"].as_str().unwrap_or_default().to_owned(), entry["size"].as_u64().unwrap_or(9)))
        .collect();
    entries.sort();
    assert_eq!(entries, [("d/e2", 3), ("e1", 8), ("zero", 0)].map(|(path, size)| (path.to_owned(), size)));
    assert_eq!(bucket.ok(&["cat", "fs2", "vol/web-0:scratch", "d/e2"]).len(), 3);

    // Moved out of CSI snapshots.
    let moved = bucket.ok(&["ls", "dm1", "vol/data-web-0"]);
    assert!(moved.lines().any(|line| line == "random5m") && !moved.lines().any(|line| line == "added"), "{moved}");
    let device = bucket.ok(&["ls", "dm1", "vol/blk"]);
    assert!(device.contains("is a block device of 8388608 bytes"), "{device}");
    let device: Value = serde_json::from_str(&bucket.ok(&["ls", "dm1", "vol/blk", "-o", "json"])).expect("JSON");
    assert_eq!((&device["type"], &device["size"]), (&"device".into(), &8_388_608.into()));
}

#[test]
fn a_volume_comes_back_into_a_folder_whole_or_by_the_file() {
    let bucket = VeleroBucket::unpacked();
    let restore = |path: &[&str], into: &str| {
        let target = bucket.path(into);
        let flags = ["--no-owners", "-o", "json", "--into", &target.display().to_string()];
        let report = bucket.ok(&[&["restore", "fs2", "vol/web-0:scratch"], path, &flags].concat());
        (serde_json::from_str::<Value>(&report).expect("JSON"), target)
    };
    let (report, target) = restore(&[], "whole");
    assert_eq!((&report["files"], &report["failed"]), (&3.into(), &0.into()), "{report}");
    let e2 = bucket.ok(&["cat", "fs2", "vol/web-0:scratch", "d/e2"]);
    assert_eq!(std::fs::read_to_string(target.join("d/e2")).expect("a file"), e2);
    let (_, target) = restore(&["d/e2"], "one/below");
    assert_eq!(std::fs::read_to_string(target.join("e2")).expect("a file"), e2);
    assert_eq!(std::fs::read_dir(target).expect("a folder").count(), 1);
    let (report, _) = restore(&["d"], "part");
    assert_eq!(report["files"], 1);
}

#[test]
fn a_volume_that_cannot_be_read_is_refused_with_the_reason_and_what_to_do() {
    let bucket = VeleroBucket::unpacked();
    let other = bucket.path("other");
    std::fs::write(&other, "other").expect("write");
    let wrong = format!("--password-file={}", other.display());
    for (args, expected) in [
        (
            &["ls", "fs2", "vol/blk"][..],
            "it was not saved: podvolume: volume dev declared in pod vol/blkpod is a block volume",
        ),
        (
            &["ls", "fs2", "vol/none"],
            "the volumes that it has in repositories are vol/data-web-0, vol/web-0:data, vol/web-0:scratch",
        ),
        (&["ls", "none", "vol/data-web-0"], "none"),
        (&["ls", "fs2", "data-web-0"], "write NAMESPACE/data-web-0"),
        (&["ls", "fs2", "vol/data-web-0", "gone"], "the path \"gone\""),
        (&["cat", "fs2", "vol/data-web-0"], "is a directory: name a file"),
        (&["cat", "dm1", "vol/blk", "a"], "is a block device: it has no files"),
        (&["ls", "fs2", "vol/data-web-0", &wrong], "the password does not open the repository"),
    ] {
        let told = bucket.refused(args);
        assert!(told.contains(expected), "{args:?}: {told}");
    }
    let told = bucket.refused(&["restore", "fs2", "vol/data-web-0", "..", "--into", "/nowhere"]);
    assert!(told.contains("the path \"..\""), "{told}");
    std::fs::remove_dir_all(bucket.path("bucket/kopia")).expect("remove");
    let told = bucket.refused(&["ls", "fs2", "vol/data-web-0"]);
    assert!(told.contains("has nothing below kopia/vol/"), "{told}");
}
