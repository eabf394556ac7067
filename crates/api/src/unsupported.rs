//! The parts of Velero that this version does not have, each with its one text.

use crate::UploaderType;

/// A part of Velero that this version does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnsupportedPart {
    /// Repositories of restic, into which older servers of Velero have saved the files of volumes.
    Restic,
    /// Changed block tracking, by which a mover reads only what has changed since the snapshot before.
    ChangedBlockTracking,
    /// Movers on Windows nodes.
    WindowsMovers,
}

impl UnsupportedPart {
    /// All of them, in the order of the page `docs/supported.md`.
    pub const ALL: [Self; 3] = [Self::Restic, Self::ChangedBlockTracking, Self::WindowsMovers];

    /// The part, as it stands in a sentence.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Restic => "a repository of restic",
            Self::ChangedBlockTracking => "changed block tracking",
            Self::WindowsMovers => "movers on Windows nodes",
        }
    }

    /// The part with the reason why nothing comes of it.
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            Self::Restic => "a repository of restic, which node agents neither read nor write",
            Self::ChangedBlockTracking => {
                "changed block tracking, which this version does not use: it reads whole volumes"
            }
            Self::WindowsMovers => "movers on Windows nodes, for which this version has no image",
        }
    }

    /// The next step of a user whose backup was made by the part.
    #[must_use]
    pub fn next_of_restore(self) -> &'static str {
        match self {
            Self::Restic => UploaderType::RESTIC_NEXT_STEP,
            Self::ChangedBlockTracking => "nothing: what was saved with it comes back whole",
            Self::WindowsMovers => "restore it to Linux nodes, or with Velero",
        }
    }

    /// The next step of a user who asks for a backup by the part.
    #[must_use]
    pub fn next_of_backup(self) -> &'static str {
        match self {
            Self::Restic => "set --uploader-type=kopia at the server",
            Self::ChangedBlockTracking => "leave it out: data that has not changed is not stored again",
            Self::WindowsMovers => "save such volumes by CSI snapshots that stay in the storage",
        }
    }
    /// The reason against a restore from what the part has written, with the next step.
    #[must_use]
    pub fn refusal_of_restore(self) -> String {
        format!("its data comes from {}: {}", self.why(), self.next_of_restore())
    }

    /// The reason against a backup that asks for the part, with the next step.
    #[must_use]
    pub fn refusal_of_backup(self) -> String {
        format!("it asks for {}: {}", self.why(), self.next_of_backup())
    }
}
