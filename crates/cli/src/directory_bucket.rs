//! Directories that local commands use as buckets. The identity of each bucket is remembered on this machine, so that
//! the mount point of a file system that is not mounted is not taken for an empty bucket.

use crate::errors;
use crate::from_here::state::folder_of;
use anyhow::{Context, Result, bail};
use lifeboat_archive::tarball::entry_hash;
use lifeboat_bucket::{BlobStore, BucketNotes, Directory, Marked, read_marker};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens a directory as a bucket, which is marked with the first object that is put into it. One that is not there is made, unless it was a
/// bucket before.
///
/// # Errors
/// When it cannot be opened, or is not the bucket that it was before.
pub(crate) async fn open(path: &Path) -> Result<Arc<dyn BlobStore>> {
    open_known(path, &note_of(path)?).await
}

/// The same, with the file that notes which bucket it is.
async fn open_known(path: &Path, note: &Path) -> Result<Arc<dyn BlobStore>> {
    let known = std::fs::read_to_string(note).ok().map(|id| id.trim().to_owned()).filter(|id| !id.is_empty());
    let notes = BucketNotes {
        known: known.as_deref(),
        forget: format!("remove {}", note.display()),
        add: format!("append to {} the line", note.display()),
    };
    let refused = |found: Option<&str>| notes.refusal(found);
    if !path.is_dir()
        && let Some(why) = refused(None)
    {
        bail!("{}: {why}", path.display());
    }
    let directory = Directory::open(path)?;
    let found = read_marker(&directory).await?;
    if let Some(why) = refused(found.as_deref()) {
        bail!("{}: {why}", path.display());
    }
    if let (None, Some(found)) = (&known, &found) {
        remember(note, found);
    }
    let (note, id) = (note.to_owned(), uuid::Uuid::new_v4().to_string());
    Ok(Arc::new(Marked::new(Arc::new(directory), id, move |id| remember(&note, id))))
}

/// Where it is noted which bucket a directory is.
fn note_of(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path).with_context(|| format!("find {}", path.display()))?;
    let hash = hex::encode(entry_hash(path.as_os_str().as_encoded_bytes()));
    Ok(folder_of("directory").join(hash))
}

/// Notes the identity of the bucket in a directory. Warns when that fails, because an unmounted file system is not
/// noticed then.
fn remember(note: &Path, id: &str) {
    let folder = note.parent().unwrap_or(note);
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(note, format!("{id}\n")));
    if let Err(e) = written {
        let text = format!("warning: which bucket the directory is could not be noted in {}: {e}", note.display());
        errors::warn(Some(&text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_bucket::PutOptions;

    #[tokio::test]
    async fn a_disk_that_is_not_mounted_is_no_empty_bucket() {
        let folder = tempfile::tempdir().unwrap();
        let (path, note) = (folder.path().join("bucket"), folder.path().join("state").join("note"));
        let open = || open_known(&path, &note);
        // Nothing was put, so that nothing is known.
        open().await.unwrap();
        std::fs::remove_dir(&path).unwrap();
        let bucket = open().await.unwrap();
        bucket.put("backups/a/x", b"x".to_vec().into(), PutOptions::default()).await.unwrap();
        open().await.unwrap();
        let aside = folder.path().join("aside");
        std::fs::rename(&path, &aside).unwrap();
        for is_folder_there in [false, true] {
            if is_folder_there {
                std::fs::create_dir(&path).unwrap();
            }
            let refused = open().await.unwrap_err().to_string();
            assert!(refused.contains("is its file system mounted?"), "{refused}");
            assert!(refused.ends_with(&format!("remove {}", note.display())), "{refused}");
            assert_eq!(path.exists(), is_folder_there, "nothing is made there");
        }
        std::fs::remove_dir(&path).unwrap();
        std::fs::rename(&aside, &path).unwrap();
        open().await.unwrap();
        // Two disks take turns, of which the note says both.
        let other = tempfile::tempdir().unwrap();
        let second = open_known(other.path(), &folder.path().join("of-second")).await.unwrap();
        second.put("backups/b/x", b"x".to_vec().into(), PutOptions::default()).await.unwrap();
        std::fs::rename(&path, &aside).unwrap();
        std::os::unix::fs::symlink(other.path(), &path).unwrap();
        let refused = open().await.unwrap_err().to_string();
        let id = std::fs::read_to_string(folder.path().join("of-second")).unwrap();
        assert!(refused.contains(&format!("append to {} the line {}.", note.display(), id.trim())), "{refused}");
        std::fs::write(&note, format!("{}{id}", std::fs::read_to_string(&note).unwrap())).unwrap();
        open().await.unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::rename(&aside, &path).unwrap();
        open().await.unwrap();
        let first = std::fs::read_to_string(&note).unwrap().lines().next().unwrap().to_owned();
        std::fs::write(&note, format!("{first}\n")).unwrap();
        // Another machine finds the marker, and notes it.
        let elsewhere = folder.path().join("elsewhere");
        open_known(&path, &elsewhere).await.unwrap();
        assert_eq!(std::fs::read(&elsewhere).unwrap(), std::fs::read(&note).unwrap());
    }
}
