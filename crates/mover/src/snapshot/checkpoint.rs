//! Checkpoints keep what is done of a snapshot, from time to time, in kopia's form: a snapshot that says of itself that it is
//! none (kopia: snapshot/upload/checkpoint_registry.go).

use super::directory::Directory;
use super::document::{Unfinished, write};
use super::run::Run;
use crate::MoverError;
use lifeboat_kopia::KopiaError;
use lifeboat_kopia::format::directory::{DirectoryEntry, Summary};
use lifeboat_kopia::format::object_id::ObjectId;
use lifeboat_kopia::format::snapshot::{SnapshotDocument, Stats};
use lifeboat_kopia::format::time::UnixNanos;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use tokio::sync::Notify;

/// The word by which a snapshot says that it is a checkpoint.
pub(super) const CHECKPOINT: &str = "checkpoint";

/// The longest time without a checkpoint, in nanoseconds. Between the mark that a content is deleted and its end there are
/// two collections more than four hours apart.
const MAX_PAUSE: i64 = 4 * 60 * 60 * 1_000_000_000;

/// The checkpoints of one snapshot.
pub(super) struct Checkpoints {
    run: Arc<Run>,
    root: Arc<Directory>,
    start: UnixNanos,
    /// The time of the last one, or of the beginning.
    kept: UnixNanos,
    /// The manifest of the last one, which the next one replaces.
    pub(super) last: Option<String>,
}

impl Checkpoints {
    pub(super) fn new(run: Arc<Run>, root: Arc<Directory>, start: UnixNanos) -> Self {
        Self { run, root, start, kept: start, last: None }
    }

    /// Makes checkpoints until the snapshot is done.
    pub(super) async fn until(mut self, is_done: &Notify) -> Result<Self, MoverError> {
        let begun = tokio::time::Instant::now();
        let mut done = std::pin::pin!(is_done.notified());
        loop {
            let pause = self.run.options.checkpoints.pause(begun.elapsed());
            tokio::select! {
                biased;
                () = &mut done => return Ok(self),
                () = tokio::time::sleep(pause) => self.make().await?,
            }
        }
    }

    /// Refuses to go on when so much time has passed since the last checkpoint that maintenance may have deleted what was
    /// stored or found since then. Nothing refers to it yet.
    pub(super) fn check_pause(&self) -> Result<(), MoverError> {
        check_pause(self.kept, (self.run.options.clock)())
    }

    async fn make(&mut self) -> Result<(), MoverError> {
        self.check_pause()?;
        let begun = (self.run.options.clock)();
        let (run, root) = (&self.run, &self.root);
        let (object, summary) = tree(run, root).await?;
        let itself = root.state().itself.to_repository();
        let document = SnapshotDocument {
            source: run.options.source.clone(),
            description: String::new(),
            start: self.start,
            end: (run.options.clock)(),
            stats: Stats::default(),
            incomplete: Some(CHECKPOINT.to_owned()),
            root: Some(DirectoryEntry { object: Some(object), summary: Some(summary), ..itself }),
            tags: BTreeMap::new(),
            pins: Vec::new(),
        };
        let id = run.writer.save_snapshot(&document)?;
        if let Some(last) = self.last.replace(id) {
            run.writer.delete_manifest(&last)?;
        }
        run.flush().await?;
        run.note(|notes, _| notes.checkpoints += 1);
        self.kept = begun;
        Ok(())
    }
}

fn check_pause(kept: UnixNanos, now: UnixNanos) -> Result<(), MoverError> {
    if now.0.saturating_sub(kept.0) <= MAX_PAUSE {
        return Ok(());
    }
    let why = format!(
        "the snapshot ends here: nothing of it was kept in the repository since {kept}, and maintenance may have deleted what it needs since then \
         (the machine may have been asleep): run the command again"
    );
    Err(MoverError::Refused(why))
}

/// Writes all directories that are being saved, from below, and gives the root.
async fn tree(run: &Run, root: &Arc<Directory>) -> Result<(ObjectId, Summary), KopiaError> {
    // Each with the place of the one above in this list, and its own place in that.
    let mut directories = vec![(root.clone(), None)];
    let mut next = 0;
    while let Some((directory, _)) = directories.get(next) {
        let below = directory.state().below.clone();
        directories.extend(below.into_iter().map(|(at, directory)| (directory, Some((next, at)))));
        next += 1;
    }
    let mut written: BTreeMap<usize, BTreeMap<usize, _>> = BTreeMap::new();
    loop {
        let Some((directory, above)) = directories.pop() else { return Err(KopiaError::Cancelled) };
        let below = written.remove(&directories.len()).unwrap_or_default();
        let unfinished = Unfinished { below, files: beginnings(run, &directory).await?, reason: Some(CHECKPOINT) };
        let done = write(run, &directory, unfinished).await?;
        match above {
            Some((above, at)) => drop(written.entry(above).or_default().insert(at, done)),
            None => return Ok(done),
        }
    }
}

/// The beginnings of the files of a directory that are being read, and their finished parts. Their names say that they are no whole files, so that
/// nobody takes them over; their lengths are those of the whole files.
async fn beginnings(run: &Run, directory: &Directory) -> Result<Vec<DirectoryEntry>, KopiaError> {
    let (uploads, mut objects) = {
        let state = directory.state();
        (state.uploads.clone(), state.parts.clone())
    };
    for (at, writer) in uploads {
        let object = match writer.lock().await.as_mut() {
            Some(writer) => writer.checkpoint().await?,
            // It is finished just now.
            None => None,
        };
        objects.extend(object.map(|object| (at, object)));
    }
    let mut entries = Vec::new();
    for (at, object) in objects {
        let Some(entry) = directory.state().entries.get(at).cloned() else { continue };
        let mut entry = entry.to_repository();
        let name = format!(".checkpointed.{}.{}", entry.name, uuid(run));
        entry.name = name.as_str().into();
        entry.object = Some(object);
        entries.push(entry);
    }
    Ok(entries)
}

/// A random UUID.
fn uuid(run: &Run) -> String {
    let mut bytes = [0_u8; 16];
    (run.options.random)(&mut bytes);
    let [.., version, _, variant, _, _, _, _, _, _, _] = &mut bytes;
    *version = *version & 0x0f | 0x40;
    *variant = *variant & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing into a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_that_slept_longer_than_maintenance_waits_does_not_go_on() {
        let kept = UnixNanos(1_795_900_000_000_000_000);
        let after = |nanoseconds: i64| check_pause(kept, UnixNanos(kept.0 + nanoseconds)).map_err(|e| e.to_string());
        assert_eq!([after(-1), after(0), after(MAX_PAUSE)], [Ok(()), Ok(()), Ok(())]);
        let refused = after(MAX_PAUSE + 1).unwrap_err();
        assert!(refused.contains("run the command again"), "{refused}");
    }
}
