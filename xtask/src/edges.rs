//! The crate graph is the architecture: which room may use which.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// What each room may use. Changing this needs a page in `docs/adr/`.
const EDGES: [(&str, &[&str]); 16] = [
    ("api", &[]),
    ("object", &[]),
    ("select", &["api", "object"]),
    ("patch", &["object"]),
    ("archive", &["api", "object"]),
    ("action", &["api", "object"]),
    ("bucket", &[]),
    ("s3", &["bucket"]),
    ("store", &["api", "object", "archive", "bucket"]),
    ("cluster", &["object"]),
    ("volume", &["api", "object", "select", "archive", "action", "cluster"]),
    ("backup", &["api", "object", "select", "archive", "action", "store", "cluster", "volume"]),
    ("restore", &["api", "object", "select", "archive", "action", "store", "cluster", "volume", "patch"]),
    (
        "control",
        &["api", "object", "select", "patch", "archive", "action", "bucket", "store", "cluster", "backup", "restore"],
    ),
    ("install", &["api", "object", "cluster"]),
    ("sandbox", &["object", "select", "patch"]),
];

/// Rooms for development: what they may use, and who may use them is anybody's tests.
const DEV_EDGES: [(&str, &[&str]); 2] = [("testbed", &["object"]), (FLOOR, &[])];

/// What benchmarks compare with: no room of the house, so without our prefix, and it may use none of them.
const FLOOR: &str = "floor";

/// Rooms that compile without runtime, network, Kubernetes client and command line.
const PURE: [&str; 5] = ["api", "object", "select", "patch", "archive"];
const IMPURE: [&str; 6] = ["tokio", "hyper", "reqwest", "kube-client", "clap", "rustls"];

pub(crate) fn check() -> Result<()> {
    let metadata = metadata()?;
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().context("packages")? {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(room) = name.strip_prefix("lifeboat-").or((name == FLOOR).then_some(FLOOR)) else { continue };
        let used = |kind: Option<&str>| -> BTreeSet<&str> {
            let all = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
            all.iter()
                .filter(|d| d["kind"].as_str() == kind)
                .filter_map(|d| d["name"].as_str()?.strip_prefix("lifeboat-"))
                .collect()
        };
        if room == "cli" {
            continue;
        }
        let Some((_, allowed)) = EDGES.iter().chain(&DEV_EDGES).find(|(name, _)| *name == room) else {
            wrong.push(format!("{room} is not in the table of rooms"));
            continue;
        };
        for other in used(None) {
            if !allowed.contains(&other) {
                wrong.push(format!("{room} may not use {other}"));
            }
        }
    }
    for room in PURE {
        wrong.extend(impure_parts(room)?);
    }
    if !wrong.is_empty() {
        bail!("crate edges:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

pub(crate) fn metadata() -> Result<Value> {
    let output = Command::new("cargo").args(["metadata", "--format-version", "1", "--no-deps"]).output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn impure_parts(room: &str) -> Result<Vec<String>> {
    let package = format!("lifeboat-{room}");
    let output = Command::new("cargo")
        .args(["tree", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--package", &package])
        .output()?;
    if !output.status.success() {
        // A room that is not built yet.
        return Ok(Vec::new());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let names: BTreeSet<&str> = text.lines().filter_map(|l| l.split(' ').next()).collect();
    Ok(IMPURE.iter().filter(|bad| names.contains(**bad)).map(|bad| format!("{room} is pure but uses {bad}")).collect())
}
