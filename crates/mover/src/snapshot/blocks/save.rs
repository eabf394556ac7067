//! The blocks of a device on their way into the repository.

use super::super::directory::{Directory, SharedWriter};
use super::super::file::{RegisteredUpload, WAITING, next_piece};
use super::super::read::Piece;
use super::super::run::{Run, blocking, joined};
use super::device::BlockDevice;
use super::map::BlockMap;
use super::parent::BlockParent;
use super::parent_blocks::ParentBlocks;
use crate::block_form::BLOCK;
use crate::failure::{Failed, NotSaved};
use crate::progress::add;
use bytes::Bytes;
use lifeboat_kopia::KopiaError;
use lifeboat_kopia::compression::Compression;
use lifeboat_kopia::format::directory::{DirectoryEntry, DirectoryWriter, Summary};
use lifeboat_kopia::format::object_id::ObjectId;
use lifeboat_kopia::object::writer::{ObjectOptions, longest};
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
pub(crate) async fn save_blocks(
    run: &Arc<Run>,
    directory: &Arc<Directory>,
    device: &Arc<BlockDevice>,
    parent: Option<&BlockParent>,
) -> Result<DirectoryEntry, NotSaved> {
    let (size, padded) = (device.size, device.padded_size());
    let most = longest(run.writer.contents(), &block_options())?;
    if padded > most {
        let why = format!("it has {size} bytes, and a device that is saved as blocks can have {most}");
        return Err(Failed::Because(why).into());
    }
    run.progress.expected_files.store(1, Ordering::Relaxed);
    run.progress.expected_bytes.store(size, Ordering::Relaxed);
    let parent = match parent {
        Some(parent) => parent.usable_object(run, size).await?,
        None => None,
    };
    run.note(|notes, _| notes.parents = usize::from(parent.is_some()));
    // Its blocks may be taken over hours later: checkpoints refer to it, so that maintenance does not delete them before.
    directory.state().parts.extend(parent.map(|object| (ONLY, object)));
    let object = store(run, directory, device, parent).await?;
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
    parent: Option<ObjectId>,
) -> Result<ObjectId, NotSaved> {
    let object = run.writer.object(block_options()).always_listed(LISTING);
    let writer: SharedWriter = Arc::new(Mutex::new(Some(object)));
    let _listed = RegisteredUpload::register(directory, ONLY, &writer);
    let map = Arc::new(device.map(parent.is_some()));
    let (give, pieces) = mpsc::channel(WAITING);
    let reading = tokio::task::spawn_blocking({
        let (device, map, contents) = (device.clone(), map.clone(), run.writer.contents().clone());
        move || {
            let buffer = |bytes| contents.piece_buffer(bytes);
            device.read(&map, &buffer, &mut |piece| give.blocking_send(piece).is_ok())
        }
    });
    let parent = ParentBlocks::new(run, parent);
    let is_whole = Blocks { run, writer: &writer, device, pieces, parent }.write(&map).await?;
    joined(reading.await)??;
    let object = if is_whole { writer.lock().await.take() } else { None };
    Ok(object.ok_or(KopiaError::Cancelled)?.finish().await?)
}

/// The blocks of a device, as they are read or taken over.
struct Blocks<'a> {
    run: &'a Run,
    writer: &'a SharedWriter,
    device: &'a Arc<BlockDevice>,
    pieces: mpsc::Receiver<Piece>,
    parent: ParentBlocks<'a>,
}

impl Blocks<'_> {
    /// Writes all blocks in their order. Gives false where the reading has ended before.
    async fn write(mut self, map: &BlockMap) -> Result<bool, NotSaved> {
        for span in map.spans() {
            if !span.is_read {
                self.take_over(&span.blocks).await?;
            } else if !self.write_read(&span.blocks).await? {
                return Ok(false);
            }
        }
        self.parent.tell_lost();
        Ok(true)
    }

    /// Takes blocks over from the earlier snapshot, and reads those that it has no more.
    async fn take_over(&mut self, blocks: &Range<u64>) -> Result<(), NotSaved> {
        for block in blocks.clone() {
            let Some(object) = self.parent.block(block).await? else {
                self.read_lost(block).await?;
                continue;
            };
            self.writer.lock().await.as_mut().ok_or(KopiaError::Cancelled)?.append(object, BLOCK, 1).await?;
            add(&self.run.progress.bytes_unchanged, BLOCK);
        }
        Ok(())
    }

    /// Reads a block from the device that was to be taken over, and writes it.
    async fn read_lost(&mut self, block: u64) -> Result<(), NotSaved> {
        let (device, contents) = (self.device.clone(), self.run.writer.contents().clone());
        let pieces = blocking(move || {
            let mut pieces = Vec::new();
            let take = &mut |piece: Piece| {
                pieces.push(piece);
                true
            };
            device.read_blocks(&(block..block + 1), &|bytes| contents.piece_buffer(bytes), take)?;
            Ok::<_, Failed>(pieces)
        });
        for piece in pieces.await?? {
            match piece {
                Piece::Zeros(count) => put(self.writer, count, Bytes::new()).await?,
                Piece::Bytes(bytes) => put(self.writer, 0, bytes).await?,
            }
        }
        add(&self.run.progress.bytes_read, BLOCK);
        Ok(())
    }

    /// Writes blocks that were read, the last one of the device filled up. Zeros that follow each other are written in
    /// one go.
    async fn write_read(&mut self, blocks: &Range<u64>) -> Result<bool, KopiaError> {
        let bytes = self.device.bytes_of(blocks);
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
