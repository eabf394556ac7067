//! Makes the plan of the server for 10,000 objects, again and again, and prints how long that took as JSON:
//! `cargo run --release -p lifeboat-control --example plan`. `make bench` runs it.

use bytes::Bytes;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::Duration;
use lifeboat_control::{Options, PlanBench};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

/// Plans of each sort; they take turns.
const TURNS: usize = 21;

const BACKUPS: [&str; 12] = [
    "New",
    "Queued",
    "ReadyToStart",
    "InProgress",
    "WaitingForPluginOperations",
    "Finalizing",
    "FinalizingPartiallyFailed",
    "Completed",
    "PartiallyFailed",
    "Failed",
    "FailedValidation",
    "Deleting",
];
const RESTORES: [&str; 8] = [
    "New",
    "InProgress",
    "WaitingForPluginOperations",
    "Finalizing",
    "Completed",
    "PartiallyFailed",
    "Failed",
    "FailedValidation",
];
const REQUESTS: [&str; 3] = ["DeleteBackupRequest", "DownloadRequest", "ServerStatusRequest"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let of = |argument: Option<String>| argument.map_or(Ok(10_000), |count| count.parse::<usize>());
    let count = of(std::env::args().nth(1))?;
    let now: Timestamp = "2026-11-22T12:00:00Z".parse()?;
    let look = PlanBench::new(options(), objects(count, now), now);
    let (mut plain, mut explained) = (Vec::new(), Vec::new());
    let (mut steps, mut waits, mut bytes) = (0, 0, 0);
    for _ in 0..TURNS {
        let began = Instant::now();
        std::hint::black_box(look.plan());
        plain.push(began.elapsed().as_secs_f64());
        let began = Instant::now();
        let found = look.explain();
        // As `server --explain --output=json` prints it.
        let printed = serde_json::to_vec_pretty(&found)?;
        explained.push(began.elapsed().as_secs_f64());
        (steps, waits, bytes) = (found.steps.len(), found.waits.len(), printed.len());
    }
    let objects = look.objects();
    let out = json!({"objects": objects, "steps": steps, "waits": waits, "bytes": bytes, "plain": plain, "explained": explained});
    writeln!(std::io::stdout(), "{out}")?;
    Ok(())
}

/// Half Backups in all phases, a fifth Restores, a quarter requests, a twentieth locations.
fn objects(count: usize, now: Timestamp) -> BTreeMap<&'static str, Vec<Bytes>> {
    let mut out: BTreeMap<&'static str, Vec<Bytes>> = BTreeMap::new();
    let mut put = |kind: &'static str, n: usize, spec: Value, status: Value| {
        let made = now.checked_sub(SignedDuration::from_secs(n as i64)).unwrap_or(now);
        let metadata = json!({"name": format!("{}-{n}", kind.to_lowercase()), "namespace": "velero", "uid": format!("{kind}-{n}"),
            "resourceVersion": "1", "creationTimestamp": format!("{made:.0}"), "annotations": {"lifeboat.io/attempt": "1"},
            "finalizers": ["restores.velero.io/external-resources-finalizer"]});
        let object =
            json!({"apiVersion": "velero.io/v1", "kind": kind, "metadata": metadata, "spec": spec, "status": status});
        out.entry(kind).or_default().push(object.to_string().into());
    };
    let locations = count / 20;
    for n in 0..locations {
        let spec = json!({"provider": "aws", "objectStorage": {"bucket": "b"}, "default": n == 0});
        let before = |seconds| now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(now);
        let status = json!({"phase": "Available", "lastSyncedTime": format!("{:.0}", before((n % 90) as i64)),
            "lastValidationTime": format!("{:.0}", before((n % 70) as i64))});
        put("BackupStorageLocation", n, spec, status);
    }
    let place = |n: usize| format!("backupstoragelocation-{}", n % locations.max(1));
    for n in 0..count / 2 {
        let phase = BACKUPS[n % BACKUPS.len()];
        let spec = json!({"storageLocation": place(n), "includedNamespaces": [format!("shop-{}", n % 100)]});
        let position = if phase == "Queued" { 1 + n / BACKUPS.len() } else { 0 };
        put("Backup", n, spec, json!({"phase": phase, "queuePosition": position}));
    }
    for n in 0..count / 5 {
        let status = json!({"phase": RESTORES[n % RESTORES.len()]});
        put("Restore", n, json!({"backupName": format!("backup-{n}")}), status);
    }
    for n in 0..count / 4 {
        let kind = REQUESTS[n % REQUESTS.len()];
        let target = json!({"backupName": format!("backup-{}", 2 * n), "target": {"kind": "BackupLog", "name": format!("backup-{n}")}});
        let phase = if n % 2 == 0 { "New" } else { "Processed" };
        put(kind, n, target, json!({"phase": phase}));
    }
    out
}

fn options() -> Options {
    let minute = Duration::from_secs(60);
    Options {
        namespace: "velero".into(),
        identity: "bench".into(),
        version: "v1".into(),
        default_location: Some("default".into()),
        default_snapshot_locations: BTreeMap::new(),
        validation_frequency: minute,
        sync_period: minute,
        expiry_frequency: minute,
        schedules_skip: false,
        zone: TimeZone::UTC,
        operation_frequency: minute,
        concurrent_backups: 1,
        concurrent_restores: 1,
        fail_in_progress: false,
        disabled: Default::default(),
        backup: lifeboat_backup::Settings::default(),
        restore: lifeboat_restore::Settings::default(),
        repository: Default::default(),
    }
}
