//! Reads an object on after its stream broke.

use crate::{Attempts, BlobStore, BucketError, ByteStream, ErrorKind, ObjectInfo};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// So much of a stream must come before a break of it counts as a new one.
const PROGRESS: u64 = 1 << 20;
/// An object of at most this size is gathered before any of it is given out, so that it can be read anew.
const SMALL: u64 = 64 << 10;

/// An object, or a range of it, while it is read.
///
/// After a break, a whole object can be read on only when it is known to be the same object. A small one is gathered instead,
/// which takes one request. For a larger one, `head` is asked first and the object opened once more: when a later `head`
/// answers the same, the bytes in between are of that object. One that is read only from its beginning is read from there
/// again, and is to begin with the bytes that were given out.
pub(super) struct Reading {
    inner: Arc<dyn BlobStore>,
    key: String,
    range: Option<Range<u64>>,
    stream: Option<ByteStream>,
    /// The number of bytes to come, as soon as it is known.
    length: Option<u64>,
    /// A large object that is read whole, as it was before it was opened.
    seen: Option<ObjectInfo>,
    /// All pieces of a small object that were not given out.
    gathered: Option<VecDeque<Bytes>>,
    got: u64,
    was_read_on: bool,
    /// Hash of the bytes already given out, for a whole object that is read only from its beginning.
    given: Option<Sha256>,
    /// The attempts since a break, and where that was.
    trying: Option<(Attempts, u64)>,
}

impl Reading {
    pub(super) fn new(inner: Arc<dyn BlobStore>, key: &str, range: Option<Range<u64>>, stream: ByteStream) -> Self {
        Self {
            key: key.to_owned(),
            length: range.as_ref().map(|range| range.end.saturating_sub(range.start)),
            given: (range.is_none() && !inner.reads_ranges()).then(Sha256::new),
            range,
            stream: Some(stream),
            seen: None,
            gathered: None,
            got: 0,
            was_read_on: false,
            trying: None,
            inner,
        }
    }

    /// The bytes, with so much patience after each break.
    pub(super) fn into_stream(self, patience: Duration) -> ByteStream {
        let stream = futures::stream::try_unfold(self, move |mut reading| async move {
            Ok(reading.next(patience).await?.map(|piece| (piece, reading)))
        });
        stream.boxed()
    }

    async fn next(&mut self, patience: Duration) -> Result<Option<Bytes>, BucketError> {
        loop {
            match self.attempt().await {
                Ok(piece) => {
                    self.got += piece.as_ref().map_or(0, |p| p.len() as u64);
                    self.trying.take_if(|(_, at)| self.got - *at >= PROGRESS);
                    return Ok(piece);
                }
                Err(e) => {
                    self.stream = None;
                    let (trying, _) = self.trying.get_or_insert_with(|| (Attempts::within(patience), self.got));
                    trying.pause_or_give_up(e).await?;
                }
            }
        }
    }

    async fn attempt(&mut self) -> Result<Option<Bytes>, BucketError> {
        if let Some(given) = self.given.clone() {
            return self.read_from_the_beginning(given).await;
        }
        if self.length.is_none() {
            self.begin().await?;
        }
        if let Some(gathered) = &mut self.gathered {
            return Ok(gathered.pop_front());
        }
        self.read_on(self.length.unwrap_or(0)).await
    }

    /// The next piece of an object that is read only from its beginning; its store says where it ends.
    async fn read_from_the_beginning(&mut self, given: Sha256) -> Result<Option<Bytes>, BucketError> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let stream = self.open_behind(&given).await?;
                self.stream.insert(stream)
            }
        };
        let piece = stream.try_next().await?;
        if let Some(piece) = &piece {
            self.given = Some(given.chain_update(piece));
        }
        Ok(piece)
    }

    /// Opens the object again behind what was given out, when it begins with that.
    async fn open_behind(&mut self, given: &Sha256) -> Result<ByteStream, BucketError> {
        let mut stream = self.inner.get(&self.key, None).await?;
        let (mut again, mut left, mut rest) = (Sha256::new(), self.got, Bytes::new());
        while left > 0 {
            let Some(mut piece) = stream.try_next().await? else { return Err(self.replaced()) };
            rest = piece.split_off(piece.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
            left -= piece.len() as u64;
            again.update(&piece);
        }
        if again.finalize() != given.clone().finalize() {
            return Err(self.replaced());
        }
        let rest = futures::stream::iter(Some(rest).filter(|rest| !rest.is_empty()).map(Ok));
        Ok(rest.chain(stream).boxed())
    }

    /// Gathers a small object. Asks which object a larger one is.
    async fn begin(&mut self) -> Result<(), BucketError> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.inner.get(&self.key, None).await?,
        };
        let (mut pieces, mut size) = (VecDeque::new(), 0);
        while size <= SMALL {
            let Some(piece) = stream.try_next().await? else {
                (self.length, self.gathered) = (Some(size), Some(pieces));
                return Ok(());
            };
            size += piece.len() as u64;
            pieces.push_back(piece);
        }
        // A store that limits its calls may have one place, which the stream takes.
        drop(stream);
        let seen = self.inner.head(&self.key).await?;
        (self.length, self.seen) = (Some(seen.size), Some(seen));
        Ok(())
    }

    async fn read_on(&mut self, length: u64) -> Result<Option<Bytes>, BucketError> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None if self.got > 0 && self.got >= length => return self.end(length).await,
            None => {
                let stream = self.open(length).await?;
                self.stream.insert(stream)
            }
        };
        match stream.try_next().await {
            Ok(None) if self.got < length => {
                let message = format!("the stream ended after {} of {length} bytes", self.got);
                Err(self.error(ErrorKind::Transient, message))
            }
            Ok(None) => self.end(length).await,
            // All of it has come: what breaks after the last byte takes nothing away.
            Err(_) if self.got > 0 && self.got >= length => self.end(length).await,
            piece => piece,
        }
    }

    async fn open(&mut self, length: u64) -> Result<ByteStream, BucketError> {
        if self.got == 0 {
            return self.inner.get(&self.key, self.range.clone()).await;
        }
        self.check().await?;
        self.was_read_on = true;
        let start = self.range.as_ref().map_or(0, |range| range.start);
        self.inner.get(&self.key, Some(start + self.got..start + length)).await
    }

    /// Ends the stream, when all bytes are of one object.
    async fn end(&mut self, length: u64) -> Result<Option<Bytes>, BucketError> {
        self.stream = None;
        if self.was_read_on || self.got != length {
            self.check().await?;
        }
        if self.got > length {
            let message = format!("the stream has {} bytes instead of {length}", self.got);
            return Err(self.error(ErrorKind::Other, message));
        }
        Ok(None)
    }

    /// Asks whether the object that was opened is still there.
    async fn check(&mut self) -> Result<(), BucketError> {
        let Some(seen) = &self.seen else { return Ok(()) };
        let found = self.inner.head(&self.key).await?;
        if (found.size, found.modified) == (seen.size, seen.modified) {
            return Ok(());
        }
        Err(self.replaced())
    }

    fn replaced(&self) -> BucketError {
        self.error(ErrorKind::Other, "it was replaced while it was read: read it again".to_owned())
    }

    fn error(&self, kind: ErrorKind, message: String) -> BucketError {
        BucketError::new(kind, "get", &self.key, self.inner.describe(), message)
    }
}
