//! Errors of a storage location.

use crate::stream::Broken;
use lifeboat_archive::index::IndexError;
use lifeboat_archive::sidecar::SidecarError;
use lifeboat_archive::{PathError, ReadError};
use lifeboat_bucket::{BucketError, ErrorKind};

/// An operation on backups in a bucket that failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The bucket did not do it.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// There is no such backup.
    #[error("backup {name:?} not found in {place}: no {key}")]
    NoBackup {
        /// Its name.
        name: String,
        /// The location where it was looked for.
        place: String,
        /// The missing key.
        key: String,
    },
    /// The record in the folder of a backup is that of another one: somebody has copied or renamed the folder.
    #[error(
        "{key} is the record of the backup {name:?}: the files of a backup count only in the folder of its own name; \
         put them back into that one, or remove this one"
    )]
    OtherRecord {
        /// The key of the record.
        key: String,
        /// The name of the backup whose record it is.
        name: String,
        /// The UID of that backup.
        uid: String,
    },
    /// The name is taken by another backup.
    #[error("backup already exists in object storage: {name:?} in {place} has UID {uid}; choose another name")]
    NameTaken {
        /// The name.
        name: String,
        /// Where.
        place: String,
        /// UID of the backup that has it.
        uid: String,
    },
    /// Another writer has begun a backup of this name and not ended it.
    #[error(
        "backup {name:?} in {place} is claimed by another run (backup UID {uid}, since {since}): wait until it ends, \
         choose another name, or take it over with --take-over when you know that it died"
    )]
    Claimed {
        /// The name.
        name: String,
        /// Where.
        place: String,
        /// UID in the claim.
        uid: String,
        /// The time when it was claimed.
        since: String,
    },
    /// The name of a restore is taken by a restore of another cluster or server, whose files lie there.
    #[error(
        "the name {name:?} is taken in {place} by another restore (of cluster {cluster}, restore UID {uid}, since {since}), whose results \
         and log lie there; nothing was restored: choose another name, or give each cluster a prefix of its own in the bucket"
    )]
    RestoreNameTaken {
        /// The name.
        name: String,
        /// Where.
        place: String,
        /// UID of the cluster that has it.
        cluster: String,
        /// UID of the Restore that has it.
        uid: String,
        /// The time when it was claimed.
        since: String,
    },
    /// Another run has claimed the name while this one wrote.
    #[error("backup {name:?} in {place} was taken over by another run meanwhile: nothing of this one counts")]
    TakenOver {
        /// The name.
        name: String,
        /// Where.
        place: String,
    },
    /// A file that was stored is not there as it was stored.
    #[error("{key} is not what was stored: {problem}; back up again")]
    Altered {
        /// Its key.
        key: String,
        /// The difference.
        problem: String,
    },
    /// A file of the backup cannot be read.
    #[error("cannot read {key}: it {source}")]
    Sidecar {
        /// Its key.
        key: String,
        /// The reason.
        source: SidecarError,
    },
    /// The archive is damaged or refused.
    #[error("cannot read the archive {key}")]
    Archive {
        /// Its key.
        key: String,
        /// The reason.
        #[source]
        source: ReadError,
    },
    /// An entry is not the object its path names.
    #[error("the archive {key} is refused")]
    Disagrees {
        /// Its key.
        key: String,
        /// The reason.
        #[source]
        source: PathError,
    },
    /// The archive does not match its index.
    #[error("the archive {key} cannot be read through its index")]
    Index {
        /// Its key.
        key: String,
        /// The reason.
        #[source]
        source: IndexError,
    },
    /// Scratch space on this machine.
    #[error("cannot use scratch space in {place}")]
    Scratch {
        /// Where.
        place: String,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// A name that cannot be a folder in the bucket.
    #[error("{0:?} is not a valid name: it must be a lower case RFC 1123 subdomain (letters, digits, '-' and '.')")]
    InvalidName(String),
    /// A value of ours cannot be written as JSON.
    #[error("cannot encode {0}")]
    Encode(&'static str, #[source] serde_json::Error),
    /// The archive was not read to the end of what was asked for.
    #[error("of {asked} objects that were asked for, the archive {key} gave {got}: nothing is known of the others")]
    Missing {
        /// Its key.
        key: String,
        /// The number of objects that were asked for.
        asked: usize,
        /// The number of objects that came.
        got: usize,
    },
    /// The operation ends early, and nothing more is read.
    #[error("the reading was stopped, because the operation ends early")]
    Stopped,
    /// A thread that worked for us died.
    #[error("a worker thread died while {0}")]
    Worker(&'static str),
}

impl StoreError {
    /// Gives the JSON of a value that is to be stored, or an error that names the value.
    ///
    /// # Errors
    /// [`StoreError::Encode`].
    pub fn encoded(what: &'static str, bytes: Result<Vec<u8>, serde_json::Error>) -> Result<Vec<u8>, Self> {
        bytes.map_err(|e| Self::Encode(what, e))
    }

    /// Returns true if the stored bytes are at fault: no later attempt reads them better.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        !matches!(self, Self::Bucket(_) | Self::Scratch { .. } | Self::Stopped | Self::Worker(_))
    }

    /// Returns true if the bucket may give it later by itself: it did not answer, or had no time, for as long as it was
    /// tried.
    #[must_use]
    pub fn can_pass(&self) -> bool {
        matches!(self, Self::Bucket(e) if e.is_retryable())
    }

    /// Returns true if the bucket does not do it, however often it is asked: credentials that may only read, a file
    /// system that is read-only or full.
    #[must_use]
    pub fn is_refused_for_good(&self) -> bool {
        let is_final =
            |kind| matches!(kind, ErrorKind::Denied | ErrorKind::Unsupported | ErrorKind::Invalid | ErrorKind::Other);
        matches!(self, Self::Bucket(e) if is_final(e.kind))
    }
}

impl From<Broken> for StoreError {
    fn from(Broken(what): Broken) -> Self {
        Self::Worker(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bucket_that_is_away_comes_back_by_itself() {
        let bucket = |kind| {
            let (key, store, message) = (String::new(), String::new(), String::new());
            StoreError::from(BucketError { kind, operation: "get", key, store, message, source: None })
        };
        for (error, can_pass, is_for_good) in [
            (bucket(ErrorKind::Transient), true, false),
            (bucket(ErrorKind::Throttled), true, false),
            (bucket(ErrorKind::Denied), false, true),
            (bucket(ErrorKind::Unsupported), false, true),
            // Such as a disk that is full.
            (bucket(ErrorKind::Other), false, true),
            (bucket(ErrorKind::NotFound), false, false),
            (bucket(ErrorKind::Exists), false, false),
            (StoreError::Stopped, false, false),
            (StoreError::InvalidName("A".to_owned()), false, false),
        ] {
            assert_eq!((error.can_pass(), error.is_refused_for_good()), (can_pass, is_for_good), "{error:?}");
        }
    }
}
