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
        Ok(self.run.writer.contents().check_kept(self.kept)?)
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

/// Writes all directories that are being saved, from below, and gives the root.
async fn tree(run: &Run, root: &Arc<Directory>) -> Result<(ObjectId, Summary), KopiaError> {
    // Each with the place of the one above in this list, and its own place in that.
    let mut directories = vec![(root.clone(), None)];
    let mut next = 0;
    while let Some((directory, _)) = directories.get(next) {
        let below = directory.state().below.clone();
        let below = below.into_iter().filter_map(|(at, directory)| Some((directory.upgrade()?, Some((next, at)))));
        directories.extend(below);
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
            Some(writer) => match writer.checkpoint().await {
                // The file fails by itself.
                Err(KopiaError::TooLong { .. }) => None,
                object => object?,
            },
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
