//! A folder with plugins, and what they leave behind.

use jiff::Timestamp;
use lifeboat_archive::gzip;
use lifeboat_operation::Journal;
use lifeboat_plugin::{DiscoveryError, HostOptions, PluginHost};
use lifeboat_testbed::plugin_fixture;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A folder with plugins, and what they leave behind.
pub(crate) struct Bed {
    folder: TempDir,
    /// The options of the next host.
    pub(crate) options: HostOptions,
}

impl Bed {
    /// No plugins yet.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["plugins", "tmp"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let variable = |name: &str, value: PathBuf| (name.into(), value.into_os_string());
        let environment = vec![
            variable("TMPDIR", folder.path().join("tmp")),
            variable("FIXTURE_DIARY", folder.path().join("diary")),
            variable("FIXTURE_HUNG", folder.path().join("hung")),
        ];
        let options = HostOptions {
            directory: folder.path().join("plugins"),
            arguments: Vec::new(),
            environment,
            built_in: Vec::new(),
            replaceable: Vec::new(),
            call_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(30),
        };
        Self { folder, options }
    }

    /// With the fixture as the program of this name: what it reports, as `Kind=name`, and how it misbehaves.
    pub(crate) fn with(self, program: &str, plugins: &str, switches: &str) -> Self {
        let fixture = std::env::current_exe().unwrap();
        let test = "fixture::plays_a_plugin --exact --nocapture --test-threads=1";
        let script = format!(
            "export FIXTURE_COMMAND=\"$0\" FIXTURE_ARGUMENTS=\"$*\" FIXTURE_PLUGINS='{plugins}' FIXTURE_SWITCHES='{switches}'\n\
             exec 3>&1 >/dev/null\n\
             exec '{}' {test}\n",
            fixture.display()
        );
        self.with_script(program, &script)
    }

    /// With the plugin that is made with Velero's library as the program of this name: what it has, as `Kind=name`, and how it
    /// misbehaves.
    pub(crate) fn with_go(self, program: &str, plugins: &str, switches: &str) -> Self {
        static FIXTURE: LazyLock<PathBuf> = LazyLock::new(|| plugin_fixture().unwrap());
        self.with_program(program, &FIXTURE, plugins, switches)
    }

    /// The same, with this program.
    pub(crate) fn with_program(self, program: &str, path: &Path, plugins: &str, switches: &str) -> Self {
        let script = format!(
            "export FIXTURE_PLUGINS='{plugins}' FIXTURE_SWITCHES='{switches}'\nexec '{}' \"$@\"\n",
            path.display()
        );
        self.with_script(program, &script)
    }

    /// With a script as the program of this name.
    pub(crate) fn with_script(self, program: &str, script: &str) -> Self {
        let path = self.program(program);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// The path of the program of this name.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.options.directory.join(name)
    }

    /// A path in the folder, beside the plugins.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Discovers the plugins.
    pub(crate) async fn discover(&self) -> Result<PluginHost, DiscoveryError> {
        PluginHost::discover(self.options.clone()).await
    }

    /// The problems of the plugins.
    pub(crate) async fn problems(&self) -> Vec<String> {
        self.discover().await.unwrap_err().problems
    }

    /// The notes of the fixture, without its starts and ends.
    pub(crate) fn diary(&self) -> Vec<String> {
        let is_call = |line: &&str| !line.starts_with("start ") && *line != "shutdown";
        self.whole_diary().lines().filter(is_call).map(str::to_owned).collect()
    }

    /// The numbers of the processes that were started.
    pub(crate) fn started(&self) -> Vec<u32> {
        self.whole_diary().lines().filter_map(|line| line.strip_prefix("start ")?.parse().ok()).collect()
    }

    fn whole_diary(&self) -> String {
        fs::read_to_string(self.path("diary")).unwrap_or_default()
    }

    /// Forgets what was noted.
    pub(crate) fn forget(&self) {
        let _ = fs::remove_file(self.path("diary"));
    }

    /// The sockets that are there.
    pub(crate) fn sockets(&self) -> usize {
        fs::read_dir(self.path("tmp")).unwrap().count()
    }
}

/// Returns true if a process exists, be it as a zombie.
pub(crate) fn exists(process: u32) -> bool {
    PathBuf::from(format!("/proc/{process}")).exists()
}

/// Returns true if all threads of a process stand still after SIGSTOP: until then it may answer what it is asked.
pub(crate) fn stands_still(process: u32) -> bool {
    let stands = |task: std::io::Result<fs::DirEntry>| {
        let stat = task.and_then(|task| fs::read_to_string(task.path().join("stat"))).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    };
    fs::read_dir(format!("/proc/{process}/task")).is_ok_and(|mut tasks| tasks.all(stands))
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "not {what} for 20 s");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The journal of an operation of this name.
pub(crate) fn journal(name: &str) -> Journal {
    Journal::new(Arc::new(|| Timestamp::UNIX_EPOCH), &format!("backup=velero/{name}"), &std::env::temp_dir())
}

/// The log of an operation so far.
pub(crate) fn text(journal: &Journal) -> String {
    let log = journal.close().log;
    let packed = log.read_at(0, usize::try_from(log.length()).unwrap()).unwrap();
    String::from_utf8(gzip::unpack(&packed, 1 << 30).unwrap()).unwrap()
}

/// The log of an operation so far, without times and the fields that name its program and process.
pub(crate) fn log(journal: &Journal) -> Vec<String> {
    let line = |line: &str| {
        let line = line.strip_prefix("time=\"1970-01-01T00:00:00Z\" ").unwrap();
        let (start, rest) = line.split_once(" cmd=").unwrap_or((line, ""));
        let rest = rest.split_once(' ').map_or("", |(_, rest)| rest);
        let rest = rest
            .split(' ')
            .filter(|field| !["pluginName=", "plugin=", "id="].iter().any(|name| field.starts_with(name)));
        std::iter::once(start).chain(rest).collect::<Vec<_>>().join(" ")
    };
    text(journal).lines().map(line).collect()
}
