//! Keeps files on this machine, so that an object in a bucket is read once. The folder has a limit as far as a process
//! knows: each process counts the files that it has found and written itself, so that several at once may hold more
//! together.

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tempfile::NamedTempFile;

/// The least size that a file counts with: a disk gives it no less.
const LEAST: u64 = 4 << 10;
/// The start of the name of a file that is being written.
const NEW: &str = ".new-";
/// The age at which a file that is still being written is taken for one whose process has died.
const WRITING: Duration = Duration::from_secs(3600);

/// The folder. Files in it that cannot be read count as absent.
#[derive(Clone, Debug)]
pub(crate) struct KeptFiles {
    folder: PathBuf,
    /// Bytes that all files have together, at most.
    most: u64,
    /// The ends of the names of our files: others in the folder are not ours to count or to remove.
    suffixes: &'static [&'static str],
    held: Arc<Mutex<KeptFolder>>,
}

/// The files in the folder, which is looked through once.
#[derive(Debug, Default)]
struct KeptFolder {
    is_known: bool,
    bytes: u64,
    /// Files that this process has not asked for so far, with what each counts.
    idle: BTreeMap<String, u64>,
    /// Files that this process has read or written since. They stay: a reader of more than the folder can hold then
    /// finds a part of it again the next time, where each new file in place of the oldest one would leave nothing of
    /// what is asked for first.
    used: BTreeMap<String, u64>,
}

impl KeptFiles {
    /// Creates the keeper of this folder, which is made when something is kept, for its owner alone.
    pub(crate) fn new(folder: PathBuf, most: u64, suffixes: &'static [&'static str]) -> Self {
        Self { folder, most, suffixes, held: Arc::default() }
    }

    /// The content of a file, and the words on its first line; `None` when it is not there as it was kept.
    pub(crate) fn read(&self, name: &str) -> Option<(String, Vec<u8>)> {
        let mut bytes = std::fs::read(self.folder.join(name)).ok()?;
        self.lock().use_file(name, counted(bytes.len() as u64));
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let content = bytes.split_off(end + 1);
        let (words, digest) = std::str::from_utf8(&bytes[..end]).ok()?.rsplit_once(' ')?;
        (digest == hex::encode(Sha256::digest(&content))).then(|| (words.to_owned(), content))
    }

    /// Keeps a file, behind a line with these words and the digest of the content. Files that this process has not
    /// asked for so far are removed for it, in the order of their names; where these are not enough, it is not kept.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub(crate) fn keep(&self, name: &str, words: &str, content: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let line = format!("{words} {}\n", hex::encode(Sha256::digest(content)));
        let size = counted((line.len() + content.len()) as u64);
        let mut held = self.lock();
        if !held.is_known {
            held.look_through(&self.folder, self.suffixes)?;
        }
        held.forget(name);
        if size > self.most {
            return Ok(());
        }
        while held.bytes + size > self.most {
            let Some((idle, _)) = held.idle.first_key_value() else { return Ok(()) };
            let idle = idle.clone();
            remove(&self.folder.join(&idle))?;
            held.forget(&idle);
        }
        let mut file = new_file(&self.folder)?;
        file.write_all(line.as_bytes())?;
        file.write_all(content)?;
        file.persist(self.folder.join(name))?;
        held.use_file(name, size);
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, KeptFolder> {
        // Nothing in it is half done when a thread dies.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptFolder {
    /// Counts the files in the folder beside those that are known to be used, and removes files that dead processes
    /// were writing.
    fn look_through(&mut self, folder: &Path, suffixes: &[&str]) -> io::Result<()> {
        // The time by the clock that the other files have theirs from.
        let now = new_file(folder)?.as_file().metadata()?.modified()?;
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            // Another process may have removed it.
            let Ok(metadata) = entry.metadata() else { continue };
            if name.starts_with(NEW) {
                let since = metadata.modified().ok().and_then(|at| now.duration_since(at).ok());
                if since.is_some_and(|since| since > WRITING) {
                    remove(&entry.path())?;
                }
                continue;
            }
            if !suffixes.iter().any(|end| name.ends_with(end)) {
                continue;
            }
            if !self.used.contains_key(name) {
                let size = counted(metadata.len());
                self.bytes += size;
                self.idle.insert(name.to_owned(), size);
            }
        }
        self.is_known = true;
        Ok(())
    }

    fn use_file(&mut self, name: &str, size: u64) {
        self.forget(name);
        self.bytes += size;
        self.used.insert(name.to_owned(), size);
    }

    fn forget(&mut self, name: &str) {
        self.bytes -= self.idle.remove(name).unwrap_or_default() + self.used.remove(name).unwrap_or_default();
    }
}

fn counted(size: u64) -> u64 {
    size.max(LEAST)
}

/// A file for its owner alone, which is gone when it is dropped.
fn new_file(folder: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(NEW).tempfile_in(folder)
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const SUFFIXES: &[&str] = &[".kept"];

    /// A folder with room for so many small files.
    fn files(folder: &Path, most: u64) -> KeptFiles {
        KeptFiles::new(folder.to_owned(), most * LEAST, SUFFIXES)
    }

    fn name(number: usize) -> String {
        format!("{number:03}.kept")
    }

    /// Asks for these files one after the other, as a command does, and keeps those that are not there. Gives how many were.
    fn pass(files: &KeptFiles, numbers: impl Iterator<Item = usize>) -> usize {
        let mut met = 0;
        for name in numbers.map(name) {
            match files.read(&name) {
                Some(_) => met += 1,
                None => files.keep(&name, "kept/v1", b"content").unwrap(),
            }
        }
        met
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_was_kept_is_read_again_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a/b");
        let files = files(&place, 10);
        assert_eq!(files.read("a.kept"), None);
        files.keep("a.kept", "kept/v1 7", b"two\nlines").unwrap();
        assert_eq!(files.read("a.kept"), Some(("kept/v1 7".to_owned(), b"two\nlines".to_vec())));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&place), mode(&place.join("a.kept"))), (0o700, 0o600));
    }

    #[test]
    fn a_file_that_is_not_whole_counts_as_absent_and_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path(), 10);
        files.keep("a.kept", "kept/v1", b"content").unwrap();
        let path = folder.path().join("a.kept");
        let whole = std::fs::read(&path).unwrap();
        let mut flipped = whole.clone();
        *flipped.last_mut().unwrap() ^= 1;
        for broken in [&whole[..whole.len() - 1], &flipped, b"", b"x\n", b"\n", b"\xff \n"] {
            std::fs::write(&path, broken).unwrap();
            assert_eq!(files.read("a.kept"), None);
        }
        files.keep("a.kept", "kept/v1", b"content").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), whole);
    }

    #[test]
    fn files_that_a_command_has_not_asked_for_go_for_others() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("notes.txt"), vec![0; 100_000]).unwrap();
        assert_eq!(pass(&files(folder.path(), 3), 0..3), 0);
        // The next command asks for one of them, and for others.
        assert_eq!(pass(&files(folder.path(), 3), [1, 5, 6].into_iter()), 1);
        assert_eq!(names(folder.path()), ["001.kept", "005.kept", "006.kept", "notes.txt"]);
        // A file that is written again takes its own place.
        let files = files(folder.path(), 3);
        files.keep("005.kept", "kept/v1", b"other").unwrap();
        assert_eq!(names(folder.path()), ["001.kept", "005.kept", "006.kept", "notes.txt"]);
        // One that has no room alone leaves the others where they are used.
        assert_eq!(pass(&files, [1, 6].into_iter()), 2);
        files.keep("large.kept", "kept/v1", &vec![0; 2 * 4096]).unwrap();
        assert_eq!(names(folder.path()), ["001.kept", "005.kept", "006.kept", "notes.txt"]);
    }

    #[test]
    fn what_a_process_was_writing_that_has_died_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        for (name, age) in [(".new-dead", 3_601), (".new-alive", 3_000), ("notes.txt", 10_000)] {
            let file = std::fs::File::create(folder.path().join(name)).unwrap();
            file.set_modified(file.metadata().unwrap().modified().unwrap() - Duration::from_secs(age)).unwrap();
        }
        pass(&files(folder.path(), 3), 0..1);
        assert_eq!(names(folder.path()), [".new-alive", "000.kept", "notes.txt"]);
    }

    #[test]
    fn of_more_than_there_is_room_for_a_part_is_met_each_time() {
        let folder = tempfile::tempdir().unwrap();
        // The names of files say nothing of the order in which they are asked for.
        let numbers = || (0..100).map(|number| number * 37 % 101);
        for run in 0..4 {
            // The newest of them may be asked for first, and again in its turn.
            let files = files(folder.path(), 50);
            let met = pass(&files, numbers().next_back().into_iter().chain(numbers()));
            assert!(names(folder.path()).len() <= 50);
            assert!(if run == 0 { met == 1 } else { met >= 40 }, "{met} in run {run}");
        }
    }
}
