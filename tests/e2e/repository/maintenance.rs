//! `lifeboat repo maintenance`: who runs it, what it says, and what kopia makes of it.

use crate::page;
use crate::repository_ground::RepositoryGround;
use crate::support::{program, run};
use lifeboat_testbed::Kopia;
use serde_json::Value;
use std::fs;
use std::process::Command;

const PASSWORD: &str = "maintained-passw0rd";

/// A folder with a password, a repository, and a snapshot in it.
fn ground() -> RepositoryGround {
    let ground = RepositoryGround::new("bucket", PASSWORD);
    fs::create_dir(ground.path("tree")).expect("a folder");
    fs::write(ground.path("tree/one"), "1").expect("write");
    ground.ok(&["create"]);
    ground.ok(&["snapshot", &ground.path("tree").display().to_string()]);
    ground
}

#[test]
fn the_owner_alone_runs_maintenance_and_kopia_sees_what_was_run() {
    let ground = ground();
    let refused = ground.repo(&["maintenance", "run", "--full", "--identity", "me@here"]);
    assert!(refused.code == 1 && refused.err.contains("nobody owns it"), "{refused:?}");
    ground.ok(&["maintenance", "set", "--owner", "user@host", "--full-interval", "12h"]);
    let refused = ground.repo(&["maintenance", "run", "--full", "--identity", "me@here"]);
    assert!(refused.code == 1 && refused.err.contains("user@host owns it, not me@here"), "{refused:?}");
    let owner = ["--identity", "user@host"];
    let due = ground.json(&[&["maintenance", "run"], &owner[..]].concat());
    assert_eq!((&due["mode"], &due["blockers"]), (&"full".into(), &Value::Array(vec![])), "{due}");
    let steps = due["steps"].as_array().expect("steps");
    assert!(!steps.is_empty() && steps.iter().all(|step| step["error"].is_null()), "{due}");
    let nothing = ground.json(&[&["maintenance", "run"], &owner[..]].concat());
    assert_eq!(nothing["mode"], Value::Null, "{nothing}");
    let info = ground.json(&["maintenance", "info"]);
    assert_eq!((&info["owner"], &info["full"]["interval"]), (&"user@host".into(), &"12h0m0s".into()), "{info}");
    assert_eq!(info["runs"]["snapshot-gc"][0]["success"], true, "{info}");
    let kopia = Kopia::new("v0.23.1", PASSWORD).expect("kopia");
    kopia.connect(&ground.path("bucket")).expect("it connects");
    let seen = kopia.run(&["maintenance", "info"]).expect("it tells");
    assert!(seen.contains("Owner: user@host") && seen.contains("snapshot-gc"), "{seen}");
    kopia.run(&["maintenance", "run", "--full"]).expect("it goes on");
    ground.ok(&["verify"]);
}

#[test]
fn a_dry_run_says_what_would_be_done_and_writes_nothing() {
    let ground = ground();
    let names = || {
        let mut names = Vec::new();
        let mut waiting = vec![ground.path("bucket")];
        while let Some(folder) = waiting.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    waiting.push(path);
                } else {
                    names.push(path);
                }
            }
        }
        names.sort();
        names
    };
    let refused = ground.repo(&["maintenance", "run", "--full", "--dry-run"]);
    assert!(refused.code == 3 && refused.out.contains("the run would be refused: "), "{refused:?}");
    ground.ok(&["maintenance", "set", "--owner", "me"]);
    let before = names();
    let said = ground.ok(&["maintenance", "run", "--full", "--dry-run"]);
    assert!(said.starts_with("full maintenance was asked for\nby the clock of this machine, "), "{said}");
    assert!(said.contains("\nwould mark no content deleted: "), "{said}");
    let printed = ground.json(&["maintenance", "run", "--full", "--dry-run"]);
    assert_eq!((&printed["dryRun"], &printed["refusal"]), (&true.into(), &Value::Null), "{printed}");
    assert_eq!(names(), before);
}

#[test]
fn the_page_about_maintenance_is_true() {
    let ground = ground();
    let bin = ground.path("bin");
    fs::create_dir(&bin).expect("a folder");
    std::os::unix::fs::symlink(program(), bin.join("lifeboat")).expect("a link");
    page::follow_alone(&page::read("repository-maintenance.md"), |lines| {
        let mut command = Command::new("sh");
        command.args(["-eu", "-c", lines]).current_dir(ground.folder.path());
        command.env("REPOSITORY", ground.path("bucket")).env("HOME", ground.folder.path());
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        run(&mut command)
    });
}
