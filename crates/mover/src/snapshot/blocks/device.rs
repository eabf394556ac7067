//! The device, or the image of one in a file, whose blocks are saved.

use super::super::directory::Directory;
use super::super::entry::{Entry, Kind};
use super::super::read::{FileReading, Opened, Piece, pieces};
use super::super::run::Run;
use super::map::BlockMap;
use crate::MoverError;
use crate::block_form::{BLOCK, BLOCK_UPLOADER, BlockChanges, BlockForm, LENGTH, NO_TIME, UPLOADER_TAG};
use crate::failure::Failed;
use crate::handles::Slot;
use crate::page_cache::forget_device;
use lifeboat_kopia::content::writer::PIECE;
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, fstat, seek};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The bytes that blocks are compared with.
static ZEROS: [u8; PIECE] = [0; PIECE];

/// An open device, or an image of one.
#[derive(Debug)]
pub(crate) struct BlockDevice {
    opened: Opened,
    is_image: bool,
    pub(super) size: u64,
    changes: Option<BlockChanges>,
}

impl BlockDevice {
    /// Opens a path whose links are followed. The directory is that of the snapshot, with the device as its only file.
    pub(crate) fn open(run: &Run, real: &Path, form: &BlockForm) -> Result<(Arc<Directory>, Self), MoverError> {
        let failed =
            |attempt| move |source: Errno| MoverError::Source { attempt, path: real.to_owned(), source: source.into() };
        let refused = |why: String| Err(MoverError::Refused(format!("{}: {why}", real.display())));
        // It may be a pipe until it was looked at, which would wait for its other end.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::open(real, flags, Mode::empty()).map_err(failed("open it"))?;
        let stat = fstat(&file).map_err(failed("look at it"))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if !matches!(kind, FileType::RegularFile | FileType::BlockDevice) {
            return refused("it is no file or block device: it has no blocks".to_owned());
        }
        let size = seek(&file, SeekFrom::End(0)).map_err(failed("find its length"))?;
        if size == 0 {
            return refused("it has no bytes: there are no blocks to save".to_owned());
        }
        let beyond = |range: &&Range<u64>| range.start > range.end || range.end > size;
        let mut ranges = form.changes.iter().flat_map(|changes| &changes.ranges);
        if let Some(Range { start, end }) = ranges.find(beyond) {
            return refused(format!(
                "the changed bytes from {start} to {end} are not inside of its {size} bytes: they are those of another \
                 device, or it has another length now; without changed ranges all of it is read"
            ));
        }
        if kind.is_block_device() {
            forget_device(&file).map_err(failed("let the system forget what it has read of it before"))?;
        }
        let device = Self {
            opened: Opened { file: file.into(), stat },
            is_image: kind.is_file(),
            size,
            changes: form.changes.clone(),
        };
        let like = |kind, name: &[u8]| Entry { mode: 0o777, modified: NO_TIME, ..Entry::new(kind, name) };
        let directory = Directory::root(like(Kind::Directory, b""), run.policies.root.clone(), Slot::default());
        let entry = Entry { size: device.padded_size(), ..like(Kind::File, form.name.as_bytes()) };
        directory.state().entries = vec![entry];
        Ok((Arc::new(directory), device))
    }

    /// The length of all its blocks.
    pub(super) fn padded_size(&self) -> u64 {
        self.size.div_ceil(BLOCK).saturating_mul(BLOCK)
    }

    /// The tags by which a reader knows the form.
    pub(crate) fn tags(&self) -> BTreeMap<String, String> {
        [(UPLOADER_TAG, BLOCK_UPLOADER.to_owned()), (LENGTH, self.size.to_string())]
            .map(|(key, value)| (key.to_owned(), value))
            .into()
    }

    /// The blocks that are read where those of an earlier snapshot are there, or not.
    pub(super) fn map(&self, has_parent: bool) -> BlockMap {
        match &self.changes {
            Some(changes) if has_parent => BlockMap::of(self.size, &changes.ranges),
            _ => BlockMap::full(self.size),
        }
    }

    /// The bytes of blocks, without those that fill up the last one.
    pub(super) fn bytes_of(&self, blocks: &Range<u64>) -> Range<u64> {
        blocks.start * BLOCK..(blocks.end * BLOCK).min(self.size)
    }

    /// Reads the blocks of a map in their order, until nobody takes them. Holes of an image are not read, and zeros are
    /// told as such.
    pub(super) fn read(
        &self,
        map: &BlockMap,
        buffer: &dyn Fn(usize) -> Vec<u8>,
        give: &mut dyn FnMut(Piece) -> bool,
    ) -> Result<(), Failed> {
        for span in map.spans().filter(|span| span.is_read) {
            if !self.read_blocks(&span.blocks, buffer, give)? {
                break;
            }
        }
        self.opened.forget();
        Ok(())
    }

    /// Reads blocks that follow each other, until nobody takes them: then it gives false.
    pub(super) fn read_blocks(
        &self,
        blocks: &Range<u64>,
        buffer: &dyn Fn(usize) -> Vec<u8>,
        give: &mut dyn FnMut(Piece) -> bool,
    ) -> Result<bool, Failed> {
        let has_holes = self.is_image && self.opened.has_holes();
        let reading = FileReading { file: &self.opened.file, has_holes, buffer };
        let range = self.bytes_of(blocks);
        let mut is_taken = true;
        let length = pieces(&reading, range.clone(), &mut |piece| {
            is_taken = give(zeros_as_such(piece));
            is_taken
        })?;
        if is_taken && length < range.end - range.start {
            let (end, size) = (range.start + length, self.size);
            let why = format!("it ended after {end} of {size} bytes: there is no snapshot of a part of a device");
            return Err(Failed::Because(why));
        }
        Ok(is_taken)
    }

    /// True for an image that another program has written meanwhile; of a device nobody knows.
    pub(super) fn has_changed(&self) -> Result<bool, Failed> {
        if self.is_image { self.opened.has_changed() } else { Ok(false) }
    }
}

fn zeros_as_such(piece: Piece) -> Piece {
    match piece {
        Piece::Bytes(bytes) if ZEROS.get(..bytes.len()).is_some_and(|zeros| *bytes == *zeros) => {
            Piece::Zeros(bytes.len() as u64)
        }
        piece => piece,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    const MIB: usize = 1 << 20;

    /// An image that had so many bytes when it was opened.
    fn image(bytes: &[u8], size: u64) -> BlockDevice {
        let file: File = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        let stat = fstat(&file).unwrap();
        BlockDevice { opened: Opened { file, stat }, is_image: true, size, changes: None }
    }

    #[test]
    fn a_device_that_ends_early_is_no_snapshot() {
        let device = image(&vec![7; MIB + MIB / 2], 3 << 20);
        let ended = device.read(&device.map(false), &Vec::with_capacity, &mut |_| true);
        let why = "it ended after 1572864 of 3145728 bytes: there is no snapshot of a part of a device";
        assert_eq!(ended, Err(Failed::Because(why.to_owned())));
        // Nobody takes its bytes any more: it is not read to its end.
        assert_eq!(device.read(&device.map(false), &Vec::with_capacity, &mut |_| false), Ok(()));
    }

    #[test]
    fn zeros_are_told_as_such_and_other_bytes_as_they_are() {
        let bytes = [vec![7; MIB], vec![0; MIB], vec![0; PIECE - 1], vec![1]].concat();
        let device = image(&bytes, bytes.len() as u64);
        let (mut read, mut zeros) = (Vec::new(), 0);
        let take = &mut |piece| {
            match piece {
                Piece::Bytes(piece) => read.extend_from_slice(&piece),
                Piece::Zeros(count) => {
                    zeros += count;
                    read.resize(read.len() + usize::try_from(count).unwrap(), 0);
                }
            }
            true
        };
        device.read(&device.map(false), &Vec::with_capacity, take).unwrap();
        assert!(read == bytes);
        // File systems that store no zeros may tell more of them.
        assert!(zeros >= MIB as u64, "{zeros}");
    }

    #[test]
    fn only_the_last_block_of_a_device_is_filled_up() {
        let device = image(&[7], (2 << 20) + 5);
        let bytes = |blocks: Range<u64>| (device.bytes_of(&blocks).start, device.bytes_of(&blocks).end);
        assert_eq!([bytes(0..1), bytes(1..3)], [(0, 1 << 20), (1 << 20, (2 << 20) + 5)]);
        assert_eq!(device.padded_size(), 3 << 20);
    }
}
