//! A change of the password: the format and `kopia.blobcfg` encrypted anew, all keys of contents as before (kopia:
//! repo/format).
//!
//! Kopia puts `kopia.blobcfg` first, and a change that is cut off after that leaves a repository that no password opens.
//! Here `kopia.blobcfg` is away while the format changes, which kopia takes for settings without object lock, and a note
//! keeps the settings under both passwords. So one password opens the repository at every moment, and the next change goes on
//! where the last one was cut off.

use super::blob::{FormatBlob, open_sealed, read_base64, seal};
use super::blob_config::{Retention, open_blob_config};
use super::document;
use super::parameters::{OpenFormatError, RepositoryFormat};
use crate::crypto::aead::NONCE_LENGTH;
use crate::crypto::secret::{Password, Secret};
use crate::format::FormatError;
use crate::format::json::{ObjectWriter, Reader};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

const NOTE: &str = "note of a password change";
/// The form of the note.
const NOTE_FORMAT: &str = "lifeboat.io/password-change/v1";
const CONFIG: &str = "kopia.blobcfg";

/// An error of a change of the password. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub enum PasswordChangeError {
    /// Keys are made of the password, as in repositories of version 1.
    #[error("keys are made of it, as in every repository of version 1 of the format: make a new repository")]
    Impossible,
    /// Neither password opens the format.
    #[error("neither the password nor the new one opens the repository")]
    WrongPassword,
    /// The format or the settings cannot be read.
    #[error(transparent)]
    Format(#[from] OpenFormatError),
}

impl From<FormatError> for PasswordChangeError {
    fn from(error: FormatError) -> Self {
        Self::Format(error.into())
    }
}

/// The bytes of the blobs as they are.
#[derive(Debug, Clone, Copy)]
pub struct StoredPasswordBlobs<'a> {
    /// `kopia.repository`.
    pub format: &'a [u8],
    /// `kopia.blobcfg`, where it is there.
    pub config: Option<&'a [u8]>,
    /// The note of a change, where one is under way or was cut off.
    pub note: Option<&'a [u8]>,
}

/// A change of the password.
pub struct PasswordChange<'a> {
    /// The blobs.
    pub stored: StoredPasswordBlobs<'a>,
    /// The keys of both passwords.
    pub keys: &'a PasswordKeys,
    /// Random nonces: of the format, of `kopia.blobcfg`, and of its copy under the old password.
    pub nonces: [[u8; NONCE_LENGTH]; 3],
}

/// A step of a change, to be done when the one before is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordStep {
    /// Puts the note.
    PutNote(Vec<u8>),
    /// Deletes `kopia.blobcfg`.
    DeleteConfig,
    /// Puts `kopia.repository`: the new password opens it from then on.
    PutFormat(Vec<u8>),
    /// Puts `kopia.blobcfg`.
    PutConfig(Vec<u8>),
    /// Deletes the note.
    DeleteNote,
}

/// The state in which a change finds a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordStage {
    /// Nothing has changed yet.
    Begin,
    /// A change was cut off, and is finished now.
    Unfinished,
    /// The repository has the new password, and nothing is left to do.
    Done,
}

/// The steps that are left of a change.
#[derive(Debug, Clone)]
pub struct PasswordPlan {
    /// The state.
    pub stage: PasswordStage,
    /// The steps, in order.
    pub steps: Vec<PasswordStep>,
    /// The object lock of the settings.
    pub retention: Option<Retention>,
    /// The format.
    pub format: RepositoryFormat,
}

/// Plans what is left of a change. All that the format holds is taken over byte by byte, also what is not known here.
///
/// # Errors
/// Passwords of which none opens the repository; a repository whose password cannot change; blobs that cannot be read.
pub fn plan_password_change(change: &PasswordChange<'_>) -> Result<PasswordPlan, PasswordChangeError> {
    let blob = FormatBlob::parse(change.stored.format)?;
    let keys = change.keys;
    let note = change.stored.note.map(SettingsNote::parse).transpose()?;
    match blob.open(&keys.old) {
        Ok(plain) => begin(change, blob, &plain, note.as_ref()),
        Err(OpenFormatError::WrongPassword) => match blob.open(&keys.new) {
            Ok(plain) => finish(change, &plain, note.as_ref()),
            Err(OpenFormatError::WrongPassword) => Err(PasswordChangeError::WrongPassword),
            Err(error) => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// The steps where the old password opens the format.
fn begin(
    change: &PasswordChange<'_>,
    mut blob: FormatBlob,
    plain: &[u8],
    note: Option<&SettingsNote>,
) -> Result<PasswordPlan, PasswordChangeError> {
    let keys = change.keys;
    let format = document::parse(plain, keys.unique_id.clone(), keys.old.clone())?;
    if !format.enable_password_change {
        return Err(PasswordChangeError::Impossible);
    }
    let settings = match (change.stored.config, note) {
        // Kopia's own change may have been cut off after this blob.
        (Some(config), _) => Some(keys.open_either(config, CONFIG)?),
        // The earlier change may have been one to this old password.
        (None, Some(note)) => Some(keys.open_either(&note.old, NOTE).or_else(|_| keys.open_either(&note.new, NOTE))?),
        (None, None) => None,
    };
    let [format_nonce, config_nonce, old_nonce] = change.nonces;
    blob.seal(&keys.new, format_nonce, plain)?;
    let mut steps = Vec::new();
    let mut retention = None;
    let put_format = PasswordStep::PutFormat(blob.write());
    match settings {
        None => steps.push(put_format),
        Some(settings) => {
            retention = Retention::parse(&settings)?;
            let new = keys.seal(&keys.new, config_nonce, &settings)?;
            let note = SettingsNote { old: keys.seal(&keys.old, old_nonce, &settings)?, new: new.clone() };
            steps.push(PasswordStep::PutNote(note.write()));
            if change.stored.config.is_some() {
                steps.push(PasswordStep::DeleteConfig);
            }
            steps.extend([put_format, PasswordStep::PutConfig(new), PasswordStep::DeleteNote]);
        }
    }
    let stage = if note.is_some() { PasswordStage::Unfinished } else { PasswordStage::Begin };
    Ok(PasswordPlan { stage, steps, retention, format })
}

/// The steps where the new password opens the format: only settings may be missing.
fn finish(
    change: &PasswordChange<'_>,
    plain: &[u8],
    note: Option<&SettingsNote>,
) -> Result<PasswordPlan, PasswordChangeError> {
    let keys = change.keys;
    let format = document::parse(plain, keys.unique_id.clone(), keys.new.clone())?;
    let mut steps = Vec::new();
    let stored = change.stored.config.map(|config| keys.open(&keys.new, config)).transpose()?.flatten();
    let settings = match (stored, change.stored.config, note) {
        (Some(settings), _, _) => Some(settings),
        (None, _, Some(note)) => {
            let settings = keys.open(&keys.new, &note.new)?.ok_or_else(|| unreadable(NOTE))?;
            steps.push(PasswordStep::PutConfig(note.new.clone()));
            Some(settings)
        }
        (None, Some(_), None) => return Err(unreadable(CONFIG).into()),
        (None, None, None) => None,
    };
    if note.is_some() {
        steps.push(PasswordStep::DeleteNote);
    }
    let retention = settings.map_or(Ok(None), |settings| Retention::parse(&settings))?;
    let stage = if steps.is_empty() { PasswordStage::Done } else { PasswordStage::Unfinished };
    Ok(PasswordPlan { stage, steps, retention, format })
}

/// Reads the object lock from the note of a change that was cut off while `kopia.blobcfg` was away.
///
/// # Errors
/// Other bytes than a note; a note whose copies both have other keys than this format.
pub fn retention_of_note(format: &RepositoryFormat, note: &[u8]) -> Result<Option<Retention>, FormatError> {
    let note = SettingsNote::parse(note)?;
    open_blob_config(format, &note.old).or_else(|_| open_blob_config(format, &note.new))
}

fn unreadable(structure: &'static str) -> FormatError {
    FormatError::new(structure, "the encrypted bytes do not authenticate")
}

/// The keys that the old and the new password of one repository give.
#[derive(Debug, Clone)]
pub struct PasswordKeys {
    pub(crate) old: Secret,
    pub(crate) new: Secret,
    unique_id: Vec<u8>,
}

impl PasswordKeys {
    /// Derives both, which takes a large part of a second on purpose, from the passwords and the bytes of
    /// `kopia.repository`.
    ///
    /// # Errors
    /// Other bytes than a format blob.
    pub fn derive(format_blob: &[u8], old: &Password, new: &Password) -> Result<Self, PasswordChangeError> {
        let blob = FormatBlob::parse(format_blob)?;
        let [old, new] = [old, new].map(|password| blob.kdf.derive(password, &blob.unique_id));
        Ok(Self { old: old?, new: new?, unique_id: blob.unique_id })
    }

    /// True where the new password opens a format blob.
    ///
    /// # Errors
    /// Other bytes than a format blob.
    pub(crate) fn new_opens(&self, format_blob: &[u8]) -> Result<bool, PasswordChangeError> {
        match FormatBlob::parse(format_blob)?.open(&self.new) {
            Ok(_) => Ok(true),
            Err(OpenFormatError::WrongPassword) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn open(&self, key: &Secret, sealed: &[u8]) -> Result<Option<Zeroizing<Vec<u8>>>, FormatError> {
        open_sealed(key, &self.unique_id, sealed)
    }

    fn open_either(&self, sealed: &[u8], structure: &'static str) -> Result<Zeroizing<Vec<u8>>, FormatError> {
        let opened = match self.open(&self.old, sealed)? {
            None => self.open(&self.new, sealed)?,
            opened => opened,
        };
        opened.ok_or_else(|| unreadable(structure))
    }

    fn seal(&self, key: &Secret, nonce: [u8; NONCE_LENGTH], plain: &[u8]) -> Result<Vec<u8>, FormatError> {
        seal(key, &self.unique_id, nonce, plain)
    }
}

/// The settings of `kopia.blobcfg`, encrypted with the old and with the new password.
struct SettingsNote {
    old: Vec<u8>,
    new: Vec<u8>,
}

impl SettingsNote {
    fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let (mut format, mut note) = (String::new(), Self { old: Vec::new(), new: Vec::new() });
        let mut reader = Reader::new(NOTE, bytes);
        reader.object::<FormatError>(|reader, key| {
            match key {
                "format" => format = reader.string()?,
                "old" => note.old = read_base64(reader)?,
                "new" => note.new = read_base64(reader)?,
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        reader.end()?;
        if format != NOTE_FORMAT {
            return Err(FormatError::new(NOTE, format!("its format {format:?} is not known")));
        }
        Ok(note)
    }

    fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut object = ObjectWriter::begin(&mut out);
        object.string("format", NOTE_FORMAT);
        object.string("old", &STANDARD.encode(&self.old));
        object.string("new", &STANDARD.encode(&self.new));
        object.end();
        out
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
