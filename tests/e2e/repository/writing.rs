//! `lifeboat repo create` and `snapshot`: what they write is read by kopia, and what they cannot save is named.

use crate::page;
use crate::repository_ground::RepositoryGround;
use crate::support::{ended, program, run};
use lifeboat_testbed::Kopia;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

const PASSWORD: &str = "written-passw0rd";

/// A folder with a password, and a repository made with these flags.
fn ground_with(flags: &[&str]) -> RepositoryGround {
    let ground = RepositoryGround::new("repository", PASSWORD);
    ground.ok(&[&["create"], flags].concat());
    ground
}

/// The folder that is saved.
fn tree_of(ground: &RepositoryGround) -> String {
    ground.path("tree").display().to_string()
}

/// Kopia, connected to the repository.
fn connected_kopia(ground: &RepositoryGround) -> Kopia {
    let kopia = Kopia::new("v0.23.1", PASSWORD).expect("kopia");
    kopia.connect(&ground.path("repository")).expect("it connects");
    kopia
}

/// Paths, modes, times and bytes of all files below a folder.
fn files(root: &Path) -> BTreeMap<PathBuf, (u32, i64, i64, Vec<u8>)> {
    let (mut found, mut waiting) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let metadata = path.symlink_metadata().expect("metadata");
            if metadata.is_dir() {
                waiting.push(path);
                continue;
            }
            let bytes = fs::read(&path).expect("a file");
            let below = path.strip_prefix(root).expect("a path below").to_owned();
            found.insert(below, (metadata.mode(), metadata.mtime(), metadata.mtime_nsec(), bytes));
        }
    }
    found
}

fn make(tree: &Path, files: usize) {
    for n in 0..files {
        let folder = tree.join(format!("d{}", n % 7));
        fs::create_dir_all(&folder).expect("a folder");
        let length = if n % 50 == 49 { 3_000_000 } else { n % 1000 };
        let bytes: Vec<u8> = (0..length).map(|at| ((at * at + n * 31) >> 3) as u8).collect();
        let path = folder.join(format!("f{n}"));
        fs::write(&path, bytes).expect("write");
        // A file that was written just before a snapshot is read again by the next one.
        let file = fs::File::options().write(true).open(path).expect("a file");
        file.set_modified(SystemTime::now() - Duration::from_secs(3600)).expect("set");
    }
}

#[test]
fn a_tree_is_saved_twice_and_comes_back_and_kopia_agrees() {
    let ground = ground_with(&["--hash", "BLAKE3-256-128", "--splitter", "DYNAMIC-1M-BUZHASH"]);
    make(&ground.path("tree"), 60);
    let first =
        ground.json(&["snapshot", &tree_of(&ground), "--tag", "purpose=test", "--user", "user", "--host", "host"]);
    assert_eq!((&first["files"], &first["filesRead"], &first["failed"]["count"]), (&60.into(), &60.into(), &0.into()));
    assert_eq!(first["tags"]["tag:purpose"], "test");
    fs::write(ground.path("tree/d0/f0"), "changed").expect("write");
    let second = ground.ok(&["snapshot", &tree_of(&ground), "--user", "user", "--host", "host"]);
    let snapshots = ground.json(&["snapshots"]);
    assert_eq!((snapshots[1]["id"].as_str(), snapshots.as_array().map(Vec::len)), (Some(second.trim_end()), Some(2)));
    assert_eq!(snapshots[1]["stats"]["nonCachedFiles"], 1, "{snapshots}");
    let back = ground.path("back");
    ground.ok(&["restore", "latest", &back.display().to_string()]);
    assert_eq!(files(&back), files(&ground.path("tree")));

    let kopia = connected_kopia(&ground);
    kopia.run(&["snapshot", "verify", "--verify-files-percent=100"]).expect("it verifies");
    let tagged = kopia.run(&["snapshot", "list", "--tags", "purpose:test", "--json"]).expect("it lists");
    let tagged: Value = serde_json::from_str(&tagged).expect("JSON");
    assert_eq!((&tagged[0]["id"], tagged.as_array().map(Vec::len)), (&first["id"], Some(1)), "{tagged}");
}

#[test]
fn a_repository_is_made_once_with_a_password_of_its_own() {
    let ground = RepositoryGround::new("repository", "\n");
    let refused = ground.repo(&["create"]);
    assert!(refused.err.contains("password is empty"), "{refused:?}");
    assert!(!ground.path("repository").exists(), "nothing is left of it");
    fs::remove_file(ground.path("password")).expect("remove");
    let made = ground.ok(&["create"]);
    let password = fs::read_to_string(ground.path("password")).expect("a password");
    assert!(made.contains("Made a random password in the file "), "{made}");
    assert!(!made.contains(password.trim_end()), "{made}");
    assert_eq!((password.len(), ground.path("password").metadata().expect("metadata").mode() & 0o777), (65, 0o600));
    let again = ground.repo(&["create"]);
    assert!(again.code == 1 && again.err.contains("repository"), "{again:?}");
    // A password that was made for nothing goes again.
    fs::rename(ground.path("password"), ground.path("kept")).expect("rename");
    assert_eq!(ground.repo(&["create"]).code, 1);
    assert!(!ground.path("password").exists());
    fs::rename(ground.path("kept"), ground.path("password")).expect("rename");
    assert_eq!(ground.json(&["snapshots"]), Value::Array(Vec::new()));
    let refused = ground.repo(&["create", "--hash", "MD5"]);
    assert!(refused.err.contains("--hash MD5: use one of "), "{refused:?}");
}

#[test]
fn what_cannot_be_read_is_named_and_hides_nothing() {
    let ground = ground_with(&[]);
    let tree = ground.path("tree");
    make(&tree, 14);
    fs::hard_link(tree.join("d1/f1"), tree.join("d1/link")).expect("a link");
    let closed = [tree.join("d0/f7"), tree.join("d3")];
    for path in &closed {
        fs::set_permissions(path, Permissions::from_mode(0o000)).expect("permissions");
    }
    // Root can read everything, so that somebody else has to try. The program is where he finds it.
    let mut command =
        ground.command(&["snapshot", &tree_of(&ground), "--user", "user", "--host", "host", "-o", "json"]);
    if ground.path("tree").metadata().expect("metadata").uid() == 0 {
        let nobody = 65534;
        let copy = ground.path("lifeboat");
        fs::hard_link(program(), &copy).or_else(|_| fs::copy(program(), &copy).map(drop)).expect("the program");
        fs::set_permissions(ground.folder.path(), Permissions::from_mode(0o755)).expect("permissions");
        let owned = Command::new("chown").arg("-R").arg("65534").arg(ground.path("repository")).status();
        assert!(owned.expect("chown").success());
        let args: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
        command = Command::new(copy);
        command.args(args).uid(nobody).gid(nobody).env("HOME", ground.folder.path());
    }
    let done = run(&mut command);
    assert_eq!(done.code, 3, "{done:?}");
    let report: Value = serde_json::from_str(&done.out).expect("JSON");
    let failed = &report["failed"];
    assert_eq!(failed["count"], 2, "{report}");
    let mut named: Vec<_> =
        failed["first"].as_array().expect("a list").iter().map(|one| one["path"].as_str()).collect();
    // Several are read at once.
    named.sort();
    assert_eq!(named, [Some("d0/f7"), Some("d3")], "{report}");
    let others = (&report["lostAttributes"]["hardLinks"], &report["vanished"]["count"]);
    assert_eq!(others, (&2.into(), &0.into()), "{report}");
    for path in &closed {
        fs::set_permissions(path, Permissions::from_mode(0o755)).expect("permissions");
    }
    let back = ground.path("back");
    // The owner of the repository may be another one; root reads it all the same.
    let listed = ground.json(&["snapshots"]);
    let unread = &listed[0]["unreadInSnapshot"];
    assert_eq!((&unread["count"], &listed[0]["incomplete"]), (&2.into(), &Value::Null), "{listed}");
    let table = ground.ok(&["snapshots"]);
    assert!(table.contains("complete, 2 not read"), "{table}");
    let verified = ground.json(&["verify"]);
    let note = verified["notes"][0].as_str().expect("a note");
    assert!(note.contains("2 entries could not be read when it was taken") && note.contains("d0/f7"), "{verified}");
    let restored = ground.repo(&["restore", "latest", &back.display().to_string(), "--no-owners"]);
    assert_eq!(restored.code, 3, "the snapshot says what it has not: {restored:?}");
    for path in ["d0/f7", "d3"] {
        let told = format!("warning: {path} could not be read when the snapshot was taken: ");
        assert!(restored.err.contains(&told), "{restored:?}");
    }
    let mut wanted = files(&tree);
    wanted.retain(|path, _| !path.starts_with("d3") && path != Path::new("d0/f7"));
    assert_eq!(files(&back), wanted);
    let listed = connected_kopia(&ground).run(&["snapshot", "list", "--json", "--incomplete"]).expect("it lists");
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let summary = &listed[0]["rootEntry"]["summ"];
    assert_eq!((&summary["numFailed"], summary["errors"].as_array().map(Vec::len)), (&2.into(), Some(2)), "{listed}");
}

#[test]
fn latest_of_several_sources_is_refused_and_of_one_it_is_named() {
    let ground = ground_with(&[]);
    make(&ground.path("tree"), 7);
    let named = ["--user", "user", "--host", "host", "--source"];
    for source in ["/db", "/web"] {
        ground.ok(&[&["snapshot", &tree_of(&ground)], &named[..], &[source]].concat());
    }
    let target = ground.path("back");
    fs::create_dir(&target).expect("a folder");
    fs::write(target.join("kept"), "kept").expect("write");
    let into = target.display().to_string();
    let refused = ground.repo(&["restore", "latest", &into, "--delete-extra", "--no-owners"]);
    let why = "latest could be of 2 sources, and nothing was done: user@host:/db, user@host:/web";
    assert!(refused.code == 1 && refused.err.contains(why), "{refused:?}");
    assert_eq!(fs::read_dir(&target).expect("a folder").count(), 1, "nothing was touched");
    let snapshots = ground.json(&["snapshots"]);
    let run = ground.repo(&["restore", "latest", &into, "--source", "/db", "--delete-extra", "--no-owners"]);
    let told =
        format!("note: latest is snapshot {} of user@host:/db, taken at ", snapshots[0]["id"].as_str().expect("an ID"));
    assert!(run.code == 0 && run.err.contains(&told), "{run:?}");
    assert_eq!(files(&target), files(&ground.path("tree")));
    for command in ["verify", "stats"] {
        let refused = ground.repo(&[command, "--source", "/db"]);
        assert!(refused.code == 1 && refused.err.contains("--source chooses a snapshot"), "{refused:?}");
    }
}

#[test]
fn a_snapshot_that_is_killed_harms_nothing_and_the_next_one_completes() {
    let ground = ground_with(&["--splitter", "FIXED-1M"]);
    let tree = ground.path("tree");
    make(&tree, 150);
    ground.ok(&["snapshot", &tree_of(&ground), "--user", "user", "--host", "host"]);
    let mut killed = 0;
    for round in 0..5_u64 {
        fs::write(tree.join(format!("d1/new{round}")), round.to_string().repeat(2_000_000)).expect("write");
        let mut command =
            ground.command(&["snapshot", &tree_of(&ground), "--full", "--user", "user", "--host", "host"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        // It ends by itself or by the time, whatever comes first: both are right.
        let deadline = std::time::Instant::now() + Duration::from_millis(150 + 170 * round);
        while child.try_wait().expect("a child").is_none() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        let _ = child.kill();
        killed += u64::from(!ended(&mut child).success());
        let verified = ground.json(&["verify"]);
        assert_eq!((&verified["problemCount"], &verified["damagedIndexEntries"]), (&0.into(), &0.into()), "{verified}");
    }
    println!("{killed} of 5 were killed before their end");
    let report = ground.json(&["snapshot", &tree_of(&ground), "--user", "user", "--host", "host"]);
    assert_eq!(report["failed"]["count"], 0);
    let kopia = connected_kopia(&ground);
    kopia.run(&["snapshot", "verify", "--verify-files-percent=100"]).expect("it verifies");
    kopia.run(&["content", "verify", "--download-percent=100"]).expect("it verifies");
    let back = ground.path("back");
    ground.ok(&["restore", "latest", &back.display().to_string()]);
    assert_eq!(files(&back), files(&tree));
}

#[test]
fn the_page_about_repositories_of_ones_own_is_true() {
    let folder = tempfile::tempdir().expect("a folder");
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).expect("a folder");
    std::os::unix::fs::symlink(program(), bin.join("lifeboat")).expect("a link");
    page::follow_alone(&page::read("repositories.md"), |lines| {
        let mut command = Command::new("sh");
        command.args(["-eu", "-c", lines]).current_dir(folder.path());
        command.env("LOCATION", folder.path().join("bucket")).env("HOME", folder.path());
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        run(&mut command)
    });
}
