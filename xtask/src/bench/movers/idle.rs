//! A node agent that has nothing to do beside thousands of transfers that have ended.

use super::ground::{Ground, Installation};
use super::processes::{ProcessCost, Processes};
use crate::bench::audit::Audit;
use crate::bench::bed::pause_for;
use crate::bench::compared::report::MeasuredRow;
use crate::bench::compared::sides::{Cost, Costs, Side};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Transfers of each kind.
const ENDED: u64 = 10_000;
/// For so long requests are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// The agent has come to rest when it has kept the processors busy for less than [`BUSY`] of this time.
const REST: Duration = Duration::from_secs(5);
const BUSY: f64 = 0.1;

pub(super) fn run(ground: &Ground<'_>) -> Result<Vec<MeasuredRow>> {
    let (own, kubectl) = (Installation::Lifeboat.namespace(), ground.bed.plane.kubectl());
    // Requests of the server would count.
    kubectl.try_run(&["scale", "deployment/velero", "-n", own, "--replicas=0"])?;
    kubectl.try_run(&["wait", "--for=delete", "pod", "-l", "deploy=velero", "-n", own, "--timeout=180s"])?;
    let count = ground.scaled(ENDED);
    create(ground, "velero.io/v2alpha1", "datauploads", (0..count).map(upload))?;
    create(ground, "velero.io/v1", "podvolumebackups", (0..count).map(pod_volume_backup))?;
    kubectl.try_run(&["rollout", "restart", "daemonset/node-agent", "-n", own])?;
    kubectl.try_run(&["rollout", "status", "daemonset/node-agent", "-n", own, "--timeout=180s"])?;
    let pod = agent(ground)?;
    let mut rest = look(&pod)?;
    ground.until("a node agent at rest", || {
        pause_for(REST);
        let before = rest.user + rest.system;
        rest = look(&pod)?;
        Ok(rest.user + rest.system - before < BUSY)
    })?;
    let (audit, began) = (Audit::begin(&ground.bed.plane)?, Instant::now());
    pause_for(WINDOW);
    let passed = began.elapsed().as_secs_f64();
    let requests = audit.end(&ground.bed.plane)?.requests as f64 / passed;
    let idle = look(&pod)?;
    let mut costs = Costs::default();
    let (user, system) = (idle.user - rest.user, idle.system - rest.system);
    costs.add(Side::Lifeboat, Cost { wall: passed, user, system, peak_mib: idle.peak_mib });
    let row = MeasuredRow::new("agent-idle", 0, costs).bounded("MiB when it is idle", idle.now_mib, 48.0).bounded(
        "requests a second",
        requests,
        1.0,
    );
    let note =
        format!("{count} DataUploads and as many PodVolumeBackups; the most since its start: {:.1} MiB", idle.peak_mib);
    Ok(vec![row.note(note)])
}

/// The UID of the pod of the node agent.
fn agent(ground: &Ground<'_>) -> Result<String> {
    let pods = ground.client().list("pods", Some(Installation::Lifeboat.namespace()))?;
    let is_agent = |pod: &&Value| {
        pod["metadata"]["labels"]["role"] == "node-agent" && pod["metadata"]["deletionTimestamp"].is_null()
    };
    let pod = pods.iter().find(is_agent).context("the pod of the node agent")?;
    Ok(pod["metadata"]["uid"].as_str().context("the UID of a pod")?.to_owned())
}

fn look(pod: &str) -> Result<ProcessCost> {
    let mut processes = Processes::default();
    processes.look(&[pod.to_owned()])?;
    let cost = processes.of(pod);
    ensure!(cost.now_mib > 0.0, "the process of the node agent is not found");
    Ok(cost)
}

/// Makes objects of one kind as a plain client.
fn create(ground: &Ground<'_>, version: &str, plural: &str, objects: impl Iterator<Item = Value>) -> Result<()> {
    let file = ground.folder.join("objects.jsonl");
    let lines: Vec<String> = objects.map(|object| object.to_string()).collect();
    std::fs::write(&file, lines.join("\n"))?;
    let path = format!("/apis/{version}/namespaces/{}/{plural}", Installation::Lifeboat.namespace());
    let pass = ground.bed.floor_create_lines(&path, &file)?;
    ensure!(pass.requests == lines.len() as u64, "of {} {plural} {} were created", lines.len(), pass.requests);
    Ok(())
}

/// The labels, annotations and status that an ended transfer of a night has.
fn ended(name: &str) -> (Value, Value) {
    let metadata = json!({"name": name, "namespace": Installation::Lifeboat.namespace(),
        "labels": {"velero.io/backup-name": "nightly", "velero.io/backup-uid": "5a8f0f0e-5d0a-4b06-8d53-0d4b1f3f0c11",
            "velero.io/async-operation-id": format!("du-{name}"), "velero.io/pvc-uid": "9f0b6b2e-64a0-4f0b-a0e3-6f0f5bb3f1aa"},
        "annotations": {"velero.io/pvc-name": "data"}});
    let status = json!({"phase": "Completed", "snapshotID": "0123456789abcdef0123456789abcdef", "node": "node-1",
        "startTimestamp": "2026-11-01T03:00:00Z", "completionTimestamp": "2026-11-01T03:01:00Z",
        "acceptedTimestamp": "2026-11-01T02:59:00Z", "progress": {"totalBytes": 1_000_000, "bytesDone": 1_000_000}});
    (metadata, status)
}

fn upload(number: u64) -> Value {
    let (metadata, status) = ended(&format!("nightly-du-{number:05}"));
    json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataUpload", "metadata": metadata, "status": status,
        "spec": {"snapshotType": "CSI", "sourcePVC": "data", "sourceNamespace": format!("shop-{}", number % 100),
            "backupStorageLocation": "default", "operationTimeout": "10m0s",
            "csiSnapshot": {"volumeSnapshot": format!("velero-data-{number}"), "storageClass": "csi", "snapshotClass": "csi"}}})
}

fn pod_volume_backup(number: u64) -> Value {
    let (metadata, mut status) = ended(&format!("nightly-pvb-{number:05}"));
    // It has no such field.
    if let Some(status) = status.as_object_mut() {
        status.remove("node");
    }
    json!({"apiVersion": "velero.io/v1", "kind": "PodVolumeBackup", "metadata": metadata, "status": status,
        "spec": {"node": "node-1", "volume": "data", "backupStorageLocation": "default", "uploaderType": "kopia",
            "repoIdentifier": "", "pod": {"kind": "Pod", "namespace": format!("shop-{}", number % 100),
                "name": format!("web-{number}"), "uid": "7b6f6f0e-9f52-4d5e-8a4c-1f1d2c3b4a59"}}})
}
