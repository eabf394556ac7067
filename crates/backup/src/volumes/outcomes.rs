//! Decisions about the volumes of a backup and their outcomes, between the stages and the room that decides (design: a
//! volume).

use crate::actions::pv::volume_key;
use crate::volumes::file_backups::add_reports;
use lifeboat_api::{Backup, NamespacedName};
use lifeboat_archive::native_snapshot::NativeSnapshot;
use lifeboat_archive::volume_info::BackupVolumeInfo;
use lifeboat_object::{Item, ResultScope, Severity, first_names};
use lifeboat_operation::Journal;
use lifeboat_select::ResourcePolicies;
use lifeboat_volume::csi::{self, CsiSnapshots, HeldSnapshots, TakenSnapshot};
use lifeboat_volume::facts::{PodVolumeName, claim_object_key, pod_object_key};
use lifeboat_volume::fs_backup::FileBackups;
use lifeboat_volume::native::NativeSnapshots;
use lifeboat_volume::{
    BackupMovers, DecidedVolume, Flags, MethodReason, MissingMover, Report, Reports, Rules, SavedObjects, Verdicts,
    VolumeInventory, records, unprotected, unprotected_warning,
};
use std::collections::{BTreeMap, BTreeSet};

/// The rules that decide about volumes.
#[derive(Clone, Debug, Default)]
pub(crate) struct VolumeRules {
    pub(crate) policies: Option<ResourcePolicies>,
    pub(crate) flags: Flags,
}

impl VolumeRules {
    pub(crate) fn get(&self) -> Rules<'_> {
        Rules { policies: self.policies.as_ref(), flags: &self.flags }
    }
}

/// Returns true if an object says something about volumes.
fn concerns_volumes(item: &Item) -> bool {
    item.resource.group.is_empty()
        && matches!(item.resource.resource.as_str(), "pods" | "persistentvolumeclaims" | "persistentvolumes")
}

/// Outcomes for volumes while objects were saved.
#[derive(Clone, Debug, Default)]
pub(crate) struct VolumeOutcomes {
    saved: SavedObjects,
    /// Claims and volumes that came after the decisions.
    late: VolumeInventory,
    snapshots: HeldSnapshots,
}

/// The reason for which nobody could restore from a snapshot that was taken: an object of it is not in the backup.
fn lacks(held: &HeldSnapshots, taken: &TakenSnapshot) -> Option<String> {
    let TakenSnapshot { namespace, name, content, .. } = taken;
    let is_there = held.snapshots.contains(&NamespacedName::new(&**namespace, &**name));
    let missing = match (is_there, held.contents.contains(&content.name)) {
        (true, true) => return None,
        (false, _) => format!("its VolumeSnapshot {namespace}/{name}"),
        (true, false) => format!("the VolumeSnapshotContent {} of its VolumeSnapshot {name}", content.name),
    };
    Some(format!("its snapshot was taken, but {missing} is not in the backup: was it deleted meanwhile?"))
}

impl VolumeOutcomes {
    /// Notes an object that is saved.
    pub(crate) fn note(&mut self, item: &Item, verdicts: &Verdicts) {
        if item.resource.group == csi::SNAPSHOT_API {
            self.snapshots.note(&item.key());
        }
        if !concerns_volumes(item) {
            return;
        }
        let name =
            NamespacedName { namespace: item.head.namespace.clone().unwrap_or_default(), name: item.head.name.clone() };
        let is_known = match item.resource.resource.as_str() {
            "pods" => {
                if verdicts.has_volumes_of_pod(&name) {
                    self.saved.pods.insert(name);
                }
                true
            }
            "persistentvolumeclaims" => {
                let is_known = verdicts.of_claim(&name).is_some();
                self.saved.claims.insert(name);
                is_known
            }
            _ => {
                let volume = name.name;
                let is_known = verdicts.of_volume(&volume).is_some() && verdicts.volume(&volume).is_some();
                self.saved.volumes.insert(volume);
                is_known
            }
        };
        if !is_known {
            self.late.take(item);
        }
    }

    /// Adds what another worker has noted.
    pub(crate) fn add(&mut self, other: Self) {
        self.saved.add(other.saved);
        self.late.add(other.late);
        self.snapshots.snapshots.extend(other.snapshots.snapshots);
        self.snapshots.contents.extend(other.snapshots.contents);
    }
}

/// Start of an error about the data of a claim in the results.
const NOT_SAVED: &str = "the data of the claim is not saved";

/// The parts of a backup that save the data of volumes.
#[derive(Clone, Copy, Default)]
pub(crate) struct VolumeSavers<'a> {
    pub(crate) csi: Option<&'a CsiSnapshots>,
    pub(crate) native: Option<&'a NativeSnapshots>,
    pub(crate) files: Option<&'a FileBackups>,
}

/// The volumes of a backup when all objects went through.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    verdicts: Verdicts,
    saved: SavedObjects,
    reports: Reports,
    /// The VolumeSnapshots that were taken, their groups, and those by whose names data movers take them over.
    snapshots: BTreeSet<NamespacedName>,
    /// The names of the DataUploads of the volumes that are in the backup.
    uploads: BTreeSet<String>,
    /// True when a group that no claim names any more may be in the cluster.
    may_have_left_groups: bool,
}

impl Volumes {
    pub(crate) fn new(mut verdicts: Verdicts, outcomes: VolumeOutcomes, savers: VolumeSavers<'_>) -> Self {
        let VolumeSavers { csi, native, files } = savers;
        let VolumeOutcomes { saved, late, snapshots } = outcomes;
        verdicts.came_late(late);
        let mut reports = Reports {
            of_claims: csi.map(CsiSnapshots::reports).unwrap_or_default(),
            of_volumes: native.map(NativeSnapshots::reports).unwrap_or_default(),
            of_pods: BTreeMap::new(),
        };
        let taken = csi.map(CsiSnapshots::all_taken).unwrap_or_default();
        for (claim, report) in reports.of_claims.iter_mut().filter(|(_, report)| report.is_saved()) {
            let why = match taken.get(claim) {
                // Without the claim nothing in the backup names it.
                _ if !saved.claims.contains(claim) => Some("the claim itself is not in the backup".to_owned()),
                _ if matches!(report, Report::Moved { .. }) => None,
                taken => taken.and_then(|taken| lacks(&snapshots, taken)),
            };
            if let Some(why) = why {
                *report = Report::Failed { why };
            }
        }
        if let Some(files) = files {
            add_reports(files, &verdicts, &mut reports);
        }
        let is_saved = |claim: &NamespacedName| reports.of_claims.get(claim).is_some_and(Report::is_saved);
        let names = taken.into_iter().filter(|(claim, _)| is_saved(claim)).flat_map(|(_, taken)| {
            let group = taken.group.as_ref().map(|group| group.name.clone());
            group.into_iter().chain([taken.name.clone()]).map(move |name| NamespacedName::new(&taken.namespace, name))
        });
        let (mut snapshots, may_have_left_groups): (BTreeSet<NamespacedName>, bool) =
            (names.collect(), csi.is_some_and(CsiSnapshots::may_have_left_groups));
        let uploads = csi.map(CsiSnapshots::begun_uploads).unwrap_or_default().into_iter();
        let uploads: BTreeMap<String, String> =
            uploads.filter(|(claim, _)| is_saved(claim)).map(|(_, made)| (made.name, made.namespace)).collect();
        snapshots.extend(uploads.iter().map(|(name, namespace)| NamespacedName::new(namespace, name)));
        let uploads = uploads.into_keys().collect();
        Self { verdicts, saved, reports, snapshots, uploads, may_have_left_groups }
    }

    /// Returns true if the DataUpload of this name is of a volume of the backup.
    pub(crate) fn has_upload(&self, name: &str) -> bool {
        self.uploads.contains(name)
    }

    /// Returns true if this VolumeSnapshot, or VolumeGroupSnapshot, holds the data of a volume of the backup.
    pub(crate) fn has_snapshot(&self, name: &NamespacedName) -> bool {
        self.snapshots.contains(name)
    }

    /// Returns true if objects of CSI snapshots may be in the cluster that hold the data of no volume of the backup.
    pub(crate) fn may_have_left_snapshots(&self) -> bool {
        self.may_have_left_groups || self.reports.of_claims.values().any(|report| !report.is_saved())
    }

    /// The names of PersistentVolumes of whose volumes native snapshots were taken, and that are not in the backup.
    pub(crate) fn unsaved(&self) -> Vec<String> {
        let is_taken = |report: &Report| matches!(report, Report::NativeSnapshot { .. });
        let taken = self.reports.of_volumes.iter().filter(|(_, report)| is_taken(report)).map(|(name, _)| name);
        taken.filter(|name| !self.saved.volumes.contains(*name)).cloned().collect()
    }

    /// Forgets the native snapshot of a volume, which is deleted.
    pub(crate) fn forget(&mut self, volume: &str) {
        self.reports.of_volumes.remove(volume);
    }

    /// The records of the native snapshots, in the order of the names of their PersistentVolumes.
    pub(crate) fn native(&self) -> Vec<NativeSnapshot> {
        let snapshot = |report: &Report| match report {
            Report::NativeSnapshot { snapshot, .. } | Report::NativeFailed { snapshot, .. } => {
                Some((**snapshot).clone())
            }
            _ => None,
        };
        self.reports.of_volumes.values().filter_map(snapshot).collect()
    }

    /// The volume information of the backup.
    pub(crate) fn records(&self) -> Vec<BackupVolumeInfo> {
        records(&self.verdicts, &self.saved, &self.reports)
    }

    /// The decisions about the volumes in scope.
    pub(crate) fn decided(&self) -> impl Iterator<Item = &DecidedVolume> {
        self.verdicts.iter().filter(|decided| self.saved.has(decided))
    }

    /// The names of the volumes in scope that nothing protects.
    pub(crate) fn unprotected(&self) -> Vec<String> {
        unprotected(&self.verdicts, &self.saved, &self.reports)
    }

    /// Tells the decision about each volume in the log, what nothing protects, and of each volume why it is not saved that somebody has
    /// asked to save.
    pub(crate) fn tell(&self, backup: &Backup, journal: &Journal) {
        for decided in self.decided() {
            let (name, verdict) = (decided.name(), &decided.verdict);
            let (method, reason) = (verdict.method.describe(), verdict.reason());
            journal.detail("Decided about a volume", &[("volume", &name), ("method", &method), ("reason", &reason)]);
        }
        if let Some(line) = unprotected_warning(&self.unprotected()) {
            journal.warn(&ResultScope::Velero, line);
        }
        for (claim, report) in &self.reports.of_claims {
            if let Some(why) = report.failure() {
                journal.item(Severity::Error, &claim_object_key(claim), NOT_SAVED, Some(why));
            }
        }
        for decided in self.decided() {
            if let Some(claim) = decided.claim.as_ref().filter(|_| decided.verdict.has_failed()) {
                let why = format!("{}; {}", decided.verdict.reason(), decided.verdict.advice().unwrap_or_default());
                journal.item(Severity::Error, &claim_object_key(claim), NOT_SAVED, Some(&why));
            }
        }
        for (PodVolumeName { pod, volume }, report) in &self.reports.of_pods {
            if let Some(why) = report.failure() {
                let text = format!("the data of the volume {volume} is not saved");
                journal.item(Severity::Error, &pod_object_key(pod), &text, Some(why));
            }
        }
        for (volume, report) in &self.reports.of_volumes {
            if let Some(why) = report.failure() {
                journal.item(Severity::Error, &volume_key(volume), "the data of the volume is not saved", Some(why));
            }
        }
        if backup.spec.snapshot_move_data == Some(true) {
            self.tell_not_moved(journal);
        }
        if backup.spec.allow_unprotected {
            return;
        }
        // What was begun has its report.
        let is_open =
            |decided: &&DecidedVolume| decided.verdict.method.needs_mover() && self.reports.of(decided).is_none();
        for decided in self.decided().filter(is_open) {
            let lack = self.verdicts.missing_mover(decided).map_or("nothing was begun", MissingMover::reason);
            let text = format!(
                "the data of {} is not saved: {}: a {} is to be made, and {lack}; --allow-unprotected makes the backup without it",
                decided.name(),
                decided.verdict.reason(),
                decided.verdict.method.describe()
            );
            let namespace = decided.namespace().map(str::to_owned);
            journal.error(&namespace.map_or(ResultScope::Velero, ResultScope::Namespace), text);
        }
    }
}

impl Volumes {
    /// Tells which snapshots stay in the storage although data was to be moved out of it.
    fn tell_not_moved(&self, journal: &Journal) {
        let all = self.reports.of_volumes.iter();
        let names: Vec<&str> = all.filter(|(_, report)| report.is_saved()).map(|(name, _)| name.as_str()).collect();
        if !names.is_empty() {
            let text = format!(
                "the data of native snapshots is not moved (snapshotMoveData), it stays in the storage: {}",
                first_names(&names)
            );
            journal.warn(&ResultScope::Velero, text);
        }
    }
}

/// Returns true if the rules may ask for a mover of volume data, so that it is worth looking at the volumes before a
/// backup begins.
pub(crate) fn may_need_movers(policies: Option<&ResourcePolicies>, flags: &Flags) -> bool {
    flags.fs_backup_by_default || flags.moves_data || policies.is_some_and(ask_for_movers)
}

/// Returns true if a rule of these policies asks for a mover of volume data.
pub(crate) fn ask_for_movers(policies: &ResourcePolicies) -> bool {
    policies.volume_rules().any(|rule| matches!(rule.action.name(), "fs-backup" | "snapshot-datamover"))
}

/// The reason for which a backup may not begin: volumes whose data nothing there can move, though the backup, a policy or a
/// default of the server asks for it. A mover that only a pod's annotation asks for is an error of that volume instead.
pub(crate) fn refusal<'a>(decided: impl Iterator<Item = &'a DecidedVolume>, movers: BackupMovers) -> Option<String> {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut missing = BTreeSet::new();
    for decided in decided {
        let verdict = &decided.verdict;
        let Some(lack) = movers.lack_of(&verdict.method) else { continue };
        if matches!(verdict.why, MethodReason::Annotation { .. }) {
            continue;
        }
        missing.insert(lack);
        let rule = match &verdict.why {
            MethodReason::FsBackupByDefault { .. } | MethodReason::FsBackupOfUnmounted { .. } => {
                "files are saved by default (defaultVolumesToFsBackup)".to_owned()
            }
            MethodReason::SnapshotByDefault { .. } => "the data of snapshots is moved (snapshotMoveData)".to_owned(),
            _ => verdict.rule(),
        };
        names.entry(rule).or_default().push(decided.name());
    }
    let reasons: Vec<String> = names
        .into_iter()
        .map(|(rule, mut names)| {
            names.sort();
            format!("{rule}: {}", first_names(&names))
        })
        .collect();
    let lacks: Vec<&str> = missing.into_iter().map(MissingMover::reason).collect();
    let lack = lacks.join(", and ");
    (!reasons.is_empty()).then(|| {
        format!(
            "the data of volumes would have to be moved, and {lack}: {}; --allow-unprotected (spec.allowUnprotected) makes the backup \
             without it",
            reasons.join("; ")
        )
    })
}
