//! Reasons why the data of a volume does not come back, in words.

use lifeboat_api::UnsupportedPart;

/// A method of saving data by which a restore brings nothing back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnsupportedMethod {
    /// The files of the volume are in a repository of kopia, and no node agent is there.
    FsBackup,
    /// The data of a CSI snapshot, or of a claim that a reader pod has held, was moved into a repository, and no node agent is there.
    DataMovement,
    /// The files of the volume are in a repository of restic.
    Restic,
}

impl UnsupportedMethod {
    /// The place of the data, and the reason why it does not come from there, after "in".
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            Self::FsBackup => "a pod volume backup, and no node agent is there that brings its files back",
            Self::DataMovement => "a repository, to which it was moved, and no node agent is there that brings it back",
            Self::Restic => UnsupportedPart::Restic.why(),
        }
    }

    /// The next step of the user.
    #[must_use]
    pub fn next(self) -> &'static str {
        match self {
            Self::FsBackup | Self::DataMovement => {
                "install the node agent (install --use-node-agent) and make another Restore for the server"
            }
            Self::Restic => UnsupportedPart::Restic.next_of_restore(),
        }
    }
}

/// The reason why the data of a volume is not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// It was not saved, and its storage was deleted with the volume.
    NotSaved,
    /// Its snapshot failed when the backup was made, or belongs to another claim.
    NotTaken,
    /// Its data comes with its claim, which is not part of the restore.
    WithClaim,
    /// Its files come with a pod that mounts it, and no such pod is part of the restore.
    WithPod,
    /// The user wants no volumes from snapshots.
    NotWanted,
    /// It was saved by a method that this version cannot carry out.
    Unsupported(UnsupportedMethod),
}

impl Loss {
    /// Returns true if a claim is held back rather than made empty: the backup was to have its data.
    #[must_use]
    pub fn holds_back(self) -> bool {
        matches!(self, Self::NotTaken | Self::WithPod | Self::Unsupported(_))
    }

    /// Describes the reason why the data of one volume is lost.
    #[must_use]
    pub fn why(self) -> String {
        match self {
            Self::NotSaved => {
                "its data was not saved, and its storage was deleted with it (reclaim policy Delete)".to_owned()
            }
            Self::NotTaken => "its data was not saved when the backup was made".to_owned(),
            Self::WithClaim => "its data comes with its claim, which is not part of this restore".to_owned(),
            Self::NotWanted => "the restore leaves volumes out (restorePVs is false)".to_owned(),
            Self::WithPod => "its data is in a pod volume backup and comes with a pod that mounts it, and no such pod is part of this \
                              restore"
                .to_owned(),
            Self::Unsupported(how) => format!("its data is in {}", how.why()),
        }
    }

    /// The same of many, without a subject.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotSaved | Self::NotTaken => "was not saved",
            Self::WithClaim => "comes with claims that are not part of this restore",
            Self::WithPod => "comes with pods that are not part of this restore",
            Self::NotWanted => "was not asked for",
            Self::Unsupported(UnsupportedMethod::Restic) => "is in repositories of restic",
            Self::Unsupported(_) => "is in a repository, and no node agent is there",
        }
    }

    /// The next step of the user.
    #[must_use]
    pub fn next(self) -> &'static str {
        match self {
            Self::Unsupported(how) => how.next(),
            Self::WithPod => "restore the pod too",
            _ => "restore it from another backup",
        }
    }
}
