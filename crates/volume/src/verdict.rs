//! Verdicts on volumes, with their reasons.

use crate::class::ClassTrouble;
use lifeboat_api::{BackupSpec, DataMover, Features, VolumeGroupFallback};

/// The settings of the backup and the server for all volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// True when volumes are snapshotted unless something else decides: `spec.snapshotVolumes` is not false.
    pub snapshots: bool,
    /// True when the data of CSI snapshots is moved: `spec.snapshotMoveData`.
    pub moves_data: bool,
    /// The mover of the data: `spec.datamover`; empty for the built-in one.
    pub data_mover: String,
    /// True when files are saved from within the node unless a pod opts out: `spec.defaultVolumesToFsBackup`.
    pub fs_backup_by_default: bool,
    /// True when CSI drivers take snapshots: the feature `EnableCSI`.
    pub csi: bool,
    /// True when the cluster serves VolumeSnapshots.
    pub serves_snapshots: bool,
    /// True when plugins can take snapshots: there is a volume snapshot location.
    pub native: bool,
    /// True when claims are saved at all; where they are not, no pod can ask for the files of one.
    pub saves_claims: bool,
    /// The label whose value joins claims that are snapshotted together: `spec.volumeGroupSnapshotLabelKey`; empty for none.
    pub group_label: String,
    /// True when the cluster serves VolumeGroupSnapshots.
    pub serves_groups: bool,
    /// True when claims that cannot be snapshotted together have snapshots by themselves: `spec.volumeGroupFallback`.
    pub falls_back: bool,
    /// The movers that are there.
    pub movers: BackupMovers,
}

/// The movers of data that the environment of a backup has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupMovers {
    /// True when a server makes the backup, so that movers can be asked by resources beside its Backup.
    pub are_asked: bool,
    /// True when a node agent is there.
    pub has_node_agent: bool,
    /// True when it is ready on no node. It may come up while the backup runs.
    pub is_unready: bool,
}

/// A mover that is needed and not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MissingMover {
    /// The node agent.
    NodeAgent,
    /// A server, which alone asks the data movers of others.
    Server,
}

impl MissingMover {
    /// The reason for which nothing moves the data, as the end of a sentence.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::NodeAgent => {
                "no node agent is there that does it (`install --use-node-agent`; `local backup` has none)"
            }
            Self::Server => "a server alone asks the data movers of others (`local backup` asks none)",
        }
    }

    /// The change that would have the data saved.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Self::NodeAgent => "bring a node agent into the cluster (`install --use-node-agent`)",
            Self::Server => "let a server make the backup",
        }
    }
}

impl BackupMovers {
    /// The number of volumes, of which these are the methods, that wait for a node agent because it is ready on no node.
    #[must_use]
    pub fn waiting<'a>(&self, methods: impl Iterator<Item = &'a Method>) -> u64 {
        let without = Self { has_node_agent: false, ..*self };
        let needs = |method: &&Method| without.lack_of(method) == Some(MissingMover::NodeAgent);
        if self.has_node_agent && self.is_unready { methods.filter(needs).count() as u64 } else { 0 }
    }

    /// The mover that this method needs and that is missing.
    #[must_use]
    pub fn lack_of(self, method: &Method) -> Option<MissingMover> {
        match method {
            Method::MovedCsiSnapshot { data_mover, .. } if !DataMover::of(data_mover).is_of_velero() => {
                (!self.are_asked).then_some(MissingMover::Server)
            }
            Method::MovedCsiSnapshot { .. } | Method::FsBackup { .. } => {
                (!self.has_node_agent).then_some(MissingMover::NodeAgent)
            }
            Method::NativeSnapshot | Method::CsiSnapshot { .. } | Method::Skip => None,
        }
    }
}

impl Flags {
    /// Returns true if the files of claims are saved that no pod mounts and of which no snapshot is taken.
    #[must_use]
    pub fn saves_unmounted_files(&self) -> bool {
        self.fs_backup_by_default && self.saves_claims
    }

    /// The flags of a backup whose defaults are filled in, on a server with these features. `serves_snapshots`,
    /// `native`, `saves_claims`, `serves_groups` and `movers` are not known from these.
    #[must_use]
    pub fn of(spec: &BackupSpec, features: Features) -> Self {
        Self {
            snapshots: spec.snapshot_volumes != Some(false),
            moves_data: spec.snapshot_move_data == Some(true),
            data_mover: spec.data_mover.clone(),
            fs_backup_by_default: spec.default_volumes_to_fs_backup == Some(true),
            csi: features.csi,
            serves_snapshots: false,
            native: false,
            saves_claims: true,
            group_label: spec.volume_group_snapshot_label_key.clone(),
            serves_groups: false,
            falls_back: spec.volume_group_fallback == Some(VolumeGroupFallback::Single),
            movers: BackupMovers::default(),
        }
    }
}

/// The decision about a volume, and the one reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The decision.
    pub method: Method,
    /// The reason.
    pub why: MethodReason,
}

impl Verdict {
    /// Returns true if a snapshot was to be taken and it is known before that it cannot be, which is an error of its
    /// claim.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.method == Method::Skip && matches!(self.why, MethodReason::Group { .. } | MethodReason::NoClass { .. })
    }
}

/// The way in which the data of a volume is saved, if at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Method {
    /// A plugin takes a snapshot by the provider's API.
    NativeSnapshot,
    /// The CSI driver takes a snapshot, which stays in its storage.
    CsiSnapshot {
        /// The snapshot class that a policy names; empty for none. Not that of a group.
        class: String,
        /// The claims with which it is taken at one moment; `None` when it is taken by itself.
        group: Option<Group>,
    },
    /// The CSI driver takes a snapshot, and a mover carries its data into a repository.
    MovedCsiSnapshot {
        /// The snapshot class that a policy names; empty for none.
        class: String,
        /// The mover; empty for the one that is built in.
        data_mover: String,
        /// The claims with which the snapshot is taken at one moment; `None` when it is taken by itself.
        group: Option<Group>,
    },
    /// A mover carries the files into a repository, from within the node of a pod.
    FsBackup {
        /// The pod.
        through: FilePod,
    },
    /// None of its data is saved.
    Skip,
}

/// The pod through which a node agent reads the files of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilePod {
    /// A pod that runs and mounts the volume.
    Mounting {
        /// The pod.
        pod: String,
        /// The name of the volume in the pod.
        volume: String,
    },
    /// A reader pod, which the backup makes for this reason.
    Reader(NoPod),
}

/// The reason for which no pod is there from whose node the files of a claim can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPod {
    /// No pod mounts it.
    NotMounted,
    /// No pod that mounts it runs.
    NoneRuns,
}

/// The reason for which no snapshot is taken of a claim that no pod mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSnapshot {
    /// The backup wants no snapshots.
    NotWanted,
    /// None can be taken, for this reason.
    Blocked(Blocker),
    /// No class is chosen for its driver.
    NoClass {
        /// The CSI driver.
        driver: String,
        /// The reason for which none is chosen.
        trouble: ClassTrouble,
    },
}

/// The claims of a namespace that are snapshotted together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The value of the label that they have in common.
    pub value: String,
    /// The VolumeGroupSnapshotClass; empty as long as it was decided about each claim alone.
    pub class: String,
}

/// The reason for which claims cannot be snapshotted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTrouble {
    /// The reason, as the end of a sentence.
    pub why: String,
    /// The change that would help.
    pub advice: &'static str,
}

/// The snapshot that a CSI driver takes, whatever becomes of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverSnapshot<'a> {
    /// The snapshot class; empty where none is chosen yet, and for a member of a group.
    pub class: &'a str,
    /// The claims with which it is taken at one moment; `None` when it is taken by itself.
    pub group: Option<&'a Group>,
    /// The mover of its data, which is empty for the one that is built in; `None` when the data stays in the storage.
    pub data_mover: Option<&'a str>,
}

impl Method {
    /// Returns true if it needs a mover.
    #[must_use]
    pub fn needs_mover(&self) -> bool {
        matches!(self, Self::MovedCsiSnapshot { .. } | Self::FsBackup { .. })
    }

    /// The snapshot that a CSI driver takes for it; `None` when none does.
    #[must_use]
    pub fn driver_snapshot(&self) -> Option<DriverSnapshot<'_>> {
        let (class, group, data_mover) = match self {
            Self::CsiSnapshot { class, group } => (class, group, None),
            Self::MovedCsiSnapshot { class, data_mover, group } => (class, group, Some(data_mover.as_str())),
            Self::NativeSnapshot | Self::FsBackup { .. } | Self::Skip => return None,
        };
        Some(DriverSnapshot { class, group: group.as_ref(), data_mover })
    }

    /// A short description, such as `CSI snapshot`.
    #[must_use]
    pub fn describe(&self) -> String {
        if let Some(snapshot) = self.driver_snapshot() {
            return snapshot.describe();
        }
        match self {
            Self::NativeSnapshot => "native snapshot".to_owned(),
            Self::FsBackup { through: FilePod::Mounting { pod, volume } } => {
                format!("file system backup from the pod {pod} (volume {volume})")
            }
            Self::FsBackup { through: FilePod::Reader(_) } => "file system backup by a reader pod".to_owned(),
            Self::CsiSnapshot { .. } | Self::MovedCsiSnapshot { .. } | Self::Skip => "nothing".to_owned(),
        }
    }
}

impl DriverSnapshot<'_> {
    fn describe(&self) -> String {
        let of_class = match (self.group, self.class) {
            (Some(Group { value, class }), _) if class.is_empty() => format!(" with the group {value}"),
            (Some(Group { value, class }), _) => format!(" with the group {value}, of the class {class}"),
            (None, "") => String::new(),
            (None, class) => format!(" of the class {class}"),
        };
        match self.data_mover {
            None => format!("CSI snapshot{of_class}"),
            Some("") => format!("CSI snapshot{of_class} whose data is moved"),
            Some(mover) => format!("CSI snapshot{of_class} whose data {mover} moves"),
        }
    }
}

/// The reason for a decision about a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MethodReason {
    /// A policy says so.
    Policy {
        /// Its place among the policies for volumes of its document, from 1.
        number: usize,
        /// The place of that document.
        source: String,
        /// The action of the policy.
        action: &'static str,
        /// The reason for which the action cannot be done.
        blocker: Option<Blocker>,
    },
    /// The annotation of a pod lists it.
    Annotation {
        /// The pod.
        pod: String,
        /// The reason for which its files cannot be saved.
        blocker: Option<Blocker>,
    },
    /// Files are saved by default, and this pod mounts it and does not opt out.
    FsBackupByDefault {
        /// The pod.
        pod: String,
        /// The reason for which its files cannot be saved.
        blocker: Option<Blocker>,
    },
    /// Files are saved by default, no pod mounts it, and no snapshot is taken of it.
    FsBackupOfUnmounted {
        /// The reason for which none is taken.
        no_snapshot: NoSnapshot,
    },
    /// Snapshots are taken of all volumes that nothing else is said of.
    SnapshotByDefault {
        /// The reason for which none can be taken.
        blocker: Option<Blocker>,
    },
    /// The backup wants no snapshots, and no pod asks for its files.
    NoSnapshots,
    /// A volume of a pod, without a claim: no pod asks for its files.
    NotAskedFor,
    /// The claim has no volume.
    NotBound {
        /// Its phase.
        phase: String,
    },
    /// An action brought it into the backup after it was decided about snapshots.
    CameLate,
    /// The volume that the claim names could not be read.
    VolumeUnread {
        /// Its name.
        volume: String,
    },
    /// It should be snapshotted, and no class is chosen for its driver.
    NoClass {
        /// The reason to snapshot it.
        because: Box<MethodReason>,
        /// The CSI driver.
        driver: String,
        /// The reason for which none is chosen.
        trouble: ClassTrouble,
    },
    /// It should be snapshotted with others, and cannot be: it is not at all, or by itself where the backup allows that.
    Group {
        /// The reason to snapshot it.
        because: Box<MethodReason>,
        /// The name of its group.
        value: String,
        /// The reason for which the group cannot be snapshotted.
        trouble: GroupTrouble,
    },
}

/// The reason for which a volume's data cannot be saved in the way that was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// It is of a CSI driver, and the feature `EnableCSI` is off.
    CsiIsOff,
    /// The same, and no plugin takes native snapshots either.
    NeitherCsiNorSnapshotter,
    /// The cluster serves no VolumeSnapshots.
    NoSnapshotApi,
    /// It is of no CSI driver.
    NotCsi,
    /// No plugin takes native snapshots: there is no volume snapshot location.
    NoSnapshotter,
    /// No pod mounts it, and its claim is not known, which a reader pod would mount.
    NotMounted,
    /// No pod that mounts it runs, and its claim is not known.
    NoPodRuns,
    /// It is used as a block device, which has no files.
    Device,
    /// It is a path of the node.
    HostPath,
    /// Its claim is not in the backup, and snapshots of CSI drivers are taken of claims.
    NoClaim,
    /// Claims are left out of the backup, and a restore finds files by them.
    ClaimsLeftOut,
    /// A plugin is to act on it.
    Custom,
}
