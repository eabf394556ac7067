//! Runs the tests, and says which take the longest.

use crate::{cargo, edges, setup};
use anyhow::{Context, Result, bail};
use lifeboat_testbed::{
    ControlPlane, Ec2Server, KOPIA_VERSIONS, KUBECTL_VERSIONS, Node, OLD_KOPIA_VERSIONS, REAL_PLUGINS, S3Server,
    Terminal, VeleroPrograms, build_kopia, build_kubectl, dashboard, helm, in_namespaces, informers,
    plugin_fixture_that_detects_races,
};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

/// The number of slowest tests that are named.
const SLOWEST: usize = 20;

/// Runs all tests of the workspace, and names the slowest.
pub(crate) fn all() -> Result<()> {
    crate::timed("helm", || helm().map(drop))?;
    crate::timed("informers", || informers().map(drop))?;
    for version in KOPIA_VERSIONS {
        crate::timed(&format!("kopia {version}"), || build_kopia(version).map(drop))?;
    }
    build_program()?;
    let bed = Bed::start()?;
    let mut tests = bed.give(cargo());
    // All that fails is said in one run.
    tests.args(["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast", "--"]);
    run_timed(&mut tests)?;
    let mut examples = bed.give(cargo());
    crate::run("examples in documentation", examples.args(["test", "--workspace", "--doc", "--quiet"]))?;
    let plugins = REAL_PLUGINS.map(|plugin| plugin.name).join(", ");
    println!(
        "-- deferred to make test-long: plugins that people use ({plugins}), first calls of a plugin under the detector of races, an \
         object of 1 GiB through a plugin, commands and servers killed at random requests, servers that make 500 backups while they are killed, \
         two clusters on one bucket that take other random steps, the oldest and the newest kubectl on a sandbox, older versions of kopia, \
         a dashboard on a backup, {DEFERRED_ON_A_NODE}"
    );
    Ok(())
}

/// Runs the tests that take long: those of plugins that have to be built for them, those that kill commands and servers
/// at random, and the soak.
pub(crate) fn long() -> Result<()> {
    for plugin in REAL_PLUGINS {
        crate::timed(&format!("plugin for {}", plugin.name), || plugin.build().map(drop))?;
    }
    crate::timed("plugin that detects races", || plugin_fixture_that_detects_races().map(drop))?;
    for version in KUBECTL_VERSIONS {
        crate::timed(&format!("kubectl {version}"), || build_kubectl(version).map(drop))?;
    }
    for version in OLD_KOPIA_VERSIONS {
        crate::timed(&format!("kopia {version}"), || build_kopia(version).map(drop))?;
    }
    crate::timed("EC2 server", || Ec2Server::ensure().map(drop))?;
    Terminal::ensure()?;
    crate::timed("dashboard", || dashboard().map(drop))?;
    let how = ["--ignored", "--nocapture", "long_"];
    let of = ["lifeboat-plugin", "lifeboat-plugin-sdk", "lifeboat-mover", "lifeboat-cli", "lifeboat-e2e"];
    let of = of.map(|package| ["--package", package]).concat();
    some(&[&of[..], &["--test", "it", "--test", "interop", "--test", "e2e"]].concat(), &how)?;
    // The same tests run with few kills and rounds among all.
    let many = [("LIFEBOAT_KILLS", "200"), ("LIFEBOAT_ROUNDS", "1000")];
    some_with(&["--package", "lifeboat-mover", "--test", "it"], &["killed_at_random_calls"], &many)?;
    some_with(&["--package", "lifeboat-kopia", "--lib"], &["two_writers_and_a_maintainer"], &many)?;
    on_a_node(&[LONG_ON_A_NODE.to_owned()])?;
    // The same test runs with two histories on the node of the others.
    let kills = std::env::var("LIFEBOAT_KILLS").unwrap_or_else(|_| HISTORIES.to_owned());
    on_a_node_with(&["transfer_kills".to_owned()], &[("LIFEBOAT_KILLS", &kills)])
}

/// The things that tests on a node look at in the long run only.
const DEFERRED_ON_A_NODE: &str = "Velero's server and node agent in turn with ours, a bucket that is away for over three minutes while volumes \
    move, an evicted mover, a missing image, a full node and another password meanwhile, volumes that come to another installation, two \
    installations that write one repository, settings of the node agent in the pods of movers, 50 histories of kills of mover, node agent and \
    server while volumes move";

/// The tests on a node that take long, in their module.
const LONG_ON_A_NODE: &str = "long::";

/// Runs the tests of the whole program, all or those with one of these texts in their names, and names the slowest.
/// Flags go to the harness.
pub(crate) fn whole_program(names: &[String]) -> Result<()> {
    build_whole_program()?;
    let bed = Bed::start()?;
    let mut tests = bed.give(cargo());
    tests.arg("test").args(WHOLE_PROGRAM).args(["--no-fail-fast", "--"]).args(names);
    run_timed(&mut tests)
}

/// Runs tests, whose command ends with what the harness is given, and names the slowest.
fn run_timed(tests: &mut Command) -> Result<()> {
    let begun = Instant::now();
    tests.args(["-Z", "unstable-options", "--report-time"]);
    // Only the harness is asked for something unstable, not the compiler.
    tests.env(format!("CARGO_TARGET_{}_RUNNER", host()?), "env RUSTC_BOOTSTRAP=1");
    let (times, status) = watch(tests)?;
    slowest(times, begun.elapsed().as_secs());
    if !status.success() {
        bail!("tests failed: {status}");
    }
    Ok(())
}

/// Histories of kills while volumes move.
const HISTORIES: &str = "50";

/// Runs `cargo test WHICH -- HOW`.
pub(crate) fn some(which: &[&str], how: &[&str]) -> Result<()> {
    some_with(which, how, &[])
}

/// Runs `cargo test WHICH -- HOW` with variables that the user may have set otherwise.
fn some_with(which: &[&str], how: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    if which.iter().any(|word| ["e2e", "lifeboat-e2e", "--workspace"].contains(word)) {
        build_program()?;
    }
    let bed = Bed::start()?;
    let mut tests = bed.give(cargo());
    tests.arg("test").args(which);
    for (name, value) in variables.iter().filter(|(name, _)| std::env::var_os(name).is_none()) {
        tests.env(name, value);
    }
    if !how.is_empty() {
        tests.arg("--").args(how);
    }
    crate::run("tests", &mut tests)
}

/// The tests of the whole program, which need a control plane. Those that need a node besides are ignored. The package
/// of the program stands there for its features, so that nothing is built anew for these tests alone.
const WHOLE_PROGRAM: [&str; 6] = ["--package", "lifeboat-cli", "--package", "lifeboat-e2e", "--test", "e2e"];

/// Builds the program that the tests run: their package knows nothing of it, so that cargo would leave it as it is.
fn build_program() -> Result<()> {
    crate::run("program", cargo().args(["build", "--bin", "lifeboat", "--quiet"]))
}

/// Builds the tests of the whole program, and the program.
pub(crate) fn build_whole_program() -> Result<()> {
    setup()?;
    build_program()?;
    crate::run("build", cargo().arg("test").args(WHOLE_PROGRAM).args(["--no-run", "--quiet"]))
}

/// Runs the tests of the whole program, all or those with this text in their names, on a control plane of their own;
/// what they print goes into a file.
pub(crate) fn whole_program_into(log: &Path, filter: Option<&str>) -> Result<ExitStatus> {
    let file = File::create(log).with_context(|| format!("make {}", log.display()))?;
    let bed = Bed::start()?;
    let mut tests = bed.give(cargo());
    tests.arg("test").args(WHOLE_PROGRAM).args(["--no-fail-fast", "--"]).args(filter);
    tests.stdout(file.try_clone()?).stderr(file).status().context("run cargo test")
}

/// Runs the tests on a node with containers and volumes, all or those with this text in their names: as root, in
/// namespaces that end with them.
pub(crate) fn on_a_node(names: &[String]) -> Result<()> {
    on_a_node_with(names, &[])
}

fn on_a_node_with(names: &[String], variables: &[(&str, &str)]) -> Result<()> {
    setup()?;
    crate::timed("programs of the node", Node::ensure)?;
    if names.iter().any(|name| name.starts_with(LONG_ON_A_NODE)) {
        crate::timed("Velero", || VeleroPrograms::build().map(drop))?;
    }
    build_whole_program()?;
    let mut inside = in_namespaces();
    inside.arg(std::env::current_exe()?).arg("test-node-inside").args(names).envs(variables.iter().copied());
    crate::run("tests on a node", &mut inside)?;
    if names.is_empty() {
        println!("-- deferred to make test-long: {DEFERRED_ON_A_NODE}");
    }
    Ok(())
}

/// The part of [`on_a_node`] inside the namespaces, where no network is.
pub(crate) fn on_this_node(names: &[String]) -> Result<()> {
    Node::prepare()?;
    let bed = Bed::start()?;
    let begun = Instant::now();
    let _node = Node::start(&bed.plane)?;
    println!("-- node: {} s", begun.elapsed().as_secs());
    let mut tests = bed.give(cargo());
    // They share one node.
    tests.env_remove("RUST_TEST_THREADS");
    tests.arg("test").args(WHOLE_PROGRAM).args(["--offline", "--quiet", "--", "--ignored"]);
    match names {
        [] => tests.args(["node::", "--skip"]).arg(format!("node::{LONG_ON_A_NODE}")),
        names => tests.args(names.iter().map(|name| format!("node::{name}"))),
    };
    crate::run("tests", &mut tests)
}

/// Tests that run at once for each core: some wait for other programs, for a Lease or for the next look. With more of
/// them all cores are busy all the time, and each takes so much longer that waits run out.
const TEST_THREADS_PER_CORE: usize = 2;

/// A control plane and an S3 server for all tests, and the path of the program.
struct Bed {
    program: PathBuf,
    plane: ControlPlane,
    s3: S3Server,
}

impl Bed {
    fn start() -> Result<Self> {
        setup()?;
        let begun = Instant::now();
        let plane = ControlPlane::start()?;
        println!("-- control plane: {} s", begun.elapsed().as_secs());
        Ok(Self { program: edges::target_folder()?.join("debug/lifeboat"), plane, s3: S3Server::start()? })
    }

    /// Lets the tests of a command find them by `LIFEBOAT_TEST_KUBECONFIG` and `LIFEBOAT_TEST_S3_*`, and the program by
    /// `LIFEBOAT_TEST_PROGRAM`.
    fn give(&self, mut command: Command) -> Command {
        command.env("LIFEBOAT_TEST_PROGRAM", &self.program);
        command.env("LIFEBOAT_TEST_KUBECONFIG", self.plane.kubeconfig());
        command.env("LIFEBOAT_TEST_S3_ENDPOINT", self.s3.endpoint());
        command.env("LIFEBOAT_TEST_S3_ACCESS_KEY", self.s3.access_key());
        command.env("LIFEBOAT_TEST_S3_SECRET", self.s3.secret_key());
        if std::env::var_os("RUST_TEST_THREADS").is_none() {
            let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
            command.env("RUST_TEST_THREADS", (TEST_THREADS_PER_CORE * cores).to_string());
        }
        command
    }
}

/// The platform that we run on, in the form in which cargo's variables name it.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc says no host")?;
    Ok(host.to_uppercase().replace('-', "_"))
}

/// A test that went well, and its seconds.
type Time = (String, f64);

/// Runs tests and prints what they print, but the line of each that went well; gives the times of these, and how the
/// run ended.
fn watch(tests: &mut Command) -> Result<(Vec<Time>, ExitStatus)> {
    let mut running = tests.stdout(Stdio::piped()).spawn()?;
    let output = running.stdout.take().context("the output of the tests")?;
    let mut times = Vec::new();
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        match time(&line) {
            Some(time) => times.push(time),
            None if line.is_empty() || line.starts_with("running ") => {}
            None => println!("{line}"),
        }
    }
    Ok((times, running.wait()?))
}

/// The time of a test in a line such as `test stage::a_fact ... ok <0.012s>`.
fn time(line: &str) -> Option<Time> {
    let (name, seconds) = line.strip_prefix("test ")?.split_once(" ... ok <")?;
    Some((name.to_owned(), seconds.strip_suffix("s>")?.parse().ok()?))
}

fn slowest(mut times: Vec<Time>, seconds: u64) {
    times.sort_by(|a, b| b.1.total_cmp(&a.1));
    println!("-- tests: {seconds} s, {} went well; the slowest:", times.len());
    for (name, seconds) in times.iter().take(SLOWEST) {
        println!("   {seconds:7.1} s  {name}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_test_that_went_well_is_read() {
        for (line, expected) in [
            ("test a::b ... ok <1.250s>", Some(("a::b".to_owned(), 1.25))),
            ("test a::b ... FAILED <1.250s>", None),
            ("test a::b ... ignored", None),
            ("test a::b has been running for over 60 seconds", None),
            ("", None),
        ] {
            assert_eq!(time(line), expected, "{line}");
        }
    }
}
