//! The two blobs of a new repository (kopia: repo/initialize.go).

use super::blob::FormatBlob;
use super::blob_config::{Retention, seal_blob_config};
use super::document;
use super::parameters::{EpochParameters, MAX_VERSION, RepositoryFormat};
use crate::crypto::aead::{CipherAlgorithm, NONCE_LENGTH};
use crate::crypto::derive::PasswordKdf;
use crate::crypto::hash::HashAlgorithm;
use crate::crypto::secret::{Password, Secret};
use crate::format::FormatError;
use crate::format::time::{HOUR, MINUTE};
use crate::splitter::SplitterAlgorithm;

const TOOL: &str = "https://github.com/kopia/kopia";
const PACK_SIZES: std::ops::RangeInclusive<u64> = 10 << 20..=120 << 20;

impl EpochParameters {
    /// The parameters of new repositories.
    pub fn enabled() -> Self {
        Self {
            enabled: true,
            epoch_refresh_frequency: 20 * MINUTE,
            full_checkpoint_frequency: 7,
            cleanup_safety_margin: 4 * HOUR,
            min_epoch_duration: 24 * HOUR,
            epoch_advance_on_count_threshold: 20,
            epoch_advance_on_total_size_bytes_threshold: 10 << 20,
            delete_parallelism: 4,
        }
    }

    fn check(&self) -> Result<(), &'static str> {
        if !self.enabled {
            return Ok(());
        }
        let refreshes = self.epoch_refresh_frequency.saturating_mul(3);
        let rules = [
            (self.min_epoch_duration >= 10 * MINUTE, "an epoch lasts ten minutes at least"),
            (refreshes <= self.min_epoch_duration, "an epoch lasts three times the refresh frequency at least"),
            (self.full_checkpoint_frequency > 0, "the checkpoint frequency is above 0"),
            (
                refreshes <= self.cleanup_safety_margin,
                "the safety margin is three times the refresh frequency at least",
            ),
            (self.epoch_advance_on_count_threshold >= 10, "an epoch has ten indexes at least"),
            (self.epoch_advance_on_total_size_bytes_threshold >= 1 << 20, "an epoch has 1 MiB of indexes at least"),
        ];
        rules.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, rule)| Err(*rule))
    }
}

/// The parameters of a repository that is to be made. The default is that of Velero and of kopia.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRepository {
    /// The function that makes a key of the password.
    pub kdf: PasswordKdf,
    /// The hash of contents.
    pub hash: HashAlgorithm,
    /// The encryption.
    pub encryption: CipherAlgorithm,
    /// The percentage of error correction; 0 for none. Version 1 has none.
    pub ecc_overhead_percent: u8,
    /// 1 to 3. Version 1 has indexes of version 1, no epochs, and a password that cannot change.
    pub version: u32,
    /// The size at which a pack is finished.
    pub max_pack_size: u64,
    /// The parameters of epochs; version 1 has none.
    pub epochs: EpochParameters,
    /// The name of the splitter.
    pub splitter: String,
    /// The object lock.
    pub retention: Option<Retention>,
}

impl Default for NewRepository {
    fn default() -> Self {
        Self {
            kdf: PasswordKdf::default(),
            hash: HashAlgorithm::default(),
            encryption: CipherAlgorithm::default(),
            ecc_overhead_percent: 0,
            version: MAX_VERSION,
            max_pack_size: document::DEFAULT_MAX_PACK_SIZE,
            epochs: EpochParameters::enabled(),
            splitter: "DYNAMIC-4M-BUZHASH".to_owned(),
            retention: None,
        }
    }
}

/// Random bytes for a new repository, from the caller.
pub struct FormatRandom {
    /// The name of the repository.
    pub unique_id: [u8; 32],
    /// The key of the hashes.
    pub secret: [u8; 32],
    /// The key from which all others are made.
    pub master_key: [u8; 32],
    /// The nonce of the format.
    pub format_nonce: [u8; NONCE_LENGTH],
    /// The nonce of `kopia.blobcfg`.
    pub config_nonce: [u8; NONCE_LENGTH],
}

/// The blobs of a new repository. `kopia.blobcfg` is put first: a repository exists when it has `kopia.repository`.
#[derive(Debug, Clone)]
pub struct RepositoryBlobs {
    /// The bytes of `kopia.blobcfg`.
    pub blob_config: Vec<u8>,
    /// The bytes of `kopia.repository`.
    pub format_blob: Vec<u8>,
    /// The format, as opening it would give it.
    pub format: RepositoryFormat,
}

/// Makes the blobs of a new repository.
///
/// # Errors
/// Parameters that kopia refuses.
pub fn create_format(
    new: &NewRepository,
    password: &Password,
    random: &FormatRandom,
) -> Result<RepositoryBlobs, FormatError> {
    check(new).map_err(|why| FormatError::new("parameters of a new repository", why))?;
    let format_key = new.kdf.derive(password, &random.unique_id)?;
    let is_first_version = new.version == 1;
    let format = RepositoryFormat {
        unique_id: random.unique_id.to_vec(),
        format_key,
        hash: new.hash,
        encryption: new.encryption,
        ecc_overhead_percent: if is_first_version { 0 } else { new.ecc_overhead_percent },
        secret: Secret::new(random.secret.to_vec()),
        master_key: Secret::new(random.master_key.to_vec()),
        version: new.version,
        max_pack_size: new.max_pack_size,
        index_version: if is_first_version { 1 } else { 2 },
        epochs: if is_first_version { EpochParameters::default() } else { new.epochs.clone() },
        enable_password_change: !is_first_version,
        splitter: new.splitter.clone(),
        upgrade_lock: None,
        warnings: Vec::new(),
    };
    let mut blob = FormatBlob {
        tool: TOOL.to_owned(),
        build_version: concat!("lifeboat-", env!("CARGO_PKG_VERSION")).to_owned(),
        build_info: String::new(),
        unique_id: format.unique_id.clone(),
        kdf: new.kdf,
        encrypted: Vec::new(),
    };
    blob.seal(&format.format_key, random.format_nonce, &document::write(&format))?;
    Ok(RepositoryBlobs {
        blob_config: seal_blob_config(&format, random.config_nonce, new.retention.as_ref())?,
        format_blob: blob.write(),
        format,
    })
}

fn check(new: &NewRepository) -> Result<(), String> {
    if !(1..=MAX_VERSION).contains(&new.version) {
        return Err(format!("version {} of the format is not known", new.version));
    }
    if !PACK_SIZES.contains(&new.max_pack_size) {
        return Err("packs have 10 MiB to 120 MiB".to_owned());
    }
    if new.ecc_overhead_percent > 100 {
        return Err("error correction takes 100 % at most".to_owned());
    }
    SplitterAlgorithm::parse(&new.splitter).map_err(|error| error.to_string())?;
    new.epochs.check().map_err(str::to_owned)
}
