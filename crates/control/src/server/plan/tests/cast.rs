//! Random worlds: what is in them, and how lucky it is.

use crate::world::MirroredKind;
use lifeboat_api::{
    BackupPhase, BackupRepositoryPhase, BackupStorageLocationPhase, DeleteBackupRequestPhase, DownloadRequestPhase,
    RestorePhase, SchedulePhase, ServerStatusRequestPhase,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// The state of the steps of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Luck {
    Good,
    /// So many fail.
    Bad(u32),
    /// All fail, and nothing is changed.
    None,
    /// All fail, but what says that the work begins is written.
    NoneInTheMiddle,
    /// With so many the server dies, and the next one knows nothing of them but what is written.
    Lost(u32),
    /// The first one hangs for an hour, and then the server is killed.
    Hangs,
}

#[derive(Clone, Debug)]
pub(super) struct Thing<P> {
    pub(super) phase: Option<P>,
    pub(super) luck: Luck,
    /// Seconds that one of its steps takes.
    pub(super) takes: u64,
    pub(super) cancelled: bool,
    pub(super) deleted: bool,
    /// Which backup, location or namespace it names.
    pub(super) names: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Cast {
    pub(super) backups: Vec<Thing<BackupPhase>>,
    pub(super) restores: Vec<Thing<RestorePhase>>,
    pub(super) locations: Vec<Thing<BackupStorageLocationPhase>>,
    pub(super) deletions: Vec<Thing<DeleteBackupRequestPhase>>,
    pub(super) downloads: Vec<Thing<DownloadRequestPhase>>,
    pub(super) statuses: Vec<Thing<ServerStatusRequestPhase>>,
    /// Kind, phase, luck of objects that cannot be read, and whether they were deleted.
    pub(super) unreadable: Vec<(MirroredKind, &'static str, Luck, bool)>,
    /// Schedules; a cancelled one is a paused schedule.
    pub(super) schedules: Vec<Thing<SchedulePhase>>,
    /// Repositories; a cancelled one is of restic.
    pub(super) repositories: Vec<Thing<BackupRepositoryPhase>>,
    pub(super) concurrent: usize,
}

fn luck() -> impl Strategy<Value = Luck> {
    prop_oneof![
        3 => Just(Luck::Good),
        1 => (1u32..9).prop_map(Luck::Bad),
        1 => Just(Luck::None),
        1 => Just(Luck::NoneInTheMiddle),
        1 => (1u32..3).prop_map(Luck::Lost),
        1 => Just(Luck::Hangs),
    ]
}

fn thing<P: Clone + std::fmt::Debug + 'static>(phases: &[P]) -> impl Strategy<Value = Thing<P>> + use<P> {
    let phase = option::weighted(0.7, select(phases.to_vec()));
    let flags = (prop::bool::weighted(0.15), prop::bool::weighted(0.1));
    (phase, luck(), 1u64..200, flags, 0usize..4).prop_map(|(phase, luck, takes, (cancelled, deleted), names)| Thing {
        phase,
        luck,
        takes,
        cancelled,
        deleted,
        names,
    })
}

pub(super) fn cast() -> impl Strategy<Value = Cast> {
    use BackupPhase as B;
    use RestorePhase as R;
    let backups = [
        B::New,
        B::Queued,
        B::ReadyToStart,
        B::InProgress,
        B::WaitingForPluginOperations,
        B::Finalizing,
        B::FinalizingPartiallyFailed,
        B::Completed,
        B::Deleting,
    ];
    let restores = [
        R::New,
        R::InProgress,
        R::WaitingForPluginOperations,
        R::Finalizing,
        R::FinalizingPartiallyFailed,
        R::Completed,
    ];
    let kind = select(vec![
        MirroredKind::Backup,
        MirroredKind::Restore,
        MirroredKind::BackupStorageLocation,
        MirroredKind::Schedule,
    ]);
    let phase = select(vec!["", "New", "Queued", "InProgress", "Available"]);
    (
        vec(thing(&backups), 0..9),
        vec(thing(&restores), 0..7),
        vec(thing(&[BackupStorageLocationPhase::Available, BackupStorageLocationPhase::Unavailable]), 0..4),
        vec(thing(&[DeleteBackupRequestPhase::New, DeleteBackupRequestPhase::InProgress]), 0..5),
        vec(thing(&[DownloadRequestPhase::New]), 0..3),
        vec(thing(&[ServerStatusRequestPhase::New]), 0..3),
        vec((kind, phase, luck(), any::<bool>()), 0..3),
        (
            1usize..4,
            vec(thing(&[SchedulePhase::Enabled, SchedulePhase::FailedValidation]), 0..3),
            vec(
                thing(&[BackupRepositoryPhase::New, BackupRepositoryPhase::Ready, BackupRepositoryPhase::NotReady]),
                0..4,
            ),
        ),
    )
        .prop_map(|(backups, restores, locations, deletions, downloads, statuses, unreadable, rest)| Cast {
            backups,
            restores,
            locations,
            deletions,
            downloads,
            statuses,
            unreadable,
            concurrent: rest.0,
            schedules: rest.1,
            repositories: rest.2,
        })
}
