//! Steps of maintenance, each with its reason.

use super::schedule::Mode;
use crate::blobs::BlobInfo;
use crate::format::time::UnixNanos;
use std::fmt;

/// The steps of a run in their order, and what keeps others from it. Later steps do not need that earlier ones succeed,
/// but for those that say so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The kind of maintenance.
    pub mode: Mode,
    /// The time of the storage by which it was made.
    pub now: UnixNanos,
    /// The steps.
    pub steps: Vec<Step>,
    /// The reasons for which contents and packs are not looked at: something that may refer to contents cannot be read.
    pub blockers: Vec<String>,
    /// Unreferenced things that stay for now: how many, and the reason.
    pub waiting: Vec<Waiting>,
}

/// A step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The action.
    pub action: Action,
    /// The reason.
    pub reason: String,
}

/// Unreferenced things that stay for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Things such as "packs".
    pub things: &'static str,
    /// Their number.
    pub count: u64,
    /// Their bytes as they are stored.
    pub bytes: u64,
    /// The reason.
    pub reason: &'static str,
}

/// An action. Those that need no new blob come first in a plan, so that they can be performed in a full bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Deletes packs that no entry refers to.
    DeletePacks {
        /// The packs.
        packs: Vec<BlobInfo>,
        /// The watermark that must have been reached before, where deletions that it drops were the last references.
        after_watermark: Option<u64>,
    },
    /// Deletes markers of sessions that nobody has ended.
    DeleteSessions {
        /// The markers.
        markers: Vec<BlobInfo>,
    },
    /// Deletes logs.
    DeleteLogs {
        /// The logs.
        logs: Vec<BlobInfo>,
    },
    /// Deletes index blobs that a compaction has replaced.
    DeleteIndexes {
        /// The index blobs.
        blobs: Vec<BlobInfo>,
    },
    /// Deletes markers of epochs and old watermarks.
    DeleteMarkers {
        /// The markers.
        markers: Vec<BlobInfo>,
    },
    /// Marks contents deleted that nothing refers to, and takes back the mark of those that something refers to again.
    Collect {
        /// The contents that are marked.
        deleted: u64,
        /// Their stored bytes.
        bytes: u64,
        /// The contents whose mark is taken back.
        undeleted: u64,
    },
    /// Drops deletions up to this second.
    RaiseWatermark {
        /// The Unix second.
        seconds: u64,
    },
    /// Merges the indexes of an epoch into one set.
    CompactEpoch {
        /// The epoch.
        epoch: u64,
        /// The blobs that are merged.
        blobs: Vec<BlobInfo>,
    },
    /// Begins an epoch.
    AdvanceEpoch {
        /// The epoch that begins.
        to: u64,
    },
    /// Merges the indexes of several epochs into one set.
    CompactRange {
        /// The first epoch.
        first: u64,
        /// The last epoch.
        last: u64,
        /// The blobs that are merged.
        blobs: Vec<BlobInfo>,
    },
    /// Merges manifests into one content.
    CompactManifests {
        /// The contents that are merged.
        contents: u64,
    },
    /// Copies the live contents of short packs into new ones.
    Rewrite {
        /// The numbers of the packs in the index set.
        packs: Vec<u32>,
        /// The stored bytes of their live contents.
        bytes: u64,
    },
}

impl Action {
    /// The task under which kopia records it; `None` for one that kopia has no name for.
    pub fn task(&self, mode: Mode) -> Option<&'static str> {
        let is_full = mode == Mode::Full;
        Some(match self {
            Self::DeletePacks { .. } | Self::DeleteSessions { .. } if is_full => "full-delete-blobs",
            Self::DeletePacks { .. } | Self::DeleteSessions { .. } => "quick-delete-blobs",
            Self::DeleteLogs { .. } => "cleanup-logs",
            Self::DeleteIndexes { .. } => "delete-superseded-epoch-indexes",
            Self::DeleteMarkers { .. } => "cleanup-epoch-markers",
            Self::Collect { .. } => "snapshot-gc",
            Self::RaiseWatermark { .. } => "full-drop-deleted-content",
            Self::CompactEpoch { .. } => "compact-single-epoch",
            Self::AdvanceEpoch { .. } => "advance-epoch",
            Self::CompactRange { .. } => "generate-epoch-range-index",
            Self::CompactManifests { .. } => return None,
            Self::Rewrite { .. } if is_full => "full-rewrite-contents",
            Self::Rewrite { .. } => "quick-rewrite-contents",
        })
    }

    /// The blobs that it deletes.
    pub fn deleted_blobs(&self) -> &[BlobInfo] {
        match self {
            Self::DeletePacks { packs: blobs, .. }
            | Self::DeleteSessions { markers: blobs }
            | Self::DeleteLogs { logs: blobs }
            | Self::DeleteIndexes { blobs }
            | Self::DeleteMarkers { markers: blobs } => blobs,
            _ => &[],
        }
    }
}

/// The bytes of blobs.
fn bytes(blobs: &[BlobInfo]) -> u64 {
    blobs.iter().map(|blob| blob.length).sum()
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut delete =
            |blobs: &[BlobInfo], things: &str| write!(f, "delete {} {things}, {} bytes", blobs.len(), bytes(blobs));
        match self {
            Self::DeletePacks { packs, .. } => delete(packs, "packs"),
            Self::DeleteSessions { markers } => delete(markers, "markers of sessions"),
            Self::DeleteLogs { logs } => delete(logs, "logs"),
            Self::DeleteIndexes { blobs } => delete(blobs, "index blobs"),
            Self::DeleteMarkers { markers } => delete(markers, "markers of epochs and watermarks"),
            Self::Collect { deleted, bytes, undeleted } => {
                write!(f, "mark {deleted} contents deleted, {bytes} bytes, and take back {undeleted} such marks")
            }
            Self::RaiseWatermark { seconds } => {
                let time = UnixNanos(i64::try_from(*seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000_000));
                write!(f, "drop contents that were marked deleted until {time}")
            }
            Self::CompactEpoch { epoch, blobs } => {
                write!(f, "merge the {} index blobs of epoch {epoch}", blobs.len())
            }
            Self::AdvanceEpoch { to } => write!(f, "begin epoch {to}"),
            Self::CompactRange { first, last, blobs } => {
                write!(f, "merge the {} index blobs of epochs {first} to {last}", blobs.len())
            }
            Self::CompactManifests { contents } => write!(f, "merge the manifests of {contents} contents into one"),
            Self::Rewrite { packs, bytes } => write!(f, "rewrite {} short packs, {bytes} bytes", packs.len()),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.action, self.reason)
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}, {} bytes: {}", self.count, self.things, self.bytes, self.reason)
    }
}
