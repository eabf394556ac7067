//! The marker in the root of a bucket that is a directory. A file system that is not mounted leaves an empty folder in
//! its place, which must not pass for an empty bucket: a client that has seen the marker there refuses a folder without
//! it.

use crate::{
    BlobStore, Body, BucketError, ByteStream, ErrorKind, ListOptions, ObjectInfo, Page, PutOptions, Retention, collect,
};
use async_trait::async_trait;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;

/// The key of the marker. Velero passes over files beside its folders.
pub const MARKER: &str = "lifeboat-bucket";

const FORMAT: &str = "lifeboat.io/bucket/v1";
/// The most bytes of a marker that are read.
const LARGEST: usize = 1 << 10;

/// The ID in the marker of a bucket; `None` when there is no marker.
///
/// # Errors
/// [`BucketError`]; [`ErrorKind::Invalid`] when the marker is none of ours.
pub async fn read_marker(store: &dyn BlobStore) -> Result<Option<String>, BucketError> {
    let read = async { collect(store.get(MARKER, None).await?, LARGEST).await }.await;
    let bytes = match read {
        Err(e) if e.is_not_found() => return Ok(None),
        read => read?,
    };
    let text = String::from_utf8_lossy(&bytes);
    match text.trim().strip_prefix(FORMAT).map(str::trim).filter(|id| !id.is_empty()) {
        Some(id) => Ok(Some(id.to_owned())),
        None => {
            let message = "it is no marker of a bucket: remove it when nothing else needs it".to_owned();
            Err(BucketError::new(ErrorKind::Invalid, "read", MARKER, store.describe(), message))
        }
    }
}

/// Puts a marker with this ID, unless there is one. Gives the ID that is there then.
///
/// # Errors
/// As [`read_marker`].
pub async fn put_marker(store: &dyn BlobStore, id: &str) -> Result<String, BucketError> {
    let options = PutOptions { if_absent: true, content_type: Some("text/plain"), ..PutOptions::default() };
    match store.put(MARKER, format!("{FORMAT} {id}\n").into_bytes().into(), options).await {
        Ok(_) => Ok(id.to_owned()),
        Err(e) if e.kind == ErrorKind::Exists => Ok(read_marker(store).await?.unwrap_or_else(|| id.to_owned())),
        Err(e) => Err(e),
    }
}

/// The buckets that a directory may be, and the ways by which people let it be another.
#[derive(Clone, Debug)]
pub struct BucketNotes<'a> {
    /// The IDs that the directory may have, one after the other, between blanks; `None` when it was never seen.
    pub known: Option<&'a str>,
    /// The way to forget them.
    pub forget: String,
    /// The way to add one more, such as that of the second of two disks that take turns; the ID follows. Empty where none can be added.
    pub add: String,
}

impl BucketNotes<'_> {
    /// The refusal of a directory that is none of the buckets that it may be, for people; `None` when it is one, or was never seen.
    #[must_use]
    pub fn refusal(&self, found: Option<&str>) -> Option<String> {
        let Self { known, forget, add } = self;
        let all: Vec<&str> = (*known)?.split_whitespace().collect();
        let (what, turns) = match found {
            Some(found) if all.contains(&found) => return None,
            Some(found) => (
                format!("is the bucket {found} now"),
                format!(" When both are yours and take turns, such as two disks, {add} \"{found}\"."),
            ),
            None if add.is_empty() => (format!("has no file {MARKER} now"), String::new()),
            None => (
                format!("has no file {MARKER} now"),
                format!(
                    " When it is a new disk that takes turns with the other, make a file {MARKER} with the line \"{FORMAT} ID\" in it, \
                     the ID being a word of your own, and {add} \"ID\"."
                ),
            ),
        };
        Some(format!(
            "it was the bucket {} before, and {what}; is its file system mounted?{turns} When it is to be another bucket from now on, {forget}",
            all.join(" or ")
        ))
    }
}

/// A store that gets a marker before the first object is put into it.
pub struct Marked {
    inner: Arc<dyn BlobStore>,
    id: String,
    noted: Box<dyn Fn(&str) + Send + Sync>,
    is_there: OnceCell<()>,
}

impl Marked {
    /// Makes a store whose first put also puts a marker with this ID, unless there is one. `noted` gets the ID that the
    /// marker has.
    pub fn new(inner: Arc<dyn BlobStore>, id: String, noted: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { inner, id, noted: Box::new(noted), is_there: OnceCell::new() }
    }
}

impl fmt::Debug for Marked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Marked").field("inner", &self.inner).field("id", &self.id).finish_non_exhaustive()
    }
}

#[async_trait]
impl BlobStore for Marked {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn reads_ranges(&self) -> bool {
        self.inner.reads_ranges()
    }

    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        let mark = || async {
            let id = put_marker(&*self.inner, &self.id).await?;
            (self.noted)(&id);
            Ok::<_, BucketError>(())
        };
        self.is_there.get_or_try_init(mark).await?;
        self.inner.put(key, body, options).await
    }

    async fn retain(&self, key: &str, retention: Retention) -> Result<(), BucketError> {
        self.inner.retain(key, retention).await
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        self.inner.get(key, range).await
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        self.inner.head(key).await
    }

    async fn exists(&self, key: &str) -> Result<bool, BucketError> {
        self.inner.exists(key).await
    }

    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        self.inner.list(options).await
    }

    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        self.inner.delete(keys).await
    }

    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        self.inner.abort_stale_uploads(prefix, age).await
    }

    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
        self.inner.presign(key, valid).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;
    use std::sync::Mutex;

    #[tokio::test]
    async fn a_bucket_is_marked_with_the_first_object_and_keeps_its_marker() {
        let (bucket, told) = (Arc::new(Memory::default()), Arc::new(Mutex::new(Vec::new())));
        for (id, expected) in [("1", "1"), ("2", "1")] {
            let told_here = Arc::clone(&told);
            let noted = move |id: &str| told_here.lock().unwrap().push(id.to_owned());
            let marked = Marked::new(Arc::clone(&bucket) as Arc<dyn BlobStore>, id.to_owned(), noted);
            assert_eq!(read_marker(&marked).await.unwrap().as_deref(), (id == "2").then_some("1"));
            for key in ["a", "b"] {
                marked.put(key, b"x".to_vec().into(), PutOptions::default()).await.unwrap();
            }
            assert_eq!(read_marker(&marked).await.unwrap().as_deref(), Some(expected));
            assert_eq!(std::mem::take(&mut *told.lock().unwrap()), [expected]);
        }
        bucket.put(MARKER, b"welcome".to_vec().into(), PutOptions::default()).await.unwrap();
        assert_eq!(read_marker(&*bucket).await.map_err(|e| e.kind), Err(ErrorKind::Invalid));
    }

    #[test]
    fn an_empty_folder_where_a_bucket_was_is_refused() {
        let refusal = |known: Option<&str>, found: Option<&str>| {
            BucketNotes { known, forget: "remove it".to_owned(), add: "add".to_owned() }.refusal(found)
        };
        let without_a_way = BucketNotes { known: Some("1"), forget: "remove it".to_owned(), add: String::new() };
        assert_eq!(
            without_a_way.refusal(None).unwrap(),
            "it was the bucket 1 before, and has no file lifeboat-bucket now; is its file system mounted? When it is to be \
             another bucket from now on, remove it"
        );
        for (known, found) in [(None, None), (None, Some("1")), (Some("1"), Some("1")), (Some("1\n2\n"), Some("2"))] {
            assert_eq!(refusal(known, found), None, "{known:?} {found:?}");
        }
        assert_eq!(
            refusal(Some("1"), None).unwrap(),
            "it was the bucket 1 before, and has no file lifeboat-bucket now; is its file system mounted? When it is a new disk that \
             takes turns with the other, make a file lifeboat-bucket with the line \"lifeboat.io/bucket/v1 ID\" in it, the ID being a \
             word of your own, and add \"ID\". When it is to be another bucket from now on, remove it"
        );
        assert_eq!(
            refusal(Some("1 2"), Some("3")).unwrap(),
            "it was the bucket 1 or 2 before, and is the bucket 3 now; is its file system mounted? When both are yours and take turns, \
             such as two disks, add \"3\". When it is to be another bucket from now on, remove it"
        );
    }
}
