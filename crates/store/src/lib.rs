//! A storage location seen as backups and restores.
//!
//! [`Store`] lists, claims, publishes, opens, verifies and deletes backups in a bucket; [`BackupWriter`] is one being
//! written, [`Archive`] one being read. Nothing of a backup counts before `velero-backup.json` is there, and that is
//! put last. This room is the one bridge between the synchronous codecs of `archive` and asynchronous storage.
//!
//! Start reading at [`Store`].

mod archive;
mod archive_cache;
mod bridge;
mod change;
mod conditional_puts;
mod content;
mod error;
mod if_absent;
mod kept_files;
mod notes;
mod open;
mod probe;
mod reading_restores;
mod refresh;
mod repository_snapshots;
mod restore_claim;
mod rewrite;
mod rows;
mod store;
mod stored;
mod stream;
mod transcode;
mod usable;
mod verify;
mod write;

pub use archive::{Archive, ArchiveItem, Contents};
pub use archive_cache::ArchiveCache;
pub use conditional_puts::ConditionalPuts;
pub use content::Content;
pub use error::StoreError;
pub use open::OpenOptions;
pub use probe::ProbeResult;
pub use reading_restores::ReadingRestore;
pub use repository_snapshots::SnapshotList;
pub use restore_claim::{BackupReading, RestoreFiles, RestoreOwner};
pub use rewrite::{NewObject, Rewrite};
pub use rows::ArchiveRows;
pub use store::{BackupSummary, Store};
pub use stream::{Broken, ReceiverGone, StreamReceiver, StreamSender, stream};
pub use usable::UsableBackups;
pub use verify::{Verification, VerifyProblem};
pub use write::{BackupWriter, ClaimOutcome, ClaimRequest, Sealed};
