//! The crate graph is the architecture: which room may use which, as the table of ARCHITECTURE.md says.

mod features;
mod table;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use table::RoomTable;

/// Rooms for development, which the tests of any room may use.
const DEV_ROOMS: [&str; 3] = ["testbed", "fixtures", "floor"];

/// Rooms that compile without runtime, network, Kubernetes client and command line.
const PURE: [&str; 6] = ["api", "object", "select", "lifecycle", "patch", "archive"];
const IMPURE: [&str; 6] = ["tokio", "hyper", "reqwest", "kube-client", "clap", "rustls"];

/// Compares the manifests with the table of ARCHITECTURE.md: no room uses what it may not use, and each edge of the
/// table is used.
pub(crate) fn check() -> Result<()> {
    let page = std::fs::read_to_string("ARCHITECTURE.md").context("read ARCHITECTURE.md")?;
    let table = RoomTable::parse(&page)?;
    let metadata = metadata()?;
    let mut wrong = wrong_edges(&table, &rooms(&metadata)?);
    wrong.extend(features::of_tests_alone(&metadata));
    for room in PURE {
        wrong.extend(impure_parts(room)?);
    }
    if !wrong.is_empty() {
        bail!("crate edges:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

/// A crate of ours.
struct Room {
    /// The rooms that it uses.
    used: BTreeSet<String>,
    /// The rooms that its tests use beside these.
    used_by_tests: BTreeSet<String>,
}

/// The crates of the workspace by the names of their folders.
fn rooms(metadata: &Value) -> Result<BTreeMap<String, Room>> {
    let packages = metadata["packages"].as_array().context("packages")?;
    let folder =
        |package: &Value| Some(Path::new(package["manifest_path"].as_str()?).parent()?.file_name()?.to_owned());
    let mut names = BTreeMap::new();
    for package in packages {
        let folder = folder(package).context("the folder of a package")?;
        names.insert(package["name"].as_str().context("name")?, folder.to_string_lossy().into_owned());
    }
    let room = |package: &Value| {
        let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
        let used = |kind: Option<&str>| -> BTreeSet<String> {
            let of_kind = dependencies.iter().filter(|dependency| dependency["kind"].as_str() == kind);
            of_kind.filter_map(|dependency| names.get(dependency["name"].as_str()?).cloned()).collect()
        };
        let (used, by_tests) = (used(None), used(Some("dev")));
        let used_by_tests = by_tests.difference(&used).cloned().collect();
        Some((names.get(package["name"].as_str()?)?.clone(), Room { used, used_by_tests }))
    };
    Ok(packages.iter().filter_map(room).collect())
}

/// The differences between the table and the manifests.
fn wrong_edges(table: &RoomTable, rooms: &BTreeMap<String, Room>) -> Vec<String> {
    let none = BTreeSet::new();
    let mut wrong: Vec<String> = table
        .rooms
        .keys()
        .filter(|name| !rooms.contains_key(*name))
        .map(|name| format!("{name} is no crate"))
        .collect();
    for (name, room) in rooms {
        let Some(allowed) = table.rooms.get(name) else {
            wrong.push(format!("{name} is not in the table of ARCHITECTURE.md"));
            continue;
        };
        let of_tests = table.tests.get(name).unwrap_or(&none);
        wrong.extend(room.used.difference(allowed).map(|other| format!("{name} may not use {other}")));
        wrong.extend(
            allowed
                .difference(&room.used)
                .map(|other| format!("{name} may use {other} and does not: take it off the table")),
        );
        let is_for_development = |other: &&String| DEV_ROOMS.contains(&other.as_str());
        let beyond = room.used_by_tests.difference(of_tests).filter(|other| !is_for_development(other));
        wrong.extend(beyond.map(|other| format!("the tests of {name} may not use {other}")));
        wrong.extend(
            of_tests
                .difference(&room.used_by_tests)
                .map(|other| format!("the tests of {name} may use {other} and do not: take it off the table")),
        );
    }
    wrong
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
