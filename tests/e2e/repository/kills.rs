//! Commands that are killed at random times: nothing is lost, the next run completes, and kopia opens what is left.

use crate::random::{seeds, splitmix};
use crate::repository_ground::RepositoryGround;
use crate::support::{Run, ended, run};
use lifeboat_testbed::Kopia;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

const PASSWORDS: [&str; 2] = ["first-passw0rd", "second-passw0rd"];

/// A command that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KilledCommand {
    Snapshot,
    Restore,
    Maintenance,
    PasswordChange,
}

const COMMANDS: [KilledCommand; 4] =
    [KilledCommand::Snapshot, KilledCommand::Restore, KilledCommand::Maintenance, KilledCommand::PasswordChange];

/// Paths and bytes of all files below a folder.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut waiting) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                found.insert(
                    path.strip_prefix(root).expect("a path below").to_owned(),
                    fs::read(&path).expect("a file"),
                );
            }
        }
    }
    found
}

/// A repository with the tree that is saved into it.
struct KillGround {
    ground: RepositoryGround,
    /// The number of the password that opens it.
    password: usize,
    /// The files of the latest snapshot.
    saved: BTreeMap<PathBuf, Vec<u8>>,
    /// The time that each command takes when it is not killed.
    takes: BTreeMap<usize, Duration>,
}

impl KillGround {
    fn new() -> Self {
        let ground = RepositoryGround::new("repository", PASSWORDS[0]);
        ground.ok(&["create", "--splitter", "FIXED-1M"]);
        ground.ok(&["maintenance", "set", "--owner", "me"]);
        let mut own = Self { ground, password: 0, saved: BTreeMap::new(), takes: BTreeMap::new() };
        for (number, work) in COMMANDS.into_iter().enumerate() {
            own.prepare(work, number as u64);
            let begun = Instant::now();
            own.complete(work);
            own.takes.insert(number, begun.elapsed());
        }
        own
    }

    /// Changes the tree before a snapshot, and the target before a restore.
    fn prepare(&self, work: KilledCommand, seed: u64) {
        match work {
            KilledCommand::Snapshot => {
                let tree = self.ground.path("tree");
                for n in 0..20_u64 {
                    let folder = tree.join(format!("d{}", n % 3));
                    fs::create_dir_all(&folder).expect("a folder");
                    let path = folder.join(format!("f{n}"));
                    // Of some runs in a row many files stay as they are.
                    let number = splitmix((seed / 3) ^ (n << 32));
                    let length = if n == 7 { 3_000_000 } else { number % 50_000 };
                    let bytes: Vec<u8> = (0..length).map(|at| splitmix(number ^ (at >> 3)) as u8).collect();
                    // One that stays keeps its time, too, and is taken over.
                    if fs::read(&path).is_ok_and(|there| there == bytes) {
                        continue;
                    }
                    fs::write(&path, bytes).expect("write");
                    let file = File::options().write(true).open(path).expect("a file");
                    file.set_modified(SystemTime::now() - Duration::from_secs(3600)).expect("set");
                }
            }
            KilledCommand::Restore => {
                let target = self.ground.path("target");
                if seed.is_multiple_of(3) {
                    let _ = fs::remove_dir_all(&target);
                }
            }
            KilledCommand::Maintenance => self.age_claims(),
            KilledCommand::PasswordChange => {
                fs::write(self.ground.path("new"), PASSWORDS[1 - self.password]).expect("write");
            }
        }
    }

    /// Lets claims of maintenance count no more, as they do half an hour after their run was killed.
    fn age_claims(&self) {
        let root = self.ground.path("repository");
        for path in files(&root).into_keys() {
            let name: String = path.iter().map(|part| part.to_string_lossy()).collect();
            if name.starts_with("io.lifeboat.maintenance.") {
                let claim = File::options().write(true).open(root.join(path)).expect("a claim");
                claim.set_modified(SystemTime::now() - Duration::from_secs(31 * 60)).expect("set");
            }
        }
    }

    fn args(&self, work: KilledCommand) -> Vec<String> {
        let path = |name: &str| self.ground.path(name).display().to_string();
        let (tree, target, new) = (path("tree"), path("target"), path("new"));
        let args: &[&str] = match work {
            KilledCommand::Snapshot => &["snapshot", &tree],
            KilledCommand::Restore => &["restore", "latest", &target, "--no-owners", "--delete-extra"],
            KilledCommand::Maintenance => &["maintenance", "run", "--full"],
            KilledCommand::PasswordChange => &["password", "change", "--new-password-file", &new],
        };
        args.iter().map(|arg| (*arg).to_owned()).collect()
    }

    fn run(&self, work: KilledCommand) -> Run {
        let args = self.args(work);
        run(&mut self.ground.command(&args.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    /// Runs a command to its end, and looks at what it has done.
    fn complete(&mut self, work: KilledCommand) {
        let done = self.run(work);
        assert_eq!(done.code, 0, "{work:?}: {done:?}");
        match work {
            KilledCommand::Snapshot => self.saved = files(&self.ground.path("tree")),
            KilledCommand::Restore => {
                assert!(files(&self.ground.path("target")) == self.saved, "the latest snapshot comes back");
            }
            KilledCommand::Maintenance => {}
            KilledCommand::PasswordChange => {
                self.password = 1 - self.password;
                fs::copy(self.ground.path("new"), self.ground.path("password")).expect("copy");
            }
        }
    }

    /// Kills a command some time after its begin; true where it had not ended. A command that had ended tells that it takes no
    /// longer: the next one is killed earlier.
    fn kill(&mut self, number: usize, seed: u64) -> bool {
        let args = self.args(COMMANDS[number]);
        let mut command = self.ground.command(&args.iter().map(String::as_str).collect::<Vec<_>>());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let within = self.takes[&number].as_micros().max(1) as u64;
        let begun = Instant::now();
        let end = begun + Duration::from_micros(splitmix(seed) % within);
        while child.try_wait().expect("a child").is_none() && Instant::now() < end {
            std::thread::yield_now();
        }
        let took = begun.elapsed();
        let _ = child.kill();
        let was_killed = !ended(&mut child).success();
        if !was_killed && let Some(takes) = self.takes.get_mut(&number) {
            *takes = took.min(*takes);
        }
        was_killed
    }

    /// Verifies all that the repository has, by the password that opens it.
    fn verify(&self, work: KilledCommand) {
        let mut verified = self.ground.repo(&["verify", "-o", "json"]);
        if work == KilledCommand::PasswordChange && verified.code != 0 {
            // The change had come so far that only the new one opens it.
            fs::copy(self.ground.path("new"), self.ground.path("password")).expect("copy");
            verified = self.ground.repo(&["verify", "-o", "json"]);
            fs::write(self.ground.path("password"), PASSWORDS[self.password]).expect("write");
        }
        assert_eq!(verified.code, 0, "{work:?}: {verified:?}");
        let report: serde_json::Value = serde_json::from_str(&verified.out).expect("JSON");
        let problems = (&report["problemCount"], &report["damagedIndexEntries"]);
        assert_eq!(problems, (&0.into(), &0.into()), "{work:?}: {report}");
    }
}

/// Kills one command after the other, a random one for each seed.
#[allow(clippy::print_stdout, reason = "who repeats the run needs them")]
fn kill_commands(seeds: &[u64]) {
    let mut ground = KillGround::new();
    let mut killed = 0;
    for &seed in seeds {
        let number = (splitmix(seed ^ 0x5eed) % COMMANDS.len() as u64) as usize;
        let work = COMMANDS[number];
        println!("seed {seed}: {work:?}");
        ground.prepare(work, seed);
        killed += u64::from(ground.kill(number, seed));
        ground.verify(work);
        ground.prepare(KilledCommand::Maintenance, seed);
        ground.complete(work);
    }
    println!("{killed} of {} were killed before their end", seeds.len());
    let least = match seeds.len() {
        200.. => 50,
        8.. => 1,
        // Those of somebody who repeats a run.
        _ => 0,
    };
    assert!(killed >= least, "only {killed} were killed before their end");
    for (number, work) in COMMANDS.into_iter().enumerate() {
        ground.prepare(work, number as u64);
        ground.complete(work);
    }
    let kopia = Kopia::new("v0.23.1", PASSWORDS[ground.password]).expect("kopia");
    kopia.connect(&ground.ground.path("repository")).expect("it connects");
    kopia.run(&["snapshot", "verify", "--verify-files-percent=100"]).expect("it verifies");
    kopia.run(&["content", "verify", "--download-percent=100"]).expect("it verifies");
}

#[test]
fn commands_that_are_killed_harm_nothing_and_the_next_completes() {
    kill_commands(&(0..8).collect::<Vec<_>>());
}

#[test]
#[ignore = "takes a quarter of an hour: make test-long"]
fn long_commands_that_are_killed_harm_nothing_and_the_next_completes() {
    kill_commands(&seeds(200));
}
