//! A file for what memory cannot hold. It has no name, so the system removes it when this process ends.

use bytes::Bytes;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// A file that is made when something is put into it.
#[derive(Debug)]
pub(crate) struct Scratch {
    place: String,
    file: Option<Arc<File>>,
    end: u64,
}

impl Scratch {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { place: folder.display().to_string(), file: None, end: 0 }
    }

    /// The folder, for people.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    #[cfg(test)]
    pub(crate) fn length(&self) -> u64 {
        self.end
    }

    /// Forgets what was put into it.
    pub(crate) fn empty(&mut self) -> io::Result<()> {
        if let Some(file) = &self.file
            && self.end > 0
        {
            file.set_len(0)?;
            self.end = 0;
        }
        Ok(())
    }

    /// Puts bodies into it, one after the other, and says where the first one lies.
    pub(crate) async fn append(&mut self, bodies: Vec<Bytes>) -> io::Result<u64> {
        let file = self.file()?;
        let at = self.end;
        let write = move || {
            let mut at = at;
            for body in &bodies {
                file.write_all_at(body, at)?;
                at += body.len() as u64;
            }
            Ok(at)
        };
        self.end = blocking(write).await?;
        Ok(at)
    }

    /// Bytes that were put into it. Those that the kernel still has in memory are read at once, others by another thread.
    pub(crate) async fn read(&self, at: u64, length: usize) -> io::Result<Bytes> {
        let Some(file) = self.file.clone() else { return Err(io::ErrorKind::NotFound.into()) };
        if let Some(bytes) = read_from_memory(&file, at, length) {
            return Ok(bytes);
        }
        blocking(move || {
            let mut all = vec![0; length];
            file.read_exact_at(&mut all, at)?;
            Ok(Bytes::from(all))
        })
        .await
    }

    fn file(&mut self) -> io::Result<Arc<File>> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(tempfile::tempfile_in(&self.place)?);
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }
}

/// Bytes of a file, when a read gives all of them without waiting for the disk. Not every file system can say so.
#[cfg(target_os = "linux")]
fn read_from_memory(file: &File, at: u64, length: usize) -> Option<Bytes> {
    use rustix::io::{ReadWriteFlags, preadv2};
    let mut all = vec![0; length];
    let read = preadv2(file, &mut [io::IoSliceMut::new(&mut all)], at, ReadWriteFlags::NOWAIT);
    (read == Ok(length)).then(|| all.into())
}

#[cfg(not(target_os = "linux"))]
fn read_from_memory(_: &File, _: u64, _: usize) -> Option<Bytes> {
    None
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
