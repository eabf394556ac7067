//! Sizes and ranges of objects that can be read only from their beginning ([`crate::BlobStore::reads_ranges`]).

use crate::{BucketError, ByteStream};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use std::ops::Range;

/// Counts the bytes up to the end of the stream.
///
/// # Errors
/// The stream's.
pub async fn measure(mut stream: ByteStream) -> Result<u64, BucketError> {
    let mut size = 0;
    while let Some(piece) = stream.try_next().await? {
        size += piece.len() as u64;
    }
    Ok(size)
}

/// A part of an object whose bytes come from its first one on; what is before the part is read and dropped.
///
/// # Errors
/// The stream's, and that of `beyond` when the object ends before the part: at once, when nothing of it is there.
pub async fn part(
    mut stream: ByteStream,
    range: Range<u64>,
    beyond: impl Fn() -> BucketError + Send + 'static,
) -> Result<ByteStream, BucketError> {
    if range.start > range.end {
        return Err(beyond());
    }
    let mut skip = range.start;
    let mut first = Bytes::new();
    while skip > 0 {
        let Some(mut piece) = stream.try_next().await? else { return Err(beyond()) };
        first = piece.split_off(piece.len().min(usize::try_from(skip).unwrap_or(usize::MAX)));
        skip -= piece.len() as u64;
    }
    let length = range.end - range.start;
    while length > 0 && first.is_empty() {
        let Some(piece) = stream.try_next().await? else { return Err(beyond()) };
        first = piece;
    }
    let stream = futures::stream::once(async { Ok(first) }).chain(stream).boxed();
    let part = futures::stream::try_unfold((stream, length, beyond), |(mut stream, left, beyond)| async move {
        if left == 0 {
            return Ok(None);
        }
        let Some(mut piece) = stream.try_next().await? else { return Err(beyond()) };
        piece.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        let left = left - piece.len() as u64;
        Ok(Some((piece, (stream, left, beyond))))
    });
    Ok(part.boxed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{PlannedOutcome, Troubled};
    use crate::{
        BlobStore, Deadlined, Deadlines, ErrorKind, Limited, Limits, Measured, MeasuredCall, Meter, Prefixed, Retried,
        collect,
    };
    use std::sync::Arc;
    use std::time::Duration;

    #[derive(Debug)]
    struct Silent;

    impl Meter for Silent {
        fn ended(&self, _: &MeasuredCall<'_>) {}
    }

    fn pieces(sizes: &[usize]) -> ByteStream {
        let mut at = 0..;
        let pieces: Vec<_> = sizes.iter().map(|size| Ok(at.by_ref().take(*size).collect::<Vec<u8>>().into())).collect();
        futures::stream::iter(pieces).boxed()
    }

    fn beyond() -> BucketError {
        BucketError::new(ErrorKind::Invalid, "get", "k", "a test".to_owned(), "beyond".to_owned())
    }

    #[tokio::test]
    async fn a_part_is_cut_out_of_pieces_of_any_size() {
        for sizes in [&[10][..], &[3, 0, 4, 3], &[1; 10]] {
            assert_eq!(measure(pieces(sizes)).await.unwrap(), 10);
            for (start, end) in [(0, 10), (0, 1), (3, 7), (9, 10), (10, 10), (4, 4)] {
                let got = part(pieces(sizes), start..end, beyond).await.unwrap();
                let expected: Vec<u8> = (u8::try_from(start).unwrap()..u8::try_from(end).unwrap()).collect();
                assert_eq!(collect(got, 100).await.unwrap(), expected, "{sizes:?} {start}..{end}");
            }
            for (start, end) in [(10, 11), (11, 12), (11, 11), (7, 3)] {
                let error = part(pieces(sizes), start..end, beyond).await.err().map(|e| e.message);
                assert_eq!(error.as_deref(), Some("beyond"), "{sizes:?} {start}..{end}");
            }
            let half = part(pieces(sizes), 5..11, beyond).await.unwrap();
            assert_eq!(collect(half, 100).await.unwrap_err().message, "beyond");
        }
    }

    #[tokio::test]
    async fn every_wrapper_says_what_the_store_in_it_can_and_asks_no_more_of_it() {
        let store = Troubled::sequential(|_, _| PlannedOutcome::Go);
        store.fill("k", b"0123456789").await;
        let inner: Arc<dyn BlobStore> = store.clone();
        let deadlines = Deadlines { answer: Duration::from_secs(9), silence: Duration::from_secs(9) };
        let wrapped: [Arc<dyn BlobStore>; 5] = [
            Arc::new(Prefixed::new(Arc::clone(&inner), "")),
            Arc::new(Retried::new(Arc::clone(&inner), Duration::ZERO)),
            Arc::new(Deadlined::new(Arc::clone(&inner), deadlines)),
            Arc::new(Limited::new(Arc::clone(&inner), Limits::default())),
            Arc::new(Measured::new(inner, Arc::new(Silent))),
        ];
        for (n, wrapper) in wrapped.iter().enumerate() {
            assert!(!wrapper.reads_ranges() && wrapper.exists("k").await.unwrap(), "{wrapper:?}");
            assert_eq!(store.asked().len(), n + 1, "{wrapper:?}");
        }
        assert_eq!(store.asked(), ["exists k"; 5]);
    }
}
