//! The blocks of a device on their way into the repository.

use super::super::directory::{Directory, SharedWriter};
use super::super::file::{RegisteredUpload, WAITING, next_piece};
use super::super::read::Piece;
use super::super::run::{Run, blocking, joined};
use super::base::Base;
use super::device::BlockDevice;
use super::map::BlockMap;
use crate::block_form::BLOCK;
use crate::failure::{Failed, NotSaved};
use crate::progress::add;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use lifeboat_kopia::KopiaError;
use lifeboat_kopia::compression::Compression;
use lifeboat_kopia::format::directory::{DirectoryEntry, DirectoryWriter, Summary};
use lifeboat_kopia::format::object_id::ObjectId;
use lifeboat_kopia::object::writer::{ObjectOptions, longest};
use lifeboat_kopia::object::{Extent, extents};
use lifeboat_kopia::splitter::SplitterAlgorithm;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::{Mutex, mpsc};

/// The compression of listings and of the directory; blocks have none.
const COMPRESSION: Option<Compression> = Some(Compression::ZstdFastest);
/// The splitter of the listing of the blocks.
const LISTING: SplitterAlgorithm = SplitterAlgorithm::Fixed(128 << 10);
/// The place of the device in its directory.
const ONLY: usize = 0;

fn block_options() -> ObjectOptions {
    ObjectOptions {
        metadata_compression: COMPRESSION,
        splitter: Some(SplitterAlgorithm::Fixed(1 << 20)),
        ..ObjectOptions::default()
    }
}

/// Saves the device of a directory, and gives the root of the snapshot.
pub(in super::super) async fn save_blocks(
    run: &Arc<Run>,
    directory: &Arc<Directory>,
    device: &Arc<BlockDevice>,
    base: Option<&Base>,
) -> Result<DirectoryEntry, NotSaved> {
    let (size, padded) = (device.size, device.padded_size());
    let most = longest(run.writer.contents(), &block_options())?;
    if padded > most {
        let why = format!("it has {size} bytes, and a device that is saved as blocks can have {most}");
        return Err(Failed::Because(why).into());
    }
    run.progress.expected_files.store(1, Ordering::Relaxed);
    run.progress.expected_bytes.store(size, Ordering::Relaxed);
    let base = match base {
        Some(base) => base.usable_object(run, size).await?,
        None => None,
    };
    run.note(|notes, _| notes.parents = usize::from(base.is_some()));
    let object = store(run, directory, device, base).await?;
    tell_of_changes(run, directory, device).await?;
    directory.finish(ONLY, object, padded, None);
    add(&run.counts.total_size, padded);
    add(&run.progress.files, 1);
    Ok(root(run, directory, padded).await?)
}

/// Tells of an image that was written while it was read.
async fn tell_of_changes(run: &Run, directory: &Directory, device: &Arc<BlockDevice>) -> Result<(), NotSaved> {
    let changed = blocking({
        let device = device.clone();
        move || device.has_changed()
    });
    if changed.await?? {
        let path = directory.state().entries.first().map(|entry| directory.shown_path_of(entry.name()));
        let why = "it was changed while it was read";
        run.note(|notes, most| notes.changed.add(path.unwrap_or_default(), why, most));
    }
    Ok(())
}

/// Writes the directory, and gives the root of the snapshot. Velero's have neither totals nor a name.
async fn root(run: &Run, directory: &Directory, padded: u64) -> Result<DirectoryEntry, KopiaError> {
    let (itself, entries) = {
        let state = directory.state();
        (state.itself.to_repository(), state.entries.clone())
    };
    let mut document = DirectoryWriter::begin();
    for entry in &entries {
        document.push(&entry.to_repository());
    }
    let mut object = run.writer.object(ObjectOptions {
        prefix: Some(b'k'),
        compression: COMPRESSION,
        metadata_compression: COMPRESSION,
        splitter: None,
    });
    object.write(document.end(None).into()).await?;
    let object = Some(object.finish().await?);
    Ok(DirectoryEntry { object, summary: Some(Summary { size: padded, ..Summary::default() }), ..itself })
}

async fn store(
    run: &Arc<Run>,
    directory: &Directory,
    device: &Arc<BlockDevice>,
    base: Option<ObjectId>,
) -> Result<ObjectId, NotSaved> {
    let object = run.writer.object(block_options()).always_listed(LISTING);
    let writer: SharedWriter = Arc::new(Mutex::new(Some(object)));
    let _listed = RegisteredUpload::register(directory, ONLY, &writer);
    let map = Arc::new(device.map(base.is_some()));
    let (give, pieces) = mpsc::channel(WAITING);
    let reading = tokio::task::spawn_blocking({
        let (device, map, contents) = (device.clone(), map.clone(), run.writer.contents().clone());
        move || {
            let buffer = |bytes| contents.piece_buffer(bytes);
            device.read(&map, &buffer, &mut |piece| give.blocking_send(piece).is_ok())
        }
    });
    let is_whole = Blocks::new(run, &writer, pieces, base).write(device, &map).await?;
    joined(reading.await)??;
    let object = if is_whole { writer.lock().await.take() } else { None };
    Ok(object.ok_or(KopiaError::Cancelled)?.finish().await?)
}

/// The blocks of a device, as they are read or taken over.
struct Blocks<'a> {
    run: &'a Run,
    writer: &'a SharedWriter,
    pieces: mpsc::Receiver<Piece>,
    /// The blocks of the earlier snapshot, and the number of those that are behind.
    base: BoxStream<'static, Result<Extent, KopiaError>>,
    passed: u64,
}

impl<'a> Blocks<'a> {
    fn new(run: &'a Run, writer: &'a SharedWriter, pieces: mpsc::Receiver<Piece>, base: Option<ObjectId>) -> Self {
        let base = match base {
            Some(base) => extents(run.writer.repository().contents(), &base),
            None => futures::stream::empty().boxed(),
        };
        Self { run, writer, pieces, base, passed: 0 }
    }

    /// Writes all blocks in their order. Gives false where the reading has ended before.
    async fn write(mut self, device: &BlockDevice, map: &BlockMap) -> Result<bool, KopiaError> {
        for run in map.runs() {
            if !run.is_read {
                self.take_over(&run.blocks).await?;
            } else if !self.write_read(device, &run.blocks).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes blocks over from the earlier snapshot.
    async fn take_over(&mut self, blocks: &Range<u64>) -> Result<(), KopiaError> {
        let mut writer = self.writer.lock().await;
        let writer = writer.as_mut().ok_or(KopiaError::Cancelled)?;
        while self.passed < blocks.end {
            let extent = self.base.try_next().await?.ok_or(KopiaError::Cancelled)?;
            if self.passed >= blocks.start {
                let object = ObjectId { is_compressed: extent.is_compressed, ..ObjectId::direct(extent.content) };
                writer.append(object, BLOCK, 1).await?;
            }
            self.passed += 1;
        }
        add(&self.run.progress.bytes_unchanged, (blocks.end - blocks.start) * BLOCK);
        Ok(())
    }

    /// Writes blocks that were read, the last one of the device filled up. Zeros that follow each other are written in
    /// one go.
    async fn write_read(&mut self, device: &BlockDevice, blocks: &Range<u64>) -> Result<bool, KopiaError> {
        let bytes = device.bytes_of(blocks);
        let mut missing = bytes.end - bytes.start;
        let mut zeros = 0;
        while missing > 0 {
            let Some(piece) = next_piece(self.run, &mut self.pieces).await else { return Ok(false) };
            let length = match piece {
                Piece::Zeros(count) => {
                    zeros += count;
                    count
                }
                Piece::Bytes(bytes) => {
                    let length = bytes.len() as u64;
                    put(self.writer, std::mem::take(&mut zeros), bytes).await?;
                    length
                }
            };
            missing = missing.saturating_sub(length);
            add(&self.run.progress.bytes_read, length);
        }
        put(self.writer, zeros + blocks.end * BLOCK - bytes.end, Bytes::new()).await?;
        Ok(true)
    }
}

/// Writes zeros, and bytes behind them.
async fn put(writer: &SharedWriter, zeros: u64, bytes: Bytes) -> Result<(), KopiaError> {
    let mut writer = writer.lock().await;
    let writer = writer.as_mut().ok_or(KopiaError::Cancelled)?;
    if zeros > 0 {
        writer.write_zeros(zeros).await?;
    }
    if !bytes.is_empty() {
        writer.write(bytes).await?;
    }
    Ok(())
}
