//! Policies for volumes: their conditions and their actions (velero: internal/resourcepolicies).

use super::document::{Csi, DocumentAction, DocumentConditions, DocumentVolumePolicy, Nfs};
use super::filter::line;
use lifeboat_api::DataMover;
use lifeboat_object::Quantity;
use serde_json::{Map, Value};
use serde_saphyr::Spanned;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The sources of volumes, as the API calls them.
const VOLUME_TYPES: [&str; 31] = [
    "awsAzureDisk",
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "hostPath",
    "image",
    "iscsi",
    "local",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "projected",
    "quobyte",
    "rbd",
    "scaleIO",
    "secret",
    "storageOS",
    "vsphereVolume",
];
/// The source of a generic ephemeral volume.
const EPHEMERAL: &str = "ephemeral";
const PHASES: [&str; 3] = ["Pending", "Bound", "Lost"];
const MODES: [&str; 2] = ["Filesystem", "Block"];
const ACCESS_MODES: [&str; 4] = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];

/// The type of volume source in policies for a field of a volume, such as `emptyDir`; `None` for any other field.
#[must_use]
pub fn volume_type(field: &str) -> Option<&'static str> {
    VOLUME_TYPES.into_iter().find(|name| *name == field)
}

/// The known facts about a volume. Unknown ones are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeFacts {
    /// Its size; none without a persistent volume.
    pub capacity: Option<Quantity>,
    /// The class of the persistent volume.
    pub storage_class: String,
    /// The field of its source, such as `csi` or `emptyDir`.
    pub volume_type: &'static str,
    /// True for the volume of a claim that a pod has as a generic ephemeral volume: it is of the type `ephemeral`, too.
    pub is_ephemeral: bool,
    /// Server and path of an NFS volume.
    pub nfs: Option<(String, String)>,
    /// Driver and attributes of a CSI volume.
    pub csi: Option<(String, BTreeMap<String, String>)>,
    /// The labels of its claim.
    pub claim_labels: BTreeMap<String, String>,
    /// The phase of its claim.
    pub claim_phase: String,
    /// The mode of its claim.
    pub claim_volume_mode: String,
    /// The access modes of its claim.
    pub claim_access_modes: Vec<String>,
}

/// The action for a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeAction {
    /// It is not saved.
    Skip,
    /// Its files are saved.
    FsBackup,
    /// A snapshot is taken.
    Snapshot {
        /// The way in which it is taken.
        by: SnapshotBy,
        /// The mover of its data; empty for the one of the backup.
        data_mover: String,
        /// The snapshot class; empty for the one that Velero's rules choose.
        snapshot_class: String,
    },
    /// A plugin decides by these parameters.
    Custom(Map<String, Value>),
}

impl VolumeAction {
    /// Its name in a document, such as `snapshot-csi`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::FsBackup => "fs-backup",
            Self::Snapshot { by: SnapshotBy::Any, .. } => "snapshot",
            Self::Snapshot { by: SnapshotBy::Csi, .. } => "snapshot-csi",
            Self::Snapshot { by: SnapshotBy::Native, .. } => "snapshot-native",
            Self::Snapshot { by: SnapshotBy::DataMover, .. } => "snapshot-datamover",
            Self::Custom(_) => "custom",
        }
    }
}

/// The way in which a snapshot is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotBy {
    /// By the volume's CSI driver where it has one and CSI is switched on, else by a snapshotter of a plugin: `snapshot`.
    Any,
    /// By the volume's CSI driver: `snapshot-csi`.
    Csi,
    /// By a snapshotter of a plugin: `snapshot-native`.
    Native,
    /// By the volume's CSI driver, and its data is moved into a repository: `snapshot-datamover`.
    DataMover,
}

/// The policy that says what is done with a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeRule<'a> {
    /// Its place among the policies for volumes of its document, from 1.
    pub number: usize,
    /// The place of that document, such as `ConfigMap velero/policies`; empty when nobody has said it
    /// ([`super::ResourcePolicies::from_source`]).
    pub source: &'a str,
    /// The action that it asks for.
    pub action: &'a VolumeAction,
}

/// A policy for the volumes that meet some conditions.
#[derive(Clone, Debug)]
pub(super) struct VolumePolicy {
    /// Its place in its document, from 1.
    number: usize,
    pub(super) source: Arc<str>,
    conditions: Conditions,
    action: VolumeAction,
}

#[derive(Clone, Debug)]
struct Conditions {
    /// The bounds, from and to; zero is open.
    capacity: Option<(Quantity, Quantity)>,
    storage_class: Vec<String>,
    nfs: Option<Nfs>,
    csi: Option<Csi>,
    volume_types: Vec<String>,
    pvc_labels: BTreeMap<String, String>,
    pvc_phase: Vec<String>,
    pvc_volume_mode: String,
    pvc_access_modes: Vec<String>,
}

/// Findings in a document.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Parts that make no sense.
    pub(super) problems: Vec<String>,
    /// Parts that have no effect.
    pub(super) warnings: Vec<String>,
}

impl VolumePolicy {
    pub(super) fn checked(number: usize, policy: Spanned<DocumentVolumePolicy>, found: &mut Findings) -> Option<Self> {
        let line = line(&policy);
        let DocumentVolumePolicy { conditions, action } = policy.value;
        let mut own = Findings::default();
        let conditions = conditions_of(conditions.unwrap_or_default(), &mut own.problems);
        let action = action_of(action, &mut own);
        let told = |why| format!("volumePolicies[{number}]: {why}{line}");
        found.problems.extend(own.problems.into_iter().map(told));
        found.warnings.extend(own.warnings.into_iter().map(told));
        Some(Self { number: number + 1, source: Arc::default(), conditions, action: action? })
    }

    pub(super) fn rule(&self) -> VolumeRule<'_> {
        VolumeRule { number: self.number, source: &self.source, action: &self.action }
    }

    /// Returns true if the volume meets all conditions.
    pub(super) fn matches(&self, facts: &VolumeFacts) -> bool {
        let of = &self.conditions;
        let any_of = |wanted: &Vec<String>, is: &str| wanted.is_empty() || wanted.iter().any(|one| one == is);
        let set = |modes: &[String]| modes.iter().cloned().collect::<BTreeSet<String>>();
        of.capacity.is_none_or(|(from, to)| is_within(from, to, facts.capacity.unwrap_or(Quantity::ZERO)))
            && any_of(&of.storage_class, &facts.storage_class)
            && of.nfs.as_ref().is_none_or(|wanted| is_nfs(wanted, facts))
            && of.csi.as_ref().is_none_or(|wanted| is_csi(wanted, facts))
            // compat: Velero asks about such a volume of a pod without its claim, as of this type alone.
            && (any_of(&of.volume_types, facts.volume_type)
                || facts.is_ephemeral && any_of(&of.volume_types, EPHEMERAL))
            && of.pvc_labels.iter().all(|(key, value)| facts.claim_labels.get(key) == Some(value))
            && any_of(&of.pvc_phase, &facts.claim_phase)
            && (of.pvc_volume_mode.is_empty() || of.pvc_volume_mode == facts.claim_volume_mode)
            && (of.pvc_access_modes.is_empty()
                || of.pvc_access_modes.len() == facts.claim_access_modes.len()
                    && set(&of.pvc_access_modes) == set(&facts.claim_access_modes))
    }
}

fn conditions_of(written: DocumentConditions, problems: &mut Vec<String>) -> Conditions {
    let DocumentConditions {
        capacity,
        storage_class,
        nfs,
        csi,
        volume_types,
        pvc_labels,
        pvc_phase,
        pvc_volume_mode,
        pvc_access_modes,
    } = written;
    let capacity = capacity.and_then(|text| range(&text).map_err(|why| problems.push(why)).ok());
    if csi.as_ref().is_some_and(|csi| csi.driver.is_empty() && !csi.volume_attributes.is_empty()) {
        problems.push("csi driver should not be empty when filtering by volume attributes".to_owned());
    }
    let modes = std::slice::from_ref(&pvc_volume_mode);
    for (key, given, known) in [
        ("volumeTypes", &volume_types[..], &VOLUME_TYPES[..]),
        ("pvcPhase", &pvc_phase, &PHASES),
        ("pvcVolumeMode", if pvc_volume_mode.is_empty() { &[] } else { modes }, &MODES),
        ("pvcAccessModes", &pvc_access_modes, &ACCESS_MODES),
    ] {
        let unknown = given.iter().filter(|word| !known.contains(&word.as_str()));
        problems.extend(unknown.map(|word| format!("{key}: {word:?} is none of {}", known.join(", "))));
    }
    Conditions {
        capacity,
        storage_class,
        nfs,
        csi,
        volume_types,
        pvc_labels,
        pvc_phase,
        pvc_volume_mode,
        pvc_access_modes,
    }
}

/// A range of sizes such as `10Gi,100Gi`.
fn range(text: &str) -> Result<(Quantity, Quantity), String> {
    let [from, to] = text.split(',').collect::<Vec<_>>()[..] else {
        return Err(format!("wrong format of Capacity {text}"));
    };
    let bound = |bound: &str| match bound.trim() {
        "" => Ok(Quantity::ZERO),
        bound => Quantity::parse(bound).ok_or_else(|| {
            format!(
                "wrong format of Capacity {text} with err quantities must match the regular expression \
                 '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            )
        }),
    };
    let (from, to) = (bound(from)?, bound(to)?);
    if from.exceeds(to) && !to.is_zero() {
        return Err(format!("illegal values for capacity {text}: the upper bound is below the lower one"));
    }
    Ok((from, to))
}

fn is_within(from: Quantity, to: Quantity, size: Quantity) -> bool {
    !from.exceeds(size) && (to.is_zero() || !size.exceeds(to))
}

fn is_nfs(wanted: &Nfs, facts: &VolumeFacts) -> bool {
    let same = |wanted: &String, is: &String| wanted.is_empty() || wanted == is;
    facts.nfs.as_ref().is_some_and(|(server, path)| same(&wanted.server, server) && same(&wanted.path, path))
}

fn is_csi(wanted: &Csi, facts: &VolumeFacts) -> bool {
    let Some((driver, attributes)) = &facts.csi else { return false };
    // compat: an attribute that is absent is the empty text.
    let has = |(key, value): (&String, &String)| attributes.get(key).map_or("", String::as_str) == value.as_str();
    (wanted.driver.is_empty() || wanted.driver == *driver) && wanted.volume_attributes.iter().all(has)
}

fn without_effect(action: &str, parameter: &str) -> String {
    format!("the action {action} has no parameter {parameter:?}, which has no effect")
}

fn action_of(action: DocumentAction, found: &mut Findings) -> Option<VolumeAction> {
    let Findings { problems, warnings } = found;
    let DocumentAction { kind, mut parameters } = action;
    let by = match kind.as_str() {
        "snapshot" => Some(SnapshotBy::Any),
        "snapshot-csi" => Some(SnapshotBy::Csi),
        "snapshot-native" => Some(SnapshotBy::Native),
        "snapshot-datamover" => Some(SnapshotBy::DataMover),
        _ => None,
    };
    if let Some(by) = by {
        let mut text = |key: &str| match parameters.remove(key) {
            None => Some(None),
            Some(Value::String(text)) => Some(Some(text)),
            Some(_) => None,
        };
        let (mover, class) = (text("dataMover"), text("snapshotClass"));
        match &mover {
            Some(Some(mover)) if !DataMover::of(mover).is_of_velero() => {
                problems.push(format!("dataMover: {mover:?} is none of velero, velero-fs, velero-block"));
            }
            None => problems.push("dataMover must be a string".to_owned()),
            Some(_) => {}
        }
        match &class {
            Some(Some(class)) if class.is_empty() => problems.push("snapshotClass must not be empty".to_owned()),
            None => problems.push("snapshotClass must be a string".to_owned()),
            Some(_) => {}
        }
        // Velero accepts what it does not know.
        warnings.extend(parameters.keys().map(|key| without_effect(&kind, key)));
        let (data_mover, snapshot_class) = (mover.flatten().unwrap_or_default(), class.flatten().unwrap_or_default());
        let unused = [
            ("dataMover", &data_mover, matches!(by, SnapshotBy::Csi | SnapshotBy::Native)),
            ("snapshotClass", &snapshot_class, by == SnapshotBy::Native),
        ];
        let unused = unused.into_iter().filter(|(_, value, has_none)| *has_none && !value.is_empty());
        problems.extend(unused.map(|(key, ..)| format!("the action {kind} has no parameter {key:?}")));
        return Some(VolumeAction::Snapshot { by, data_mover, snapshot_class });
    }
    for key in ["dataMover", "snapshotClass"].into_iter().filter(|key| parameters.contains_key(*key)) {
        problems.push(format!("the parameter {key} is for snapshots only"));
    }
    if matches!(kind.as_str(), "skip" | "fs-backup") {
        let known = ["dataMover", "snapshotClass"];
        let unknown = parameters.keys().filter(|key| !known.contains(&key.as_str()));
        warnings.extend(unknown.map(|key| without_effect(&kind, key)));
    }
    match kind.as_str() {
        "skip" => Some(VolumeAction::Skip),
        "fs-backup" => Some(VolumeAction::FsBackup),
        "custom" => Some(VolumeAction::Custom(parameters)),
        other => {
            problems.push(format!("invalid action type {other}"));
            None
        }
    }
}
