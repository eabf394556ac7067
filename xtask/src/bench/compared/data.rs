//! Files that are saved: random bytes, which nothing can make smaller or find twice.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

const PIECE: usize = 4 << 20;
/// Files of one directory of a tree.
const FILES: u64 = 100;
/// The bytes of small files: from this to sixteen times as much.
const SMALLEST: usize = 512;

/// Random bytes of the kernel.
pub(crate) struct RandomBytes(File);

impl RandomBytes {
    pub(crate) fn open() -> Result<Self> {
        Ok(Self(File::open("/dev/urandom").context("open /dev/urandom")?))
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.0.read_exact(buffer).context("read /dev/urandom")
    }

    /// Writes so many bytes at a place of a file.
    pub(crate) fn write(&mut self, file: &mut File, at: u64, length: u64) -> Result<()> {
        file.seek(SeekFrom::Start(at))?;
        let mut buffer = vec![0; PIECE];
        let mut left = length;
        while left > 0 {
            let count = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            self.fill(&mut buffer[..count])?;
            file.write_all(&buffer[..count]).context("write a file")?;
            left -= count as u64;
        }
        Ok(())
    }
}

/// Makes a file of random bytes.
pub(crate) fn make_file(path: &Path, bytes: u64) -> Result<()> {
    let mut file = File::create(path).with_context(|| format!("make {}", path.display()))?;
    RandomBytes::open()?.write(&mut file, 0, bytes)
}

/// Makes an image with holes: `used` bytes of it, in 64 stretches, are random.
pub(crate) fn make_sparse(path: &Path, length: u64, used: u64) -> Result<()> {
    let mut file = File::create(path).with_context(|| format!("make {}", path.display()))?;
    file.set_len(length)?;
    let mut random = RandomBytes::open()?;
    for stretch in 0..64 {
        random.write(&mut file, length / 64 * stretch, used / 64)?;
    }
    Ok(())
}

/// Writes random bytes over four stretches of a file, `share` of its length in all.
pub(crate) fn change(path: &Path, share: f64) -> Result<u64> {
    let mut file = File::options().write(true).open(path).with_context(|| format!("open {}", path.display()))?;
    let length = file.metadata()?.len();
    let stretch = (length as f64 * share / 4.0) as u64;
    let mut random = RandomBytes::open()?;
    for number in 0..4 {
        random.write(&mut file, length / 4 * number + length / 16, stretch)?;
    }
    Ok(4 * stretch)
}

/// A tree of small files, of which no two are alike.
pub(crate) struct SmallFiles {
    pool: Vec<u8>,
    next: u64,
}

impl SmallFiles {
    pub(crate) fn new() -> Result<Self> {
        let mut pool = vec![0; 16 << 20];
        RandomBytes::open()?.fill(&mut pool)?;
        Ok(Self { pool, next: 0 })
    }

    /// Makes a tree below a folder, with files of about `average` bytes. Gives the bytes.
    pub(crate) fn make(&mut self, folder: &Path, files: u64, average: Average) -> Result<u64> {
        let mut total = 0;
        for number in 0..files {
            let parent = folder.join(format!("d{:05}", number / FILES));
            if number % FILES == 0 {
                std::fs::create_dir_all(&parent).with_context(|| format!("make {}", parent.display()))?;
            }
            total += self.write(&parent.join(format!("f{number:07}")), average)?;
        }
        Ok(total)
    }

    /// Writes every n-th file of a tree anew, with its length.
    pub(crate) fn change(&mut self, folder: &Path, files: u64, every: u64) -> Result<()> {
        for number in (0..files).step_by(usize::try_from(every)?) {
            let path = folder.join(format!("d{:05}/f{number:07}", number / FILES));
            let file = File::options().write(true).open(&path).with_context(|| format!("open {}", path.display()))?;
            let length = usize::try_from(file.metadata()?.len())?;
            let bytes = self.bytes(length);
            file.write_all_at(&bytes, 0)?;
        }
        Ok(())
    }

    fn write(&mut self, path: &Path, average: Average) -> Result<u64> {
        let length = match average {
            Average::Mixed => SMALLEST * (1 + usize::try_from(self.next % 16)?),
            Average::Bytes(bytes) => bytes,
        };
        let bytes = self.bytes(length);
        std::fs::write(path, &bytes).with_context(|| format!("write {}", path.display()))?;
        Ok(length as u64)
    }

    /// Bytes that no other file has: its number comes first.
    fn bytes(&mut self, length: usize) -> Vec<u8> {
        self.next += 1;
        let at = usize::try_from(self.next.wrapping_mul(7919) % (8 << 20)).unwrap_or(0);
        let mut bytes = self.next.to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.pool[at..at + length]);
        bytes.truncate(length);
        bytes
    }
}

/// The lengths of small files.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Average {
    /// From 512 bytes to 8 KiB, 4.25 KiB in the middle.
    Mixed,
    /// All the same, at least 8.
    Bytes(usize),
}
