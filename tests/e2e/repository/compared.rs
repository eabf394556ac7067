//! `lifeboat repo diff` and `stats`: what differs between snapshots, and what they add.

use crate::repository_ground::RepositoryGround;
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// A repository with two snapshots of a tree, between which some of it has changed, and the IDs of both.
fn ground() -> (RepositoryGround, String, String) {
    let ground = RepositoryGround::new("repository", "compared-passw0rd");
    ground.ok(&["create"]);
    let tree = ground.path("tree");
    fs::create_dir_all(tree.join("same/deep")).expect("a folder");
    fs::create_dir_all(tree.join("d")).expect("a folder");
    fs::write(tree.join("same/deep/file"), "x".repeat(100_000)).expect("write");
    for (name, bytes) in [("d/content", "1"), ("d/mode", "2"), ("d/gone", "3")] {
        fs::write(tree.join(name), bytes).expect("write");
    }
    for name in ["d/content", "d/mode", "d/gone"] {
        fs::set_permissions(tree.join(name), Permissions::from_mode(0o644)).expect("permissions");
    }
    let take = || ground.ok(&["snapshot", &tree.display().to_string()]).trim_end().to_owned();
    let before = take();
    fs::write(tree.join("d/content"), "12").expect("write");
    fs::set_permissions(tree.join("d/mode"), Permissions::from_mode(0o640)).expect("permissions");
    fs::remove_file(tree.join("d/gone")).expect("remove");
    fs::create_dir(tree.join("new")).expect("a folder");
    fs::write(tree.join("new/file"), "y".repeat(50_000)).expect("write");
    let after = take();
    (ground, before, after)
}

#[test]
fn two_snapshots_are_compared_and_the_exit_code_is_the_answer() {
    let (ground, before, after) = ground();
    let run = ground.repo(&["diff", &before, &after]);
    assert_eq!(run.code, 1, "{run:?}");
    let without_times: Vec<String> = run
        .out
        .lines()
        .filter(|line| !line.contains("/: time "))
        .map(|line| line.split(", time ").next().unwrap_or_default().to_owned())
        .collect();
    let expected = [
        "changed  d/content: content 1 bytes -> 2 bytes",
        "removed  d/gone",
        "changed  d/mode: mode 0644 -> 0640",
        "added    new/",
        "added    new/file",
        "2 added, 1 removed, 4 changed",
    ];
    assert_eq!(without_times, expected, "{run:?}");
    let same = ground.repo(&["diff", "latest", &after]);
    assert_eq!((same.code, same.out.as_str()), (0, "0 added, 0 removed, 0 changed\n"), "{same:?}");
    let subtree = ground.repo(&["diff", &format!("{before}:same"), "latest:same"]);
    assert_eq!((subtree.code, subtree.out.as_str()), (0, "0 added, 0 removed, 0 changed\n"), "{subtree:?}");
    let missing = ground.repo(&["diff", "latest", "latest:none"]);
    assert_eq!(missing.code, 2, "an error is no answer: {missing:?}");
    let run = ground.repo(&["diff", &format!("{before}:d/mode"), "latest:d/mode", "-o", "json"]);
    let document: Value = serde_json::from_str(&run.out).expect("JSON");
    let entry = &document["entries"][0];
    assert_eq!((run.code, &document["after"]), (1, &json!({"snapshot": after, "path": "d/mode"})), "{document}");
    assert_eq!((&entry["path"], &entry["change"], &entry["what"]), (&json!("."), &json!("changed"), &json!(["mode"])));
    assert_eq!((&entry["before"]["mode"], &entry["after"]["mode"]), (&json!("0644"), &json!("0640")), "{document}");
    assert_eq!(document["counts"], json!({"added": 0, "removed": 0, "changed": 1, "notCompared": 0}));
}

#[test]
fn what_a_snapshot_adds_is_counted_and_nothing_of_it_is_reclaimable() {
    let (ground, before, after) = ground();
    let stats = ground.json(&["stats"]);
    let [first, second] = [0, 1].map(|number| &stats["snapshots"][number]);
    assert_eq!((&first["id"], &second["id"]), (&json!(before), &json!(after)), "{stats}");
    assert_eq!((&first["files"], &first["bytes"]), (&json!(4), &json!(100_003)), "{stats}");
    let added = |one: &Value| one["added"]["bytes"].as_u64().expect("a number");
    assert!(added(first) > 100_000 && (50_000..60_000).contains(&added(second)), "{stats}");
    assert_eq!((&stats["bytes"], &stats["snapshotCount"]), (&json!(250_006), &json!(2)), "{stats}");
    assert_eq!((&stats["reclaimableBytes"], &stats["unreferenced"]["count"]), (&json!(0), &json!(0)), "{stats}");
    let contents = added(first) + added(second);
    assert_eq!(stats["contents"]["bytes"], json!(contents), "{stats}");
    let one = ground.json(&["stats", "latest"]);
    assert_eq!((&one["snapshots"], &one["bytes"]), (&json!([second]), &stats["bytes"]), "{one}");
    let text = ground.ok(&["stats", &before]);
    assert!(text.contains("\nReclaimable: 0 bytes: 0 contents that nothing refers to"), "{text}");
    assert!(text.contains(&before) && !text.contains(&after), "{text}");
}
