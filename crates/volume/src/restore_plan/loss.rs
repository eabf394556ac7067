//! Reasons why the data of a volume does not come back, in words.

/// A method of saving data by which this version brings nothing back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnsupportedMethod {
    /// The files of the volume are in a repository: a pod volume backup.
    FsBackup,
    /// The data of a CSI snapshot was moved into a repository.
    DataMovement,
}

impl UnsupportedMethod {
    /// The name of what the data is in.
    fn name(self) -> &'static str {
        match self {
            Self::FsBackup => "pod volume backup",
            Self::DataMovement => "CSI snapshot that was moved into a repository",
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
    /// The user wants no volumes from snapshots.
    NotWanted,
    /// It was saved by a method that this version cannot carry out.
    Unsupported(UnsupportedMethod),
}

impl Loss {
    /// Returns true if a claim is held back rather than made empty: the backup was to have its data.
    #[must_use]
    pub fn holds_back(self) -> bool {
        matches!(self, Self::NotTaken | Self::Unsupported(_))
    }

    /// Describes the reason why the data of one volume is lost.
    #[must_use]
    pub fn why(self) -> String {
        match self {
            Self::NotSaved => {
                "its data was not saved, and its storage was deleted with it (reclaim policy Delete)".to_owned()
            }
            Self::NotTaken => "its snapshot was not taken when the backup was made".to_owned(),
            Self::WithClaim => "its data comes with its claim, which is not part of this restore".to_owned(),
            Self::NotWanted => "the restore leaves volumes out (restorePVs is false)".to_owned(),
            Self::Unsupported(how) => format!("its data is in a {}, which this version cannot read", how.name()),
        }
    }

    /// The same of many, without a subject.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotSaved | Self::NotTaken => "was not saved",
            Self::WithClaim => "comes with claims that are not part of this restore",
            Self::NotWanted => "was not asked for",
            Self::Unsupported(_) => "is in a form that this version cannot read",
        }
    }
}
