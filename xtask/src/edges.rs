//! The crate graph is the architecture: which room may use which.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// The crates that each crate may use. Changing this needs a page in `docs/adr/`.
const EDGES: [(&str, &[&str]); 32] = [
    ("api", &[]),
    ("object", &[]),
    ("select", &["api", "object"]),
    ("lifecycle", &["api", "object", "select"]),
    ("patch", &["object"]),
    ("archive", &["api", "object"]),
    ("operation", &["api", "object"]),
    ("action", &["api", "object", "operation"]),
    ("bucket", &[]),
    ("s3", &["bucket"]),
    ("provider", &["api", "bucket", "s3"]),
    ("kopia", &["bucket"]),
    ("mover", &["api", "bucket", "kopia"]),
    ("repository", &["api", "bucket", "kopia"]),
    ("store", &["api", "object", "archive", "bucket"]),
    ("cluster", &["object"]),
    ("client", &["api", "object", "patch", "cluster"]),
    ("reconcile", &["object", "cluster"]),
    ("hook", &["api", "object", "operation", "select", "cluster"]),
    ("volume", &["api", "object", "operation", "select", "archive", "action", "cluster"]),
    ("backup", &["api", "object", "operation", "select", "archive", "action", "store", "cluster", "volume", "hook"]),
    (
        "restore",
        &["api", "object", "operation", "select", "archive", "action", "store", "cluster", "volume", "hook", "patch"],
    ),
    (
        "control",
        &[
            "api",
            "object",
            "operation",
            "select",
            "lifecycle",
            "patch",
            "archive",
            "action",
            "client",
            "reconcile",
            "bucket",
            "store",
            "cluster",
            "backup",
            "restore",
            "repository",
            "kopia",
        ],
    ),
    ("node", &["api", "object", "operation", "cluster", "client", "reconcile", "mover"]),
    ("plugin-proto", &[]),
    ("plugin", &["api", "object", "operation", "action", "bucket", "plugin-proto"]),
    ("plugin-sdk", &["api", "object", "action", "plugin-proto"]),
    ("install", &["api", "object", "cluster"]),
    ("sandbox", &["object", "select", "patch"]),
    ("browse", &["api", "object", "select", "patch", "archive", "store", "cluster", "sandbox"]),
    ("terminal", &["api", "object", "operation", "select", "patch", "bucket", "store", "cluster", "client"]),
    (
        "cli",
        &[
            "action",
            "api",
            "archive",
            "backup",
            "browse",
            "bucket",
            "client",
            "cluster",
            "control",
            "install",
            "kopia",
            "lifecycle",
            "mover",
            "node",
            "object",
            "operation",
            "patch",
            "plugin",
            "provider",
            "reconcile",
            "repository",
            "restore",
            "s3",
            "sandbox",
            "select",
            "store",
            "terminal",
            "volume",
        ],
    ),
];

/// Sources of the command that may use the server: those that run it, and two that still take a part of it. A rule that both
/// apply lies in `lifecycle`.
const USES_SERVER: [&str; 4] = [
    "crates/cli/src/commands/server.rs",
    "crates/cli/src/commands/server/",
    "crates/cli/src/commands/status/looked.rs",
    "crates/cli/src/resource/preview.rs",
];

/// Rooms for development, and what they may use. Any room's tests may use them.
const DEV_ROOMS: [(&str, &[&str]); 2] = [("testbed", &["object"]), (FLOOR, &[])];

/// The crates that the tests of a crate may use beside those of the crate itself and the crates for development.
const TEST_EDGES: [(&str, &[&str]); 10] = [
    ("cli", &["plugin-sdk"]),
    ("operation", &["archive"]),
    ("client", &["sandbox"]),
    ("node", &["sandbox"]),
    ("backup", &["bucket", "client", "sandbox"]),
    ("restore", &["bucket", "sandbox"]),
    ("control", &["sandbox"]),
    ("sandbox", &["cluster"]),
    ("browse", &["bucket"]),
    ("plugin", &["archive"]),
];

/// The baseline of benchmarks: a crate outside the house, so without our prefix, which may use none of ours.
const FLOOR: &str = "floor";

/// Rooms that compile without runtime, network, Kubernetes client and command line.
const PURE: [&str; 6] = ["api", "object", "select", "lifecycle", "patch", "archive"];
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
        let Some((_, allowed)) = EDGES.iter().chain(&DEV_ROOMS).find(|(name, _)| *name == room) else {
            wrong.push(format!("{room} is not in the table of rooms"));
            continue;
        };
        wrong.extend(
            used(None).difference(&allowed.iter().copied().collect()).map(|o| format!("{room} may not use {o}")),
        );
        let of_tests = TEST_EDGES.iter().filter(|(name, _)| *name == room).flat_map(|(_, others)| *others);
        let allowed: BTreeSet<&str> =
            allowed.iter().chain(of_tests).copied().chain(DEV_ROOMS.map(|(name, _)| name)).collect();
        wrong.extend(used(Some("dev")).difference(&allowed).map(|o| format!("the tests of {room} may not use {o}")));
    }
    for room in PURE {
        wrong.extend(impure_parts(room)?);
    }
    for path in crate::words::sources()? {
        let name = path.display().to_string();
        let is_command =
            name.starts_with("crates/cli/src/") && !USES_SERVER.iter().any(|allowed| name.starts_with(allowed));
        if is_command && std::fs::read_to_string(&path)?.contains("lifeboat_control") {
            wrong.push(format!(
                "{name} may not use the server: what a command and the server decide alike lies in lifecycle"
            ));
        }
    }
    if !wrong.is_empty() {
        bail!("crate edges:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

fn metadata() -> Result<Value> {
    let output = Command::new("cargo").args(["metadata", "--format-version", "1", "--no-deps"]).output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Cargo's target folder.
pub(crate) fn target_folder() -> Result<PathBuf> {
    Ok(PathBuf::from(metadata()?["target_directory"].as_str().context("the target folder")?))
}

fn impure_parts(room: &str) -> Result<Vec<String>> {
    let package = format!("lifeboat-{room}");
    let output = Command::new("cargo")
        .args(["tree", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--package", &package])
        .output()?;
    if !output.status.success() {
        bail!("cargo tree of {room}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let names: BTreeSet<&str> = text.lines().filter_map(|l| l.split(' ').next()).collect();
    Ok(IMPURE.iter().filter(|bad| names.contains(**bad)).map(|bad| format!("{room} is pure but uses {bad}")).collect())
}
