//! The snapshots in the storage of the node's CSI driver, as its own state file lists them.

use super::place::Place;
use lifeboat_testbed::NODE_STATE;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// A snapshot in the storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// The name of the claim of whose volume it is.
    pub(super) claim: String,
    /// The driver's name of its group; empty for none.
    pub(super) group: String,
}

/// The snapshots of the volumes of a namespace's claims, by the driver's names of them.
pub(super) fn stored(namespace: &str) -> BTreeMap<String, Stored> {
    let state = std::fs::read(Path::new(NODE_STATE).join("csi/state.json")).expect("the driver's state");
    let state: Value = serde_json::from_slice(&state).expect("JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of_namespace = |(handle, snapshot): (&String, &Value)| {
        let claim = text(&snapshot["Claim"]);
        let claim = claim.strip_prefix(namespace)?.strip_prefix('/')?.to_owned();
        Some((handle.clone(), Stored { claim, group: text(&snapshot["Group"]) }))
    };
    state["Snapshots"].as_object().into_iter().flatten().filter_map(of_namespace).collect()
}

/// The snapshots that a backup says that it has, in the same form.
pub(super) fn recorded(place: &Place, backup: &str) -> BTreeMap<String, Stored> {
    let described = place.described(backup);
    let all = described["status"]["backupVolumes"]["csiSnapshots"].as_object().cloned().unwrap_or_default();
    let text = |one: &Value, key: &str| one["snapshot"][key].as_str().unwrap_or_default().to_owned();
    let of = |(claim, one): (&String, &Value)| {
        let claim = claim.rsplit('/').next().unwrap_or_default().to_owned();
        (text(one, "storageSnapshotID"), Stored { claim, group: text(one, "storageGroupSnapshotID") })
    };
    // One that failed has no handle.
    all.iter().map(of).filter(|(handle, _)| !handle.is_empty()).collect()
}
