//! Files and symlinks on their way into the repository.

use super::attributes::FoundAttributes;
use super::directory::{Directory, SharedWriter};
use super::entry::Kind;
use super::policies::Settings;
use super::read::{FileReading, Opened, Piece, Whole, link, pieces, whole};
use super::run::{Run, blocking, joined};
use crate::MoverError;
use crate::failure::{Failed, NotSaved};
use crate::progress::add;
use futures::{StreamExt, TryStreamExt};
use lifeboat_kopia::KopiaError;
use lifeboat_kopia::format::object_id::ObjectId;
use lifeboat_kopia::object::writer::{ObjectOptions, concatenate, longest};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

/// Files up to this length are read whole, many in one go.
pub(super) const SMALL: u64 = 256 << 10;
/// Pieces of a file that wait for the splitter.
pub(super) const WAITING: usize = 4;
/// The time that chunks wait for others while no bytes come.
const PATIENCE: Duration = Duration::from_millis(50);
/// Parts of one file that are on their way at once.
const PARTS: usize = 2;
/// Small files of one batch that are stored side by side.
const STORED_AT_ONCE: usize = 64;

/// A small file or symlink of a batch.
#[derive(Debug)]
struct Item {
    at: usize,
    name: OsString,
    kind: Kind,
    size: u64,
}

/// Saves small files and symlinks of a directory.
pub(super) async fn save_batch(
    run: &Arc<Run>,
    directory: &Arc<Directory>,
    batch: Vec<usize>,
) -> Result<(), MoverError> {
    let items: Vec<Item> = {
        let state = directory.state();
        let item = |at: usize| {
            let entry = state.entries.get(at)?;
            Some(Item { at, name: entry.name().to_owned(), kind: entry.kind, size: entry.size })
        };
        batch.into_iter().filter_map(item).collect()
    };
    let reading = run.limits.reads.acquire().await.map_err(|_| KopiaError::Cancelled)?;
    let read = {
        let (run, directory) = (run.clone(), directory.clone());
        blocking(move || {
            let folder = directory.file(&run);
            let read = |item: Item| {
                let bytes = match (&folder, item.kind) {
                    (Err(failed), _) => Err(failed.clone()),
                    (Ok(folder), Kind::Symlink) => link(folder, &item.name).map(Some),
                    (Ok(folder), _) => whole(folder, &item.name, SMALL),
                };
                (item, bytes)
            };
            items.into_iter().map(read).collect::<Vec<_>>()
        })
        .await?
    };
    drop(reading);
    let stored = futures::stream::iter(read.into_iter().map(Ok::<_, MoverError>));
    stored
        .try_for_each_concurrent(STORED_AT_ONCE, |(item, read)| async move {
            match read.transpose() {
                Some(read) => save_whole(run, directory, item, read).await,
                // It has grown since it was listed.
                None => Box::pin(save_long(run, directory, item.at)).await,
            }
        })
        .await
}

async fn save_whole(
    run: &Run,
    directory: &Directory,
    item: Item,
    read: Result<Whole, Failed>,
) -> Result<(), MoverError> {
    if item.kind == Kind::File && !matches!(read, Err(Failed::Gone(_))) {
        add(&run.counts.non_cached_files, 1);
    }
    let read = match read {
        Ok(read) => read,
        Err(failed) => {
            directory.fail_file(run, &item.name, &failed);
            return Ok(());
        }
    };
    let length = read.bytes.len() as u64;
    let settings = settings(run, directory, &item.name);
    let options = match item.kind {
        Kind::Symlink => settings.of_symlink(),
        _ => settings.of_file(item.name.as_encoded_bytes(), item.size),
    };
    let mut object = run.writer.object(options);
    if !read.bytes.is_empty() {
        object.write(read.bytes).await?;
    }
    let object = object.finish().await?;
    add(&run.progress.bytes_read, length);
    if item.kind == Kind::Symlink {
        add(&run.progress.symlinks, 1);
    } else {
        count_file(run, length, 1);
    }
    run.lost_attributes.add(read.attributes);
    if read.has_changed {
        let expected = read.stat.as_ref().map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or_default());
        note_change(run, directory, &item.name, ReadLength { read: length, expected });
    }
    directory.finish(item.at, object, length, read.stat.as_ref());
    Ok(())
}

/// The policy of a file, which may have its own.
fn settings<'a>(run: &'a Run, directory: &'a Directory, name: &OsStr) -> &'a Settings {
    run.policies.at(|| directory.path_of(name)).unwrap_or(&directory.settings)
}

fn count_file(run: &Run, length: u64, parts: u64) {
    add(&run.counts.files, parts);
    add(&run.counts.total_size, length);
    add(&run.progress.files, 1);
}

/// Tells of a file that was changed each time, and of which so many bytes were read. A length of 0 is that of a file of which
/// it is not known.
fn note_change(run: &Run, directory: &Directory, name: &OsStr, length: ReadLength) {
    let path = directory.shown_path_of(name);
    let mut why = "it was changed each time while it was read".to_owned();
    if length.read < length.expected {
        why = format!("{why}: it ended after {} of {} bytes", length.read, length.expected);
    }
    run.note(|notes, most| notes.changed.add(path, why, most));
}

/// A long file whose bytes are in the repository, as it was when it was opened.
#[derive(Debug)]
struct LongFile {
    saved: SavedFile,
    opened: Arc<Opened>,
    attributes: FoundAttributes,
    /// True where it was changed while it was read, or ended before its length.
    has_changed: bool,
}

/// Saves a file that is too long to be read in one go. One that is changed meanwhile is read once more; one that was deleted
/// then is as it was read.
pub(super) async fn save_long(run: &Arc<Run>, directory: &Arc<Directory>, at: usize) -> Result<(), MoverError> {
    let listed = directory.state().entries.get(at).map(|entry| Item {
        at,
        name: entry.name().to_owned(),
        kind: entry.kind,
        size: entry.size,
    });
    let Some(item) = listed else { return Ok(()) };
    let _reading = run.limits.reads.acquire().await.map_err(|_| KopiaError::Cancelled)?;
    let mut read = read_long(run, directory, &item).await?;
    if !matches!(read, Err(Failed::Gone(_))) {
        add(&run.counts.non_cached_files, 1);
    }
    if read.as_ref().is_ok_and(|first| first.has_changed) {
        match read_long(run, directory, &item).await? {
            Err(Failed::Gone(_)) => {}
            again => read = again,
        }
    }
    match read {
        Ok(file) if file.saved.has_gap => {
            let why = "it was cut while it was read: what was read of its parts does not fit together";
            directory.fail_file(run, &item.name, &Failed::Because(why.to_owned()));
        }
        Ok(LongFile { saved, opened, attributes, has_changed }) => {
            count_file(run, saved.length, saved.parts);
            run.lost_attributes.add(attributes);
            if has_changed {
                note_change(run, directory, &item.name, ReadLength { read: saved.length, expected: opened.size() });
            }
            directory.finish(at, saved.object, saved.length, Some(&opened.stat));
        }
        Err(failed) => directory.fail_file(run, &item.name, &failed),
    }
    Ok(())
}

/// Reads a long file once.
async fn read_long(
    run: &Arc<Run>,
    directory: &Arc<Directory>,
    item: &Item,
) -> Result<Result<LongFile, Failed>, MoverError> {
    let opened = {
        let (run, directory, name) = (run.clone(), directory.clone(), item.name.clone());
        blocking(move || Opened::beneath(&*directory.file(&run)?, &name)).await?
    };
    let opened = match opened {
        Ok(opened) => Arc::new(opened),
        Err(failed) => return Ok(Err(failed)),
    };
    // Some file systems do not know how long their files are: it is read to its end.
    let size_read = if opened.size() == 0 { i64::MAX.unsigned_abs() } else { opened.size() };
    let settings = settings(run, directory, &item.name);
    let source = Source {
        size: size_read,
        has_holes: opened.has_holes(),
        options: settings.of_file(item.name.as_encoded_bytes(), item.size),
        part: settings.part.filter(|_| opened.size() > 0),
        at: item.at,
        handle: Arc::new(Handle::Opened(opened.clone())),
    };
    let saved = match save_source(run, directory, &source).await {
        Ok(saved) => Ok(saved),
        Err(NotSaved::Entry(failed)) => Err(failed),
        Err(NotSaved::Snapshot(error)) => return Err(error),
    };
    let ended = blocking({
        let opened = opened.clone();
        move || {
            opened.forget();
            opened.has_changed().map(|has_changed| (has_changed, opened.attributes()))
        }
    });
    Ok(match (saved, ended.await?) {
        (Ok(saved), Ok((has_changed, attributes))) => {
            let has_changed = has_changed || saved.length < opened.size();
            Ok(LongFile { saved, opened, attributes, has_changed })
        }
        (Err(failed), _) | (_, Err(failed)) => Err(failed),
    })
}

/// A long file or a device that is read.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) size: u64,
    pub(super) has_holes: bool,
    pub(super) options: ObjectOptions,
    /// The length of parts, where the file is longer.
    pub(super) part: Option<u64>,
    /// Its place in its directory.
    pub(super) at: usize,
    pub(super) handle: Arc<Handle>,
}

/// An open file or device.
#[derive(Debug)]
pub(super) enum Handle {
    Opened(Arc<Opened>),
    Device(File),
}

impl Handle {
    fn file(&self) -> &File {
        match self {
            Self::Opened(opened) => &opened.file,
            Self::Device(device) => device,
        }
    }
}

/// A file whose bytes are in the repository.
#[derive(Debug)]
pub(super) struct SavedFile {
    pub(super) object: ObjectId,
    pub(super) length: u64,
    pub(super) parts: u64,
    /// True where a part ended early and another one behind it did not: the bytes behind it are at wrong places.
    pub(super) has_gap: bool,
}

/// The bytes that were read of a file, and those that it should have.
#[derive(Debug, Clone, Copy)]
struct ReadLength {
    read: u64,
    expected: u64,
}

/// Saves the bytes of a file or device, in parts where it is long.
pub(super) async fn save_source(
    run: &Arc<Run>,
    directory: &Arc<Directory>,
    source: &Source,
) -> Result<SavedFile, NotSaved> {
    // A file of many parts would be read to its end before that shows.
    let longest = longest(run.writer.contents(), &source.options)?;
    if source.part.is_some() && source.size > longest {
        let why =
            format!("it has {} bytes, and no object of this repository can have more than {longest}", source.size);
        return Err(Failed::Because(why).into());
    }
    let parts = parts(source.size, source.part);
    let count = parts.len() as u64;
    let _listed = RegisteredParts { directory, at: source.at };
    let saved = futures::stream::iter(parts.clone()).map(|range| save_part(run, directory, source, range));
    let saved: Vec<(ObjectId, u64)> = saved.buffered(PARTS).try_collect().await?;
    let length = saved.iter().map(|(_, length)| length).sum();
    let lengths: Vec<u64> = saved.iter().map(|(_, length)| *length).collect();
    let has_gap = has_gap(&parts, &lengths);
    let objects: Vec<ObjectId> = saved.into_iter().map(|(object, _)| object).collect();
    let object = concatenate(run.writer.contents(), &objects, source.options).await.map_err(of_file)?;
    Ok(SavedFile { object, length, parts: count, has_gap })
}

/// True where a part ended before its length, and another one behind it has bytes.
fn has_gap(parts: &[Range<u64>], lengths: &[u64]) -> bool {
    let is_short = |(part, length): (&Range<u64>, &u64)| *length < part.end - part.start;
    let first = parts.iter().zip(lengths).position(is_short);
    first.is_some_and(|first| lengths.iter().skip(first + 1).any(|length| *length > 0))
}

/// The ranges of a file that are objects of their own: one, or parts of one length and one of the rest, which may be empty.
fn parts(size: u64, part: Option<u64>) -> Vec<Range<u64>> {
    match part {
        Some(part) if size > part => {
            let full = size / part;
            (0..=full).map(|n| n * part..if n == full { size } else { (n + 1) * part }).collect()
        }
        _ => std::iter::once(0..size).collect(),
    }
}

async fn save_part(
    run: &Arc<Run>,
    directory: &Arc<Directory>,
    source: &Source,
    range: Range<u64>,
) -> Result<(ObjectId, u64), NotSaved> {
    let writer: SharedWriter = Arc::new(tokio::sync::Mutex::new(Some(run.writer.object(source.options))));
    let _listed = RegisteredUpload::register(directory, source.at, &writer);
    let (give, mut waiting) = mpsc::channel(WAITING);
    let (handle, has_holes) = (source.handle.clone(), source.has_holes);
    let contents = run.writer.contents().clone();
    let reading = tokio::task::spawn_blocking(move || {
        let buffer = |bytes| contents.piece_buffer(bytes);
        let reading = FileReading { file: handle.file(), has_holes, buffer: &buffer };
        pieces(&reading, range, &mut |piece| give.blocking_send(piece).is_ok())
    });
    while let Some(piece) = next_piece(run, &mut waiting).await {
        write(run, &writer, piece).await.map_err(of_file)?;
    }
    let length = joined(reading.await)??;
    let Some(object) = writer.lock().await.take() else { return Err(KopiaError::Cancelled.into()) };
    let object = object.finish().await.map_err(of_file)?;
    // Checkpoints keep it from maintenance until all parts are there.
    directory.state().parts.push((source.at, object));
    Ok((object, length))
}

/// The next piece of a source; `None` at its end.
pub(super) async fn next_piece(run: &Run, waiting: &mut mpsc::Receiver<Piece>) -> Option<Piece> {
    match waiting.try_recv() {
        Err(TryRecvError::Empty) => match tokio::time::timeout(PATIENCE, waiting.recv()).await {
            Ok(piece) => piece,
            Err(_) => {
                // Chunks that wait for others would keep their memory for as long as the source stalls.
                run.writer.contents().hurry();
                waiting.recv().await
            }
        },
        come => come.ok(),
    }
}

/// Tells the failure of one file from that of the repository.
fn of_file(error: KopiaError) -> NotSaved {
    match error {
        KopiaError::TooLong { .. } => NotSaved::Entry(Failed::Because(error.to_string())),
        error => error.into(),
    }
}

async fn write(run: &Run, writer: &SharedWriter, piece: Piece) -> Result<(), KopiaError> {
    let mut writer = writer.lock().await;
    let writer = writer.as_mut().ok_or(KopiaError::Cancelled)?;
    let length = match piece {
        Piece::Bytes(bytes) => {
            let length = bytes.len() as u64;
            writer.write(bytes).await?;
            length
        }
        Piece::Zeros(count) => {
            writer.write_zeros(count).await?;
            count
        }
    };
    add(&run.progress.bytes_read, length);
    Ok(())
}

/// The parts of a file that are finished, as long as this lives.
struct RegisteredParts<'a> {
    directory: &'a Directory,
    at: usize,
}

impl Drop for RegisteredParts<'_> {
    fn drop(&mut self) {
        self.directory.state().parts.retain(|(at, _)| *at != self.at);
    }
}

/// A file among those that are being read, as long as this lives.
pub(super) struct RegisteredUpload<'a> {
    directory: &'a Directory,
    writer: &'a SharedWriter,
}

impl<'a> RegisteredUpload<'a> {
    /// Adds the writer of the entry at a place.
    pub(super) fn register(directory: &'a Directory, at: usize, writer: &'a SharedWriter) -> Self {
        directory.state().uploads.push((at, writer.clone()));
        Self { directory, writer }
    }
}

impl Drop for RegisteredUpload<'_> {
    fn drop(&mut self) {
        self.directory.state().uploads.retain(|(_, writer)| !Arc::ptr_eq(writer, self.writer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_longer_than_a_part_has_as_many_as_fit_and_one_more() {
        let of = |size, part| parts(size, part).into_iter().map(|range| (range.start, range.end)).collect::<Vec<_>>();
        assert_eq!(of(10, None), [(0, 10)]);
        assert_eq!(of(10, Some(10)), [(0, 10)]);
        assert_eq!(of(11, Some(10)), [(0, 10), (10, 11)]);
        assert_eq!(of(20, Some(10)), [(0, 10), (10, 20), (20, 20)]);
        assert_eq!(of(0, Some(10)), [(0, 0)]);
    }

    #[test]
    fn a_part_that_ends_early_is_a_gap_where_others_behind_it_have_bytes() {
        let parts = [0..10, 10..20, 20..25];
        let of = |lengths: [u64; 3]| has_gap(&parts, &lengths);
        assert_eq!([of([10, 10, 5]), of([10, 10, 4]), of([10, 4, 0])], [false; 3]);
        assert_eq!([of([9, 10, 5]), of([0, 10, 0]), of([10, 4, 1])], [true; 3]);
    }
}
