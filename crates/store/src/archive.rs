//! Reads the archive of a backup through its index.

use crate::bridge::{NotDone, with_reader};
use crate::open::{OpenOptions, head};
use crate::stream::{StreamReceiver, StreamSender, stream};
use crate::transcode::{Transcoded, copied, transcode};
use crate::{Content, Store, StoreError};
use bytes::Bytes;
use lifeboat_archive::gzip::unpack_whole;
use lifeboat_archive::index::{Index, IndexError, MemberRange, Row};
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::{ObjectPath, ReadLimits};
use lifeboat_bucket::{BlobStore, BucketError, ByteStream, ObjectInfo, collect};
use lifeboat_object::Head;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Seek;
use std::ops::Range;
use std::sync::Arc;
use tokio::task::{JoinHandle, JoinSet};

/// Neighbouring members are fetched together up to this many bytes.
const FETCH: u64 = 8 << 20;
/// A gap between wanted members that is cheaper to read than to skip.
const GAP: u64 = 1 << 20;
/// Members decompressed ahead of use.
const AHEAD: usize = 2;

/// The archive of a backup, open for reading objects in any order. Removes its scratch copy when dropped.
#[derive(Clone, Debug)]
pub struct Archive {
    index: Arc<Index>,
    source: Arc<ArchiveSource>,
    key: String,
    size: u64,
}

#[derive(Debug)]
enum ArchiveSource {
    /// The archive in the bucket.
    Bucket(Store),
    /// A copy: as it is, where the bucket reads objects only from their beginning; in our seekable form, when it has no index.
    Scratch(File),
}

/// An object that was read.
#[derive(Clone, Debug)]
pub struct ArchiveItem {
    /// Its number among [`Archive::rows`].
    pub row: usize,
    /// Its head; agrees with the path of its entry.
    pub head: Head,
    /// Its JSON.
    pub body: Bytes,
}

/// Objects as they are read: as many as were asked for, or an error. Dropping it stops the reading.
#[derive(Debug)]
pub struct Contents {
    members: StreamReceiver<UnpackedMember>,
    /// The rest of the member that came last.
    items: std::vec::IntoIter<ArchiveItem>,
    /// The archive's key.
    key: String,
    asked: usize,
    got: usize,
}

/// The objects of a member, or why there are none.
type UnpackedMember = Result<Vec<ArchiveItem>, StoreError>;

impl Contents {
    /// The next object; `None` when all have come. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`StoreError`]; nothing follows it.
    pub async fn next(&mut self) -> Result<Option<ArchiveItem>, StoreError> {
        loop {
            if let Some(item) = self.items.next() {
                self.got += 1;
                return Ok(Some(item));
            }
            match self.members.next().await? {
                Some(items) => self.items = items?.into_iter(),
                None if self.got == self.asked => return Ok(None),
                None => {
                    let (asked, got) = (self.asked, self.got);
                    return Err(StoreError::Missing { key: self.key.clone(), asked, got });
                }
            }
        }
    }
}

impl Store {
    /// Opens the archive of a backup. With a fitting index nothing is downloaded yet; an archive without a fitting
    /// index is copied once, streaming, into scratch space. So is every archive in a bucket that reads objects only
    /// from their beginning: each part of it would take reading all bytes before it.
    ///
    /// # Errors
    /// [`StoreError`]; an archive that is damaged or hostile is refused here when it has no index, and by
    /// [`Archive::read`] otherwise.
    pub async fn open_archive(&self, name: &str, options: &OpenOptions) -> Result<Archive, StoreError> {
        if !self.bucket.reads_ranges() {
            let stream = self.bucket.get(&BackupFile::Tarball.key(name), None).await;
            let stream = stream.map_err(|e| self.no_tarball(name, e))?;
            return self.open_copy(name, stream, options).await;
        }
        let size = self.tarball_info(name).await?.size;
        match self.open_by_index(name, size, options).await? {
            Some(archive) => Ok(archive),
            None => {
                let (archive, _) = self.open_copied(name, size, options).await?;
                Ok(archive)
            }
        }
    }

    /// Size and age of an archive.
    pub(crate) async fn tarball_info(&self, name: &str) -> Result<ObjectInfo, StoreError> {
        self.bucket.head(&BackupFile::Tarball.key(name)).await.map_err(|e| self.no_tarball(name, e))
    }

    fn no_tarball(&self, name: &str, e: BucketError) -> StoreError {
        let key = BackupFile::Tarball.key(name);
        match e.is_not_found() {
            true => StoreError::NoBackup { name: name.to_owned(), place: self.describe(), key },
            false => e.into(),
        }
    }

    /// Opens an archive of `size` bytes in the bucket by its index; `None` when there is none, or none that fits.
    pub(crate) async fn open_by_index(
        &self,
        name: &str,
        size: u64,
        options: &OpenOptions,
    ) -> Result<Option<Archive>, StoreError> {
        let index = if options.ignore_index { None } else { self.fitting_index(name, size, options.limits).await? };
        Ok(index.map(|index| Archive {
            index: Arc::new(index),
            source: Arc::new(ArchiveSource::Bucket(self.clone())),
            key: BackupFile::Tarball.key(name),
            size,
        }))
    }

    /// Opens an archive of `size` bytes without its index, by a copy in our form. Gives the index of the copy too, as a file.
    pub(crate) async fn open_copied(
        &self,
        name: &str,
        size: u64,
        options: &OpenOptions,
    ) -> Result<(Archive, Vec<u8>), StoreError> {
        let key = BackupFile::Tarball.key(name);
        let stream = self.bucket.get(&key, Some(0..size)).await?;
        let Transcoded { index, index_file, copy } = transcode(stream, &key, options).await?;
        Ok((Archive { index: Arc::new(index), source: Arc::new(ArchiveSource::Scratch(copy)), key, size }, index_file))
    }

    /// Copies an archive into scratch space and opens the copy.
    async fn open_copy(&self, name: &str, stream: ByteStream, options: &OpenOptions) -> Result<Archive, StoreError> {
        let key = BackupFile::Tarball.key(name);
        let (mut copy, size) = copied(stream, &key, options).await?;
        let index = if options.ignore_index { None } else { self.fitting_index(name, size, options.limits).await? };
        let (index, copy) = match index {
            Some(index) => (index, copy),
            None => {
                let scratch = |source| StoreError::Scratch { place: options.scratch.display().to_string(), source };
                copy.rewind().map_err(scratch)?;
                let Transcoded { index, copy, .. } =
                    transcode(Content::of_file(copy, size).pieces(&key), &key, options).await?;
                (index, copy)
            }
        };
        Ok(Archive { index: Arc::new(index), source: Arc::new(ArchiveSource::Scratch(copy)), key, size })
    }

    async fn fitting_index(&self, name: &str, size: u64, limits: ReadLimits) -> Result<Option<Index>, StoreError> {
        let key = BackupFile::Index.key(name);
        let read = match self.bucket.get(&key, None).await {
            Ok(stream) => with_reader(stream, move |reader| Index::read(reader, size, limits)).await,
            Err(e) => Err(NotDone::Stream(e)),
        };
        match read {
            Ok(index) => Ok(Some(index)),
            Err(NotDone::Thread) => Err(StoreError::Worker("reading the index")),
            Err(NotDone::Stream(e)) if e.is_not_found() => Ok(None),
            Err(NotDone::Stream(e)) => Err(e.into()),
            Err(NotDone::Work(IndexError::Refused(source))) => {
                Err(StoreError::Archive { key: BackupFile::Tarball.key(name), source })
            }
            Err(NotDone::Work(e)) => {
                tracing::warn!(key, error = %e, "the index cannot be read: not used");
                Ok(None)
            }
        }
    }
}

impl Archive {
    /// The objects in the archive, in its order; an object stands here once per stored version.
    pub fn rows(&self) -> std::slice::Iter<'_, Row> {
        self.index.rows()
    }

    /// SHA-256 of the archive as it is read, lower-case hexadecimal: the same digest, the same rows.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.index.tarball.sha256
    }

    /// Bytes of the archive as it is read.
    pub(crate) fn tarball_size(&self) -> u64 {
        self.index.tarball.size
    }

    /// The row of this number in [`Archive::rows`].
    #[must_use]
    pub fn row(&self, number: usize) -> Option<&Row> {
        self.index.row(number)
    }

    /// Its bytes in the bucket.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Its gzip members, with the numbers of their rows.
    pub(crate) fn members(&self) -> Vec<(MemberRange, Vec<usize>)> {
        let mut out: Vec<(MemberRange, Vec<usize>)> =
            self.index.members.iter().map(|member| (*member, Vec::new())).collect();
        for (number, row) in self.index.rows().enumerate() {
            if let Some((_, rows)) = out.get_mut(row.member as usize) {
                rows.push(number);
            }
        }
        out
    }

    /// Reads these rows, in the order of the archive, neighbours in one request. Runs as a task of `tasks`.
    ///
    /// Every object is checked against its path and hash; one that disagrees ends the reading with an error.
    pub fn read(&self, mut rows: Vec<usize>, tasks: &mut JoinSet<()>) -> Contents {
        // One member waits beside those that are being decompressed.
        let (sender, members) = stream(1, "reading the archive");
        let (key, asked) = (self.key.clone(), rows.len());
        let archive = self.clone();
        rows.sort_by_key(|n| archive.row(*n).map(|r| (r.member, r.offset)));
        tasks.spawn(async move {
            match archive.send_all(&rows, &sender).await {
                Ok(()) => sender.end(),
                // The receiver may be gone, and needs no error then.
                Err(e) => drop(sender.send(Err(e)).await),
            }
        });
        Contents { members, items: Vec::new().into_iter(), key, asked, got: 0 }
    }

    async fn send_all(&self, rows: &[usize], sender: &StreamSender<UnpackedMember>) -> Result<(), StoreError> {
        let mut unpacking = VecDeque::new();
        let mut from = 0;
        while from < rows.len() {
            let (count, range) = self.next_fetch(&rows[from..]);
            let batch = &rows[from..from + count];
            let bytes = self.fetch(range.clone()).await?;
            for rows in batch.chunk_by(|a, b| self.member_of(*a) == self.member_of(*b)) {
                if unpacking.len() >= AHEAD && !send_first(&mut unpacking, sender).await? {
                    return Ok(());
                }
                unpacking.push_back(self.unpack(&bytes, range.start, rows.to_vec()));
            }
            from += count;
        }
        while !unpacking.is_empty() {
            if !send_first(&mut unpacking, sender).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn member_of(&self, row: usize) -> MemberRange {
        // Rows and members were checked against each other when the index was read.
        self.index.row(row).and_then(|r| self.index.members.get(r.member as usize)).copied().unwrap_or(NOWHERE)
    }

    /// The number of rows to fetch at once, and the range of bytes that they take.
    fn next_fetch(&self, rows: &[usize]) -> (usize, Range<u64>) {
        let first = self.member_of(rows[0]);
        let mut range = first.offset..first.offset + first.length;
        let mut count = 0;
        for row in rows {
            let member = self.member_of(*row);
            let end = member.offset + member.length;
            if member.offset > range.end + GAP || (end > range.end && end - range.start > FETCH && count > 0) {
                break;
            }
            range.end = range.end.max(end);
            count += 1;
        }
        (count, range)
    }

    pub(crate) async fn fetch(&self, range: Range<u64>) -> Result<Bytes, StoreError> {
        match &*self.source {
            ArchiveSource::Bucket(store) => {
                let limit = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
                // As many bytes as were asked for, or an error.
                Ok(collect(store.bucket.get(&self.key, Some(range)).await?, limit).await?)
            }
            ArchiveSource::Scratch(_) => {
                let source = Arc::clone(&self.source);
                let read = tokio::task::spawn_blocking(move || match &*source {
                    ArchiveSource::Scratch(file) => read_range(file, &range),
                    ArchiveSource::Bucket(_) => Ok(Bytes::new()),
                });
                let place = || "the scratch copy".to_owned();
                read.await
                    .map_err(|_| StoreError::Worker("reading the scratch copy"))?
                    .map_err(|source| StoreError::Scratch { place: place(), source })
            }
        }
    }

    /// Decompresses the member of these rows on a thread of its own.
    fn unpack(&self, bytes: &Bytes, start: u64, rows: Vec<usize>) -> Unpacking {
        let archive = self.clone();
        let member = rows.first().map_or(NOWHERE, |row| self.member_of(*row));
        let from = usize::try_from(member.offset - start).unwrap_or(usize::MAX);
        let to = from.saturating_add(usize::try_from(member.length).unwrap_or(usize::MAX));
        let gzip = bytes.slice(from.min(bytes.len())..to.min(bytes.len()));
        tokio::task::spawn_blocking(move || archive.unpack_blocking(&gzip, member, &rows))
    }

    fn unpack_blocking(&self, gzip: &[u8], member: MemberRange, rows: &[usize]) -> UnpackedMember {
        let index = |source| StoreError::Index { key: self.key.clone(), source };
        let tar = unpack_whole(gzip, member.tar_length)
            .map_err(|e| index(IndexError::Mismatch(format!("byte {}: {e}", member.offset))))?;
        let mut out = Vec::with_capacity(rows.len());
        for number in rows {
            let Some(row) = self.index.row(*number) else { continue };
            let body = self.index.extract(&tar, row).map_err(index)?;
            let head = checked_head(&self.key, row, &body)?;
            out.push(ArchiveItem { row: *number, head, body: body.into() });
        }
        Ok(out)
    }
}

/// The member of a row that does not exist.
const NOWHERE: MemberRange = MemberRange { offset: 0, length: 0, tar_length: 0 };

/// The objects of a member that is being decompressed.
type Unpacking = JoinHandle<UnpackedMember>;

/// Waits for the first member and passes it on; false when the receiver is gone.
async fn send_first(
    unpacking: &mut VecDeque<Unpacking>,
    sender: &StreamSender<UnpackedMember>,
) -> Result<bool, StoreError> {
    let Some(first) = unpacking.pop_front() else { return Ok(true) };
    let items = first.await.map_err(|_| StoreError::Worker("decompressing the archive"))??;
    Ok(sender.send(Ok(items)).await.is_ok())
}

/// Parses the head; refuses an object that is not the one its path names, or that is nested to break parsers.
pub(crate) fn checked_head(key: &str, row: &Row, body: &[u8]) -> Result<Head, StoreError> {
    let path = ObjectPath { key: row.key(), version: None };
    let head = head(key, &path.key, body)?;
    path.check(&head).map_err(|source| StoreError::Disagrees { key: key.to_owned(), source })?;
    Ok(head)
}

fn read_range(file: &File, range: &Range<u64>) -> std::io::Result<Bytes> {
    use std::os::unix::fs::FileExt;
    let mut out = vec![0; usize::try_from(range.end - range.start).unwrap_or(0)];
    file.read_exact_at(&mut out, range.start)?;
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item() -> ArchiveItem {
        ArchiveItem { row: 0, head: Head::default(), body: Bytes::new() }
    }

    fn contents(asked: usize) -> (StreamSender<UnpackedMember>, Contents) {
        let (sender, members) = stream(4, "reading the archive");
        (sender, Contents { members, items: Vec::new().into_iter(), key: "k".into(), asked, got: 0 })
    }

    #[tokio::test]
    async fn a_reader_that_died_is_no_end_of_the_archive() {
        let (sender, mut contents) = contents(2);
        sender.send(Ok(vec![item(), item()])).await.unwrap();
        drop(sender);
        assert!(contents.next().await.unwrap().is_some() && contents.next().await.unwrap().is_some());
        let error = contents.next().await.unwrap_err();
        assert_eq!(error.to_string(), "a worker thread died while reading the archive");
    }

    #[tokio::test]
    async fn every_object_that_was_asked_for_comes_or_there_is_an_error() {
        for asked in [1, 2] {
            let (sender, mut contents) = contents(asked);
            sender.send(Ok(vec![item()])).await.unwrap();
            sender.end();
            assert!(contents.next().await.unwrap().is_some());
            let end = contents.next().await.map(|item| item.is_none()).map_err(|e| e.to_string());
            let missing = "of 2 objects that were asked for, the archive k gave 1: nothing is known of the others";
            assert_eq!(end, if asked == 1 { Ok(true) } else { Err(missing.to_owned()) });
        }
    }

    #[tokio::test]
    async fn a_thread_that_died_decompressing_is_an_error() {
        let (sender, _contents) = contents(1);
        let died = tokio::task::spawn_blocking(|| panic!("in the middle"));
        let error = send_first(&mut VecDeque::from([died]), &sender).await.unwrap_err();
        assert_eq!(error.to_string(), "a worker thread died while decompressing the archive");
    }
}
