//! A server with thousands of volumes in one backup. There is no node: pods are stored as if they ran, and each
//! PodVolumeBackup is completed by the benchmark as soon as it is seen.

use crate::bench::audit::Audit;
use crate::bench::bed::{Bed, EMPTY_NAMESPACE, MeasuredServer, SERVER_NAMESPACE, pause};
use crate::bench::compared::report::MeasuredRow;
use crate::bench::compared::sides::{Cost, Costs, Side};
use crate::bench::programs::Programs;
use anyhow::{Result, anyhow, ensure};
use lifeboat_testbed::{ApiClient, S3Server};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

const FEW: u64 = 500;
const MANY: u64 = 2000;
const NODE: &str = "bench-node";
const NAMESPACE: &str = "bench-volumes";
const BUCKET: &str = "bench";
const BACKUPS: &str = "podvolumebackups.velero.io";
/// Requests for each volume, at most.
const REQUESTS: f64 = 6.0;

/// The cost of a backup with so many volumes, less that of one without any.
#[derive(Debug)]
struct VolumesCost {
    volumes: f64,
    seconds: f64,
    processor: f64,
    requests: f64,
    peak_mib: f64,
}

impl VolumesCost {
    fn requests_each(&self) -> f64 {
        self.requests / self.volumes
    }

    fn processor_each(&self) -> f64 {
        self.processor / self.volumes
    }
}

pub(super) fn run(programs: &Programs, scale: u64) -> Result<Vec<MeasuredRow>> {
    let scaled = |size: u64| usize::try_from((size / scale).max(1));
    let (few, many) = (measure(programs, scaled(FEW)?)?, measure(programs, scaled(MANY)?)?);
    let mut costs = Costs::default();
    costs.add(Side::Lifeboat, Cost { wall: many.seconds, user: many.processor, system: 0.0, peak_mib: many.peak_mib });
    let row = MeasuredRow::new("server-2000", 0, costs)
        .bounded("requests for each volume", many.requests_each(), REQUESTS)
        .bounded("requests for each volume / of a quarter", many.requests_each() / few.requests_each(), 1.1)
        .bounded("processor time for each volume / of a quarter", many.processor_each() / few.processor_each(), 1.3);
    let told = |cost: &VolumesCost| {
        let VolumesCost { volumes, seconds, processor, requests, peak_mib } = cost;
        format!(
            "{volumes} volumes: {requests} requests, {processor:.1} s of a processor, {seconds:.1} s, {peak_mib:.0} MiB"
        )
    };
    Ok(vec![row.note(told(&few)).note(told(&many))])
}

fn measure(programs: &Programs, volumes: usize) -> Result<VolumesCost> {
    let folder = tempfile::tempdir()?;
    let bed = Bed::start(programs, folder.path())?;
    bed.prepare_for_server()?;
    let s3 = S3Server::start()?;
    s3.make_bucket(BUCKET)?;
    bed.plane.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))?;
    bed.plane.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}))?;
    let mut pods: Vec<Value> = (0..volumes).map(application).collect();
    pods.push(pod(SERVER_NAMESPACE, "node-agent-0", "node-agent"));
    bed.plane.store(&pods)?;
    let server = bed.start_server()?;
    locate(&bed, &server, &s3)?;
    server.seconds(&backup("first", EMPTY_NAMESPACE), "Completed")?;
    let without = counted(&bed, &server, &backup("without", EMPTY_NAMESPACE))?;
    let with = counted(&bed, &server, &backup("with", NAMESPACE))?;
    let made = bed.plane.client().list(BACKUPS, Some(SERVER_NAMESPACE))?.len();
    ensure!(made == volumes, "{made} PodVolumeBackups were made for {volumes} volumes");
    Ok(VolumesCost {
        volumes: volumes as f64,
        seconds: with.seconds - without.seconds,
        processor: with.processor - without.processor,
        requests: with.requests - without.requests,
        peak_mib: server.peak_mib()?,
    })
}

/// The Secret and the location in the S3 server.
fn locate(bed: &Bed<'_>, server: &MeasuredServer<'_>, s3: &S3Server) -> Result<()> {
    let (id, secret) = (s3.access_key(), s3.secret_key());
    let text = format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n");
    bed.plane.create(&json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "cloud", "namespace": SERVER_NAMESPACE}, "stringData": {"cloud": text}}))?;
    let location = json!({"kind": "BackupStorageLocation", "metadata": {"name": "default"},
        "spec": {"provider": "aws", "default": true, "objectStorage": {"bucket": BUCKET},
            "credential": {"name": "cloud", "key": "cloud"},
            "config": {"region": s3.region(), "s3ForcePathStyle": "true", "s3Url": s3.endpoint()}}});
    server.seconds(&location, "Available").map(drop)
}

fn backup(name: &str, namespace: &str) -> Value {
    json!({"kind": "Backup", "metadata": {"name": name}, "spec": {"includedNamespaces": [namespace],
        "storageLocation": "default", "defaultVolumesToFsBackup": true, "snapshotVolumes": false}})
}

/// Runs a backup while what it makes is completed.
fn counted(bed: &Bed<'_>, server: &MeasuredServer<'_>, backup: &Value) -> Result<CountedBackup> {
    let (audit, before, is_over) = (Audit::begin(&bed.plane)?, server.processor_seconds()?, AtomicBool::new(false));
    let client = bed.plane.client();
    let seconds = std::thread::scope(|scope| {
        let completer = scope.spawn(|| complete(client, &is_over));
        let seconds = server.seconds(backup, "Completed");
        is_over.store(true, Ordering::Relaxed);
        completer.join().map_err(|_| anyhow!("the thread that completes has panicked"))??;
        seconds
    })?;
    let processor = server.processor_seconds()? - before;
    Ok(CountedBackup { seconds, processor, requests: audit.end(&bed.plane)?.requests as f64 })
}

/// The cost of a whole backup.
struct CountedBackup {
    seconds: f64,
    processor: f64,
    requests: f64,
}

/// Completes PodVolumeBackups as they come, until the backup is over.
fn complete(client: &ApiClient, is_over: &AtomicBool) -> Result<()> {
    while !is_over.load(Ordering::Relaxed) {
        for one in client.list(BACKUPS, Some(SERVER_NAMESPACE))? {
            if one["status"]["phase"] != "Completed" {
                let name = one["metadata"]["name"].as_str().unwrap_or_default();
                client.merge(BACKUPS, name, SERVER_NAMESPACE, &done())?;
            }
        }
        pause();
    }
    Ok(())
}

fn done() -> Value {
    json!({"status": {"phase": "Completed", "snapshotID": "0123456789abcdef0123456789abcdef", "path": "/host_pods/a",
        "startTimestamp": "2026-11-01T03:00:00Z", "completionTimestamp": "2026-11-01T03:01:00Z",
        "progress": {"totalBytes": 1_000_000, "bytesDone": 1_000_000}}})
}

/// A pod with a volume of its own.
fn application(number: usize) -> Value {
    let mut pod = pod(NAMESPACE, &format!("web-{number:05}"), "web");
    pod["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    pod
}

/// A pod as it is when it runs. Nothing drives it away from its node, which never reports.
fn pod(namespace: &str, name: &str, role: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"role": role}},
        "spec": {"nodeName": NODE, "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "a", "image": "web:1"}]},
        "status": {"phase": "Running", "qosClass": "BestEffort"}})
}
