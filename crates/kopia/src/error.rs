//! Errors of this room.

use lifeboat_bucket::BucketError;

/// An error of reading, writing or maintaining a repository. Messages name blobs, contents and paths, never keys or
/// passwords.
#[derive(Debug, thiserror::Error)]
pub enum KopiaError {
    /// The bucket did not answer as needed; the class of the error is the bucket's.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// The location holds no repository.
    #[error("{location} holds no kopia repository: there is no blob kopia.repository")]
    NotARepository {
        /// The location, as its store describes itself.
        location: String,
    },
    /// The password opens nothing.
    #[error("the password does not open the repository in {location}")]
    WrongPassword {
        /// The location, as its store describes itself.
        location: String,
    },
    /// The repository asks for something that this build does not know.
    #[error("the repository needs {what}, which this version cannot read")]
    Unsupported {
        /// The feature, algorithm or version, in the repository's own word.
        what: String,
    },
    /// Another program is about to change the format.
    #[error("the repository is being upgraded by {owner}: {message}")]
    UpgradeInProgress {
        /// The owner of the lock.
        owner: String,
        /// The message that the owner has left.
        message: String,
    },
    /// A blob, a content or a document does not hold what it should.
    #[error("{what} is damaged: {why}")]
    Damaged {
        /// The blob, content, object or manifest.
        what: String,
        /// The reason.
        why: String,
    },
    /// An index blob, or the log of a compaction of some, does not hold what it should: nobody can say what is in the
    /// repository.
    #[error("{what} is damaged: {why}")]
    DamagedIndex {
        /// The blob.
        what: String,
        /// The reason.
        why: String,
    },
    /// There are packs whose indexes were written, and no index blob that counts.
    #[error(
        "the indexes of the repository in {location} are lost: it has packs, such as {pack}, and no index blob that counts; \
         restore the deleted index blobs from an older version of the objects, or from a copy of the bucket"
    )]
    LostIndexes {
        /// The location, as its store describes itself.
        location: String,
        /// A pack.
        pack: String,
    },
    /// Something that is referred to is not there.
    #[error("{what} is missing in the repository")]
    Missing {
        /// The content, object, manifest or snapshot.
        what: String,
    },
    /// A text of the user fits nothing, or more than one thing.
    #[error("no snapshot is chosen by {text:?}: {why}")]
    NotChosen {
        /// The text.
        text: String,
        /// The reason, with the candidates.
        why: String,
    },
    /// A place where a repository should be made holds one.
    #[error("{location} holds a kopia repository already: open it, or choose another place")]
    RepositoryExists {
        /// The location, as its store describes itself.
        location: String,
    },
    /// A place where a repository should be made is not empty.
    #[error("{location} holds other data, such as {key:?}: a repository is made only in an empty place")]
    NotEmpty {
        /// The location, as its store describes itself.
        location: String,
        /// The first key.
        key: String,
    },
    /// Something that is not done, because it would harm the repository or could not be read again.
    #[error("cannot {attempt}: {why}")]
    Refused {
        /// The attempted action, with its object.
        attempt: String,
        /// The reason, and the way out.
        why: String,
    },
    /// An object that is longer than its listing can say.
    #[error("it is longer than an object of this repository can be: it would have more than {most} pieces")]
    TooLong {
        /// The most pieces.
        most: u64,
    },
    /// The scratch space failed.
    #[error("{attempt} in the scratch space {path}: {source}")]
    Scratch {
        /// The attempted action, such as "write an index".
        attempt: &'static str,
        /// The file or folder.
        path: std::path::PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Maintenance may not run, or not go on.
    #[error("maintenance was stopped: {why}")]
    NotMaintained {
        /// The reason, and the way out.
        why: String,
    },
    /// Maintenance may not run beside another run.
    #[error("maintenance was stopped: {why}")]
    MaintainedByOthers {
        /// The last sign of life of that run, and the way out.
        why: String,
    },
    /// Maintenance was not run, because somebody else owns it, or nobody.
    #[error("maintenance was not run: {}", why_not_owner(.owner, .identity))]
    NotOwner {
        /// The owner; empty where there is none.
        owner: String,
        /// The `user@host` that has asked for it.
        identity: String,
    },
    /// The caller has asked to stop.
    #[error("the operation was cancelled")]
    Cancelled,
}

fn why_not_owner(owner: &str, identity: &str) -> String {
    match owner {
        "" => format!("nobody owns it, and only an owner may, such as {identity}"),
        owner => format!("{owner} owns it, not {identity}"),
    }
}

impl KopiaError {
    /// Returns true where the bucket did not answer, or asked to slow down, for as long as it was tried: a later attempt may
    /// succeed.
    #[must_use]
    pub fn is_bucket_unavailable(&self) -> bool {
        matches!(self, Self::Bucket(error) if error.is_retryable())
    }

    /// An error that says the same, for each of several things that failed together. The cause below is told once.
    pub fn repeat(&self) -> Self {
        match self {
            Self::Bucket(error) => Self::Bucket(BucketError {
                kind: error.kind,
                operation: error.operation,
                key: error.key.clone(),
                store: error.store.clone(),
                message: error.message.clone(),
                source: None,
            }),
            Self::NotARepository { location } => Self::NotARepository { location: location.clone() },
            Self::WrongPassword { location } => Self::WrongPassword { location: location.clone() },
            Self::Unsupported { what } => Self::Unsupported { what: what.clone() },
            Self::UpgradeInProgress { owner, message } => {
                Self::UpgradeInProgress { owner: owner.clone(), message: message.clone() }
            }
            Self::Damaged { what, why } => Self::Damaged { what: what.clone(), why: why.clone() },
            Self::DamagedIndex { what, why } => Self::DamagedIndex { what: what.clone(), why: why.clone() },
            Self::LostIndexes { location, pack } => {
                Self::LostIndexes { location: location.clone(), pack: pack.clone() }
            }
            Self::Missing { what } => Self::Missing { what: what.clone() },
            Self::NotChosen { text, why } => Self::NotChosen { text: text.clone(), why: why.clone() },
            Self::RepositoryExists { location } => Self::RepositoryExists { location: location.clone() },
            Self::NotEmpty { location, key } => Self::NotEmpty { location: location.clone(), key: key.clone() },
            Self::Refused { attempt, why } => Self::Refused { attempt: attempt.clone(), why: why.clone() },
            Self::TooLong { most } => Self::TooLong { most: *most },
            Self::Scratch { attempt, path, source } => Self::Scratch {
                attempt,
                path: path.clone(),
                source: std::io::Error::new(source.kind(), source.to_string()),
            },
            Self::NotMaintained { why } => Self::NotMaintained { why: why.clone() },
            Self::MaintainedByOthers { why } => Self::MaintainedByOthers { why: why.clone() },
            Self::NotOwner { owner, identity } => Self::NotOwner { owner: owner.clone(), identity: identity.clone() },
            Self::Cancelled => Self::Cancelled,
        }
    }

    /// True for an error that concerns the one thing that was read, not the bucket or this machine.
    pub(crate) fn concerns_one(&self) -> bool {
        match self {
            Self::Damaged { .. } | Self::Missing { .. } | Self::Unsupported { .. } => true,
            Self::Bucket(error) => error.is_not_found(),
            _ => false,
        }
    }

    /// An error of something that is not done.
    pub(crate) fn refused(attempt: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self::Refused { attempt: attempt.into(), why: why.to_string() }
    }

    /// An error of something whose bytes do not have their form.
    pub(crate) fn damaged(what: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self::Damaged { what: what.into(), why: why.to_string() }
    }
}
