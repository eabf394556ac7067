//! Fifty volumes of one node, some at once, beside the same bytes without pods and the pods without bytes.

use super::ground::{AT_ONCE, BUCKET, Ground, Installation};
use super::transfers::MovedVolume;
use crate::bench::bed::pause;
use crate::bench::compared::cache::Cache;
use crate::bench::compared::data::make_file;
use crate::bench::compared::report::MeasuredRow;
use crate::bench::compared::sides::{Cost, Costs, Side};
use anyhow::{Context, Result, anyhow, ensure};
use lifeboat_testbed::LIFEBOAT_IMAGE;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const VOLUMES: usize = 50;
const BYTES: u64 = 100_000_000;
/// Time limit for the pods that do nothing.
const PATIENCE: Duration = Duration::from_secs(600);
/// Their namespace.
const STARTS: &str = "starts";

pub(super) fn run(ground: &Ground<'_>) -> Result<Vec<MeasuredRow>> {
    let bytes = ground.scaled(BYTES);
    let (mut costs, mut notes) = (Costs::default(), Vec::new());
    ground.bed.plane.kubectl().try_run(&["create", "namespace", STARTS])?;
    for round in 0..ground.rounds {
        let namespace = format!("many-{round}");
        let folders = ground.application(&namespace, VOLUMES)?;
        for folder in &folders {
            make_file(&folder.join("data"), bytes)?;
        }
        let cool = || folders.iter().try_for_each(|folder| Cache::Cold.prepare(folder));
        cool()?;
        let (bare, starts) = (bare(ground, &format!("bare-{round}"), &folders)?, starts(ground, round)?);
        costs.add(Side::Floor, Cost { wall: bare.wall + starts, ..bare });
        notes.push(format!("bare transfer {:.1} s, starts of pods {starts:.1} s", bare.wall));
        cool()?;
        costs.add(Side::Lifeboat, all(&ground.backup(Installation::Lifeboat, &namespace, &namespace)?)?);
        ground.lose(&namespace)?;
    }
    let row = MeasuredRow::new("volumes-50", VOLUMES as u64 * bytes, costs).beside(Side::Floor, 1.3);
    let note = format!("{VOLUMES} volumes of {bytes} bytes, {AT_ONCE} at once; the floor: {}", notes.join("; "));
    Ok(vec![row.note(note)])
}

/// The cost of all volumes together, from the first that is accepted to the last that completes, with the starts of
/// their pods.
fn all(moved: &[MovedVolume]) -> Result<Cost> {
    ensure!(moved.len() == VOLUMES, "{} volumes were moved instead of {VOLUMES}", moved.len());
    let first = moved.iter().map(|one| one.accepted).min().context("a volume")?;
    let last = moved.iter().map(|one| one.ended).max().context("a volume")?;
    Ok(Cost { wall: (last - first).as_secs_f64(), ..together(moved.iter().map(|one| one.cost)) })
}

/// The sum of the work, and the most memory of one.
fn together(costs: impl Iterator<Item = Cost>) -> Cost {
    costs.fold(Cost::default(), Cost::and)
}

/// Saves each folder by `lifeboat repo snapshot` into one new repository in the bucket, as many at once.
fn bare(ground: &Ground<'_>, prefix: &str, folders: &[PathBuf]) -> Result<Cost> {
    std::fs::write(ground.folder.join("password"), "static-passw0rd")?;
    Cost::of(&repo(ground, prefix, &["create"], None))?;
    let commands: Vec<Command> =
        folders.iter().map(|folder| repo(ground, prefix, &["snapshot"], Some(folder))).collect();
    let (next, began) = (AtomicUsize::new(0), Instant::now());
    let worker = || -> Result<Vec<Cost>> {
        let mut costs = Vec::new();
        while let Some(command) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
            costs.push(Cost::of(command)?.0);
        }
        Ok(costs)
    };
    let costs = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        let ends = workers.into_iter().map(|worker| worker.join().map_err(|_| anyhow!("a thread has panicked"))?);
        ends.collect::<Result<Vec<_>>>()
    })?;
    let wall = began.elapsed().as_secs_f64();
    Ok(Cost { wall, ..together(costs.into_iter().flatten()) })
}

/// `lifeboat repo` on a repository in the bucket.
fn repo(ground: &Ground<'_>, prefix: &str, args: &[&str], folder: Option<&Path>) -> Command {
    let (region, endpoint) = (ground.s3.region(), ground.s3.endpoint());
    let mut command = Command::new(&ground.bed.programs.lifeboat);
    command.arg("repo").args(args).args(folder).arg("--repo");
    command.arg(format!("s3://{BUCKET}/{prefix}?region={region}&endpoint={endpoint}"));
    command.arg("--password-file").arg(ground.folder.join("password"));
    command.env("XDG_STATE_HOME", ground.folder.join("state"));
    command.env("AWS_SHARED_CREDENTIALS_FILE", ground.credentials());
    command
}

/// Seconds until so many pods of the mover's image have run to their end, as many at once.
fn starts(ground: &Ground<'_>, round: usize) -> Result<f64> {
    let (began, mut made) = (Instant::now(), 0);
    loop {
        let mut ended = 0;
        for pod in ground.client().list("pods", Some(STARTS))? {
            let (name, phase) = (&pod["metadata"]["name"], &pod["status"]["phase"]);
            ensure!(phase != "Failed", "the pod {name} has failed: {}", pod["status"]);
            let is_own = name.as_str().is_some_and(|name| name.starts_with(&format!("start-{round}-")));
            ended += usize::from(is_own && phase == "Succeeded");
        }
        if ended == VOLUMES {
            return Ok(began.elapsed().as_secs_f64());
        }
        while made < VOLUMES && made - ended < AT_ONCE {
            ground.bed.plane.create(&json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("start-{round}-{made}"), "namespace": STARTS},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": LIFEBOAT_IMAGE,
                    "imagePullPolicy": "Never", "command": ["/velero", "version", "--client-only"]}]}}))?;
            made += 1;
        }
        ensure!(began.elapsed() < PATIENCE, "{ended} of {VOLUMES} pods have run within {} s", PATIENCE.as_secs());
        pause();
    }
}
