//! The volume of a pod, looked at before anything is moved.

use super::failure::Failure;
use lifeboat_mover::protocol::{AccessPoint, VolumeMode};
use std::os::unix::fs::FileTypeExt;

/// Refuses a volume that is not of the mode that it should have: a restore would write into something else.
pub(crate) fn check_volume(volume: &AccessPoint) -> Result<(), Failure> {
    let path = &volume.by_path;
    let metadata = std::fs::metadata(path).map_err(|e| Failure::new(&format!("look at the volume {path}"), e))?;
    let (is_as_it_should, expected) = match volume.volume_mode {
        VolumeMode::Filesystem => (metadata.is_dir(), "a mounted file system"),
        VolumeMode::Block => (metadata.file_type().is_block_device(), "a block device"),
    };
    if is_as_it_should {
        return Ok(());
    }
    Err(Failure::Failed(format!("the volume {path} is not {expected}: nothing was moved")))
}

/// True for a mounted volume with nothing in it.
pub(super) fn is_empty(volume: &AccessPoint) -> Result<bool, Failure> {
    if volume.volume_mode == VolumeMode::Block {
        return Ok(false);
    }
    let path = &volume.by_path;
    let mut entries = std::fs::read_dir(path).map_err(|e| Failure::new(&format!("read the volume {path}"), e))?;
    Ok(entries.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_of_another_mode_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let check = |path: &std::path::Path, volume_mode| {
            check_volume(&AccessPoint { by_path: path.to_str().unwrap().to_owned(), volume_mode }).is_ok()
        };
        assert!(check(folder.path(), VolumeMode::Filesystem));
        assert!(!check(folder.path(), VolumeMode::Block));
        assert!(!check(&file, VolumeMode::Filesystem) && !check(&file, VolumeMode::Block));
        assert!(!check(&folder.path().join("missing"), VolumeMode::Filesystem));
    }
}
