//! The mark in a restored volume, for which the init container of its pod waits (velero: pkg/podvolume).

use super::failure::Failure;
use lifeboat_mover::protocol::MARK_DIRECTORY;
use std::fs::Permissions;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Marks a volume as filled by a restore. What stood in the mark's place goes: it is of another restore, or came with the snapshot.
pub(super) fn mark(volume: &Path, restore_uid: &str) -> Result<(), Failure> {
    let folder = volume.join(MARK_DIRECTORY);
    let is_plain = !restore_uid.is_empty() && !restore_uid.contains('/') && !matches!(restore_uid, "." | "..");
    if !is_plain {
        let why = format!("{restore_uid:?} is no UID: the resource has to be owned by a Restore");
        return Err(Failure::new("tell the pod that its volume is filled", why));
    }
    write(&folder, restore_uid).map_err(|e| {
        let why = format!("{}: {e}; the data are there, but the pod would wait for ever", folder.display());
        Failure::new("tell the pod that its volume is filled", why)
    })
}

fn write(folder: &Path, restore_uid: &str) -> std::io::Result<()> {
    match std::fs::symlink_metadata(folder) {
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(folder)?,
        Ok(_) => std::fs::remove_file(folder)?,
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    std::fs::create_dir(folder)?;
    std::fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    let file = std::fs::File::create_new(folder.join(restore_uid))?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_replaces_what_is_there_and_leads_nowhere_else() {
        let (volume, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(elsewhere.path().join("kept"), "x").unwrap();
        let folder = volume.path().join(MARK_DIRECTORY);
        std::os::unix::fs::symlink(elsewhere.path(), &folder).unwrap();
        for uid in ["uid-1", "uid-2"] {
            mark(volume.path(), uid).unwrap();
            let names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(names, [uid]);
            let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&folder), mode(&folder.join(uid))), (0o755, 0o644));
        }
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 1);
        for uid in ["", "..", "a/b"] {
            assert!(mark(volume.path(), uid).is_err(), "{uid}");
        }
    }
}
