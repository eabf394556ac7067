//! Two clusters with one bucket: whatever happens to either, what is kept stays, no snapshot is forgotten, and each
//! cluster's restores are its own.

mod cluster;
mod model;

use crate::ground::Ground;
use crate::random::{first_seed, number, splitmix};
use crate::server::plugins::put_plugin;
use crate::support::{comes_to_be_within, eventually};
use cluster::{Cluster, LIMIT};
use jiff::Timestamp;
use model::{Model, PLAIN, Restore, digest_of_results, end_of, is_in, snapshots_that_are_known};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// So many steps are made; `LIFEBOAT_STEPS` says another number.
const STEPS: u64 = 200;
/// The short form: its seed and its steps.
const SHORT: (u64, u64) = (337, 25);
/// Largest error of a clock, in seconds.
const SHIFT: i64 = 600;
/// The names of all restores: both clusters use the same.
const RESTORES: [&str; 3] = ["one", "two", "three"];

/// All that the test changes.
struct World {
    clusters: [Cluster; 2],
    model: Model,
    seed: u64,
    thrown: u64,
}

impl World {
    fn throw(&mut self, below: usize) -> usize {
        self.thrown += 1;
        // Seeds beside each other throw other numbers, not the same ones a step later.
        let number = splitmix(splitmix(self.seed).wrapping_add(self.thrown)) % below as u64;
        usize::try_from(number).expect("a number")
    }

    fn one_of(&mut self, names: &[String]) -> Option<String> {
        if names.is_empty() {
            return None;
        }
        let place = self.throw(names.len());
        Some(names[place].clone())
    }

    /// Takes a random step, and describes it.
    fn step(&mut self) -> String {
        let number = self.throw(2);
        let what = self.throw(16);
        let works = self.clusters[number].works();
        let said = match what {
            0..=3 if works => self.back_up(number),
            4 | 5 if works => self.restore(number),
            6 if works => self.delete_restore(number),
            7 if works => self.hold(number),
            8 if works => self.delete_backup(number),
            9 | 10 => {
                let shift = [0, -SHIFT, SHIFT][self.throw(3)];
                self.clusters[number].kill();
                self.clusters[number].start(shift);
                format!("is killed and started with a clock that is wrong by {shift} s")
            }
            11 => {
                self.clusters[number].pause(works);
                match (works, self.clusters[number].server.is_some()) {
                    (true, _) => "pauses".to_owned(),
                    (false, true) => "goes on".to_owned(),
                    (false, false) => "has no server that could go on".to_owned(),
                }
            }
            12 => self.change_schedule(number),
            13 => {
                let ours = self.throw(2) == 0;
                let definitions = if ours { lifeboat_api::crds() } else { model::definitions_of_velero() };
                self.clusters[number].define(&definitions);
                format!("has definitions of {} applied", if ours { "Lifeboat" } else { "Velero" })
            }
            14 if self.throw(3) == 0 => {
                let is_another = self.throw(2) == 0;
                let cluster = &mut self.clusters[number];
                cluster.lose_everything();
                if is_another {
                    cluster.become_another();
                }
                cluster.define(&lifeboat_api::crds());
                cluster.install();
                cluster.start(0);
                let how = if is_another { "made anew with another UID" } else { "installed anew, empty" };
                format!("is {how}")
            }
            15 => {
                self.clusters[number].ground.let_an_hour_pass("velero", "main");
                "has had its location for an hour".to_owned()
            }
            _ if works => "rests".to_owned(),
            _ => self.go_on(number),
        };
        format!("cluster {number} {said}")
    }

    /// Starts or resumes, sooner or later, a server that is paused or not there.
    fn go_on(&mut self, number: usize) -> String {
        if self.throw(3) > 0 {
            return "is away".to_owned();
        }
        if self.clusters[number].server.is_none() {
            self.clusters[number].start(0);
        }
        self.clusters[number].pause(false);
        "goes on".to_owned()
    }

    fn back_up(&mut self, number: usize) -> String {
        let nightly = self.clusters[number].nightly.clone().filter(|_| self.throw(3) > 0);
        let schedule = nightly.unwrap_or_else(|| PLAIN.to_owned());
        let has_rules = schedule != PLAIN && self.clusters[number].has_rules(&schedule);
        let name = self.clusters[number].begin_backup(&schedule);
        let killed = self.interrupts(number);
        let Some(backup) = self.clusters[number].end_backup(name, &schedule, has_rules) else {
            assert!(
                !has_rules,
                "a backup of {schedule} is gone, and its rules keep it: {}",
                self.clusters[number].log()
            );
            return format!("made a backup of {schedule} that is gone");
        };
        let said = format!("made {} of {schedule}{killed}", backup.name);
        self.model.made(backup, has_rules);
        said
    }

    /// Kills the server at some moment of what it works on, now and then, and starts another one.
    fn interrupts(&mut self, number: usize) -> &'static str {
        if self.throw(3) > 0 {
            return "";
        }
        let pause = self.throw(2000) as u64;
        std::thread::park_timeout(Duration::from_millis(pause));
        self.clusters[number].kill();
        self.clusters[number].start(0);
        ", and its server was killed meanwhile"
    }

    fn restore(&mut self, number: usize) -> String {
        let name = RESTORES[self.throw(RESTORES.len())];
        let backups = self.clusters[number].names("backups");
        let cluster = &self.clusters[number];
        if !cluster.ground.get("restore", name).is_null() {
            return format!("has a restore {name}");
        }
        let Some(backup) = self.one_of(&backups) else { return "has nothing to restore".to_owned() };
        let cluster = &mut self.clusters[number];
        let line = format!(
            "restore create {name} --from-backup {backup} --include-resources configmaps --namespace-mappings shop:copy"
        );
        let made = cluster.lifeboat(&line);
        if made.code != 0 {
            return format!("could not restore {backup}: {}", made.err.trim());
        }
        let killed = self.interrupts(number);
        let cluster = &mut self.clusters[number];
        let mut status = Value::Null;
        let ended = comes_to_be_within(LIMIT, || {
            cluster.tend();
            let restore = cluster.ground.get("restore", name);
            status = restore["status"].clone();
            let phase = status["phase"].as_str().unwrap_or_default();
            restore.is_null() || ["Completed", "PartiallyFailed", "Failed", "FailedValidation"].contains(&phase)
        });
        assert!(ended, "{name}: {status}: {}", cluster.log());
        if status.is_null() {
            return format!("restored {backup} as {name}, and both are gone");
        }
        let phase = status["phase"].as_str().unwrap_or_default().to_owned();
        if let Some(digest) = digest_of_results(&cluster.bucket, name) {
            let made = Restore { cluster: cluster.uid.clone(), digest, backup: backup.clone() };
            self.model.restored(name, &phase, made);
        }
        format!("restored {backup} as {name}: {phase}{killed}")
    }

    fn delete_restore(&mut self, number: usize) -> String {
        let names = self.clusters[number].names("restores");
        let Some(name) = self.one_of(&names) else { return "has no restore to delete".to_owned() };
        let deleted = self.clusters[number].lifeboat(&format!("restore delete {name} --confirm"));
        // Its backup may have gone meanwhile, and it with it.
        assert!(deleted.code == 0 || deleted.err.contains("not found"), "{deleted:?}");
        let killed = self.interrupts(number);
        self.clusters[number].until_gone("restore", &name);
        self.model.restore_deleted(&name, &self.clusters[number].uid);
        format!("deleted restore {name}{killed}")
    }

    fn hold(&mut self, number: usize) -> String {
        let backups = self.model.own_in(&self.clusters[number].names("backups"), &self.clusters[number].uid);
        let Some(name) = self.one_of(&backups) else { return "has nothing to hold".to_owned() };
        let cluster = &mut self.clusters[number];
        if cluster.lifeboat(&format!("backup hold {name}")).code != 0 {
            return format!("could not hold {name}");
        }
        let is_recorded = || {
            cluster.tend();
            let backup = cluster.ground.get("backup", &name);
            backup.is_null() || backup["metadata"]["annotations"]["lifeboat.io/hold-recorded"] == "forever"
        };
        assert!(comes_to_be_within(LIMIT, is_recorded), "the hold of {name} is not recorded: {}", cluster.log());
        if is_in(&cluster.bucket, &name) && !cluster.ground.get("backup", &name).is_null() {
            self.model.held(&name);
        }
        format!("holds {name}")
    }

    fn delete_backup(&mut self, number: usize) -> String {
        let backups = self.model.own_in(&self.clusters[number].names("backups"), &self.clusters[number].uid);
        let backups: Vec<String> = backups.into_iter().filter(|name| !self.model.is_held(name)).collect();
        let Some(name) = self.one_of(&backups) else { return "has nothing to delete".to_owned() };
        self.model.deleted(&name);
        let run = self.clusters[number].lifeboat(&format!("backup delete {name} --confirm"));
        assert!(run.code == 0 || run.err.contains("not found"), "{run:?}");
        let killed = self.interrupts(number);
        self.clusters[number].until_gone("backup", &name);
        format!("deleted {name}{killed}")
    }

    fn change_schedule(&mut self, number: usize) -> String {
        let cluster = &mut self.clusters[number];
        match cluster.nightly.take() {
            Some(name) => {
                cluster.ground.bed.kubectl(&["delete", "schedule", &name, "-n", "velero", "--timeout=180s"]);
                format!("deleted schedule {name}")
            }
            None => {
                // The same name again, or another.
                let name = if cluster.backups.is_multiple_of(2) { "nightly" } else { "renamed" };
                cluster.schedule(name, Some(2));
                cluster.nightly = Some(name.to_owned());
                format!("made schedule {name}")
            }
        }
    }

    /// Asserts the rules that hold at every moment.
    fn check(&mut self, step: &str) {
        let bucket = &self.clusters[0].bucket;
        // The restores of a backup go with it.
        self.model.restores.retain(|_, restore| is_in(bucket, &restore.backup));
        for name in self.model.kept() {
            assert!(is_in(bucket, &name), "after {step}: {name} is kept, and gone: {}", self.logs());
        }
        for (name, Restore { cluster, digest, .. }) in &self.model.restores {
            let now = digest_of_results(bucket, name);
            let is_there = now.as_ref() == Some(digest) || !is_in(bucket, &self.model.restores[name].backup);
            assert!(is_there, "after {step}: the results of restore {name} of cluster {cluster} are gone or others");
        }
    }

    fn logs(&self) -> String {
        self.clusters.each_ref().map(Cluster::log).join("\n-----\n")
    }
}

/// Returns true if the time of a backup is over, that nothing keeps now. One that was the newest of its schedule has a
/// time that is a day ahead.
fn is_over(bucket: &Path, backup: &str) -> bool {
    end_of(bucket, backup).is_none_or(|end| end <= Timestamp::now())
}

#[test]
#[ignore = "takes a quarter of an hour: make test-long"]
fn long_two_clusters_with_one_bucket_lose_nothing_that_is_kept() {
    let lives = number("LIFEBOAT_LIVES").unwrap_or(3);
    let steps = number("LIFEBOAT_STEPS").unwrap_or(STEPS);
    let first = first_seed();
    (first..first + lives).for_each(|seed| lives_of_two_clusters(seed, steps));
}

#[test]
fn two_clusters_with_one_bucket_lose_nothing_that_is_kept() {
    lives_of_two_clusters(SHORT.0, SHORT.1);
}

#[allow(clippy::print_stdout, reason = "who repeats the run needs the seed")]
fn lives_of_two_clusters(seed: u64, steps: u64) {
    println!("-- two clusters: {steps} steps, LIFEBOAT_SEED={seed}");
    let first = Ground::start();
    let second = Ground::beside(&first);
    let folder = second.directories.path().to_owned();
    for name in ["shared", "snapshots"] {
        std::fs::create_dir(folder.join(name)).expect("a folder");
    }
    put_plugin(&folder.join("plugins"));
    let bucket = folder.join("shared").join("b");
    let clusters = [Cluster::prepare(first, 0, &folder), Cluster::prepare(second, 1, &folder)];
    let mut world = World { clusters, model: Model::default(), seed, thrown: 0 };
    for cluster in &mut world.clusters {
        cluster.start(0);
    }
    for number in 0..steps {
        let step = format!("step {number} of seed {seed}: {}", world.step());
        println!("{step}");
        world.check(&step);
    }

    // The end: both servers work, with clocks that are right, and nothing holds their clean-up back.
    for cluster in &mut world.clusters {
        cluster.kill();
        cluster.define(&lifeboat_api::crds());
        cluster.start(0);
        cluster.ground.let_an_hour_pass("velero", "main");
    }
    let kept: BTreeSet<String> = world.model.kept().into_iter().collect();
    let free = world.model.free(&world.clusters.each_ref().map(|cluster| cluster.uid.as_str()));
    let mut left: Vec<String> = Vec::new();
    let all_gone = comes_to_be_within(LIMIT, || {
        left = free.iter().filter(|name| is_in(&bucket, name) && is_over(&bucket, name)).cloned().collect();
        left.is_empty()
    });
    assert!(all_gone, "nothing keeps {left:?}, and they stay (seed {seed}): {}", world.logs());
    world.check("the end");
    for name in &kept {
        for cluster in &world.clusters {
            eventually(&format!("each cluster knows {name}"), || !cluster.ground.get("backup", name).is_null());
        }
    }
    let snapshots: BTreeSet<String> = std::fs::read_dir(folder.join("snapshots"))
        .expect("the snapshots")
        .flatten()
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect();
    let known = snapshots_that_are_known(&bucket);
    let unknown: Vec<&String> = snapshots.difference(&known).collect();
    assert!(unknown.is_empty(), "no record knows the snapshots {unknown:?} (seed {seed})");
    let lost: Vec<&String> = known.difference(&snapshots).collect();
    assert!(lost.is_empty(), "records know snapshots that are gone: {lost:?} (seed {seed})");
}
