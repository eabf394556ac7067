//! `lifeboat backup describe -o json` (velero: pkg/cmd/util/output/backup_structured_describer.go).

use super::backup::{BackupFacts, failed, global_policy};
use super::facts::{FetchedFile, VolumeInfo};
use super::page::{NONE, Style, selector, three};
use super::volumes::{self, BACKUP_PHASES, BackupVolumes, by_pod, csi, native};
use crate::transfer::VolumeTransfer;
use lifeboat_api::{
    Backup, BackupPhase, BackupResourceHook, BackupResourceHookSpec, DeleteBackupRequest, DeleteBackupRequestPhase,
    TypedLocalObjectReference,
};
use lifeboat_object::ResultSet;
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value, json};

/// The whole text, keys in order.
///
/// # Errors
/// Never for facts that were read.
pub fn describe(facts: &BackupFacts, style: &Style) -> serde_json::Result<String> {
    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(b"    "));
    value(facts, style).serialize(&mut serializer)?;
    out.push(b'\n');
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn value(facts: &BackupFacts, style: &Style) -> Value {
    let backup = &facts.backup;
    let meta = &backup.metadata;
    let mut top = Map::new();
    top.insert(
        "metadata".into(),
        json!({"name": meta.name, "namespace": meta.namespace, "labels": meta.labels, "annotations": meta.annotations}),
    );
    top.insert("phase".into(), json!(backup.status.phase.map_or("", BackupPhase::as_str)));
    let reference = |found: &TypedLocalObjectReference| json!({"type": found.kind, "name": found.name});
    if let Some(found) = &backup.spec.resource_policy {
        top.insert("resourcePolicies".into(), reference(found));
    }
    if let Some(found) = &global_policy(backup) {
        top.insert("globalVolumePolicies".into(), reference(found));
    }
    if !backup.status.validation_errors.is_empty() {
        top.insert("validationErrors".into(), json!(backup.status.validation_errors));
    }
    if let Some(warning) = &facts.warning {
        top.insert("warningsGettingBSLCACert".into(), json!({"warningGettingBSLCACert": warning}));
    }
    messages(&mut top, facts);
    top.insert("spec".into(), spec(backup));
    top.insert("status".into(), status(facts, style));
    if !facts.deletions.is_empty() {
        top.insert("deletionAttempts".into(), deletions(&facts.deletions, style));
    }
    Value::Object(top)
}

fn messages(top: &mut Map<String, Value>, facts: &BackupFacts) {
    let (warnings, errors) = (facts.backup.status.warnings, facts.backup.status.errors);
    if warnings == 0 && errors == 0 {
        return;
    }
    match &facts.files.results {
        FetchedFile::There(found) => {
            top.insert("errors".into(), if errors > 0 { set(&found.errors) } else { json!({}) });
            top.insert("warnings".into(), if warnings > 0 { set(&found.warnings) } else { json!({}) });
        }
        FetchedFile::Missing => {
            top.insert("errors".into(), json!({"count": errors}));
            top.insert("warnings".into(), json!({"count": warnings}));
        }
        FetchedFile::Ungotten(why) | FetchedFile::Unreadable(why) => {
            top.insert("errors".into(), json!({"errorGettingErrors": why}));
            top.insert("warnings".into(), json!({"errorGettingWarnings": why}));
        }
    }
}

fn set(found: &ResultSet) -> Value {
    let namespaces = if found.namespaces.is_empty() { json!([]) } else { json!(found.namespaces) };
    json!({"velero": found.velero, "cluster": found.cluster, "namespace": namespaces})
}

fn names(names: &[String], when_empty: &str) -> String {
    if names.is_empty() { when_empty.to_owned() } else { names.join(", ") }
}

fn spec(backup: &Backup) -> Value {
    let spec = &backup.spec;
    let mut out = json!({
        "namespaces": {"included": names(&spec.included_namespaces, "*"), "excluded": names(&spec.excluded_namespaces, NONE)},
        "resources": {
            "included": names(&spec.included_resources, "*"),
            "excluded": names(&spec.excluded_resources, NONE),
            "clusterScoped": three(spec.include_cluster_resources, "included", "excluded", "auto"),
        },
        "labelSelector": selector(spec.label_selector.as_ref()),
        "storageLocation": spec.storage_location,
        "veleroNativeSnapshotPVs": three(spec.snapshot_volumes, "true", "false", "auto"),
        "veleroSnapshotMoveData": three(spec.snapshot_move_data, "true", "false", "auto"),
        // compat: the text says `velero` here.
        "dataMover": if spec.data_mover.is_empty() { NONE } else { &spec.data_mover },
        "TTL": spec.ttl,
        "CSISnapshotTimeout": spec.csi_snapshot_timeout,
    });
    if !spec.hooks.resources.is_empty() {
        let hooks: Map<String, Value> = spec.hooks.resources.iter().map(|one| (one.name.clone(), hook(one))).collect();
        out["hooks"] = json!({"resources": hooks});
    }
    if !spec.ordered_resources.is_empty() {
        out["orderedResources"] = json!(spec.ordered_resources);
    }
    out
}

fn hook(spec: &BackupResourceHookSpec) -> Value {
    let commands = |hooks: &[BackupResourceHook]| -> Vec<Value> {
        let one = |hook: &BackupResourceHook| {
            let exec = &hook.exec;
            // compat: this key has a colon in Velero.
            json!({"container": exec.container, "command": exec.command.join(" "),
                "onError:": exec.on_error.map_or("", |mode| mode.as_str()), "timeout": exec.timeout})
        };
        hooks.iter().map(one).collect()
    };
    json!({
        "namespaces": {"included": names(&spec.included_namespaces, "*"), "excluded": names(&spec.excluded_namespaces, NONE)},
        "resources": {"included": names(&spec.included_resources, "*"), "excluded": names(&spec.excluded_resources, NONE)},
        "labelSelector": selector(spec.label_selector.as_ref()),
        "preExecHook": commands(&spec.pre_hooks),
        "postExecHook": commands(&spec.post_hooks),
    })
}

fn status(facts: &BackupFacts, style: &Style) -> Value {
    let status = &facts.backup.status;
    let time = |time: Option<lifeboat_api::Time>, none: &str| time.map_or_else(|| none.to_owned(), |t| style.time(t));
    let mut out = json!({
        "backupFormatVersion": status.format_version,
        "started": time(status.start_timestamp, "<n/a>"),
        "completed": time(status.completion_timestamp, "<n/a>"),
        "expiration": time(status.expiration, "<nil>"),
    });
    if status.attempt > 1 {
        out["attempt"] = json!(status.attempt);
    }
    if let Some(progress) = &status.progress {
        let (total, done) = match status.phase {
            Some(BackupPhase::InProgress) => ("estimatedTotalItemsToBeBackedUp", "itemsBackedUpSoFar"),
            _ => ("totalItemsToBeBackedUp", "itemsBackedUp"),
        };
        out[total] = json!(progress.total_items);
        out[done] = json!(progress.items_backed_up);
    }
    if style.details {
        match &facts.files.resources {
            FetchedFile::There(list) => out["resourceList"] = json!(list),
            FetchedFile::Missing => out["resourceList"] = json!("<backup resource list not found>"),
            FetchedFile::Ungotten(why) | FetchedFile::Unreadable(why) => out["errorGettingResourceList"] = json!(why),
        }
    }
    if let Some(warning) = &facts.warning {
        out["warningGettingBSLCACert"] = json!(warning);
    }
    out["backupVolumes"] = backup_volumes(&facts.volumes, style.details);
    if let Some(hooks) = &status.hook_status {
        out["hooksAttempted"] = json!(hooks.hooks_attempted);
        out["hooksFailed"] = json!(hooks.hooks_failed);
    }
    out
}

/// The volumes of a backup. Snapshots that could not be had are errors in their place.
pub(crate) fn backup_volumes(volumes: &BackupVolumes, details: bool) -> Value {
    let wrong = |verb: &str, why: &str| {
        let text = format!("<error {verb} backup volume info: {why}>");
        (json!(text), json!(text))
    };
    let snapshots =
        |infos: &[VolumeInfo]| (native_snapshots(infos, details), csi_snapshots(infos, volumes.is_legacy, details));
    let (native, csi) = match &volumes.snapshots {
        FetchedFile::There(infos) => snapshots(infos),
        FetchedFile::Missing => snapshots(&[]),
        FetchedFile::Ungotten(why) => wrong("getting", why),
        FetchedFile::Unreadable(why) => wrong("reading", why),
    };
    let mut shown = json!({
        "nativeSnapshots": native,
        "csiSnapshots": csi,
        "podVolumeBackups": pod_volume_backups(volumes, details),
    });
    if volumes::shows_moved(&volumes.moved, details) {
        shown["dataUploads"] = data_uploads(volumes, details);
    }
    shown
}

fn native_snapshots(infos: &[VolumeInfo], details: bool) -> Value {
    let one = |info: &VolumeInfo| {
        let snapshot = info.native_snapshot_info.clone().unwrap_or_default();
        let shown = if details {
            json!({"snapshotID": snapshot.snapshot_handle, "type": snapshot.volume_type,
                "availabilityZone": snapshot.volume_az, "IOPS": snapshot.iops, "result": info.result})
        } else {
            json!("specify --details for more information")
        };
        (info.pv_name.clone(), shown)
    };
    let found: Map<String, Value> = native(infos).map(one).collect();
    if found.is_empty() { json!("<none included>") } else { Value::Object(found) }
}

fn csi_snapshots(infos: &[VolumeInfo], is_legacy: bool, details: bool) -> Value {
    let found: Map<String, Value> =
        csi(infos).into_iter().map(|(claim, info)| (claim, csi_snapshot(info, details))).collect();
    match (found.is_empty(), is_legacy) {
        (true, true) => json!("<none included or not detectable>"),
        (true, false) => json!("<none included>"),
        _ => Value::Object(found),
    }
}

fn csi_snapshot(info: &VolumeInfo, details: bool) -> Value {
    let mut out = Map::new();
    if info.result == "failed" && !info.message.is_empty() {
        let shown = match details {
            true => json!({"result": info.result, "reason": info.message}),
            false => json!("failed, specify --details for more information"),
        };
        out.insert("snapshot".into(), shown);
    }
    if info.preserve_local_snapshot {
        let snapshot = info.csi_snapshot_info.clone().unwrap_or_default();
        let mut shown = json!("included, specify --details for more information");
        if details {
            shown = json!({"snapshotContentName": snapshot.vsc_name, "storageSnapshotID": snapshot.snapshot_handle,
                "snapshotSize(bytes)": snapshot.size, "csiDriver": snapshot.driver, "result": info.result});
            if !info.snapshot_data_moved && !snapshot.operation_id.is_empty() {
                shown["operationID"] = json!(snapshot.operation_id);
            }
            if !snapshot.volume_group.is_empty() {
                shown["volumeGroup"] = json!(snapshot.volume_group);
                shown["storageGroupSnapshotID"] = json!(snapshot.volume_group_snapshot_handle);
            }
        }
        out.insert("snapshot".into(), shown);
    }
    if info.snapshot_data_moved {
        let moved = info.snapshot_data_movement_info.clone().unwrap_or_default();
        let mut shown = json!("included, specify --details for more information");
        if details {
            shown = json!({"operationID": moved.operation_id, "dataMover": volumes::mover(&moved),
                "uploaderType": moved.uploader_type, "result": info.result});
            if moved.size > 0 {
                shown["size"] = json!(moved.size);
            }
            if moved.incremental_size > 0 {
                shown["incrementalSize"] = json!(moved.incremental_size);
            }
        }
        out.insert("dataMovement".into(), shown);
    }
    Value::Object(out)
}

fn pod_volume_backups(volumes: &BackupVolumes, details: bool) -> Value {
    if volumes.by_files.is_empty() {
        return json!("<none included>");
    }
    let all: Vec<_> = volumes.by_files.iter().map(volumes::pod_volume).collect();
    let mut phases = Map::new();
    for (phase, title) in BACKUP_PHASES {
        let of_phase = || all.iter().filter(|volume| volume.phase == phase);
        if of_phase().next().is_none() {
            continue;
        }
        let shown = if details {
            by_pod(of_phase(), volumes::name_with_bytes)
                .into_iter()
                .map(|(pod, names)| json!({pod: names.join(", ")}))
                .collect()
        } else {
            json!(of_phase().count())
        };
        phases.insert(title.to_owned(), shown);
    }
    let uploader = volumes::uploader(volumes.by_files.first().map(|backup| backup.spec.uploader_type));
    // compat: the key is misspelt in Velero.
    let mut shown = json!({"uploderType": uploader, "podVolumeBackupsDetails": phases});
    // Velero does not say these parts.
    let with_more = volumes.by_files.iter().zip(&all).filter(|(_, volume)| details && !volume.more.is_empty());
    let transfers: Vec<Value> = with_more.map(|(backup, _)| VolumeTransfer::from(backup).value()).collect();
    if !transfers.is_empty() {
        shown["transfers"] = json!(transfers);
    }
    shown
}

/// Transfers of moved data by their phases. Velero does not show them.
fn data_uploads(volumes: &BackupVolumes, details: bool) -> Value {
    let mut phases = Map::new();
    for (phase, title) in BACKUP_PHASES {
        let of_phase = || volumes.moved.iter().filter(|transfer| transfer.phase == phase);
        let count = of_phase().count();
        if count > 0 {
            let all = || of_phase().map(VolumeTransfer::value).collect::<Vec<_>>();
            phases.insert(title.to_owned(), if details { json!(all()) } else { json!(count) });
        }
    }
    Value::Object(phases)
}

fn deletions(requests: &[DeleteBackupRequest], style: &Style) -> Value {
    let one = |request: &DeleteBackupRequest| {
        let created = request.metadata.creation_timestamp;
        let phase = request.status.phase.unwrap_or(DeleteBackupRequestPhase::New);
        let mut out = json!({"phase": phase.as_str(),
            "creationTimestamp": created.map_or_else(String::new, |time| style.time(time))});
        if !request.status.errors.is_empty() {
            out["errors"] = json!(request.status.errors);
        }
        out
    };
    let mut out = json!({"deleteBackupRequests": requests.iter().map(one).collect::<Vec<_>>()});
    let failed = failed(requests);
    if failed > 0 {
        out["failed"] = json!(failed);
    }
    out
}
