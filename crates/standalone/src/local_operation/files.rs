//! Files of state: read as a whole, replaced as a whole.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// The bytes of a file; `None` when there is none.
pub(super) fn read(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Removes a file that may be gone already.
pub(super) fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Writes a file in place of the one before: a crash leaves the one or the other, whole.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // No key of a note begins with two dots.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!("..{name}"));
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}
