//! `lifeboat repo`: repositories that kopia wrote, read without a cluster.

use crate::page;
use crate::repository_ground::RepositoryGround;
use crate::support::{gunzip, program, run};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Repositories that kopia wrote; the README there says what each of them shows.
const MATRIX: &str = "../../crates/kopia/tests/golden/matrix";
/// Their password.
const PASSWORD: &str = "matrix-passw0rd";

/// A repository that kopia wrote, unpacked.
pub(super) fn ground_of(name: &str) -> RepositoryGround {
    let ground = RepositoryGround::new(name, &format!("{PASSWORD}\n"));
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join(MATRIX).join(format!("repos/{name}.tar.gz"));
    tar::Archive::new(gunzip(&archive).as_slice()).unpack(ground.folder.path()).expect("it is unpacked");
    ground
}

#[test]
fn a_repository_of_kopia_is_listed_and_read() {
    let ground = ground_of("default");
    let snapshots: Value = serde_json::from_str(&ground.ok(&["snapshots", "-o", "json"])).expect("JSON");
    let first = &snapshots[0];
    assert_eq!(snapshots.as_array().map(Vec::len), Some(1));
    assert_eq!(first["id"], "ae02d554dcdfc9389b178ef2f5463a15");
    assert_eq!(first["source"]["path"], "/srv/matrix/tree-a");
    assert_eq!((&first["root"], &first["incomplete"]), (&"k4c6bc444cee75cbe8fd75ced252b47aa".into(), &Value::Null));
    let table = ground.ok(&["snapshots"]);
    assert!(table.lines().nth(1).is_some_and(|row| row.contains("golden@matrix:/srv/matrix/tree-a")), "{table}");

    assert_eq!(ground.ok(&["ls", "latest:d"]), "sub/\none\n");
    assert_eq!(ground.ok(&["ls", "ae02:/d/", "--recursive"]), "sub/\none\nsub/two\n");
    let long = ground.ok(&["ls", "latest:d/one", "--long"]);
    assert!(long.starts_with("-0644   1000   2000 ") || long.contains(" 1000   2000 "), "{long}");
    assert_eq!(ground.ok(&["cat", "latest:d/one"]), "1");
    // The target of a link is what its object holds.
    let lines = ground.ok(&["ls", "latest", "-o", "json"]);
    let entries: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(entries.iter().any(|entry| entry["path"] == "setuid" && entry["mode"] == "4755"), "{lines}");
}

#[test]
fn a_file_of_several_pieces_comes_out_as_it_went_in() {
    for name in ["splitter-fixed-1m", "splitter-dynamic-1m-buzhash", "format-v1", "layout-flat", "enc-chacha20"] {
        let ground = ground_of(name);
        let file = if name.starts_with("splitter") { "big.bin" } else { "compressible.bin" };
        let expected = match file {
            "big.bin" => "7a40576df96f74be4c66aa325749c9277259ccac18b7163ffd9e76147264cf2f",
            _ => "6eac694de9c3dd347f292cef20f8a118ab3dbedb194c7cce4387910b7c46fc32",
        };
        let mut command = Command::new(program());
        command.args(["repo", "cat", &format!("latest:{file}"), "--repo"]).arg(ground.path(name));
        let output = command.arg("--password-file").arg(ground.path("password")).output().expect("run");
        assert_eq!(hex::encode(Sha256::digest(&output.stdout)), expected, "{name}");
    }
}

#[test]
fn a_damaged_repository_is_named_by_file_and_reason() {
    let ground = ground_of("default");
    let whole = ground.ok(&["verify", "-o", "json"]);
    let whole: Value = serde_json::from_str(&whole).expect("JSON");
    assert_eq!((&whole["problemCount"], &whole["files"]), (&0.into(), &11.into()), "{whole}");
    // The packs of files begin with p, and lie below a folder of this name.
    let mut folders = vec![ground.path("default/p")];
    let mut damaged = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let mut bytes = std::fs::read(&path).expect("a pack");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(&path, bytes).expect("write");
            damaged += 1;
        }
    }
    assert_eq!(damaged, 1);
    let run = ground.repo(&["verify"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.out.contains("compressible.bin: content "), "{run:?}");
    assert!(run.out.trim_end().ends_with(" 1 problems"), "{run:?}");
    assert_eq!(ground.repo(&["verify", "--structure"]).code, 0, "all that is referred to is there");
    let run = ground.repo(&["cat", "latest:compressible.bin"]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("is damaged"), "{run:?}");
}

#[test]
fn a_verification_that_was_killed_goes_on_where_it_was() {
    let ground = RepositoryGround::new("repository", PASSWORD);
    ground.ok(&["create", "--splitter", "FIXED-1M"]);
    std::fs::create_dir(ground.path("tree")).expect("a folder");
    // Bytes that are no others: each content is one of its own.
    let bytes: Vec<u8> =
        (0..16_000_000_u64).flat_map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes()).collect();
    std::fs::write(ground.path("tree/large"), &bytes).expect("write");
    ground.ok(&["snapshot", &ground.path("tree").display().to_string()]);
    let notes = ground.path("notes").display().to_string();
    let verify = ["verify", "--resume-folder", &notes];
    let mut killed = 0;
    let goes_on = loop {
        let mut child = ground.command(&verify).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("run");
        // It is killed after its first note, behind the 24 bytes of the header, unless it has ended before.
        let is_killed = loop {
            let files = std::fs::read_dir(&notes).into_iter().flatten().flatten();
            if files.filter_map(|file| file.metadata().ok()).any(|file| file.len() > 24) {
                child.kill().expect("kill");
                break true;
            }
            if child.try_wait().expect("wait").is_some() {
                break false;
            }
            std::thread::yield_now();
        };
        child.wait().expect("wait");
        killed += 1;
        let report = ground.json(&verify);
        assert_eq!(report["problemCount"], 0, "{report}");
        assert_eq!(std::fs::read_dir(&notes).expect("a folder").count(), 0, "nothing is left when it has ended");
        if is_killed && !report["readBefore"].is_null() {
            break report;
        }
        assert!(killed < 200, "it always ends before it can be killed");
    };
    let all = ground.json(&verify);
    assert_eq!(all["readBefore"], Value::Null, "{all}");
    let sum = |key: &str, before: &str| goes_on[key].as_u64().zip(goes_on["readBefore"][before].as_u64());
    let sums = [("contentsRead", "contents"), ("bytesRead", "bytes")].map(|(now, before)| (now, sum(now, before)));
    for (now, sum) in sums {
        let (read, before) = sum.expect("numbers");
        assert!(before > 0, "{goes_on}");
        assert_eq!(all[now], read + before, "{goes_on}");
    }
}

#[test]
fn a_repository_without_its_indexes_is_refused_and_read_by_its_packs() {
    let ground = ground_of("layout-flat");
    let whole = ground.ok(&["snapshots", "-o", "json"]);
    let blobs = std::fs::read_dir(ground.path("layout-flat")).expect("a folder");
    let indexes: Vec<_> = blobs.map(|blob| blob.expect("a blob").path()).filter(|path| is_index(path)).collect();
    assert!(!indexes.is_empty(), "the repository has index blobs");
    // One is damaged; then all are lost.
    let bytes = std::fs::read(&indexes[0]).expect("an index");
    std::fs::write(&indexes[0], &bytes[1..]).expect("write");
    for is_lost in [false, true] {
        if is_lost {
            indexes.iter().for_each(|path| std::fs::remove_file(path).expect("remove"));
        }
        for args in [&["snapshots"][..], &["verify"], &["snapshot", "."], &["maintenance", "run"]] {
            let refused = ground.repo(args);
            assert!(refused.code == 1 && refused.err.contains("--recover-indexes"), "{args:?}: {refused:?}");
        }
        assert_eq!(ground.ok(&["snapshots", "-o", "json", "--recover-indexes"]), whole);
        assert_eq!(ground.ok(&["cat", "latest:d/one", "--recover-indexes"]), "1");
        let verified = ground.json(&["verify", "--recover-indexes"]);
        assert_eq!((&verified["problemCount"], &verified["snapshots"]), (&0.into(), &1.into()), "{verified}");
        let set = &["maintenance", "set", "--owner", "me"][..];
        for args in [&["snapshot", "."][..], &["maintenance", "run"], set] {
            let refused = ground.repo(&[args, &["--recover-indexes"]].concat());
            assert!(refused.code == 1 && refused.err.contains("leave it out to write"), "{refused:?}");
        }
    }
}

#[test]
fn a_checkpoint_is_restored_with_a_warning_and_not_as_a_whole() {
    let ground = ground_of("crashed");
    let latest = ground.repo(&["ls", "latest"]);
    assert!(latest.code == 1 && latest.err.contains("none of the 2 snapshots was finished"), "{latest:?}");
    let target = ground.path("back").display().to_string();
    let restored = ground.repo(&["restore", "9522", &target, "--no-owners", "-o", "json"]);
    let report: Value = serde_json::from_str(&restored.out).expect("JSON");
    assert_eq!(
        (restored.code, &report["incomplete"], &report["files"]),
        (3, &"checkpoint".into(), &1.into()),
        "{report}"
    );
    let told = ground.repo(&["restore", "9522", &target, "--no-owners"]);
    let warning = "warning: the snapshot was not finished (checkpoint): whole directories may be missing";
    assert!(told.code == 3 && told.err.contains(warning), "{told:?}");
    let told = ground.repo(&["ls", "9522"]);
    let warning = "was not finished (checkpoint): whole directories may be missing";
    assert!(told.code == 0 && told.err.matches(warning).count() == 1, "{told:?}");
    // A file that is in it is whole.
    assert_eq!(ground.ok(&["cat", "9522:a-first"]).len(), 4);
    let one = ground.path("one").display().to_string();
    ground.ok(&["restore", "9522:a-first", &one, "--no-owners"]);
    let verified = ground.json(&["verify"]);
    assert_eq!(
        (verified["notes"].as_array().map(Vec::len), &verified["noteCount"]),
        (Some(2), &2.into()),
        "{verified}"
    );
}

/// Returns true for the file of an index blob.
fn is_index(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("xn"))
}

#[test]
fn what_cannot_be_opened_is_refused_with_what_to_do() {
    let ground = ground_of("default");
    let refused = |args: &[&str]| {
        let run = ground.repo(args);
        assert_eq!(run.code, 1, "{args:?}: {run:?}");
        run.err
    };
    let missing = refused(&["cat", "latest:d/none"]);
    assert!(missing.contains(r#"the path "d/none" of the snapshot"#), "{missing}");
    let unknown = refused(&["ls", "0000"]);
    assert!(unknown.contains("no ID begins with it"), "{unknown}");
    let directory = refused(&["cat", "latest:d"]);
    assert!(directory.contains("is a directory"), "{directory}");
    std::fs::write(ground.path("password"), "wrong").expect("write");
    let wrong = refused(&["snapshots"]);
    assert!(wrong.contains("the password does not open the repository"), "{wrong}");
    assert!(!wrong.contains("wrong\n"), "the password is not repeated: {wrong}");
    std::fs::write(ground.path("password"), "\n").expect("write");
    assert!(refused(&["snapshots"]).contains("is empty"));
    std::fs::write(ground.path("password"), PASSWORD).expect("write");
    std::fs::rename(ground.path("default"), ground.path("away")).expect("rename");
    assert!(refused(&["snapshots"]).contains("there is no directory"));
    std::fs::create_dir(ground.path("default")).expect("a folder");
    assert!(refused(&["snapshots"]).contains("holds no kopia repository"));
    assert_eq!(std::fs::read_dir(ground.path("default")).expect("a folder").count(), 0, "nothing is written");
}

#[test]
fn a_tree_comes_back_as_it_was_and_a_second_run_changes_nothing() {
    let ground = ground_of("default");
    let target = ground.path("back");
    let into = target.display().to_string();
    let report = |args: &[&str]| -> Value {
        let out = ground.ok(&[&["restore", "latest", &into, "--no-owners", "-o", "json"], args].concat());
        serde_json::from_str(&out).expect("JSON")
    };
    let first = report(&[]);
    assert_eq!((&first["files"], &first["symlinks"], &first["failed"]), (&9.into(), &2.into(), &0.into()), "{first}");
    let sum = |name: &str| hex::encode(Sha256::digest(std::fs::read(target.join(name)).expect("a file")));
    assert_eq!(sum("compressible.bin"), "6eac694de9c3dd347f292cef20f8a118ab3dbedb194c7cce4387910b7c46fc32");
    assert_eq!(sum("d/sub/two"), "785f3ec7eb32f30b90cd0fcf3657d388b5ff4297f2f9716ff66e9b69c05ddd09");
    assert!(target.join("link").is_symlink());
    let again = report(&[]);
    assert_eq!((&again["bytesWritten"], &again["bytesFetched"]), (&0.into(), &0.into()), "{again}");
    // What was changed meanwhile comes back, and what was added goes where that is asked for.
    std::fs::write(target.join("hello.txt"), "changed").expect("write");
    std::fs::write(target.join("extra"), "extra").expect("write");
    let third = report(&["--delete-extra"]);
    assert_eq!((&third["deleted"], &third["bytesWritten"]), (&1.into(), &12.into()), "{third}");
    assert_eq!(sum("hello.txt"), "784379e468b94cb7e05bb7343ae6e87e094a67b28d77dad84a743896f7027ee6");
    assert!(!target.join("extra").exists());
    // One file alone.
    let one = ground.path("one").display().to_string();
    ground.ok(&["restore", "latest:d/one", &one, "--no-owners"]);
    assert_eq!(std::fs::read_to_string(&one).expect("a file"), "1");
}

/// Writes the record of a backup whose only volume, the claim shop/data, is the first of these snapshots.
fn backup_of(snapshots: &Value, folder: &Path) {
    std::fs::create_dir_all(folder).expect("folders");
    let record = json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "nightly", "namespace": "velero"},
        "spec": {}, "status": {"phase": "Completed"}});
    std::fs::write(folder.join("velero-backup.json"), record.to_string()).expect("write");
    let saved = json!([{"metadata": {"annotations": {"velero.io/pvc-name": "data"}}, "spec": {"uploaderType": "kopia", "volume": "data",
        "pod": {"namespace": "shop", "name": "web"}}, "status": {"phase": "Completed", "snapshotID": snapshots[0]["id"]}}]);
    let info = json!([{"pvcNamespace": "shop", "pvcName": "data", "backupMethod": "PodVolumeBackup", "result": "succeeded",
        "pvbInfo": {"snapshotHandle": snapshots[0]["id"], "podNamespace": "shop", "podName": "web", "volumeName": "data"}}]);
    for (name, value) in [("podvolumebackups", saved), ("volumeinfo", info)] {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(value.to_string().as_bytes()).expect("gzip");
        std::fs::write(folder.join(format!("nightly-{name}.json.gz")), packed.finish().expect("gzip")).expect("write");
    }
}

#[test]
fn the_page_about_files_without_a_cluster_is_true() {
    // The bucket of a location, in which Velero keeps a repository for each namespace.
    let ground = ground_of("layout-flat");
    let snapshots = ground.json(&["snapshots"]);
    let below = ground.path("bucket/kopia/shop");
    std::fs::create_dir_all(below.parent().expect("a parent")).expect("folders");
    std::fs::rename(ground.path("layout-flat"), &below).expect("rename");
    backup_of(&snapshots, &ground.path("bucket/backups/nightly"));
    super::restic::unpack("v1", &ground.path("bucket/restic/old-shop"));
    let bin = ground.path("bin");
    std::fs::create_dir(&bin).expect("a folder");
    std::os::unix::fs::symlink(program(), bin.join("lifeboat")).expect("a link");
    page::follow_alone(&page::read("files-back.md"), |lines| {
        let mut command = Command::new("sh");
        command.args(["-eu", "-c", lines]).current_dir(ground.folder.path());
        command.env("LOCATION", ground.path("bucket")).env("HOME", ground.folder.path());
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        run(&mut command)
    });
}
