//! `kopia.blobcfg`: the settings of object lock (kopia: repo/format/blobcfg_blob.go).

use super::blob::{open_sealed, seal};
use super::parameters::RepositoryFormat;
use crate::crypto::aead::NONCE_LENGTH;
use crate::format::FormatError;
use crate::format::json::{ObjectWriter, Reader};
use crate::format::time::DAY;

const STRUCTURE: &str = "kopia.blobcfg";
/// The shortest period, in nanoseconds: a day.
const MIN_PERIOD: i64 = DAY;

/// The kinds of object lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionMode {
    /// `GOVERNANCE` of S3: who has a right of its own may end it.
    Governance,
    /// `COMPLIANCE` of S3: nobody may end it.
    Compliance,
    /// `Locked` of Azure.
    Locked,
}

const MODES: [(RetentionMode, &str); 3] = [
    (RetentionMode::Governance, "GOVERNANCE"),
    (RetentionMode::Compliance, "COMPLIANCE"),
    (RetentionMode::Locked, "Locked"),
];

/// The object lock that each put of certain blobs carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The kind.
    pub mode: RetentionMode,
    /// The period in nanoseconds, a day at least.
    pub period: i64,
}

impl Retention {
    /// True where a put of this blob carries the retention.
    pub fn covers(name: &str) -> bool {
        ["n", "x", "kopia.repository", "kopia.blobcfg", "p", "q"].iter().any(|prefix| name.starts_with(prefix))
    }

    /// The document, `{}` without retention.
    pub(super) fn write(retention: Option<&Self>) -> Result<Vec<u8>, FormatError> {
        let mut out = Vec::new();
        let mut object = ObjectWriter::begin(&mut out);
        if let Some(retention) = retention {
            if retention.period < MIN_PERIOD {
                return Err(FormatError::new(STRUCTURE, "the period of retention is shorter than a day"));
            }
            let name = MODES.iter().find(|(mode, _)| *mode == retention.mode);
            object.string("retentionMode", name.map_or("", |(_, name)| name));
            object.plain("retentionPeriod", retention.period);
        }
        object.end();
        Ok(out)
    }

    /// Reads the plain document of `kopia.blobcfg`; `None` where it has no retention.
    ///
    /// # Errors
    /// Other bytes than settings.
    pub fn parse(document: &[u8]) -> Result<Option<Self>, FormatError> {
        let (mut mode, mut period) = (String::new(), 0);
        let mut reader = Reader::new(STRUCTURE, document);
        reader.object::<FormatError>(|reader, key| {
            match key {
                "retentionmode" => mode = reader.string()?,
                "retentionperiod" => period = reader.integer()?,
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        reader.end()?;
        if mode.is_empty() && period == 0 {
            return Ok(None);
        }
        let known = MODES.iter().find(|(_, name)| *name == mode);
        let (mode, _) = known.ok_or_else(|| FormatError::new(STRUCTURE, format!("the mode {mode:?} is not known")))?;
        if period < MIN_PERIOD {
            return Err(FormatError::new(STRUCTURE, "the period of retention is shorter than a day"));
        }
        Ok(Some(Self { mode: *mode, period }))
    }
}

/// Opens `kopia.blobcfg`. A repository without that blob has no retention.
///
/// # Errors
/// A blob that another key has encrypted, as a password change that was cut off leaves it; other bytes than settings.
pub fn open_blob_config(format: &RepositoryFormat, stored: &[u8]) -> Result<Option<Retention>, FormatError> {
    let plain = open_sealed(&format.format_key, &format.unique_id, stored)?
        .ok_or_else(|| FormatError::new(STRUCTURE, "the encrypted bytes do not authenticate"))?;
    Retention::parse(&plain)
}

/// Encrypts `kopia.blobcfg`.
pub(super) fn seal_blob_config(
    format: &RepositoryFormat,
    nonce: [u8; NONCE_LENGTH],
    retention: Option<&Retention>,
) -> Result<Vec<u8>, FormatError> {
    let document = Retention::write(retention)?;
    seal(&format.format_key, &format.unique_id, nonce, &document)
}
