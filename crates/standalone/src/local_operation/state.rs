//! State of a local operation on this machine, so that running the same command again resumes it.

use super::files::{read, replace};
use super::operation_key::OperationKey;
use super::records::RecordFolder;
use super::specification::Specification;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

/// The state of one operation: a file below `$XDG_STATE_HOME/lifeboat`, removed when the operation has ended. Held by
/// one process at a time.
#[derive(Debug)]
pub struct OperationStateFile {
    path: PathBuf,
    /// The state.
    pub content: OperationState,
    /// True when there is no earlier operation that was begun and has not ended.
    pub is_new: bool,
    _lock: File,
}

/// Contents of the state file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationState {
    /// UID of the Backup or Restore.
    pub uid: String,
    /// When it was first begun.
    pub started: jiff::Timestamp,
    /// The backup that a restore takes its objects from, where the command alone does not determine it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<OfBackup>,
    /// The specification of the operation, so that another command is not taken for the same.
    #[serde(default)]
    pub specification: Specification,
    /// True when it has come to an end, with something that was not done. A run that goes on with it begins without
    /// this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_ended: bool,
}

/// A backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfBackup {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl OperationState {
    /// Of an operation that begins now.
    pub fn new(now: jiff::Timestamp) -> Self {
        Self {
            uid: uuid::Uuid::new_v4().to_string(),
            started: now,
            backup: None,
            specification: Specification::default(),
            has_ended: false,
        }
    }

    /// Of an operation that begins now and does this.
    pub fn of(now: jiff::Timestamp, specification: Specification) -> Self {
        Self { specification, ..Self::new(now) }
    }
}

/// An operation that is taken up again.
#[derive(Debug)]
pub enum ResumedOperation {
    /// It goes on, or begins.
    Same(OperationStateFile),
    /// It was to do something else, and has done a part of that: where the two differ.
    Differs(Vec<String>),
}

impl OperationStateFile {
    /// The state of the operation of this key; this new one when there is none. It is on disk when this returns.
    ///
    /// # Errors
    /// When the folder or file cannot be used, or the same operation is under way in another process.
    pub fn open(key: &OperationKey, new: OperationState) -> Result<Self> {
        Self::open_in(&folder_of(key.kind), key, new)
    }

    /// Returns the state of an operation that was begun and has not ended.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn kept(key: &OperationKey) -> Result<Option<OperationState>> {
        content(&key.path_in(&folder_of(key.kind)))
    }

    fn open_in(folder: &Path, key: &OperationKey, new: OperationState) -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .with_context(|| format!("make {}", folder.display()))?;
        let path = key.path_in(folder);
        let lock = lock(&path.with_extension("lock"))?;
        let kept = content(&path)?;
        let (is_new, content) = (kept.is_none(), kept.unwrap_or(new));
        let mut state = Self { path, content, is_new, _lock: lock };
        if is_new || state.content.has_ended {
            state.write(false)?;
        }
        Ok(state)
    }

    /// Resumes the operation when its specification is the one of `new`. An operation that has done nothing yet begins
    /// as the new one.
    ///
    /// # Errors
    /// When the state cannot be written.
    pub fn resume(self, new: OperationState) -> Result<ResumedOperation> {
        let differences = self.content.specification.differences(&new.specification);
        match differences.is_empty() {
            true => Ok(ResumedOperation::Same(self)),
            false if self.records().is_empty() => Ok(ResumedOperation::Same(self.renewed(new)?)),
            false => Ok(ResumedOperation::Differs(differences)),
        }
    }

    /// The state of a new operation in place of this one, whose notes are forgotten.
    ///
    /// # Errors
    /// When the notes cannot be removed or the file cannot be written.
    pub fn renewed(mut self, new: OperationState) -> Result<Self> {
        self.records().remove()?;
        (self.content, self.is_new) = (new, true);
        self.write(false)?;
        Ok(self)
    }

    /// The same state with other content; its notes stay.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn with(mut self, content: OperationState) -> Result<Self> {
        self.content = content;
        self.write(false)?;
        Ok(self)
    }

    fn write(&mut self, has_ended: bool) -> Result<()> {
        self.content.has_ended = has_ended;
        replace(&self.path, &serde_json::to_vec(&self.content)?)
            .with_context(|| format!("write {}", self.path.display()))
    }

    /// Notes that the operation has ended and has not done everything, so that the same command may go on with it.
    ///
    /// # Errors
    /// When the file cannot be written: the operation is then one that was cut off.
    pub fn end_with_something_left(mut self) -> Result<()> {
        self.write(true)
    }

    /// The notes of the operation.
    pub fn records(&self) -> RecordFolder {
        RecordFolder::at(self.path.with_extension("records"))
    }

    /// Forgets the operation, which has not begun, unless it had begun before.
    pub fn forget_if_new(self) {
        if self.is_new {
            self.forget();
        }
    }

    /// Forgets the operation: it has ended.
    pub fn forget(self) {
        // Files that stay are harmless: what was done under their UID is complete.
        let _ = self.records().remove();
        for path in [&self.path, &self.path.with_extension("lock")] {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Reads a state file. It is replaced as a whole; unknown contents must not be thrown away.
fn content(path: &Path) -> Result<Option<OperationState>> {
    let reading = || format!("read {}", path.display());
    let Some(bytes) = read(path).with_context(reading)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).with_context(reading)
}

/// Where the state of operations of a kind lies.
pub fn folder_of(kind: &str) -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let base = std::env::var_os("XDG_STATE_HOME")
        .filter(|v| !v.is_empty())
        .map_or_else(|| home.join(".local/state"), PathBuf::from);
    base.join("lifeboat").join(kind)
}

/// The state of an operation that an older version has left, whose key did not include the cluster, until it is
/// removed.
#[derive(Debug)]
pub struct OldState {
    path: PathBuf,
}

impl OldState {
    /// The old state of the operation of this bucket and name, for whichever cluster it was.
    pub fn find(key: &OperationKey) -> Option<Self> {
        Self::find_in(&folder_of(key.kind), key)
    }

    fn find_in(folder: &Path, key: &OperationKey) -> Option<Self> {
        let path = key.old_path_in(folder);
        // A name that is too long for a file has none.
        path.is_file().then_some(Self { path })
    }

    /// Returns its contents; `None` when it cannot be read.
    pub fn content(&self) -> Option<OperationState> {
        content(&self.path).ok().flatten()
    }

    /// Removes it with its notes, and returns its path.
    pub fn remove(self) -> PathBuf {
        // What stays is found again, and nothing else goes by it.
        let _ = RecordFolder::at(self.path.with_extension("records")).remove();
        for path in [&self.path, &self.path.with_extension("lock")] {
            let _ = std::fs::remove_file(path);
        }
        self.path
    }
}

/// The lock that ends with this process, however that ends.
fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("make {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!("the same command is already running on this machine (it holds {}): wait for it", path.display())
        }
        Err(TryLockError::Error(e)) => Err(e).with_context(|| format!("lock {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use lifeboat_operation::Records;
    use std::collections::BTreeMap;

    fn key(bucket: &str, cluster: &str, name: &str) -> OperationKey {
        OperationKey { kind: "restore", bucket: bucket.into(), cluster: cluster.into(), name: name.into() }
    }

    /// The state of the restore `back` for a cluster, of a backup with this UID.
    fn of_backup(folder: &Path, cluster: &str, backup_uid: &str) -> (OperationStateFile, OperationState) {
        let specification = Specification::default().with("backup UID", backup_uid);
        let new = OperationState::of(jiff::Timestamp::now(), specification);
        (OperationStateFile::open_in(folder, &key("/a", cluster, "back"), new.clone()).unwrap(), new)
    }

    async fn write_something(state: &OperationStateFile) {
        let note = Some(Bytes::from_static(b"half"));
        state.records().write(BTreeMap::from([("checkpoint".to_owned(), note)])).await.unwrap();
    }

    #[tokio::test]
    async fn the_same_command_for_another_cluster_takes_up_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (first, _) = of_backup(folder.path(), "one", "u");
        write_something(&first).await;
        let (uid, _) = (first.content.uid.clone(), drop(first));
        let (other, _) = of_backup(folder.path(), "other", "u");
        assert!(other.is_new && other.records().is_empty() && other.content.uid != uid);
        let (again, new) = of_backup(folder.path(), "one", "u");
        let ResumedOperation::Same(again) = again.resume(new).unwrap() else { panic!("it goes on") };
        assert!(!again.is_new && !again.records().is_empty() && again.content.uid == uid);
    }

    #[tokio::test]
    async fn another_specification_is_refused_with_differences_once_work_has_begun() {
        let folder = tempfile::tempdir().unwrap();
        drop(of_backup(folder.path(), "c", "u"));
        let (untouched, new) = of_backup(folder.path(), "c", "v");
        let ResumedOperation::Same(state) = untouched.resume(new.clone()).unwrap() else { panic!("it begins") };
        assert_eq!((state.is_new, &state.content), (true, &new));
        write_something(&state).await;
        drop(state);
        let (begun, third) = of_backup(folder.path(), "c", "w");
        let ResumedOperation::Differs(parts) = begun.resume(third.clone()).unwrap() else { panic!("it is refused") };
        assert_eq!(parts, ["backup UID was \"v\", now \"w\""]);
        let renewed = of_backup(folder.path(), "c", "w").0.renewed(third.clone()).unwrap();
        assert!(renewed.is_new && renewed.records().is_empty());
        drop(renewed);
        assert_eq!(of_backup(folder.path(), "c", "w").0.content, third);
    }

    #[tokio::test]
    async fn a_state_that_does_not_tell_the_cluster_is_found_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let key = key("/a", "c", "back");
        assert!(OldState::find_in(folder.path(), &key).is_none());
        let path = key.old_path_in(folder.path());
        std::fs::write(&path, r#"{"uid":"u","started":"2026-01-01T00:00:00Z"}"#).unwrap();
        write_something(&OperationStateFile { path: path.clone(), ..of_backup(folder.path(), "d", "u").0 }).await;
        let old = OldState::find_in(folder.path(), &key).unwrap();
        assert_eq!(old.content().unwrap().uid, "u");
        let (state, _) = of_backup(folder.path(), "c", "u");
        assert!(state.is_new, "it is never taken up");
        assert_eq!(old.remove(), path);
        assert!(!path.exists() && !path.with_extension("records").exists());
        let long = OperationKey { name: "n".repeat(253), ..key };
        assert!(OldState::find_in(folder.path(), &long).is_none());
    }

    #[test]
    fn the_same_command_finds_its_state_until_it_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let open = |bucket: &str| {
            let new = OperationState::new(jiff::Timestamp::now());
            OperationStateFile::open_in(&folder.path().join("backup"), &key(bucket, "c", "nightly"), new).unwrap()
        };
        let first = open("/a").content;
        assert_eq!(open("/a").content, first);
        assert_ne!(open("/b").content, first);
        open("/a").forget();
        assert_ne!(open("/a").content, first);
    }

    #[test]
    fn one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            OperationStateFile::open_in(
                folder.path(),
                &key("/a", "c", "nightly"),
                OperationState::new(jiff::Timestamp::now()),
            )
        };
        let held = open().unwrap();
        let refused = open().unwrap_err().to_string();
        assert!(refused.starts_with("the same command is already running on this machine"), "{refused}");
        drop(held);
        open().unwrap();
    }

    #[tokio::test]
    async fn notes_stay_until_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            OperationStateFile::open_in(
                folder.path(),
                &key("/a", "c", "back"),
                OperationState::new(jiff::Timestamp::now()),
            )
            .unwrap()
        };
        let state = open();
        assert!(state.is_new);
        assert_eq!(state.records().read("checkpoint").await, Ok(None));
        let half = Bytes::from_static(b"half");
        state.records().write(BTreeMap::from([("checkpoint".to_owned(), Some(half.clone()))])).await.unwrap();
        drop(state);
        let state = open();
        assert_eq!(state.records().read("checkpoint").await, Ok(Some(half)));
        assert!(!state.is_new);
        state.end_with_something_left().unwrap();
        assert!(content(&key("/a", "c", "back").path_in(folder.path())).unwrap().unwrap().has_ended);
        let state = open();
        assert_eq!((state.is_new, state.content.has_ended), (false, false));
        assert!(!content(&state.path).unwrap().unwrap().has_ended, "it goes on");
        state.forget_if_new();
        open().forget();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        open().forget_if_new();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
