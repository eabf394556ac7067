//! Directories that local commands use as buckets. The identity of each bucket is remembered on this machine, so that
//! the mount point of a file system that is not mounted is not taken for an empty bucket.

use crate::local_operation::state::folder_of;
use anyhow::{Context, Result, bail};
use lifeboat_archive::tarball::entry_hash;
use lifeboat_bucket::{BlobStore, BucketNotes, Directory, Marked, read_marker};
use lifeboat_terminal::output::errors;
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

/// Notes that a directory may be this bucket, beside those that it may be already. Warns when that fails, because an
/// unmounted file system is not noticed then.
fn remember(note: &Path, id: &str) {
    if let Err(e) = append(note, id) {
        let text = format!("warning: which bucket the directory is could not be noted in {}: {e}", note.display());
        errors::warn(Some(&text));
    }
}

/// Adds an ID to a note, unless it has that.
fn append(note: &Path, id: &str) -> std::io::Result<()> {
    let mut noted = match std::fs::read_to_string(note) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    if noted.split_whitespace().any(|one| one == id) {
        return Ok(());
    }
    if !noted.is_empty() && !noted.ends_with('\n') {
        noted.push('\n');
    }
    std::fs::create_dir_all(note.parent().unwrap_or(note))?;
    std::fs::write(note, format!("{noted}{id}\n"))
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
        assert!(refused.contains(&format!("append to {} the line \"{}\".", note.display(), id.trim())), "{refused}");
        // An editor may leave the end of the last line away.
        std::fs::write(&note, format!("{}{}", std::fs::read_to_string(&note).unwrap(), id.trim())).unwrap();
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

    #[tokio::test]
    async fn two_disks_that_take_turns_are_both_known_after_any_number_of_backups() {
        let folder = tempfile::tempdir().unwrap();
        let (path, note) = (folder.path().join("disk"), folder.path().join("state").join("note"));
        let disks = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let mount = |disk: usize| {
            let _ = std::fs::remove_file(&path);
            std::os::unix::fs::symlink(disks[disk].path(), &path).unwrap();
        };
        let back_up = async || {
            let bucket = open_known(&path, &note).await?;
            bucket.put("backups/a/x", b"x".to_vec().into(), PutOptions::default()).await.map_err(anyhow::Error::from)
        };
        mount(0);
        back_up().await.unwrap();
        let first = std::fs::read_to_string(&note).unwrap();
        // The new disk has no marker, and the refusal says how it is added.
        mount(1);
        let refused = back_up().await.unwrap_err().to_string();
        let way = format!(
            "make a file lifeboat-bucket with the line \"lifeboat.io/bucket/v1 ID\" in it, the ID being a word of your own, and append to \
             {} the line \"ID\".",
            note.display()
        );
        assert!(refused.contains(&way), "{refused}");
        std::fs::write(path.join("lifeboat-bucket"), "lifeboat.io/bucket/v1 second\n").unwrap();
        std::fs::write(&note, format!("{first}second\n")).unwrap();
        for disk in [1, 0, 1, 0] {
            mount(disk);
            back_up().await.unwrap();
        }
        assert_eq!(std::fs::read_to_string(&note).unwrap(), format!("{first}second\n"));
    }
}
