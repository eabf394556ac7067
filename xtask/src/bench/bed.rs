//! A fresh control plane with what runs on it: the command that is measured, and the floor.

use super::measure::MeasuredRun;
use super::programs::Programs;
use super::report::{Measured, Times, median};
use super::rows::{Data, Row, RowScope};
use anyhow::{Context, Result, bail};
use lifeboat_testbed::{ControlPlane, Kubectl};
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Namespaces of the measured objects begin with this.
pub(crate) const NAMESPACE: &str = "bench";
/// The one namespace of [`RowScope::Namespace`].
pub(crate) const ONE_NAMESPACE: &str = "bench-000";
/// A namespace that holds nothing but what every namespace holds.
pub(crate) const EMPTY_NAMESPACE: &str = "kube-public";

/// The number of measurements of a short command and its floor.
pub(crate) const TURNS: usize = 5;
/// Name of the first backup or restore that [`Bed::empty`] makes: of nothing but what every cluster holds.
pub(crate) const FIRST_EMPTY: &str = "empty-1";
/// Name of the first backup or restore that [`Bed::in_turn`] makes.
pub(crate) const MEASURED: &str = "measured-1";

pub(crate) struct Bed<'a> {
    pub(crate) plane: ControlPlane,
    pub(crate) programs: &'a Programs,
    /// For the bucket and the state of commands; outlives the control plane.
    folder: &'a Path,
    token: String,
}

/// A command and its floor, as often as they were measured.
pub(crate) struct InTurn {
    walls: Vec<f64>,
    floors: Vec<f64>,
    peak_mib: f64,
    /// The last one of the floor.
    pub(crate) floor: Pass,
}

impl InTurn {
    /// The row that these runs make.
    pub(crate) fn measured(self, row: &Row, empty: f64, note: String) -> Measured {
        let times = Times { walls: self.walls, empty, floors: self.floors };
        Measured::new(row, &times, self.peak_mib, note)
    }
}

/// The report of the floor about itself.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Pass {
    pub(crate) seconds: f64,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
}

impl Pass {
    /// The amount that was listed, for people.
    pub(crate) fn listed(&self) -> String {
        format!("{:.1} MB listed in {} pages", self.bytes as f64 / 1e6, self.requests)
    }
}

impl<'a> Bed<'a> {
    pub(crate) fn start(programs: &'a Programs, folder: &'a Path) -> Result<Self> {
        let plane = ControlPlane::start()?;
        let token =
            plane.kubectl().try_run(&["config", "view", "--raw", "--output=jsonpath={.users[0].user.token}"])?;
        Ok(Self { plane, programs, folder, token })
    }

    pub(crate) fn bucket(&self) -> PathBuf {
        self.folder.join("bucket")
    }

    /// `lifeboat local backup NAME`, which must complete without errors.
    pub(crate) fn backup(&self, name: &str, more: &[&str]) -> Result<MeasuredRun> {
        let mut args = vec!["backup", name];
        args.extend(more);
        self.local(&args)
    }

    /// `lifeboat local restore NAME --from-backup BACKUP`, which must complete without errors.
    pub(crate) fn restore(&self, name: &str, backup: &str) -> Result<MeasuredRun> {
        self.local(&["restore", name, "--from-backup", backup])
    }

    /// The same into another namespace.
    pub(crate) fn restore_into(&self, namespace: &str, name: &str, backup: &str) -> Result<MeasuredRun> {
        let mapping = format!("{ONE_NAMESPACE}:{namespace}");
        self.local(&["restore", name, "--from-backup", backup, "--namespace-mappings", &mapping])
    }

    /// `lifeboat server`, and a storage location that is the bucket of the other commands.
    pub(crate) fn server(&self) -> Result<MeasuredServer<'_>> {
        self.prepare_for_server()?;
        let server = self.start_server()?;
        server.apply(&serde_json::json!({"kind": "BackupStorageLocation", "metadata": {"name": "default"},
            "spec": {"provider": "lifeboat.io/directory", "default": true, "objectStorage": {"bucket": "bucket"},
                "config": {"path": self.folder}}}))?;
        server.until("backupstoragelocation/default", "Available")?;
        Ok(server)
    }

    /// The definitions, and the namespace of a server.
    pub(crate) fn prepare_for_server(&self) -> Result<()> {
        let installed = Command::new(&self.programs.lifeboat)
            .arg("--kubeconfig")
            .arg(self.plane.kubeconfig())
            .args(["install", "--crds-only"])
            .output()
            .context("run lifeboat install")?;
        if !installed.status.success() {
            bail!("lifeboat install --crds-only: {}", String::from_utf8_lossy(&installed.stderr).trim());
        }
        self.plane.kubectl().try_run(&["create", "namespace", SERVER_NAMESPACE]).map(drop)
    }

    /// `lifeboat server`, for which everything is prepared. Its log is a file in the folder of the bucket.
    pub(crate) fn start_server(&self) -> Result<MeasuredServer<'_>> {
        let log = self.folder.join("server.log");
        let log = std::fs::File::create(&log).with_context(|| format!("make {}", log.display()))?;
        let process = Command::new(&self.programs.lifeboat)
            .arg("--kubeconfig")
            .arg(self.plane.kubeconfig())
            .args(["server", "--metrics-address", "", "--download-address", "", "--directory-root"])
            .arg(self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("run lifeboat server")?;
        Ok(MeasuredServer { kubectl: self.plane.kubectl(), process, folder: self.folder })
    }

    /// Any command of the release build in this cluster, which must end with 0.
    pub(crate) fn command(&self, args: &[&str]) -> Result<MeasuredRun> {
        let kubeconfig = self.plane.kubeconfig().display().to_string();
        let all: Vec<String> = [&["--kubeconfig", &kubeconfig], args].concat().into_iter().map(str::to_owned).collect();
        let run = MeasuredRun::of(&self.programs.lifeboat, &all, &self.folder.join("state"))?;
        if run.code != Some(0) {
            bail!("lifeboat {} ended with {:?}: {}", args.join(" "), run.code, run.stderr.trim());
        }
        Ok(run)
    }

    /// `lifeboat local ARGS`, which must end with 0.
    pub(crate) fn plain(&self, args: &[&str]) -> Result<MeasuredRun> {
        let run = self.run_local(args)?;
        if run.code != Some(0) {
            bail!("lifeboat local {} ended with {:?}: {}", args.join(" "), run.code, run.stderr.trim());
        }
        Ok(run)
    }

    /// `lifeboat diff ARGS`, which must find no difference.
    pub(crate) fn diff(&self, args: &[&str]) -> Result<MeasuredRun> {
        let bucket = self.bucket().display().to_string();
        self.command(&[&["diff", "--bucket", &bucket], args].concat())
    }

    fn run_local(&self, args: &[&str]) -> Result<MeasuredRun> {
        let (kubeconfig, bucket) = (self.plane.kubeconfig().display().to_string(), self.bucket().display().to_string());
        let all = [&["--kubeconfig", &kubeconfig, "local"], args, &["--bucket", &bucket]].concat();
        let all: Vec<String> = all.into_iter().map(str::to_owned).collect();
        MeasuredRun::of(&self.programs.lifeboat, &all, &self.folder.join("state"))
    }

    fn local(&self, args: &[&str]) -> Result<MeasuredRun> {
        let run = self.run_local(&[args, &["--output=json"]].concat())?;
        let status = serde_json::from_str::<Value>(&run.stdout).unwrap_or_default();
        let status = &status["status"];
        if run.code != Some(0) || status["phase"] != "Completed" {
            bail!(
                "lifeboat local {} ended with {:?}, status {status}: {}",
                args.join(" "),
                run.code,
                run.stderr.trim()
            );
        }
        Ok(run)
    }

    /// Seconds of a run with nothing to do: the one in the middle of [`TURNS`].
    pub(crate) fn empty(&self, run: impl Fn(&str) -> Result<MeasuredRun>) -> Result<f64> {
        let runs = (1..=TURNS).map(|turn| Ok(run(&format!("empty-{turn}"))?.seconds));
        Ok(median(&runs.collect::<Result<Vec<f64>>>()?))
    }

    /// The floor of these lists and a command in turn, each [`TURNS`] times: what disturbs the machine for a moment
    /// counts for neither. Who goes first changes from turn to turn: the API server collects its garbage after so many
    /// bytes, and in a fixed order that may always be in the time of the same one. The command's names are `measured-1`
    /// and on.
    pub(crate) fn in_turn(&self, paths: &[String], run: impl Fn(&str) -> Result<MeasuredRun>) -> Result<InTurn> {
        let mut all = InTurn { floors: Vec::new(), walls: Vec::new(), peak_mib: 0.0, floor: Pass::default() };
        for turn in 1..=TURNS {
            let name = format!("measured-{turn}");
            let run = if turn % 2 == 1 {
                all.floor = self.floor_list(paths)?;
                run(&name)?
            } else {
                let run = run(&name)?;
                all.floor = self.floor_list(paths)?;
                run
            };
            all.floors.push(all.floor.seconds);
            all.walls.push(run.seconds);
            all.peak_mib = all.peak_mib.max(run.peak_mib());
        }
        Ok(all)
    }

    /// Lists these paths as a plain client.
    pub(crate) fn floor_list(&self, paths: &[String]) -> Result<Pass> {
        self.floor(&[&["list".to_owned()], paths].concat())
    }

    /// Creates objects in new namespaces as a plain client.
    pub(crate) fn floor_create(&self, namespace: &str, objects: usize, data: Data, place: RowScope) -> Result<Pass> {
        let numbers = [place.namespaces(), objects].map(|number| number.to_string());
        let mut args = vec!["--namespace", namespace, "--namespaces", &numbers[0], "--count", &numbers[1]];
        if data == Data::Large {
            args.extend(["--size", "900000", "--only-config-maps"]);
        }
        self.floor_create_of(objects, &args)
    }

    /// Creates this many objects of a shape as a plain client.
    pub(crate) fn floor_create_of(&self, objects: usize, shape: &[&str]) -> Result<Pass> {
        let args = ["create", "--connections", "32"].iter().chain(shape).map(|arg| (*arg).to_owned());
        let pass = self.floor(&args.collect::<Vec<_>>())?;
        if pass.requests != objects as u64 {
            bail!("the floor created {} objects instead of {objects}", pass.requests);
        }
        Ok(pass)
    }

    /// Creates the objects of a file, each of which is a line of JSON, as a plain client.
    pub(crate) fn floor_create_lines(&self, path: &str, file: &Path) -> Result<Pass> {
        self.floor(&["create-lines".to_owned(), path.to_owned(), file.display().to_string()])
    }

    /// Takes snapshots of claims as a plain client, and waits until they are ready.
    pub(crate) fn floor_snapshots(&self, namespace: &str, class: &str, count: usize) -> Result<Pass> {
        let number = count.to_string();
        let args = ["snapshots", "--namespace", namespace, "--class", class, "--count", &number];
        self.floor(&args.map(str::to_owned))
    }

    fn floor(&self, args: &[String]) -> Result<Pass> {
        let address = self.plane.url().trim_start_matches("https://");
        floor(self.programs, (address, &self.token, &self.plane.authority()), args)
    }

    /// The numbers of ConfigMaps and Secrets.
    pub(crate) fn count(&self, place: RowScope) -> Result<[u64; 2]> {
        let [config_maps, secrets] = paths(place);
        Ok([self.count_at(&config_maps)?, self.count_at(&secrets)?])
    }

    fn count_at(&self, path: &str) -> Result<u64> {
        let text = self.plane.kubectl().try_run(&["get", "--raw", &format!("{path}?limit=1")])?;
        let list: Value = serde_json::from_str(&text).context("a list")?;
        let here = list["items"].as_array().map_or(0, Vec::len) as u64;
        Ok(here + list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0))
    }

    /// Waits until every namespace has what controllers put into it, so that they do not work while we measure.
    pub(crate) fn settle(&self) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(60);
        let kubectl = self.plane.kubectl();
        loop {
            let namespaces = lines(&kubectl, &["namespaces"])?;
            let named = |name: &str, kind: &str| {
                let selector = format!("--field-selector=metadata.name={name}");
                lines(&kubectl, &[kind, "--all-namespaces", &selector])
            };
            if named("kube-root-ca.crt", "configmaps")? == namespaces
                && named("default", "serviceaccounts")? == namespaces
            {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("the controllers have not filled {namespaces} namespaces after a minute");
            }
            pause();
        }
    }

    /// Objects by type in a backup, as its manifest has them.
    pub(crate) fn counts_in(&self, backup: &str) -> Result<Value> {
        let path = self.bucket().join("backups").join(backup).join("lifeboat-manifest.json");
        let text = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        Ok(serde_json::from_slice::<Value>(&text)?["counts"].take())
    }

    /// Bytes of a backup's archive.
    pub(crate) fn archive_bytes(&self, backup: &str) -> Result<u64> {
        let path = self.bucket().join("backups").join(backup).join(format!("{backup}.tar.gz"));
        Ok(std::fs::metadata(&path).with_context(|| format!("look at {}", path.display()))?.len())
    }
}

/// The namespace of the server's resources.
pub(crate) const SERVER_NAMESPACE: &str = "velero";

/// A running server; it ends when dropped.
pub(crate) struct MeasuredServer<'a> {
    kubectl: Kubectl,
    process: Child,
    folder: &'a Path,
}

impl MeasuredServer<'_> {
    /// Makes a resource and waits until it is in this phase; the seconds that it took.
    pub(crate) fn seconds(&self, resource: &Value, phase: &str) -> Result<f64> {
        let began = Instant::now();
        self.apply(resource)?;
        let kind = resource["kind"].as_str().unwrap_or_default().to_lowercase();
        let name = resource["metadata"]["name"].as_str().unwrap_or_default();
        self.until(&format!("{kind}/{name}"), phase)?;
        Ok(began.elapsed().as_secs_f64())
    }

    fn apply(&self, resource: &Value) -> Result<()> {
        let mut resource = resource.clone();
        resource["apiVersion"] = "velero.io/v1".into();
        resource["metadata"]["namespace"] = SERVER_NAMESPACE.into();
        let file = self.folder.join("resource.json");
        std::fs::write(&file, resource.to_string())?;
        self.kubectl.try_run(&["create", "--filename", &file.display().to_string()]).map(drop)
    }

    fn until(&self, resource: &str, phase: &str) -> Result<()> {
        let phase = format!("--for=jsonpath={{.status.phase}}={phase}");
        self.kubectl.try_run(&["wait", resource, "--namespace", SERVER_NAMESPACE, &phase, "--timeout=10m"]).map(drop)
    }

    /// Waits until there is an object.
    pub(crate) fn until_there(&self, kind: &str, name: &str) -> Result<()> {
        let resource = format!("{kind}/{name}");
        self.kubectl
            .try_run(&["wait", &resource, "--namespace", SERVER_NAMESPACE, "--for=create", "--timeout=2m"])
            .map(drop)
    }

    /// Seconds that it has kept a processor busy.
    pub(crate) fn processor_seconds(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        // Behind the name, which is in brackets and may hold blanks; both are in hundredths of a second on Linux.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks =
            |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).context("the times of the server");
        Ok((ticks(11)? + ticks(12)?) / 100.0)
    }

    /// The most memory it has held, in MiB.
    pub(crate) fn peak_mib(&self) -> Result<f64> {
        peak_mib(&self.process)
    }
}

impl Drop for MeasuredServer<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The most memory that a process has held, in MiB.
pub(super) fn peak_mib(process: &Child) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("VmHWM of a process")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().context("VmHWM of a process")?;
    Ok(kib / 1024.0)
}

/// Runs the plain client with an address, a token, and the file of an authority.
pub(super) fn floor(
    programs: &Programs,
    (address, token, authority): (&str, &str, &Path),
    args: &[String],
) -> Result<Pass> {
    let output = Command::new(&programs.floor)
        .args(["--server", address, "--token", token, "--authority"])
        .arg(authority)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .context("run the floor")?;
    if !output.status.success() {
        bail!("floor {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("what the floor printed")
}

/// The lists of ConfigMaps and of Secrets, whole.
pub(crate) fn paths(place: RowScope) -> [String; 2] {
    ["configmaps", "secrets"].map(|plural| match place {
        RowScope::Namespace => format!("/api/v1/namespaces/{ONE_NAMESPACE}/{plural}"),
        RowScope::Cluster => format!("/api/v1/{plural}"),
    })
}

fn lines(kubectl: &Kubectl, args: &[&str]) -> Result<usize> {
    let mut all = vec!["get", "--output=name"];
    all.extend(args);
    Ok(kubectl.try_run(&all)?.lines().count())
}

/// Between two looks at something that another process does.
pub(crate) fn pause() {
    pause_for(Duration::from_millis(100));
}

/// The same, of what takes less.
#[allow(clippy::disallowed_methods, reason = "there is nothing to wait on but time")]
pub(crate) fn pause_for(time: Duration) {
    std::thread::sleep(time);
}
