//! Failures of one entry.

use crate::MoverError;
use lifeboat_kopia::KopiaError;
use rustix::io::Errno;
use std::fmt;

/// The reason for which an entry is not restored or saved as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failed {
    /// The file system refused.
    Io {
        /// The attempted action.
        attempt: &'static str,
        /// The cause.
        source: Errno,
    },
    /// The entry that was listed is there no more: it was deleted, or something else has its name.
    Gone(&'static str),
    /// Anything else.
    Because(String),
}

impl Failed {
    /// Gives errors of the file system the action that was attempted.
    pub(crate) fn to(attempt: &'static str) -> impl Fn(Errno) -> Self {
        move |source| Self::Io { attempt, source }
    }

    /// As [`Failed::to`], for errors of the standard library.
    pub(crate) fn io(attempt: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |e| match Errno::from_io_error(&e) {
            Some(source) => Self::Io { attempt, source },
            None => Self::Because(format!("cannot {attempt}: {e}")),
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { attempt, source } => write!(f, "cannot {attempt}: {}", std::io::Error::from(*source)),
            Self::Gone(why) => f.write_str(why),
            Self::Because(why) => f.write_str(why),
        }
    }
}

/// The reason for which an entry is not saved.
#[derive(Debug)]
pub(crate) enum NotSaved {
    /// A failure of this entry: it is recorded, and the snapshot goes on.
    Entry(Failed),
    /// An error that ends the whole snapshot.
    Snapshot(MoverError),
}

impl From<Failed> for NotSaved {
    fn from(failed: Failed) -> Self {
        Self::Entry(failed)
    }
}

impl From<MoverError> for NotSaved {
    fn from(error: MoverError) -> Self {
        Self::Snapshot(error)
    }
}

impl From<KopiaError> for NotSaved {
    fn from(error: KopiaError) -> Self {
        Self::Snapshot(error.into())
    }
}

/// True for errors that every other entry would have as well.
pub(crate) fn is_target_wide(error: Errno) -> bool {
    matches!(error, Errno::NOSPC | Errno::DQUOT | Errno::ROFS | Errno::MFILE | Errno::NFILE)
}

/// True where space is the matter.
pub(crate) fn is_no_space(error: &std::io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOSPC | Errno::DQUOT))
}
