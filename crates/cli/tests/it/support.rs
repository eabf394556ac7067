//! Runs the binary, and prepares clusters for it.

use lifeboat_testbed::{ControlPlane, Kubectl};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A control plane of its own, a bucket, and the binary with a home of its own. There are as many at once as [`places`].
///
/// A control plane serves one test after the other, put back each time to as it was when it was new; that of a test that
/// failed serves no other.
pub(crate) struct Bed {
    pub(crate) plane: Lent,
    folder: TempDir,
    /// `None` for the second control plane of a test, which has had its turn.
    _turn: Option<Turn>,
}

/// A control plane that goes to the next test afterwards.
pub(crate) struct Lent {
    plane: Option<ControlPlane>,
    goes_on: bool,
}

/// Control planes that no test uses now.
static FREE: Mutex<Vec<ControlPlane>> = Mutex::new(Vec::new());

impl Lent {
    /// Takes one that is free and puts it back to its beginning, or starts one.
    fn take() -> Self {
        loop {
            let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(mut plane) = free else {
                let plane = ControlPlane::start_for_many().expect("a control plane");
                return Self { plane: Some(plane), goes_on: true };
            };
            // One that does not come to rest ends here.
            if plane.put_back().is_ok() {
                return Self { plane: Some(plane), goes_on: true };
            }
        }
    }

    /// Starts one that nobody has used and nobody will, for who reads its audit log.
    fn fresh() -> Self {
        Self { plane: Some(ControlPlane::start().expect("a control plane")), goes_on: false }
    }

    /// A control plane that another process has started.
    fn of(plane: ControlPlane) -> Self {
        Self { plane: Some(plane), goes_on: false }
    }
}

impl std::ops::Deref for Lent {
    type Target = ControlPlane;
    fn deref(&self) -> &ControlPlane {
        self.plane.as_ref().expect("there is one until the drop")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.goes_on && !std::thread::panicking() {
            FREE.lock().unwrap_or_else(PoisonError::into_inner).extend(self.plane.take());
        }
    }
}

/// A place for a test with a control plane.
struct Turn;

/// Turns that are taken.
static TAKEN: Mutex<usize> = Mutex::new(0);
static GIVEN_BACK: Condvar = Condvar::new();

impl Turn {
    /// Waits for a place.
    fn take() -> Self {
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let places = places();
        let mut taken = GIVEN_BACK.wait_while(taken, |taken| *taken >= places).unwrap_or_else(PoisonError::into_inner);
        *taken += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A test that failed before is no reason not to run.
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        GIVEN_BACK.notify_one();
    }
}

/// The number of control planes that may run at once: each takes half a gigabyte, and its test waits most of the time
/// for others. `LIFEBOAT_TEST_PLACES` sets another number.
fn places() -> usize {
    static PLACES: OnceLock<usize> = OnceLock::new();
    *PLACES.get_or_init(|| {
        let asked = std::env::var("LIFEBOAT_TEST_PLACES").ok().and_then(|text| text.parse().ok());
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let available =
            memory.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.strip_suffix("kB")?.trim().parse().ok());
        let by_memory: usize = available.map_or(1, |kilobytes: usize| kilobytes / (3 << 19));
        asked.unwrap_or(by_memory.min(3 * cores)).max(1)
    })
}

/// `lifeboat sandbox` with these manifests; it ends with this value.
pub(crate) struct Sandbox {
    process: Child,
    folder: TempDir,
}

impl Sandbox {
    /// Starts one and waits until it serves.
    pub(crate) fn start(manifests: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let manifest = folder.path().join("manifests.yaml");
        std::fs::write(&manifest, manifests).expect("write");
        Self::start_in(folder, &manifest)
    }

    /// The same with the manifests of a file or folder.
    pub(crate) fn start_with(manifests: &Path) -> Self {
        Self::start_in(tempfile::tempdir().expect("a folder"), manifests)
    }

    fn start_in(folder: TempDir, manifests: &Path) -> Self {
        let process = Command::new(env!("CARGO_BIN_EXE_lifeboat"))
            .args(["sandbox", "--kubeconfig"])
            .arg(folder.path().join("kubeconfig"))
            .arg("--load")
            .arg(manifests)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary");
        let sandbox = Self { process, folder };
        eventually("the kubeconfig", || sandbox.kubeconfig().exists());
        sandbox
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    pub(crate) fn kubectl(&self) -> Kubectl {
        Kubectl::new(&self.kubeconfig()).expect("kubectl")
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The exit code and the output of a run of the binary.
#[derive(Debug)]
#[allow(dead_code, reason = "all of it is shown when an assertion fails")]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The binary under Velero's name, with a home of its own.
pub(crate) struct Client {
    pub(crate) folder: TempDir,
    kubeconfig: PathBuf,
}

impl Client {
    pub(crate) fn new(kubeconfig: PathBuf) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_lifeboat"), folder.path().join("velero")).expect("a link");
        Self { folder, kubeconfig }
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.folder.path().join("velero"));
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", self.folder.path()).env("TZ", "UTC");
        command.env_remove("VELERO_NAMESPACE").env_remove("NO_COLOR").current_dir(self.folder.path());
        command
    }

    /// Words separated by blanks; `~` stands for a blank within a word.
    pub(crate) fn run(&self, line: &str) -> Run {
        run(self.command().args(line.split(' ').map(|word| word.replace('~', " "))))
    }

    /// The output of a command that must succeed.
    pub(crate) fn ok(&self, line: &str) -> String {
        let run = self.run(line);
        assert_eq!(run.code, 0, "{line}: {run:?}");
        run.out
    }

    /// The error of a command that must fail.
    pub(crate) fn fails(&self, line: &str) -> String {
        let run = self.run(line);
        assert_eq!(run.code, 1, "{line}: {run:?}");
        run.err
    }
}

impl Bed {
    pub(crate) fn start() -> Self {
        Self::on(Lent::take, Some(Turn::take()))
    }

    /// The same with a control plane that no test has used before.
    pub(crate) fn fresh() -> Self {
        Self::on(Lent::fresh, Some(Turn::take()))
    }

    fn on(plane: impl FnOnce() -> Lent, turn: Option<Turn>) -> Self {
        Self { plane: plane(), folder: tempfile::tempdir().expect("a folder"), _turn: turn }
    }

    /// Another one for the same test. It waits for no place: of two tests that each held one, both would wait for ever.
    pub(crate) fn another(_first: &Self) -> Self {
        Self::on(Lent::take, None)
    }

    /// The control plane with a node, which all tests on the node share.
    pub(crate) fn with_node() -> Self {
        let turn = Turn::take();
        let kubeconfig = std::env::var_os("LIFEBOAT_TEST_KUBECONFIG").expect("run these tests by make test-node");
        let plane = ControlPlane::of_another_process(Path::new(&kubeconfig)).expect("a control plane");
        Self::on(|| Lent::of(plane), Some(turn))
    }

    pub(crate) fn bucket(&self) -> PathBuf {
        self.folder.path().join("bucket")
    }

    /// Runs `lifeboat local ARGS --bucket BUCKET`.
    pub(crate) fn local(&self, args: &[&str]) -> Run {
        self.local_through(&self.plane.kubeconfig(), args)
    }

    /// The same, with the cluster reached by this kubeconfig.
    pub(crate) fn local_through(&self, kubeconfig: &Path, args: &[&str]) -> Run {
        local(kubeconfig, self.folder.path(), args)
    }

    pub(crate) fn kubectl(&self, args: &[&str]) -> String {
        self.plane.kubectl().try_run(args).unwrap_or_else(|e| panic!("{e:#}"))
    }

    /// Makes an object, or each of a List.
    pub(crate) fn create(&self, object: &Value) {
        self.plane.create(object).unwrap_or_else(|e| panic!("{e:#}"));
    }

    /// The results file of a restore: its warnings and errors.
    pub(crate) fn results(&self, restore: &str) -> Value {
        results(self.folder.path(), restore)
    }

    /// The resource list of a restore: names of objects and what was done, by type.
    pub(crate) fn resource_list(&self, restore: &str) -> BTreeMap<String, Vec<String>> {
        let file = format!("restores/{restore}/restore-{restore}-resource-list.json.gz");
        serde_json::from_value(gunzip_json(&self.bucket().join(file))).expect("a resource list")
    }

    /// Applies the manifests of a folder of fixtures, in order of their names.
    pub(crate) fn apply(&self, fixture: &str) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testbed/fixtures").join(fixture);
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder).expect("fixtures").map(|e| e.expect("an entry").path()).collect();
        files.sort();
        for file in files {
            self.plane.kubectl().apply(&file).unwrap_or_else(|e| panic!("{e:#}"));
        }
    }
}

/// Runs `lifeboat local ARGS` on a cluster, with bucket and state in a folder.
pub(crate) fn local(kubeconfig: &Path, folder: &Path, args: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lifeboat"));
    command.arg("local").args(args).arg("--bucket").arg(folder.join("bucket"));
    command.env("KUBECONFIG", kubeconfig).env("XDG_STATE_HOME", folder.join("state"));
    run(&mut command)
}

/// The results file of a restore in the bucket of such a folder.
pub(crate) fn results(folder: &Path, restore: &str) -> Value {
    gunzip_json(&folder.join(format!("bucket/restores/{restore}/restore-{restore}-results.gz")))
}

/// Runs kubectl and gives what it printed.
pub(crate) fn ok(kubectl: &Kubectl, args: &[&str]) -> String {
    kubectl.try_run(args).unwrap_or_else(|e| panic!("{e:#}"))
}

/// Hands one object to kubectl: `kubectl ARGS --filename OBJECT`.
pub(crate) fn with_object(kubectl: &Kubectl, args: &[&str], object: &Value) -> anyhow::Result<String> {
    let file = tempfile::Builder::new().suffix(".json").tempfile().expect("a file");
    std::fs::write(file.path(), object.to_string()).expect("write");
    let path = file.path().display().to_string();
    kubectl.try_run(&[args, &["--filename", &path]].concat())
}

/// Waits until definitions are established, all of the cluster where none is named, and until objects of their types can be asked
/// for: for a moment after the first an API server may still answer that it does not know the type.
pub(crate) fn until_types_are_served(plane: &ControlPlane, definitions: &[&str]) {
    let client = plane.client();
    let all = || client.list("customresourcedefinitions", None).unwrap_or_else(|e| panic!("{e:#}"));
    let name = |one: &Value| one["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let names: Vec<String> = match definitions {
        [] => all().iter().map(name).collect(),
        some => some.iter().map(|name| (*name).to_owned()).collect(),
    };
    let is_established = |one: &Value| {
        let conditions = one["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
    };
    eventually(&format!("established definitions of {}", names.join(", ")), || {
        let established: BTreeSet<String> = all().iter().filter(|one| is_established(one)).map(name).collect();
        names.iter().all(|name| established.contains(name))
    });
    for name in names {
        eventually(&name, || client.list(&name, None).is_ok());
    }
}

/// The content of a file that is compressed with gzip.
pub(crate) fn gunzip(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).expect("a file");
    lifeboat_archive::gzip::unpack(&bytes, 100 << 20).expect("gzip")
}

/// Reads a gzip-compressed JSON file.
pub(crate) fn gunzip_json(path: &Path) -> Value {
    serde_json::from_slice(&gunzip(path)).expect("JSON")
}

pub(crate) fn run(command: &mut Command) -> Run {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().expect("run the binary");
    Run {
        code: status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&stdout).into_owned(),
        err: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

/// Starts a program whose output, both streams of it, goes into a file.
pub(crate) fn spawn_logged(command: &mut Command, log: &Path) -> Child {
    let log = File::create(log).expect("a log");
    let out = log.try_clone().expect("a log");
    command.stdin(Stdio::null()).stdout(out).stderr(log).spawn().expect("the binary")
}

/// Pauses between two looks at a condition: much comes to be at once, and what does not is not worth many looks.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Waits until a condition holds; fails the test after a minute.
pub(crate) fn eventually(what: &str, holds: impl FnMut() -> bool) {
    assert!(comes_to_be(holds), "{what} did not come to be within a minute");
}

/// Waits until a condition holds, for a minute at most, and gives whether it does.
pub(crate) fn comes_to_be(holds: impl FnMut() -> bool) -> bool {
    comes_to_be_within(Duration::from_secs(60), holds)
}

/// The same for another time.
pub(crate) fn comes_to_be_within(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    let mut pause = FIRST_PAUSE;
    while !holds() {
        if Instant::now() >= end {
            return false;
        }
        std::thread::park_timeout(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
    true
}
