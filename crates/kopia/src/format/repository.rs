//! The format blob `kopia.repository` and `kopia.blobcfg` (kopia: repo/format).

use super::FormatError;
use crate::crypto::{CipherAlgorithm, HashAlgorithm, Password, Secret};

/// The parameters of a repository, decrypted.
#[derive(Debug, Clone)]
pub struct RepositoryFormat {
    /// 32 random bytes that name the repository.
    pub unique_id: Vec<u8>,
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

/// The parameters of epochs. Durations are nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// The lock of an upgrade. It binds clients as the corrections say (A.7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpgradeLock {
    /// The owner.
    pub owner: String,
    /// The beginning.
    pub created: super::time::UnixNanos,
    /// Notice in nanoseconds.
    pub advance_notice: i64,
    /// The time after which all others are taken for gone, in nanoseconds.
    pub io_drain_timeout: i64,
    /// The most by which clocks may differ, in nanoseconds.
    pub max_clock_drift: i64,
    /// The message for people.
    pub message: String,
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

/// Opens `kopia.repository` with the password. Derives the key by the function that the blob names, which takes a large
/// part of a second and 64 MiB on purpose.
///
/// # Errors
/// A wrong password, what is not known, what is no format.
pub fn open_format(blob: &[u8], password: &Password) -> Result<RepositoryFormat, OpenFormatError> {
    todo!()
}
