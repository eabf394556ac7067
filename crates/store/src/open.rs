//! Options for opening an archive, and the head of an object in it.

use crate::StoreError;
use lifeboat_archive::ReadLimits;
use lifeboat_object::{DEEPEST, Head, ObjectKey, nesting};
use std::path::PathBuf;

/// Options for opening an archive.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Bounds on the archive.
    pub limits: ReadLimits,
    /// The folder in which a copy of an archive may be kept while it is open: of an archive without index, or in a
    /// bucket that reads objects from their beginning only. The copy has no name there, and its room is free again when
    /// the archive is dropped, or the process ends in any way.
    pub scratch: PathBuf,
    /// Read the archive as if it had no index.
    pub ignore_index: bool,
}

/// Reads the head of an object in an archive; an error names the archive and the object.
pub(crate) fn head(archive: &str, key: &ObjectKey, body: &[u8]) -> Result<Head, StoreError> {
    let refused = |why: String| StoreError::Archive {
        key: archive.to_owned(),
        source: lifeboat_archive::ReadError::Refused(format!("{key} {why}")),
    };
    if nesting(body) > DEEPEST {
        return Err(refused(format!("is nested deeper than {DEEPEST} levels")));
    }
    Head::parse(body).map_err(|e| refused(format!("is no Kubernetes object ({e})")))
}
