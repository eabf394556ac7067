//! The encrypted document of the format.

use super::blob::read_base64;
use super::parameters::{EpochParameters, MAX_VERSION, OpenFormatError, RepositoryFormat, UpgradeLock};
use crate::crypto::aead::CipherAlgorithm;
use crate::crypto::hash::HashAlgorithm;
use crate::crypto::secret::Secret;
use crate::format::FormatError;
use crate::format::json::{ObjectWriter, Reader};
use crate::format::time::UnixNanos;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

const STRUCTURE: &str = "format";
const ECC: &str = "REED-SOLOMON-CRC32";
/// The size of packs where the format names none.
pub(super) const DEFAULT_MAX_PACK_SIZE: u64 = 20 << 20;
const KNOWN_FEATURES: [&str; 2] = ["index-v1", "index-v2"];

type Fields<'a> = Reader<&'a [u8]>;

/// The document as it stands.
#[derive(Default)]
struct Document {
    hash: String,
    encryption: String,
    ecc: String,
    ecc_overhead_percent: i64,
    secret: Vec<u8>,
    master_key: Vec<u8>,
    version: u32,
    max_pack_size: i64,
    index_version: u32,
    epochs: EpochParameters,
    enable_password_change: bool,
    splitter: String,
    upgrade_lock: Option<UpgradeLock>,
    required: Vec<Feature>,
}

#[derive(Default)]
struct Feature {
    name: String,
    only_warn: bool,
    message: String,
}

/// Reads the document of a format. The unique ID and the key are those with which it was decrypted.
///
/// # Errors
/// Algorithms, versions and features that are not known, what is no document.
pub fn parse(bytes: &[u8], unique_id: Vec<u8>, format_key: Secret) -> Result<RepositoryFormat, OpenFormatError> {
    let mut document = Document::default();
    let mut reader = Reader::new(STRUCTURE, bytes);
    reader.object::<FormatError>(|reader, key| match key {
        "format" => read_document(reader, &mut document),
        _ => reader.skip(),
    })?;
    reader.end()?;
    into_format(document, unique_id, format_key)
}

fn into_format(
    document: Document,
    unique_id: Vec<u8>,
    format_key: Secret,
) -> Result<RepositoryFormat, OpenFormatError> {
    let unsupported = |what: String| Err(OpenFormatError::Unsupported(what));
    if document.version == 0 || document.version > MAX_VERSION {
        return unsupported(format!("version {} of the format", document.version));
    }
    let mut warnings = Vec::new();
    for feature in document.required {
        if KNOWN_FEATURES.contains(&feature.name.as_str()) {
            continue;
        }
        let text = format!("the feature {:?} ({})", feature.name, feature.message);
        if !feature.only_warn {
            return unsupported(text);
        }
        warnings.push(text);
    }
    let Some(hash) = HashAlgorithm::from_name(&document.hash) else {
        return unsupported(format!("the hash {:?}", document.hash));
    };
    let Some(encryption) = CipherAlgorithm::from_name(&document.encryption) else {
        return unsupported(format!("the encryption {:?}", document.encryption));
    };
    let has_ecc = !document.ecc.is_empty() && document.ecc_overhead_percent > 0;
    if has_ecc && document.ecc != ECC {
        return unsupported(format!("the error correction {:?}", document.ecc));
    }
    let percent = document.ecc_overhead_percent.clamp(0, 100);
    let index_version = match document.index_version {
        0 | 1 => 1,
        2 => 2,
        version => return unsupported(format!("version {version} of indexes")),
    };
    if document.master_key.is_empty() {
        return Err(FormatError::new(STRUCTURE, "it has no master key").into());
    }
    Ok(RepositoryFormat {
        unique_id,
        format_key,
        hash,
        encryption,
        ecc_overhead_percent: if has_ecc { u8::try_from(percent).unwrap_or(100) } else { 0 },
        secret: Secret::new(document.secret),
        master_key: Secret::new(document.master_key),
        version: document.version,
        max_pack_size: match u64::try_from(document.max_pack_size) {
            Ok(size) if size > 0 => size,
            _ => DEFAULT_MAX_PACK_SIZE,
        },
        index_version,
        epochs: document.epochs,
        enable_password_change: document.enable_password_change,
        splitter: if document.splitter.is_empty() { "FIXED".to_owned() } else { document.splitter },
        upgrade_lock: document.upgrade_lock,
        warnings,
    })
}

/// Writes the document in the order of kopia's fields.
pub(super) fn write(format: &RepositoryFormat) -> Zeroizing<Vec<u8>> {
    // Room for all of it, so that no copy of the keys is left behind when it grows.
    let mut out = Zeroizing::new(Vec::with_capacity(4096));
    let mut outer = ObjectWriter::begin(&mut out);
    let mut object = ObjectWriter::begin(outer.key("format"));
    object.string("hash", format.hash.name());
    object.string("encryption", format.encryption.name());
    if format.ecc_overhead_percent > 0 {
        object.string("ecc", ECC);
        object.plain("eccOverheadPercent", format.ecc_overhead_percent);
    }
    for (name, secret) in [("secret", &format.secret), ("masterKey", &format.master_key)] {
        let text = Zeroizing::new(STANDARD.encode(secret.as_bytes()));
        object.string_unless_empty(name, &text);
    }
    object.plain("version", format.version);
    object.plain("maxPackSize", format.max_pack_size);
    object.plain("indexVersion", format.index_version);
    write_epochs(object.key("epochParameters"), &format.epochs);
    object.plain("enablePasswordChange", format.enable_password_change);
    object.string("splitter", &format.splitter);
    object.end();
    outer.end();
    out
}

fn write_epochs(out: &mut Vec<u8>, epochs: &EpochParameters) {
    let mut object = ObjectWriter::begin(out);
    object.plain("Enabled", epochs.enabled);
    object.plain("EpochRefreshFrequency", epochs.epoch_refresh_frequency);
    object.plain("FullCheckpointFrequency", epochs.full_checkpoint_frequency);
    object.plain("CleanupSafetyMargin", epochs.cleanup_safety_margin);
    object.plain("MinEpochDuration", epochs.min_epoch_duration);
    object.plain("EpochAdvanceOnCountThreshold", epochs.epoch_advance_on_count_threshold);
    object.plain("EpochAdvanceOnTotalSizeBytesThreshold", epochs.epoch_advance_on_total_size_bytes_threshold);
    object.plain("DeleteParallelism", epochs.delete_parallelism);
    object.end();
}

fn read_document(reader: &mut Fields<'_>, document: &mut Document) -> Result<(), FormatError> {
    reader.object::<FormatError>(|reader, key| {
        match key {
            "hash" => document.hash = reader.string()?,
            "encryption" => document.encryption = reader.string()?,
            "ecc" => document.ecc = reader.string()?,
            "eccoverheadpercent" => document.ecc_overhead_percent = reader.integer()?,
            "secret" => document.secret = read_base64(reader)?,
            "masterkey" => document.master_key = read_base64(reader)?,
            "version" => document.version = reader.integer()?,
            "maxpacksize" => document.max_pack_size = reader.integer()?,
            "indexversion" => document.index_version = reader.integer()?,
            "epochparameters" => document.epochs = read_epochs(reader)?,
            "enablepasswordchange" => document.enable_password_change = reader.boolean()?,
            "splitter" => document.splitter = reader.string()?,
            "upgradelock" => document.upgrade_lock = Some(read_lock(reader)?),
            "requiredfeatures" => reader.array(|reader| {
                document.required.push(read_feature(reader)?);
                Ok::<_, FormatError>(())
            })?,
            _ => reader.skip()?,
        }
        Ok(())
    })
}

fn read_epochs(reader: &mut Fields<'_>) -> Result<EpochParameters, FormatError> {
    let mut epochs = EpochParameters::default();
    reader.object::<FormatError>(|reader, key| {
        let number = match key {
            "enabled" => {
                epochs.enabled = reader.boolean()?;
                return Ok(());
            }
            "epochrefreshfrequency" => &mut epochs.epoch_refresh_frequency,
            "fullcheckpointfrequency" => &mut epochs.full_checkpoint_frequency,
            "cleanupsafetymargin" => &mut epochs.cleanup_safety_margin,
            "minepochduration" => &mut epochs.min_epoch_duration,
            "epochadvanceoncountthreshold" => &mut epochs.epoch_advance_on_count_threshold,
            "epochadvanceontotalsizebytesthreshold" => &mut epochs.epoch_advance_on_total_size_bytes_threshold,
            "deleteparallelism" => &mut epochs.delete_parallelism,
            _ => return reader.skip(),
        };
        *number = reader.integer()?;
        Ok(())
    })?;
    Ok(epochs)
}

fn read_lock(reader: &mut Fields<'_>) -> Result<UpgradeLock, FormatError> {
    let mut lock = UpgradeLock::default();
    reader.object::<FormatError>(|reader, key| {
        match key {
            "ownerid" => lock.owner = reader.string()?,
            "creationtime" => lock.created = UnixNanos::parse_saturating(&reader.string()?)?,
            "advancenoticeduration" => lock.advance_notice = reader.integer()?,
            "iodraintimeout" => lock.io_drain_timeout = reader.integer()?,
            "statuspollinterval" => lock.status_poll_interval = reader.integer()?,
            "message" => lock.message = reader.string()?,
            "maxpermittedclockdrift" => lock.max_clock_drift = reader.integer()?,
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok(lock)
}

fn read_feature(reader: &mut Fields<'_>) -> Result<Feature, FormatError> {
    let mut feature = Feature::default();
    reader.object::<FormatError>(|reader, key| {
        match key {
            "feature" => feature.name = reader.string()?,
            "ifnotunderstood" => reader.object::<FormatError>(|reader, key| {
                match key {
                    "warn" => feature.only_warn = reader.boolean()?,
                    "message" => feature.message = reader.string()?,
                    _ => reader.skip()?,
                }
                Ok(())
            })?,
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok(feature)
}
