//! The parameters of a repository as values.

use crate::crypto::aead::CipherAlgorithm;
use crate::crypto::derive::{KEY_LENGTH, expand};
use crate::crypto::hash::HashAlgorithm;
use crate::crypto::secret::Secret;
use crate::format::FormatError;
use crate::format::time::UnixNanos;

/// The newest version of the format that is read and written.
pub const MAX_VERSION: u32 = 3;

/// The parameters of a repository, decrypted.
#[derive(Debug, Clone)]
pub struct RepositoryFormat {
    /// 32 random bytes that name the repository.
    pub unique_id: Vec<u8>,
    /// The key that is made of the password.
    pub format_key: Secret,
    /// The hash of contents and of blob names.
    pub hash: HashAlgorithm,
    /// The encryption of contents and blobs.
    pub encryption: CipherAlgorithm,
    /// The percentage of error correction; 0 for none.
    pub ecc_overhead_percent: u8,
    /// The key of the hashes.
    pub secret: Secret,
    /// The key from which all others are made.
    pub master_key: Secret,
    /// 1 to 3.
    pub version: u32,
    /// The size at which a pack is finished.
    pub max_pack_size: u64,
    /// The version of indexes: 1 or 2.
    pub index_version: u8,
    /// The parameters of epochs.
    pub epochs: EpochParameters,
    /// True where keys come from the master key, not from the password, and packs have no replica of the format.
    pub enable_password_change: bool,
    /// The name of the splitter.
    pub splitter: String,
    /// The lock of an upgrade.
    pub upgrade_lock: Option<UpgradeLock>,
    /// Warnings of required features that are not known and need not be.
    pub warnings: Vec<String>,
}

impl RepositoryFormat {
    /// The key of `kopia.maintenance`.
    ///
    /// # Errors
    /// None for the lengths that are used here.
    pub fn maintenance_key(&self) -> Result<Secret, FormatError> {
        let key = if self.enable_password_change { &self.master_key } else { &self.format_key };
        expand(key.as_bytes(), &self.unique_id, b"maintenance schedule", KEY_LENGTH)
    }
}

/// The parameters of epochs. Durations are nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the format's own names")]
pub struct EpochParameters {
    pub enabled: bool,
    pub epoch_refresh_frequency: i64,
    pub full_checkpoint_frequency: i64,
    pub cleanup_safety_margin: i64,
    pub min_epoch_duration: i64,
    pub epoch_advance_on_count_threshold: i64,
    pub epoch_advance_on_total_size_bytes_threshold: i64,
    pub delete_parallelism: i64,
}

/// The lock of an upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UpgradeLock {
    /// The owner.
    pub owner: String,
    /// The beginning.
    pub created: UnixNanos,
    /// Notice in nanoseconds.
    pub advance_notice: i64,
    /// The time after which all others are taken for gone, in nanoseconds.
    pub io_drain_timeout: i64,
    /// The time between two looks at the format, in nanoseconds.
    pub status_poll_interval: i64,
    /// The message for people.
    pub message: String,
    /// The most by which clocks may differ, in nanoseconds.
    pub max_clock_drift: i64,
}

impl UpgradeLock {
    /// True where all but the owner must keep away from the repository at `now`. A lock without notice, or with less than
    /// others need to go away, binds at once; another from the end of its notice on, less that time.
    pub fn binds_at(&self, now: UnixNanos) -> bool {
        let drain = self.io_drain_timeout.saturating_mul(2).saturating_add(self.max_clock_drift);
        if self.advance_notice < drain {
            return true;
        }
        let begin = self.created.0.saturating_add(self.advance_notice.saturating_sub(drain));
        now.0 >= begin
    }
}

/// An error of opening the format.
#[derive(Debug, thiserror::Error)]
pub enum OpenFormatError {
    /// The password does not open it.
    #[error("the password is wrong")]
    WrongPassword,
    /// An algorithm, version or feature that is not known.
    #[error("{0} is not known")]
    Unsupported(String),
    /// Other bytes than a format.
    #[error(transparent)]
    Format(#[from] FormatError),
}
