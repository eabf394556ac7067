//! Two writers and a maintainer of one repository at once, each a process of its own. Nothing here is old enough for
//! maintenance to delete it (24 hours): it merges indexes. What it deletes while others write is tested in
//! `crates/kopia`, where clocks are made.

use crate::repository_ground::RepositoryGround;
use crate::support::ended;
use lifeboat_testbed::Kopia;
use std::fs;
use std::process::{Child, Stdio};

const PASSWORD: &str = "shared-passw0rd";

/// The users, each with a folder and a source of its own.
const USERS: [&str; 2] = ["one", "other"];

fn begin(ground: &RepositoryGround, args: &[&str]) -> Child {
    ground.command(args).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().expect("it starts")
}

/// Changes the files of a user: some are those that the other one has as well.
fn change(ground: &RepositoryGround, user: &str, round: usize) {
    let folder = ground.path(user);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(format!("shared{}", round % 3)), round.to_string().repeat(300_000)).expect("write");
    fs::write(folder.join("own"), format!("{user} {round}")).expect("write");
    let _ = fs::remove_file(folder.join(format!("shared{}", (round + 1) % 3)));
}

fn saves(user: &str, path: &str) -> Vec<String> {
    ["snapshot", path, "--user", user, "--host", "host", "--source", user].map(str::to_owned).to_vec()
}

/// Rounds in each of which both take a snapshot while maintenance runs.
fn write_and_maintain_at_once(rounds: usize) {
    let ground = RepositoryGround::new("repository", PASSWORD);
    ground.ok(&["create", "--splitter", "FIXED-1M"]);
    ground.ok(&["maintenance", "set", "--owner", "keeper@host"]);
    for round in 0..rounds {
        USERS.iter().for_each(|user| change(&ground, user, round));
        let writers = USERS.map(|user| {
            let args = saves(user, &ground.path(user).display().to_string());
            begin(&ground, &args.iter().map(String::as_str).collect::<Vec<_>>())
        });
        let mode = if round % 3 == 2 { "--full" } else { "--quick" };
        let maintainer = begin(&ground, &["maintenance", "run", mode, "--identity", "keeper@host"]);
        for mut child in writers.into_iter().chain([maintainer]) {
            assert!(ended(&mut child).success(), "round {round}");
        }
        let snapshots = ground.json(&["snapshots"]);
        assert_eq!(snapshots.as_array().map(Vec::len), Some(2 * (round + 1)), "round {round}: {snapshots}");
        let verified = ground.json(&["verify", "--from-start"]);
        let problems = (&verified["problemCount"], &verified["damagedIndexEntries"]);
        assert_eq!(problems, (&0.into(), &0.into()), "round {round}: {verified}");
    }
    for user in USERS {
        let back = ground.path(&format!("{user}-back"));
        ground.ok(&["restore", "latest", &back.display().to_string(), "--source", &format!("{user}@host:{user}")]);
        let names = |folder| {
            let mut names: Vec<_> = fs::read_dir(folder)
                .expect("a folder")
                .map(|entry| entry.expect("an entry"))
                .map(|entry| (entry.file_name(), fs::read(entry.path()).expect("a file")))
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(back), names(ground.path(user)));
    }
    let kopia = Kopia::new("v0.23.1", PASSWORD).expect("kopia");
    kopia.connect(&ground.path("repository")).expect("it connects");
    kopia.run(&["snapshot", "verify", "--verify-files-percent=100"]).expect("it verifies");
    kopia.run(&["content", "verify", "--download-percent=100"]).expect("it verifies");
}

#[test]
fn two_writers_and_a_maintainer_at_once_harm_nothing() {
    write_and_maintain_at_once(6);
}

#[test]
#[ignore = "takes some minutes: make test-long"]
fn long_two_writers_and_a_maintainer_at_once_harm_nothing() {
    write_and_maintain_at_once(50);
}
