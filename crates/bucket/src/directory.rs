//! A directory as a bucket.

mod folder;
mod walk;

use crate::gate::{Gate, GateThreadDied};
use crate::key::{TEMPORARY, components, is_temporary};
use crate::page::page_of;
use crate::{BlobStore, Body, BucketError, ByteStream, ErrorKind, ListOptions, ObjectInfo, Page, PutOptions};
use async_trait::async_trait;
use bytes::Bytes;
use folder::{DIRECTORY, open_folder};
use futures::{StreamExt, TryStreamExt};
use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::num::NonZero;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use walk::KeyWalk;

/// A directory as a bucket: keys are paths below it.
///
/// Buckets hold Secrets: folders are made with mode 0700, files with 0600. Every path is opened component by
/// component beneath the root, never through a symbolic link. A put writes a hidden temporary file beside its
/// target, syncs it, renames it into place (or links it, for `if_absent`) and syncs the folders: when it returns,
/// the object survives a power cut, and before, nothing of it is visible. Keys with components that are empty, `.`,
/// `..`, or longer than 255 bytes are [`ErrorKind::Invalid`].
#[derive(Clone, Debug)]
pub struct Directory {
    inner: Arc<DirectoryRoot>,
    gate: Gate,
}

#[derive(Debug)]
struct DirectoryRoot {
    path: PathBuf,
    root: OwnedFd,
    /// Distinguishes temporary files of this process.
    counter: AtomicU64,
}

/// Bytes per read.
const PIECE: usize = 256 << 10;
/// The longest range that is read at once.
const SHORT_RANGE: usize = 9 << 20;
/// Bytes from which an object, or a piece that is read at once, is not kept in the page cache: whoever writes or reads so much
/// does it once, and the pages are at hand for what comes next. To get new ones takes longer than to write to the disk.
const LARGE: u64 = 1 << 20;

/// Lets the kernel drop the pages of a part of a file that are on disk. Where it does not, nothing is lost.
fn forget(file: &File, at: u64, length: Option<NonZero<u64>>) {
    let _ = rustix::fs::fadvise(file, at, length, rustix::fs::Advice::DontNeed);
}

impl Directory {
    /// Opens a directory, made with mode 0700 when it is missing. The root itself may be reached through links.
    ///
    /// # Errors
    /// When it cannot be made or opened, or is no directory.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, BucketError> {
        let path = path.into();
        let wrap = |e: std::io::Error| {
            let kind = match e.kind() {
                std::io::ErrorKind::PermissionDenied => ErrorKind::Denied,
                _ => ErrorKind::Invalid,
            };
            BucketError {
                kind,
                operation: "open",
                key: String::new(),
                store: path.display().to_string(),
                message: e.to_string(),
                source: None,
            }
        };
        make_root(&path).map_err(wrap)?;
        let root =
            rustix::fs::open(&path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(|e| wrap(e.into()))?;
        Ok(Self { inner: Arc::new(DirectoryRoot { path, root, counter: AtomicU64::new(0) }), gate: Gate::default() })
    }

    /// The same directory, whose calls go through this gate.
    #[must_use]
    pub fn through(self, gate: Gate) -> Self {
        Self { gate, ..self }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        operation: &'static str,
        key: &str,
        work: impl FnOnce(&DirectoryRoot) -> Result<T, Errno> + Send + 'static,
    ) -> Result<T, BucketError> {
        let inner = Arc::clone(&self.inner);
        match self.gate.run(move || work(&inner)).await {
            Ok(result) => result.map_err(|e| self.inner.error(operation, key, e)),
            Err(GateThreadDied) => Err(self.inner.fail(ErrorKind::Other, operation, key, &GateThreadDied.to_string())),
        }
    }

    fn parts(&self, operation: &'static str, key: &str) -> Result<(Vec<String>, String), BucketError> {
        let invalid =
            || self.inner.fail(ErrorKind::Invalid, operation, key, "this key cannot be a path in a directory");
        let mut parts: Vec<String> = components(key).ok_or_else(invalid)?.into_iter().map(str::to_owned).collect();
        let name = parts.pop().ok_or_else(invalid)?;
        Ok((parts, name))
    }
}

/// Makes the folder and those above it that are missing, each of which survives a power cut.
fn make_root(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    for (folder, above) in missing(path) {
        match std::fs::DirBuilder::new().mode(0o700).create(folder) {
            // Another process has made it meanwhile, and has perhaps not synced it yet.
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        File::open(above)?.sync_all()?;
    }
    Ok(())
}

/// The folders of a path that are to be made, in this order, and in which folder each of them stands.
fn missing(path: &Path) -> Vec<(&Path, &Path)> {
    let folders = path.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.is_dir());
    let mut missing: Vec<_> = folders
        .map(|folder| (folder, folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))))
        .collect();
    missing.reverse();
    missing
}

impl DirectoryRoot {
    fn fail(&self, kind: ErrorKind, operation: &'static str, key: &str, message: &str) -> BucketError {
        BucketError {
            kind,
            operation,
            key: key.to_owned(),
            store: format!("directory {}", self.path.display()),
            message: message.to_owned(),
            source: None,
        }
    }

    fn error(&self, operation: &'static str, key: &str, errno: Errno) -> BucketError {
        let (kind, message) = match errno {
            Errno::NOENT => (ErrorKind::NotFound, "it does not exist".to_owned()),
            Errno::EXIST => (ErrorKind::Exists, "it exists".to_owned()),
            Errno::ACCESS | Errno::PERM | Errno::ROFS => (ErrorKind::Denied, std::io::Error::from(errno).to_string()),
            Errno::INTR | Errno::AGAIN | Errno::STALE | Errno::TIMEDOUT => {
                (ErrorKind::Transient, std::io::Error::from(errno).to_string())
            }
            Errno::LOOP | Errno::NOTDIR => {
                (ErrorKind::Invalid, "a part of the path is a symbolic link or no directory".to_owned())
            }
            Errno::ISDIR | Errno::INVAL | Errno::NAMETOOLONG | Errno::NOTEMPTY => {
                (ErrorKind::Invalid, std::io::Error::from(errno).to_string())
            }
            _ => (ErrorKind::Other, std::io::Error::from(errno).to_string()),
        };
        self.fail(kind, operation, key, &message)
    }

    fn open_file(&self, parts: &[String], name: &str) -> Result<(File, u64, Option<SystemTime>), Errno> {
        let folder = open_folder(&self.root, parts, false)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = File::from(rustix::fs::openat(&folder, name, flags, Mode::empty())?);
        let meta = file.metadata().map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        if !meta.is_file() {
            return Err(Errno::NOENT);
        }
        Ok((file, meta.len(), meta.modified().ok()))
    }
}

/// A file being written; removed on drop unless it was published.
struct Temporary {
    folder: OwnedFd,
    name: String,
    file: Option<File>,
    published: bool,
    size: u64,
}

impl Temporary {
    fn create(inner: &DirectoryRoot, parts: &[String]) -> Result<Self, Errno> {
        let folder = open_folder(&inner.root, parts, true)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let number = inner.counter.fetch_add(1, Ordering::Relaxed);
            let name = format!("{TEMPORARY}{}-{number}", std::process::id());
            match rustix::fs::openat(&folder, name.as_str(), flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => return Ok(Self { folder, name, file: Some(File::from(file)), published: false, size: 0 }),
                // Left by an earlier process with this number.
                Err(Errno::EXIST) => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        self.size += bytes.len() as u64;
        match &mut self.file {
            Some(file) => file.write_all(bytes).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO)),
            None => Err(Errno::BADF),
        }
    }

    fn publish(&mut self, target: &str, if_absent: bool) -> Result<(), Errno> {
        if let Some(file) = self.file.take() {
            rustix::fs::fsync(&file)?;
            if self.size >= LARGE {
                forget(&file, 0, None);
            }
        }
        if if_absent {
            rustix::fs::linkat(&self.folder, self.name.as_str(), &self.folder, target, AtFlags::empty())?;
            rustix::fs::unlinkat(&self.folder, self.name.as_str(), AtFlags::empty())?;
        } else {
            rustix::fs::renameat(&self.folder, self.name.as_str(), &self.folder, target)?;
        }
        self.published = true;
        rustix::fs::fsync(&self.folder)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.published {
            // Best effort: the sweep of stale uploads finds what stays.
            let _ = rustix::fs::unlinkat(&self.folder, self.name.as_str(), AtFlags::empty());
        }
    }
}

#[async_trait]
impl BlobStore for Directory {
    fn describe(&self) -> String {
        format!("directory {}", self.inner.path.display())
    }

    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        options.refuse_retention(key, self)?;
        let (parts, name) = self.parts("put", key)?;
        let mut temporary = self.blocking("put", key, move |inner| Temporary::create(inner, &parts)).await?;
        let mut stream = body.into_stream();
        let mut size = 0;
        while let Some(piece) = stream.try_next().await? {
            size += piece.len() as u64;
            temporary = self
                .blocking("put", key, move |_| {
                    temporary.write(&piece)?;
                    Ok(temporary)
                })
                .await?;
        }
        self.blocking("put", key, move |_| temporary.publish(&name, options.if_absent)).await?;
        Ok(size)
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        let (parts, name) = self.parts("get", key)?;
        let (file, size, _) = self.blocking("get", key, move |inner| inner.open_file(&parts, &name)).await?;
        // Who asks for a short range wants it as a whole.
        let longest = if range.is_some() { SHORT_RANGE } else { PIECE };
        let range = range.unwrap_or(0..size);
        if range.start > range.end || range.end > size {
            return Err(self.inner.fail(ErrorKind::Invalid, "get", key, "the range is beyond the end"));
        }
        let most = if range.end - range.start > longest as u64 { PIECE } else { longest };
        let state = (self.clone(), key.to_owned(), file, range);
        let stream = futures::stream::try_unfold(state, move |(store, key, file, range)| async move {
            if range.is_empty() {
                return Ok(None);
            }
            let want = usize::try_from(range.end - range.start).unwrap_or(most).min(most);
            let at = range.start;
            let (file, piece) = store
                .blocking("get", &key, move |_| {
                    let mut piece = Vec::with_capacity(want);
                    rustix::io::pread(&file, spare_capacity(&mut piece), at)?;
                    piece.truncate(want);
                    if piece.len() as u64 >= LARGE {
                        forget(&file, at, NonZero::new(piece.len() as u64));
                    }
                    Ok((file, piece))
                })
                .await?;
            if piece.is_empty() {
                return Err(store.inner.fail(ErrorKind::Transient, "get", &key, "the file became shorter"));
            }
            let left = at + piece.len() as u64..range.end;
            Ok(Some((Bytes::from(piece), (store, key, file, left))))
        });
        Ok(stream.boxed())
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        let (parts, name) = self.parts("head", key)?;
        let (_, size, modified) = self.blocking("head", key, move |inner| inner.open_file(&parts, &name)).await?;
        Ok(ObjectInfo { key: key.to_owned(), size, modified })
    }

    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        let prefix = options.prefix.clone();
        let work = move |inner: &DirectoryRoot| {
            let mut walk = KeyWalk::open(&inner.root, &options.prefix)?;
            page_of(&options, |mark| walk.next(mark))
        };
        self.blocking("list", &prefix, work).await
    }

    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        for key in keys {
            let (parts, name) = self.parts("delete", key)?;
            let work = move |inner: &DirectoryRoot| {
                let folder = match open_folder(&inner.root, &parts, false) {
                    Err(Errno::NOENT) => return Ok(()),
                    other => other?,
                };
                match rustix::fs::unlinkat(&folder, name.as_str(), AtFlags::empty()) {
                    Ok(()) => rustix::fs::fsync(&folder)?,
                    Err(Errno::NOENT) => {}
                    Err(e) => return Err(e),
                }
                // Folders that became empty go too, as in a bucket; one that is still in use stays.
                for depth in (1..=parts.len()).rev() {
                    let above = open_folder(&inner.root, &parts[..depth - 1], false)?;
                    if rustix::fs::unlinkat(&above, parts[depth - 1].as_str(), AtFlags::REMOVEDIR).is_err() {
                        break;
                    }
                }
                Ok(())
            };
            self.blocking("delete", key, work).await?;
        }
        Ok(())
    }

    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        let parts: Vec<String> = match prefix.trim_end_matches('/') {
            "" => Vec::new(),
            base => {
                let (mut parts, last) = self.parts("sweep", base)?;
                parts.push(last);
                parts
            }
        };
        self.blocking("sweep", prefix, move |inner| match open_folder(&inner.root, &parts, false) {
            Ok(folder) => sweep(&folder, age),
            Err(Errno::NOENT) => Ok(0),
            Err(e) => Err(e),
        })
        .await
    }

    async fn presign(&self, _key: &str, _valid: Duration) -> Result<Option<String>, BucketError> {
        Ok(None)
    }
}

fn sweep(folder: &OwnedFd, age: Duration) -> Result<u64, Errno> {
    let mut removed = 0;
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if name == "." || name == ".." {
            continue;
        }
        let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let below = rustix::fs::openat(folder, name, DIRECTORY, Mode::empty())?;
                removed += sweep(&below, age)?;
            }
            FileType::RegularFile if is_temporary(name) => {
                let written = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
                // File times and this comparison come from the same machine's clock.
                if written.elapsed().unwrap_or_default() >= age {
                    rustix::fs::unlinkat(folder, name, AtFlags::empty())?;
                    removed += 1;
                }
            }
            _ => {}
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn temporary() -> (tempfile::TempDir, Directory) {
        let root = tempfile::tempdir().unwrap();
        let store = Directory::open(root.path().join("new/bucket")).unwrap();
        (root, store)
    }

    #[tokio::test]
    async fn conforms() {
        let (_root, store) = temporary();
        crate::conformance::run(Arc::new(store)).await;
    }

    #[tokio::test]
    async fn secrets_are_for_the_owner_alone() {
        let (root, store) = temporary();
        store.put("a/b", b"x".to_vec().into(), PutOptions::default()).await.unwrap();
        let mode = |path: &str| std::fs::metadata(root.path().join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(["new/bucket", "new/bucket/a", "new/bucket/a/b"].map(mode), [0o700, 0o700, 0o600]);
    }

    #[test]
    fn every_folder_that_is_made_is_written_down_in_the_one_above() {
        let root = tempfile::tempdir().unwrap();
        let [new, bucket] = ["new", "new/bucket"].map(|path| root.path().join(path));
        assert_eq!(missing(&bucket), [(&*new, root.path()), (&*bucket, &*new)]);
        assert_eq!(missing(root.path()), []);
        let [one, two] = ["no-such-folder", "no-such-folder/b"].map(Path::new);
        assert_eq!(missing(two), [(one, Path::new(".")), (two, one)]);
    }

    #[tokio::test]
    async fn links_are_never_followed() {
        let (root, store) = temporary();
        let outside = root.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("secret"), "s").unwrap();
        let bucket = root.path().join("new/bucket");
        std::os::unix::fs::symlink(&outside, bucket.join("folder")).unwrap();
        std::os::unix::fs::symlink(outside.join("secret"), bucket.join("file")).unwrap();
        for key in ["folder/secret", "file"] {
            assert_eq!(store.head(key).await.unwrap_err().kind, ErrorKind::Invalid, "{key}");
            assert!(store.get(key, None).await.is_err(), "{key}");
        }
        assert!(store.put("folder/new", b"x".to_vec().into(), PutOptions::default()).await.is_err());
        assert_eq!(store.list(ListOptions::default()).await.unwrap(), Page::default());
        store.put("file", b"mine".to_vec().into(), PutOptions::default()).await.unwrap();
        assert_eq!(std::fs::read(outside.join("secret")).unwrap(), b"s", "the link was replaced, not followed");
        assert_eq!(std::fs::read_dir(outside).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn keys_that_are_no_paths_are_refused() {
        let (_root, store) = temporary();
        for key in ["", "/a", "a//b", "../a", "a/./b", "a/", "a\0", ".lifeboat-put-1-1"] {
            let error = store.put(key, vec![].into(), PutOptions::default()).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Invalid, "{key:?}");
        }
    }

    #[tokio::test]
    async fn leftovers_are_hidden_and_swept() {
        let (root, store) = temporary();
        store.put("a/b", b"x".to_vec().into(), PutOptions::default()).await.unwrap();
        let leftover = root.path().join("new/bucket/a/.lifeboat-put-1-1");
        std::fs::write(&leftover, "half").unwrap();
        assert_eq!(store.list(ListOptions::default()).await.unwrap().entries.len(), 1);
        assert_eq!(store.abort_stale_uploads("", Duration::from_secs(3600)).await.unwrap(), 0);
        assert_eq!(store.abort_stale_uploads("a/", Duration::ZERO).await.unwrap(), 1);
        assert!(!leftover.exists());
    }

    #[tokio::test]
    async fn deleting_the_last_key_removes_the_folder() {
        let (root, store) = temporary();
        store.put("a/b/c", b"x".to_vec().into(), PutOptions::default()).await.unwrap();
        store.delete(&["a/b/c".to_owned()]).await.unwrap();
        assert!(!root.path().join("new/bucket/a").exists() && root.path().join("new/bucket").exists());
    }
}
