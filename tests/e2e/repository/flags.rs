//! Flags of `lifeboat repo`, each as its help says.

use super::reading::ground_of;
use crate::repository_ground::RepositoryGround;
use crate::support::Run;
use lifeboat_testbed::Kopia;
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const PASSWORD: &str = "flags-passw0rd";
/// The file of the trees of kopia's repositories that tests change, and its length.
const HELLO: (&str, usize) = ("hello.txt", 12);

/// A new repository, and a folder with a file.
fn new_ground(flags: &[&str]) -> RepositoryGround {
    let ground = RepositoryGround::new("repository", PASSWORD);
    fs::create_dir(ground.path("tree")).expect("a folder");
    fs::write(ground.path("tree/one"), "1").expect("write");
    ground.ok(&[&["create"], flags].concat());
    ground
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{e}: {run:?}"))
}

/// Replaces the bytes of a file, and leaves its length and time.
fn damage(file: &Path) {
    let modified = file.metadata().and_then(|found| found.modified()).expect("a time");
    fs::write(file, "x".repeat(HELLO.1)).expect("write");
    File::options().write(true).open(file).and_then(|file| file.set_modified(modified)).expect("set");
}

#[test]
fn files_that_exist_are_treated_as_the_policy_says() {
    let ground = ground_of("default");
    let target = ground.path("back");
    let into = text(&target);
    let restored =
        |flags: &[&str]| ground.repo(&[&["restore", "latest", &into, "--no-owners", "-o", "json"], flags].concat());
    assert_eq!(restored(&[]).code, 0);
    let hello = target.join(HELLO.0);
    let whole = fs::read(&hello).expect("a file");
    damage(&hello);
    let damaged = fs::read(&hello).expect("a file");
    // The time says that nothing has changed.
    let update = restored(&["--existing", "update"]);
    assert_eq!((update.code, fs::read(&hello).expect("a file")), (0, damaged.clone()), "{update:?}");
    let keep = restored(&["--existing", "keep"]);
    assert_eq!((keep.code, fs::read(&hello).expect("a file")), (3, damaged.clone()), "{keep:?}");
    let all = json(&keep);
    assert!(all["failures"].to_string().contains(HELLO.0), "{all}");
    // Several are restored at once, so that more than one may have failed when it ends.
    let first = restored(&["--existing", "keep", "--stop-at-first-error"]);
    let failed = json(&first)["failed"].as_u64();
    assert!(first.code == 3 && failed >= Some(1) && failed <= all["failed"].as_u64(), "{first:?}");
    let verify = restored(&["--existing", "verify"]);
    assert_eq!((verify.code, fs::read(&hello).expect("a file")), (0, whole.clone()), "{verify:?}");
    assert_eq!(json(&verify)["bytesWritten"], HELLO.1, "{verify:?}");
    damage(&hello);
    let overwrite = restored(&["--existing", "overwrite"]);
    assert_eq!((overwrite.code, fs::read(&hello).expect("a file")), (0, whole), "{overwrite:?}");
    assert!(json(&overwrite)["bytesWritten"].as_u64() > Some(1_310_737), "{overwrite:?}");
    let unknown = restored(&["--existing", "never"]);
    assert!(unknown.code != 0 && unknown.err.contains("--existing"), "{unknown:?}");
}

#[test]
fn zeros_are_holes_unless_they_are_to_be_written() {
    let ground = new_ground(&[]);
    let size = 8 << 20;
    let file = File::create(ground.path("tree/zeros")).expect("a file");
    file.set_len(size).expect("set");
    ground.ok(&["snapshot", &text(&ground.path("tree"))]);
    let allocated = |name: &str, flags: &[&str]| {
        let target = ground.path(name);
        ground.ok(&[&["restore", "latest", &text(&target), "--no-owners"], flags].concat());
        // Some file systems tell it only when it is stored.
        let file = File::open(target.join("zeros")).expect("a file");
        file.sync_all().expect("sync");
        let found = file.metadata().expect("metadata");
        assert_eq!(found.len(), size);
        found.blocks() * 512
    };
    assert!(allocated("sparse", &[]) < size / 2);
    // A file system that compresses makes holes of zeros that are written.
    let written = ground.path("written");
    fs::write(&written, vec![0; size as usize]).expect("write");
    File::open(&written).and_then(|file| file.sync_all()).expect("sync");
    let stores_zeros = written.metadata().expect("metadata").blocks() * 512 >= size;
    let full = allocated("full", &["--no-sparse"]);
    assert!(full >= size || !stores_zeros, "{full}");
}

#[test]
fn a_verification_reads_the_snapshots_and_the_share_that_are_asked_for() {
    let ground = ground_of("comp-none-meta-none");
    for wrong in ["101", "-1", "NaN"] {
        let refused = ground.repo(&["verify", &format!("--files-percent={wrong}")]);
        let why = format!("--files-percent {wrong} is not between 0 and 100");
        assert!(refused.code == 1 && refused.err.contains(&why), "{refused:?}");
    }
    let read = |flags: &[&str]| ground.json(&[&["verify"], flags].concat())["contentsRead"].as_u64().expect("a number");
    let (all, none, structure) = (read(&[]), read(&["--files-percent", "0"]), read(&["--structure"]));
    assert!(all > 0 && none == 0 && structure == 0, "{all} {none} {structure}");
    let shares: Vec<u64> = (0..8).map(|seed| read(&["--files-percent", "50", "--seed", &seed.to_string()])).collect();
    assert!(shares.iter().any(|share| *share != shares[0]) && shares.iter().all(|share| *share <= all), "{shares:?}");
    let both = ground.repo(&["verify", "--structure", "--files-percent", "10"]);
    assert!(both.code != 0 && both.err.contains("--structure"), "{both:?}");

    let ground = new_ground(&[]);
    let first = ground.ok(&["snapshot", &text(&ground.path("tree"))]);
    ground.ok(&["snapshot", &text(&ground.path("tree"))]);
    assert_eq!(ground.json(&["verify"])["snapshots"], 2);
    assert_eq!(ground.json(&["verify", first.trim_end()])["snapshots"], 1);
}

#[test]
fn a_snapshot_has_the_source_and_the_description_that_are_given() {
    let ground = new_ground(&[]);
    let named = ["--source", "/srv/data", "--user", "user", "--host", "host", "--description", "before the move"];
    ground.ok(&[&["snapshot", &text(&ground.path("tree"))], &named[..]].concat());
    let listed = ground.json(&["snapshots"]);
    let source = serde_json::json!({"user": "user", "host": "host", "path": "/srv/data"});
    assert_eq!((&listed[0]["source"], &listed[0]["description"]), (&source, &"before the move".into()), "{listed}");
    let yaml = ground.ok(&["snapshots", "-o", "yaml"]);
    assert!(yaml.contains("description: before the move"), "{yaml}");
    let kopia = Kopia::new("v0.23.1", PASSWORD).expect("kopia");
    kopia.connect(&ground.path("repository")).expect("it connects");
    let seen = kopia.run(&["snapshot", "list", "--all", "--json"]).expect("it lists");
    let seen: Value = serde_json::from_str(&seen).expect("JSON");
    assert_eq!((&seen[0]["description"], &seen[0]["source"]["path"]), (&"before the move".into(), &"/srv/data".into()));
}

#[test]
fn a_repository_has_the_parameters_that_are_asked_for_and_kopia_opens_it() {
    for (version, ecc) in [("1", "0"), ("2", "0"), ("2", "5"), ("3", "10")] {
        let ground = RepositoryGround::new("repository", PASSWORD);
        fs::create_dir(ground.path("tree")).expect("a folder");
        fs::write(ground.path("tree/one"), "1".repeat(100_000)).expect("write");
        let flags = ["--encryption", "CHACHA20-POLY1305-HMAC-SHA256", "--format-version", version];
        let made = ground.ok(&[&["create", "--ecc-overhead", ecc], &flags[..]].concat());
        let parameters = format!("version {version} of the format, BLAKE2B-256-128, CHACHA20-POLY1305-HMAC-SHA256, ");
        assert!(made.contains(&parameters), "{made}");
        ground.ok(&["snapshot", &text(&ground.path("tree"))]);
        let kopia = Kopia::new("v0.23.1", PASSWORD).expect("kopia");
        kopia.connect(&ground.path("repository")).expect("it connects");
        kopia.run(&["snapshot", "verify", "--verify-files-percent=100"]).expect("it verifies");
    }
    let ground = RepositoryGround::new("repository", PASSWORD);
    for (flag, value) in [("--encryption", "ROT13"), ("--splitter", "NONE"), ("--format-version", "4")] {
        let refused = ground.repo(&["create", flag, value]);
        assert!(refused.code == 1 && refused.err.contains(value), "{refused:?}");
        assert!(!ground.path("repository").exists(), "nothing is left of it");
    }
}

#[test]
fn quick_maintenance_is_run_and_its_interval_set() {
    let ground = new_ground(&[]);
    ground.ok(&["snapshot", &text(&ground.path("tree"))]);
    ground.ok(&["maintenance", "set", "--owner", "me", "--quick-interval", "2h"]);
    let info = ground.json(&["maintenance", "info"]);
    assert_eq!((&info["quick"]["interval"], &info["quick"]["enabled"]), (&"2h0m0s".into(), &true.into()), "{info}");
    let run = ground.json(&["maintenance", "run", "--quick"]);
    assert_eq!(run["mode"], "quick", "{run}");
    let both = ground.repo(&["maintenance", "run", "--quick", "--full"]);
    assert!(both.code != 0 && both.err.contains("--full"), "{both:?}");
    ground.ok(&["maintenance", "set", "--quick-interval", "0"]);
    assert_eq!(ground.json(&["maintenance", "info"])["quick"]["enabled"], false);
}

#[test]
fn temporary_files_lie_where_they_are_told_to_and_go() {
    let ground = ground_of("default");
    let missing = ground.repo(&["snapshots", "--scratch", &text(&ground.path("none"))]);
    assert!(missing.code == 1 && missing.err.contains("--scratch"), "{missing:?}");
    fs::create_dir(ground.path("scratch")).expect("a folder");
    ground.ok(&["verify", "--scratch", &text(&ground.path("scratch"))]);
    assert_eq!(fs::read_dir(ground.path("scratch")).expect("a folder").count(), 0);
}
