//! Steps of maintenance, each with its reason.

use super::schedule::Mode;
use crate::blobs::BlobInfo;
use crate::format::time::UnixNanos;
use crate::maintenance::delays::in_words;
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
    /// Parts of maintenance that are asked for and that this version does not do.
    pub undone: Vec<String>,
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
    /// A single one of them, such as "pack".
    pub thing: &'static str,
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
    /// Deletes index blobs that a merge has replaced.
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
    /// Keeps packs, indexes and the format from deletion for as long as new ones are.
    ExtendLocks {
        /// The nanoseconds for which they are kept from now on.
        period: i64,
    },
    /// Merges the indexes of an epoch into one set.
    MergeEpoch {
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
    MergeEpochs {
        /// The first epoch.
        first: u64,
        /// The last epoch.
        last: u64,
        /// The blobs that are merged.
        blobs: Vec<BlobInfo>,
    },
    /// Merges manifests into one content.
    MergeManifests {
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
            Self::ExtendLocks { .. } => "extend-blob-retention-time",
            Self::MergeEpoch { .. } => "compact-single-epoch",
            Self::AdvanceEpoch { .. } => "advance-epoch",
            Self::MergeEpochs { .. } => "generate-epoch-range-index",
            Self::MergeManifests { .. } => return None,
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

/// The bytes of blobs, as people read them.
fn bytes(blobs: &[BlobInfo]) -> String {
    counted(blobs.iter().map(|blob| blob.length).sum(), "byte", "bytes")
}

/// A number of things, as people read it.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut delete = |blobs: &[BlobInfo], one: &str, many: &str| {
            write!(f, "delete {}, {}", counted(blobs.len() as u64, one, many), bytes(blobs))
        };
        match self {
            Self::DeletePacks { packs, .. } => delete(packs, "pack", "packs"),
            Self::DeleteSessions { markers } => delete(markers, "marker of a session", "markers of sessions"),
            Self::DeleteLogs { logs } => delete(logs, "log", "logs"),
            Self::DeleteIndexes { blobs } => delete(blobs, "index blob", "index blobs"),
            Self::DeleteMarkers { markers } => {
                delete(markers, "marker of an epoch or watermark", "markers of epochs and watermarks")
            }
            Self::Collect { deleted, bytes, undeleted } => {
                let marks = format!(
                    "mark {} deleted, {}",
                    counted(*deleted, "content", "contents"),
                    counted(*bytes, "byte", "bytes")
                );
                let taken_back = format!("take back the marks of {}", counted(*undeleted, "content", "contents"));
                match (deleted, undeleted) {
                    (0, 0) => f.write_str("mark no content deleted"),
                    (_, 0) => f.write_str(&marks),
                    (0, _) => f.write_str(&taken_back),
                    _ => write!(f, "{marks}, and {taken_back}"),
                }
            }
            Self::RaiseWatermark { seconds } => {
                let time = UnixNanos::of_seconds(*seconds);
                write!(f, "drop contents that were marked deleted until {time}")
            }
            Self::ExtendLocks { period } => {
                write!(f, "keep all packs, indexes and the format from deletion for {} from now on", in_words(*period))
            }
            Self::MergeEpoch { epoch, blobs } => {
                write!(f, "merge {} of epoch {epoch}", counted(blobs.len() as u64, "index blob", "index blobs"))
            }
            Self::AdvanceEpoch { to } => write!(f, "begin epoch {to}"),
            Self::MergeEpochs { first, last, blobs } => {
                let blobs = counted(blobs.len() as u64, "index blob", "index blobs");
                write!(f, "merge {blobs} of epochs {first} to {last}")
            }
            Self::MergeManifests { contents } => write!(f, "merge the manifests of {contents} contents into one"),
            Self::Rewrite { packs, bytes } => {
                let packs = counted(packs.len() as u64, "short pack", "short packs");
                write!(f, "rewrite {packs}, {}", counted(*bytes, "byte", "bytes"))
            }
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
        let bytes = counted(self.bytes, "byte", "bytes");
        write!(f, "{}, {bytes}: {}", counted(self.count, self.thing, self.things), self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blobs(count: usize, length: u64) -> Vec<BlobInfo> {
        vec![BlobInfo { name: "p0-s0".to_owned(), length, modified: None }; count]
    }

    #[test]
    fn one_thing_is_said_in_the_singular_and_nothing_to_mark_is_said_so() {
        let collect = |deleted, bytes, undeleted| Action::Collect { deleted, bytes, undeleted };
        for (action, expected) in [
            (Action::DeletePacks { packs: blobs(1, 1), after_watermark: None }, "delete 1 pack, 1 byte"),
            (Action::DeletePacks { packs: blobs(2, 3), after_watermark: None }, "delete 2 packs, 6 bytes"),
            (Action::MergeEpoch { epoch: 3, blobs: blobs(1, 1) }, "merge 1 index blob of epoch 3"),
            (Action::Rewrite { packs: vec![1, 2], bytes: 9 }, "rewrite 2 short packs, 9 bytes"),
            (collect(0, 0, 0), "mark no content deleted"),
            (collect(1, 5, 0), "mark 1 content deleted, 5 bytes"),
            (collect(0, 0, 2), "take back the marks of 2 contents"),
            (collect(3, 5, 1), "mark 3 contents deleted, 5 bytes, and take back the marks of 1 content"),
        ] {
            assert_eq!(action.to_string(), expected);
        }
        let waiting = Waiting { thing: "pack", things: "packs", count: 1, bytes: 2, reason: "it is young" };
        assert_eq!(waiting.to_string(), "1 pack, 2 bytes: it is young");
    }
}
