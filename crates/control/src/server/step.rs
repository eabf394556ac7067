//! The steps that can be done with an object.

use super::key::Key;
use crate::unreadable_step;
use crate::work;
use crate::world::{Leftover, MirroredKind, Unreadable};
use lifeboat_api::{
    Backup, BackupRepository, BackupStorageLocation, DeleteBackupRequest, DownloadRequest, Restore, Schedule,
    ServerStatusRequest,
};
use lifeboat_lifecycle::phase::{self, request};

/// A step of one object.
#[derive(Debug)]
pub(super) struct KeyedStep {
    pub(super) key: Key,
    pub(super) step: ServerStep,
}

/// A step for an object, with the facts about the rest of the world that it needs.
#[derive(Debug)]
pub(super) enum ServerStep {
    /// For an object that cannot be read; the location is that of its files.
    Unreadable(MirroredKind, Box<Unreadable>, unreadable_step::Step, Option<BackupStorageLocation>),
    Mark {
        location: BackupStorageLocation,
        default: bool,
    },
    /// With what a sync needs, when the location is synced too.
    Validate(BackupStorageLocation, Option<work::sync::SyncFacts>),
    Sync(BackupStorageLocation, work::sync::SyncFacts),
    Sweep(Leftover),
    Queue(Box<Backup>, phase::queue::QueueMove),
    Backup(Box<Backup>, Box<work::backup::BackupTarget>, phase::backup::Step),
    Restore(Box<Restore>, Box<work::restore::RestoreSource>, phase::restore::Step),
    Delete(DeleteBackupRequest, Box<work::deletion::DeletionTarget>, request::Step),
    Download(DownloadRequest, work::download::RequestedFile, request::Step),
    Status(ServerStatusRequest, request::Step),
    Schedule(Box<Schedule>, phase::schedule::Step),
    /// For a backup whose time is over, or that something keeps, with its location, when there is one.
    Expire(Box<Backup>, Option<Box<BackupStorageLocation>>, phase::expiry::Step),
    /// With its location, when there is one.
    Repository(Box<BackupRepository>, Option<Box<BackupStorageLocation>>, phase::repository::Step),
    /// With its location.
    Maintain(Box<BackupRepository>, Box<BackupStorageLocation>),
}
