//! `lifeboat repo` on a repository that Velero 1.18 wrote.

use crate::support::{Run, gunzip, program, run};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const GOLDEN: &str = "repository/golden";
/// The first snapshots of the two volumes, and a later one of the second.
const VOLUME: &str = "d1a9a9cd4b018c3164422e27aa18312a";
const SCRATCH: [&str; 2] = ["0f4f696cfb8c4ed82e1038f8dbd763e5", "39bc96795aaf31cc568c96dc224ddf78"];
/// The files whose contents the golden repository has not.
const DAMAGED: [&str; 2] = ["random5m", "sparse8m"];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN).join(name)
}

/// The bucket of a location, unpacked, and the password.
struct SavedVolumes {
    folder: TempDir,
}

impl SavedVolumes {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let bucket = folder.path().join("bucket");
        tar::Archive::new(gunzip(&golden("velero-volumes.tar.gz")).as_slice()).unpack(bucket).expect("it is unpacked");
        fs::write(folder.path().join("password"), "static-passw0rd").expect("write");
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn repo(&self, args: &[&str]) -> Run {
        let mut command = Command::new(program());
        command.arg("repo").args(args).args(["--velero", "vol", "--bucket"]).arg(self.path("bucket"));
        command.arg("--password-file").arg(self.path("password"));
        command.env("KUBECONFIG", self.path("none")).env("XDG_STATE_HOME", self.path("state"));
        run(&mut command)
    }

    fn json(&self, args: &[&str], code: i32) -> Value {
        let run = self.repo(&[args, &["-o", "json"]].concat());
        assert_eq!(run.code, code, "{args:?}: {run:?}");
        serde_json::from_str(&run.out).expect("JSON")
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// An entry as `lstat` tells it: type, mode, time, owner where that can be set, and hash or target.
fn entry_at(path: &Path) -> Value {
    let found = path.symlink_metadata().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let modified = found.mtime() * 1_000_000_000 + found.mtime_nsec();
    let mut entry = serde_json::json!({
        "mode": format!("0o{:o}", found.permissions().mode() & 0o7777),
        "mtime_ns": modified,
    });
    let kind = if found.is_dir() {
        "dir"
    } else if found.is_symlink() {
        entry["link"] = fs::read_link(path).expect("a link").to_string_lossy().into();
        "link"
    } else {
        entry["sha256"] = hex::encode(Sha256::digest(fs::read(path).expect("a file"))).into();
        "file"
    };
    entry["type"] = kind.into();
    if !found.is_dir() {
        entry["size"] = found.len().into();
    }
    if is_root() {
        (entry["uid"], entry["gid"]) = (found.uid().into(), found.gid().into());
    }
    entry
}

/// The entries of the volume as it was saved, by path.
fn saved() -> BTreeMap<String, Value> {
    let rows = fs::read(golden("velero-volumes.json")).expect("a file");
    let rows: Vec<Value> = serde_json::from_slice(&rows).expect("JSON");
    let entry = |mut row: Value| {
        let fields = row.as_object_mut().expect("an object");
        let path = fields.remove("path").expect("a path").as_str().expect("a text").to_owned();
        if !is_root() {
            fields.retain(|key, _| key != "uid" && key != "gid");
        }
        (path, row)
    };
    rows.into_iter().map(entry).collect()
}

#[test]
fn volumes_that_velero_saved_are_listed_and_verified() {
    let volumes = SavedVolumes::new();
    let listed = volumes.json(&["snapshots"], 0);
    let rows: Vec<_> = listed.as_array().expect("a list").iter().map(|one| &one["source"]["path"]).collect();
    assert_eq!(rows.len(), 6, "{listed}");
    assert!(rows[0] == "snapshot-pod-volume/kopia/vol/web-0/data-web-0", "{listed}");
    assert_eq!((&listed[0]["id"], &listed[0]["tags"]["snapshot-uploader"]), (&VOLUME.into(), &"kopia".into()));
    let whole = volumes.json(&["verify", SCRATCH[0], SCRATCH[1]], 0);
    assert_eq!((&whole["snapshots"], &whole["files"], &whole["problemCount"]), (&2.into(), &4.into(), &0.into()));
    let there = volumes.json(&["verify", "--structure", VOLUME, SCRATCH[0]], 0);
    assert_eq!(there["problemCount"], 0, "{there}");
    let damaged = volumes.json(&["verify", VOLUME], 1);
    let problems = damaged["problems"].as_array().expect("a list");
    let is_known = |problem: &Value| {
        DAMAGED.iter().any(|name| problem.as_str().is_some_and(|text| text.contains(&format!(": /{name}: content "))))
    };
    assert!(problems.len() == 4 && problems.iter().all(is_known), "{damaged}");
    // Packs of the later snapshots are not there, which is found without reading any.
    assert!(volumes.json(&["verify", "--structure"], 1)["problemCount"].as_u64() > Some(0));
}

#[test]
fn a_volume_of_velero_comes_back_with_all_that_the_repository_has() {
    let volumes = SavedVolumes::new();
    let target = volumes.path("back");
    let into = target.display().to_string();
    let owners: &[&str] = if is_root() { &[] } else { &["--no-owners"] };
    let report = volumes.json(&[&["restore", VOLUME, &into], owners].concat(), 3);
    assert_eq!((&report["files"], &report["failed"], &report["namesChanged"]), (&10.into(), &2.into(), &1.into()));
    let mut expected = saved();
    for name in DAMAGED {
        assert!(expected.remove(name).is_some());
        assert!(!target.join(name).exists(), "{name}: what is damaged does not look whole");
    }
    let found: BTreeMap<String, Value> =
        expected.keys().map(|path| (path.clone(), entry_at(&target.join(path)))).collect();
    assert_eq!(found, expected);
}
