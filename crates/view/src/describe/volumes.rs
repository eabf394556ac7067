//! Volumes of backups and restores (velero: pkg/cmd/util/output/backup_describer.go,
//! pkg/cmd/util/output/restore_describer.go).

use super::facts::{DataMovement, FetchedFile, VolumeInfo};
use super::page::Page;
use crate::transfer::VolumeTransfer;
use lifeboat_api::well_known::{ANNOTATION_BY_READER_POD, ANNOTATION_PVC_NAME};
use lifeboat_api::{DataMoveProgress, DataPathPhase, PodVolumeBackup, PodVolumeRestore, UploaderType};
use std::collections::BTreeMap;

/// The volumes of a backup.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackupVolumes {
    /// Native and CSI snapshots.
    pub snapshots: FetchedFile<Vec<VolumeInfo>>,
    /// True when they come from files of backups before Velero 1.13.
    pub is_legacy: bool,
    /// Saved through the file system.
    pub by_files: Vec<PodVolumeBackup>,
    /// Moved out of snapshots.
    pub moved: Vec<VolumeTransfer>,
}

const MORE: &str = "specify --details for more information";

/// The native snapshots of a backup.
pub fn native(infos: &[VolumeInfo]) -> impl Iterator<Item = &VolumeInfo> {
    infos.iter().filter(|info| info.backup_method == "NativeSnapshot" && !info.skipped)
}

/// The CSI snapshots of a backup, by claim.
pub fn csi(infos: &[VolumeInfo]) -> Vec<(String, &VolumeInfo)> {
    let mut found: Vec<(String, &VolumeInfo)> = infos
        .iter()
        .filter(|info| info.backup_method == "CSISnapshot" && !info.skipped)
        .map(|info| (claim(info), info))
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// `namespace/name` of the claim.
fn claim(info: &VolumeInfo) -> String {
    let slash = if info.pvc_namespace.is_empty() { "" } else { "/" };
    format!("{}{slash}{}", info.pvc_namespace, info.pvc_name)
}

/// The block `Backup Volumes:`.
pub fn of_backup(page: &mut Page<'_>, volumes: &BackupVolumes) {
    page.line("Backup Volumes:");
    match &volumes.snapshots {
        FetchedFile::Ungotten(why) => {
            page.line(format!("\t<error getting backup volume info: {why}>"));
            page.blank();
        }
        FetchedFile::Unreadable(why) => {
            page.line(format!("\t<error reading backup volume info: {why}>"));
            page.blank();
        }
        found => {
            let infos = found.there().map(Vec::as_slice).unwrap_or_default();
            native_snapshots(page, infos);
            page.blank();
            csi_snapshots(page, infos, volumes.is_legacy);
            page.blank();
        }
    }
    pod_volume_backups(page, &volumes.by_files);
    if shows_moved(&volumes.moved, page.style.details) {
        page.blank();
        moved(page, "\tData Uploads", &volumes.moved);
    }
    skipped(page, volumes.snapshots.there().map(Vec::as_slice).unwrap_or_default());
}

/// Returns true if transfers of moved data are shown beside the volumes, which say the rest of those that have ended.
pub(crate) fn shows_moved(transfers: &[VolumeTransfer], details: bool) -> bool {
    transfers.iter().any(|transfer| details || !transfer.has_ended())
}

/// Transfers of moved data: how far each is. Velero does not show them.
pub(crate) fn moved(page: &mut Page<'_>, title: &str, transfers: &[VolumeTransfer]) {
    let more = if page.style.details { String::new() } else { format!(" ({MORE})") };
    page.line(format!("{title}{more}:"));
    let indent = format!("{}\t", title.get(..title.len() - title.trim_start().len()).unwrap_or_default());
    for (phase, word) in BACKUP_PHASES {
        let of_phase = || transfers.iter().filter(|transfer| transfer.phase == phase);
        let count = of_phase().count();
        if count > 0 && !page.style.details {
            page.field(&format!("{indent}{word}"), count);
        } else if count > 0 {
            page.line(format!("{indent}{word}:"));
            of_phase().for_each(|transfer| page.line(format!("{indent}\t{}", moved_volume(transfer))));
        }
    }
}

/// The volume of moved data, with how far it is, how large, or what it waits for.
pub(crate) fn moved_volume(transfer: &VolumeTransfer) -> String {
    let (volume, total) = (&transfer.volume, transfer.bytes.total_bytes);
    match transfer.phase {
        DataPathPhase::Completed => {
            let files = transfer.files_text().map_or_else(String::new, |files| format!(", {files}"));
            format!("{volume} (size: {total}{files})")
        }
        _ if transfer.is_moving() => format!("{volume} ({})", transfer.moved_text()),
        _ if transfer.message.is_empty() => volume.clone(),
        _ => format!("{volume}: {}", transfer.message),
    }
}

/// The volumes of which no data was saved, and why. Velero does not show them.
fn skipped(page: &mut Page<'_>, infos: &[VolumeInfo]) {
    let skipped = || infos.iter().filter(|info| info.skipped && !info.skipped_reason.is_empty());
    let count = skipped().count();
    if count == 0 {
        return;
    }
    page.blank();
    if !page.style.details {
        page.line(format!("\tSkipped: {count} ({MORE})"));
        return;
    }
    page.line("\tSkipped:");
    for info in skipped() {
        page.line(format!("\t\t{}: {}", whole_name(info), info.skipped_reason));
    }
}

/// The claim, and its volume in brackets, as far as there are any; the pod of a volume without both.
fn whole_name(info: &VolumeInfo) -> String {
    if let Some(files) = info.pvr_info.as_ref().filter(|_| info.pvc_name.is_empty() && info.pv_name.is_empty()) {
        return format!("volume {} of pod {}/{}", files.volume_name, files.pod_namespace, files.pod_name);
    }
    match (info.pvc_name.is_empty(), info.pv_name.is_empty()) {
        (true, _) => info.pv_name.clone(),
        (false, true) => claim(info),
        (false, false) => format!("{} ({})", claim(info), info.pv_name),
    }
}

fn native_snapshots(page: &mut Page<'_>, infos: &[VolumeInfo]) {
    if native(infos).next().is_none() {
        page.line("\tVelero-Native Snapshots: <none included>");
        return;
    }
    page.line("\tVelero-Native Snapshots:");
    for info in native(infos) {
        if !page.style.details {
            page.line(format!("\t\t{}: {MORE}", info.pv_name));
            continue;
        }
        let snapshot = info.native_snapshot_info.clone().unwrap_or_default();
        page.line(format!("\t\t{}:", info.pv_name));
        page.field("\t\t\tSnapshot ID", snapshot.snapshot_handle);
        page.field("\t\t\tType", snapshot.volume_type);
        page.field("\t\t\tAvailability Zone", snapshot.volume_az);
        page.field("\t\t\tIOPS", snapshot.iops);
        page.field("\t\t\tResult", &info.result);
        if !info.message.is_empty() {
            page.field("\t\t\tReason", &info.message);
        }
    }
}

fn csi_snapshots(page: &mut Page<'_>, infos: &[VolumeInfo], is_legacy: bool) {
    let found = csi(infos);
    if found.is_empty() {
        let more = if is_legacy { " or not detectable" } else { "" };
        page.line(format!("\tCSI Snapshots: <none included{more}>"));
        return;
    }
    page.line("\tCSI Snapshots:");
    for (claim, info) in found {
        page.line(format!("\t\t{claim}:"));
        if info.result == "failed" && !info.message.is_empty() {
            failed(page, info);
        }
        if info.preserve_local_snapshot {
            csi_snapshot(page, info);
        }
        if info.snapshot_data_moved {
            data_movement(page, info);
        }
    }
}

/// A snapshot that was not taken, with the reason. Velero does not show it.
fn failed(page: &mut Page<'_>, info: &VolumeInfo) {
    if !page.style.details {
        page.line(format!("\t\t\tSnapshot: failed, {MORE}"));
        return;
    }
    page.line("\t\t\tSnapshot:");
    page.line(format!("\t\t\t\tResult: {}", info.result));
    page.line(format!("\t\t\t\tReason: {}", info.message));
}

fn csi_snapshot(page: &mut Page<'_>, info: &VolumeInfo) {
    if !page.style.details {
        page.line(format!("\t\t\tSnapshot: included, {MORE}"));
        return;
    }
    let snapshot = info.csi_snapshot_info.clone().unwrap_or_default();
    page.line("\t\t\tSnapshot:");
    if !info.snapshot_data_moved && !snapshot.operation_id.is_empty() {
        page.line(format!("\t\t\t\tOperation ID: {}", snapshot.operation_id));
    }
    page.line(format!("\t\t\t\tSnapshot Content Name: {}", snapshot.vsc_name));
    page.line(format!("\t\t\t\tStorage Snapshot ID: {}", snapshot.snapshot_handle));
    page.line(format!("\t\t\t\tSnapshot Size (bytes): {}", snapshot.size));
    page.line(format!("\t\t\t\tCSI Driver: {}", snapshot.driver));
    if !snapshot.volume_group.is_empty() {
        let handle = &snapshot.volume_group_snapshot_handle;
        page.line(format!("\t\t\t\tVolume Group: {} (Storage Group Snapshot ID: {handle})", snapshot.volume_group));
    }
    page.line(format!("\t\t\t\tResult: {}", info.result));
}

fn data_movement(page: &mut Page<'_>, info: &VolumeInfo) {
    if !page.style.details {
        page.line(format!("\t\t\tData Movement: included, {MORE}"));
        return;
    }
    let moved = info.snapshot_data_movement_info.clone().unwrap_or_default();
    page.line("\t\t\tData Movement:");
    page.line(format!("\t\t\t\tOperation ID: {}", moved.operation_id));
    page.line(format!("\t\t\t\tData Mover: {}", mover(&moved)));
    page.line(format!("\t\t\t\tUploader Type: {}", moved.uploader_type));
    page.line(format!("\t\t\t\tMoved data Size (bytes): {}", moved.size));
    if moved.incremental_size > 0 {
        page.line(format!("\t\t\t\tIncremental data Size (bytes): {}", moved.incremental_size));
    }
    page.line(format!("\t\t\t\tResult: {}", info.result));
}

/// The data mover, which is Velero's own when none is named.
pub fn mover(moved: &DataMovement) -> &str {
    if moved.data_mover.is_empty() { "velero" } else { &moved.data_mover }
}

/// The CSI snapshots that a restore used.
pub(crate) fn of_restore(page: &mut Page<'_>, volumes: &FetchedFile<Vec<VolumeInfo>>) {
    const TITLE: &str = "CSI Snapshot Restores";
    let infos = match volumes {
        FetchedFile::Missing => return,
        FetchedFile::There(infos) => infos,
        FetchedFile::Ungotten(why) => {
            page.blank();
            page.field(TITLE, format_args!("<error getting restore volume info: {why}>"));
            return;
        }
        FetchedFile::Unreadable(why) => {
            page.blank();
            page.field(TITLE, format_args!("<error reading restore volume info: {why}>"));
            return;
        }
    };
    page.blank();
    let of_csi = || infos.iter().filter(|info| info.restore_method == "CSISnapshot");
    if of_csi().next().is_none() {
        page.line(format!("{TITLE}: <none included>"));
        return;
    }
    page.line(format!("{TITLE}:"));
    for info in of_csi().filter(|info| !info.snapshot_data_moved) {
        page.line(format!("\t{}:", claim(info)));
        if !page.style.details {
            page.line(format!("\t\tSnapshot: {MORE}"));
            continue;
        }
        let snapshot = info.csi_snapshot_info.clone().unwrap_or_default();
        page.line("\t\tSnapshot:");
        page.line(format!("\t\t\tSnapshot Content Name: {}", snapshot.vsc_name));
        page.line(format!("\t\t\tStorage Snapshot ID: {}", snapshot.snapshot_handle));
        page.line(format!("\t\t\tCSI Driver: {}", snapshot.driver));
    }
    for info in of_csi().filter(|info| info.snapshot_data_moved) {
        page.line(format!("\t{}:", claim(info)));
        if !page.style.details {
            page.line(format!("\t\tData Movement: {MORE}"));
            continue;
        }
        let moved = info.snapshot_data_movement_info.clone().unwrap_or_default();
        page.line("\t\tData Movement:");
        page.line(format!("\t\t\tOperation ID: {}", moved.operation_id));
        page.line(format!("\t\t\tData Mover: {}", mover(&moved)));
        page.line(format!("\t\t\tUploader Type: {}", moved.uploader_type));
    }
}

/// Writes the outcomes for the claims and volumes of a restore. Velero does not show them.
pub fn messages(page: &mut Page<'_>, volumes: &FetchedFile<Vec<VolumeInfo>>) {
    let infos = volumes.there().map(Vec::as_slice).unwrap_or_default();
    let told = || infos.iter().filter(|info| !info.message.is_empty());
    let count = told().count();
    if count == 0 {
        return;
    }
    page.blank();
    if !page.style.details {
        page.line(format!("Volumes: {count} ({MORE})"));
        return;
    }
    page.line("Volumes:");
    for info in told() {
        page.line(format!("\t{}: {}", whole_name(info), info.message));
    }
}

/// Phases in the order in which their volumes are shown, and their headings.
pub(crate) const BACKUP_PHASES: [(DataPathPhase, &str); 8] = [
    (DataPathPhase::Completed, "Completed"),
    (DataPathPhase::Failed, "Failed"),
    (DataPathPhase::Canceled, "Canceled"),
    (DataPathPhase::InProgress, "In Progress"),
    (DataPathPhase::Canceling, "Canceling"),
    (DataPathPhase::Prepared, "Prepared"),
    (DataPathPhase::Accepted, "Accepted"),
    (DataPathPhase::New, "New"),
];

const RESTORE_PHASES: [(DataPathPhase, &str); 8] = [
    (DataPathPhase::Completed, "Completed"),
    (DataPathPhase::Canceled, "Canceled"),
    (DataPathPhase::Failed, "Failed"),
    (DataPathPhase::InProgress, "In Progress"),
    (DataPathPhase::Canceling, "Canceling"),
    (DataPathPhase::Prepared, "Prepared"),
    (DataPathPhase::Accepted, "Accepted"),
    (DataPathPhase::New, "New"),
];

/// A volume saved or restored through the file system.
pub(crate) struct PodVolume {
    pub phase: DataPathPhase,
    /// `namespace/name` of the pod.
    pod: String,
    volume: String,
    progress: DataMoveProgress,
    incremental_bytes: i64,
    /// Told behind its bytes: files, rate, time left. Velero does not show them.
    pub more: String,
}

/// The volume of a PodVolumeBackup. One whose pod is not in the backup is named by its claim.
pub(crate) fn pod_volume(backup: &PodVolumeBackup) -> PodVolume {
    let (namespace, pod) = (&backup.spec.pod.namespace, &backup.spec.pod.name);
    let claim = backup.metadata.annotations.get(ANNOTATION_PVC_NAME);
    let claim = claim.filter(|_| backup.metadata.says_true(ANNOTATION_BY_READER_POD));
    PodVolume {
        phase: backup.status.phase.unwrap_or(DataPathPhase::New),
        pod: match claim {
            Some(claim) => format!("{namespace}/{claim} (claim)"),
            None => format!("{namespace}/{pod}"),
        },
        volume: backup.spec.volume.clone(),
        progress: backup.status.progress.clone(),
        incremental_bytes: backup.status.incremental_bytes,
        more: more_of(&VolumeTransfer::from(backup)),
    }
}

fn restored_pod_volume(restore: &PodVolumeRestore) -> PodVolume {
    PodVolume {
        phase: restore.status.phase.unwrap_or(DataPathPhase::New),
        pod: format!("{}/{}", restore.spec.pod.namespace, restore.spec.pod.name),
        volume: restore.spec.volume.clone(),
        progress: restore.status.progress.clone(),
        incremental_bytes: 0,
        more: more_of(&VolumeTransfer::from(restore)),
    }
}

/// The part of a description that stands beside the bytes of a volume.
fn more_of(transfer: &VolumeTransfer) -> String {
    let more = match transfer.is_moving() {
        true => transfer.more_than_bytes(),
        false => transfer.files_text().unwrap_or_default(),
    };
    more.trim_start_matches(", ").to_owned()
}

/// Returns the mover of the files, according to the first volume.
pub fn uploader(first: Option<UploaderType>) -> &'static str {
    match first {
        // compat: what does not say was made when there was only one.
        Some(UploaderType::Unset) | None => "restic",
        Some(uploader) => uploader.as_str(),
    }
}

fn pod_volume_backups(page: &mut Page<'_>, backups: &[PodVolumeBackup]) {
    if backups.is_empty() {
        page.line("\tPod Volume Backups: <none included>");
        return;
    }
    let more = if page.style.details { String::new() } else { format!(" ({MORE})") };
    let uploader = uploader(backups.first().map(|backup| backup.spec.uploader_type));
    page.line(format!("\tPod Volume Backups - {uploader}{more}:"));
    let volumes: Vec<PodVolume> = backups.iter().map(pod_volume).collect();
    by_phase(page, &volumes, &BACKUP_PHASES, "\t\t");
}

/// The volumes that a restore brought back through the file system.
pub(crate) fn pod_volume_restores(page: &mut Page<'_>, restores: &[PodVolumeRestore]) {
    if restores.is_empty() {
        return;
    }
    let more = if page.style.details { String::new() } else { format!(" ({MORE})") };
    let uploader = uploader(restores.first().map(|restore| restore.spec.uploader_type));
    page.blank();
    page.line(format!("{uploader} Restores{more}:"));
    let volumes: Vec<PodVolume> = restores.iter().map(restored_pod_volume).collect();
    by_phase(page, &volumes, &RESTORE_PHASES, "\t");
}

fn by_phase(page: &mut Page<'_>, volumes: &[PodVolume], phases: &[(DataPathPhase, &str)], indent: &str) {
    for (phase, title) in phases {
        let of_phase = || volumes.iter().filter(|volume| volume.phase == *phase);
        let count = of_phase().count();
        if count == 0 {
            continue;
        }
        if !page.style.details {
            page.field(&format!("{indent}{title}"), count);
            continue;
        }
        page.line(format!("{indent}{title}:"));
        for (pod, names) in by_pod(of_phase(), shown) {
            page.line(format!("{indent}\t{pod}: {}", names.join(", ")));
        }
    }
}

/// Volumes by their pods, both in order.
pub(crate) fn by_pod<'a>(
    volumes: impl Iterator<Item = &'a PodVolume>,
    shown: fn(&PodVolume) -> String,
) -> BTreeMap<&'a str, Vec<String>> {
    let mut pods: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for volume in volumes {
        pods.entry(volume.pod.as_str()).or_default().push(shown(volume));
    }
    pods.values_mut().for_each(|names| names.sort());
    pods
}

/// A volume as Velero shows it, and behind that what Velero does not say.
fn shown(volume: &PodVolume) -> String {
    let name = name_with_bytes(volume);
    if volume.more.is_empty() { name } else { format!("{name} [{}]", volume.more) }
}

/// The name of a volume, with how far it is or how large, in Velero's words.
pub(crate) fn name_with_bytes(volume: &PodVolume) -> String {
    let (name, total, done) = (&volume.volume, volume.progress.total_bytes, volume.progress.bytes_done);
    match volume.phase {
        DataPathPhase::InProgress if total > 0 => {
            // compat: hundredths of a per cent, rounded as Go's `%.2f` rounds.
            format!("{name} ({:.2}%)", done as f64 / total as f64 * 100.0)
        }
        DataPathPhase::Completed if volume.incremental_bytes > 0 => {
            format!("{name} (size: {total}, incremental size: {})", volume.incremental_bytes)
        }
        DataPathPhase::Completed if total > 0 => format!("{name} (size: {total})"),
        _ => name.clone(),
    }
}
