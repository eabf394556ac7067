//! Says in words why something is done with a volume, and what would have to change.

use crate::verdict::{Blocker, FilePod, Method, MethodReason, NoPod, NoSnapshot, Verdict};
use std::borrow::Cow;

/// The ways of saving in which Velero's record of skipped volumes says why it did not
/// (velero: pkg/backup/pv_skip_tracker.go).
const ANY: &str = "any";
const FILES: &str = "podvolume";
const SNAPSHOT: &str = "volumeSnapshot";
const CSI: &str = "csiSnapshot";

impl Verdict {
    /// The reason, as the end of a sentence.
    #[must_use]
    pub fn reason(&self) -> String {
        if let MethodReason::Group { because, value, trouble } = &self.why {
            let (because, _) = because.words();
            return match self.method {
                Method::Skip => format!("{because}, but the group {value} cannot be snapshotted: {}", trouble.why),
                _ => format!(
                    "{because}; by itself, because the group {value} cannot be snapshotted: {} (volumeGroupFallback is single)",
                    trouble.why
                ),
            };
        }
        if let MethodReason::NoClass { because, driver, trouble } = &self.why {
            let (because, _) = because.words();
            return format!("{because}, but no VolumeSnapshotClass of the driver {driver} is chosen: {}", trouble.why);
        }
        let (why, blocker) = self.why.words();
        match (blocker, &self.method) {
            (Some(blocker), _) => format!("{why}, but {}", blocker.words()),
            (None, Method::FsBackup { through: FilePod::Reader(no_pod) }) => {
                format!("{why}; by a reader pod, because {}", no_pod.words())
            }
            (None, _) => why.into_owned(),
        }
    }

    /// The rule, the annotation or the default that decided, as the end of a sentence, without what follows from it.
    #[must_use]
    pub fn rule(&self) -> String {
        self.why.words().0.into_owned()
    }

    /// The reason for the record of a skipped volume, in Velero's form `approach: reason;`
    /// (velero: pkg/backup/pv_skip_tracker.go).
    #[must_use]
    pub fn skipped_reason(&self) -> String {
        let approach = match &self.why {
            MethodReason::Policy { action: "fs-backup", .. }
            | MethodReason::Annotation { .. }
            | MethodReason::FsBackupByDefault { .. }
            | MethodReason::FsBackupOfUnmounted { .. }
            | MethodReason::NotAskedFor => FILES,
            MethodReason::Policy { action: "skip" | "custom", .. }
            | MethodReason::NotBound { .. }
            | MethodReason::CameLate
            | MethodReason::VolumeUnread { .. } => ANY,
            MethodReason::Policy { .. } | MethodReason::SnapshotByDefault { .. } | MethodReason::NoSnapshots => {
                SNAPSHOT
            }
            MethodReason::Group { .. } | MethodReason::NoClass { .. } => CSI,
        };
        format!("{approach}: {};", self.reason())
    }

    /// The change that would have the data saved; `None` when it is.
    #[must_use]
    pub fn advice(&self) -> Option<String> {
        if self.method != Method::Skip {
            return None;
        }
        let (_, blocker) = self.why.words();
        if let Some(blocker) = blocker {
            return Some(blocker.advice().to_owned());
        }
        Some(match &self.why {
            MethodReason::Policy { number, source, .. } => {
                format!("change the rule {number} of {}, or put a rule before it", named(source))
            }
            MethodReason::NoSnapshots => {
                "leave out --snapshot-volumes=false, or let a policy ask for a snapshot".to_owned()
            }
            MethodReason::NotAskedFor => {
                "list the volume in the annotation backup.velero.io/backup-volumes of the pod, or let a policy ask for \
                 fs-backup"
                    .to_owned()
            }
            MethodReason::NotBound { .. } => "let the claim be bound: without a volume it has no data".to_owned(),
            MethodReason::CameLate => "include it in the backup by its namespace and type".to_owned(),
            MethodReason::VolumeUnread { volume } => {
                format!("let the backup read the PersistentVolume {volume}: it may be missing, or denied")
            }
            MethodReason::NoClass { trouble, .. } => trouble.advice.to_owned(),
            MethodReason::Group { trouble, .. } => format!(
                "{}; or let each claim be snapshotted by itself, at different moments (--volume-group-fallback=single)",
                trouble.advice
            ),
            MethodReason::Annotation { .. }
            | MethodReason::FsBackupByDefault { .. }
            | MethodReason::FsBackupOfUnmounted { .. }
            | MethodReason::SnapshotByDefault { .. } => return None,
        })
    }
}

fn named(source: &str) -> &str {
    if source.is_empty() { "the resource policies" } else { source }
}

impl MethodReason {
    fn words(&self) -> (Cow<'_, str>, Option<Blocker>) {
        match self {
            Self::Policy { number, source, action, blocker } => {
                (format!("the rule {number} of {} says {action}", named(source)).into(), *blocker)
            }
            Self::Annotation { pod, blocker } => {
                (format!("the pod {pod} lists it in the annotation backup.velero.io/backup-volumes").into(), *blocker)
            }
            Self::FsBackupByDefault { pod, blocker } => {
                let why = format!(
                    "files are saved by default (defaultVolumesToFsBackup), and the pod {pod} does not opt out of it"
                );
                (why.into(), *blocker)
            }
            Self::FsBackupOfUnmounted { no_snapshot } => {
                let why = format!(
                    "files are saved by default (defaultVolumesToFsBackup), and no snapshot of it is taken: {}",
                    no_snapshot.words()
                );
                (why.into(), None)
            }
            Self::SnapshotByDefault { blocker } => ("snapshots are taken by default".into(), *blocker),
            Self::NoSnapshots => {
                ("the backup asks for no snapshots (snapshotVolumes is false), and no pod for its files".into(), None)
            }
            Self::NotAskedFor => ("it has no claim, and its pod does not ask for its files".into(), None),
            Self::NotBound { phase } => (format!("the claim is not bound, it is {phase}").into(), None),
            Self::CameLate => {
                ("an action of a plugin brought it into the backup after the snapshots were decided about".into(), None)
            }
            Self::VolumeUnread { volume } => (format!("its volume {volume} is not known").into(), None),
            Self::NoClass { driver, trouble, .. } => {
                (format!("no VolumeSnapshotClass of the driver {driver} is chosen: {}", trouble.why).into(), None)
            }
            Self::Group { value, trouble, .. } => {
                (format!("the group {value} cannot be snapshotted: {}", trouble.why).into(), None)
            }
        }
    }
}

impl NoPod {
    /// The reason, as the end of a sentence.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::NotMounted => "no pod mounts it",
            Self::NoneRuns => "no pod that mounts it runs",
        }
    }
}

impl NoSnapshot {
    fn words(&self) -> Cow<'_, str> {
        match self {
            Self::NotWanted => "the backup asks for none (snapshotVolumes is false)".into(),
            Self::Blocked(blocker) => blocker.words().into(),
            Self::NoClass { driver, trouble } => {
                format!("no VolumeSnapshotClass of the driver {driver} is chosen: {}", trouble.why).into()
            }
        }
    }
}

impl Blocker {
    fn words(self) -> &'static str {
        match self {
            Self::ClaimsLeftOut => "claims are left out of the backup, and a restore finds files by them",
            Self::CsiIsOff => "it is of a CSI driver, and the feature EnableCSI is off",
            Self::NeitherCsiNorSnapshotter => {
                "it is of a CSI driver, the feature EnableCSI is off, and no volume snapshot location is there"
            }
            Self::NoSnapshotApi => "the cluster serves no VolumeSnapshots",
            Self::NotCsi => "it is of no CSI driver",
            Self::NoSnapshotter => "no applicable volumesnapshotter found: there is no volume snapshot location",
            Self::NotMounted => NoPod::NotMounted.words(),
            Self::NoPodRuns => NoPod::NoneRuns.words(),
            Self::Device => "it is used as a block device, which has no files",
            Self::HostPath => "it is a path of the node",
            Self::NoClaim => "its claim is not in the backup, and CSI drivers take snapshots of claims",
            Self::Custom => "only a plugin that knows these parameters acts on it",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::ClaimsLeftOut => "include persistentvolumeclaims in the backup",
            Self::CsiIsOff => "start the server with --features=EnableCSI",
            Self::NeitherCsiNorSnapshotter => {
                "start the server with --features=EnableCSI, or add a volume snapshot location whose plugin knows this storage"
            }
            Self::NoSnapshotApi => {
                "install the definitions of snapshot.storage.k8s.io, the snapshot-controller, and the csi-snapshotter of the driver"
            }
            Self::NotCsi => "let a policy ask for fs-backup, or move the data to a volume of a CSI driver",
            Self::NoSnapshotter => {
                "add a volume snapshot location whose plugin knows this storage, or let a policy ask for fs-backup"
            }
            Self::NotMounted => "include its claim in the backup, or let a policy ask for a snapshot",
            Self::NoPodRuns => "include its claim in the backup, where it has one, or let a pod that mounts it run",
            Self::Device => "let a policy ask for a snapshot",
            Self::HostPath => "save it by other means: it lies on the node itself",
            Self::NoClaim => "include its claim in the backup",
            Self::Custom => "add a plugin that acts on it, or change the rule",
        }
    }
}
