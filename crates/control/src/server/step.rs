//! The steps that can be done with an object.

use super::key::Key;
use crate::phase::{self, request};
use crate::work;
use crate::world::{Kind, Left, Unreadable};
use lifeboat_api::{
    Backup, BackupStorageLocation, DeleteBackupRequest, DownloadRequest, Restore, Schedule, ServerStatusRequest,
};

/// A step of one object.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) key: Key,
    pub(super) step: Step,
}

/// A step for an object, with the facts about the rest of the world that it needs.
#[derive(Debug)]
pub(super) enum Step {
    /// For an object that cannot be read; the location is that of its files.
    Unreadable(Kind, Box<Unreadable>, phase::unreadable::Step, Option<BackupStorageLocation>),
    Mark {
        location: BackupStorageLocation,
        default: bool,
    },
    /// With what a sync needs, when the location is synced too.
    Validate(BackupStorageLocation, Option<work::sync::Known>),
    Sync(BackupStorageLocation, work::sync::Known),
    Sweep(Left),
    Queue(Box<Backup>, phase::queue::Move),
    Backup(Box<Backup>, Box<work::backup::Target>, phase::backup::Step),
    Restore(Box<Restore>, Box<work::restore::Source>, phase::restore::Step),
    Delete(DeleteBackupRequest, Box<work::deletion::Target>, request::Step),
    Download(DownloadRequest, work::download::Target, request::Step),
    Status(ServerStatusRequest, request::Step),
    Schedule(Box<Schedule>, phase::schedule::Step),
    /// For a backup whose time is over, or that something keeps, with its location, when there is one.
    Expire(Box<Backup>, Option<Box<BackupStorageLocation>>, phase::expiry::Step),
}
