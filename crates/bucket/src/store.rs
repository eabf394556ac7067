//! The trait of all stores.

use crate::{BucketError, ErrorKind};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use std::fmt::Debug;
use std::ops::Range;
use std::time::{Duration, SystemTime};

/// Bytes in pieces.
pub type ByteStream = BoxStream<'static, Result<Bytes, BucketError>>;

/// The bytes to be stored.
pub enum Body {
    /// Everything at once.
    Bytes(Bytes),
    /// Pieces of any size, of unknown total. An error in the stream aborts the put: nothing becomes visible.
    Stream(ByteStream),
}

impl Body {
    /// The body as a stream.
    #[must_use]
    pub fn into_stream(self) -> ByteStream {
        match self {
            Self::Bytes(bytes) => futures::stream::once(async { Ok(bytes) }).boxed(),
            Self::Stream(stream) => stream,
        }
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

/// Options of a put.
#[derive(Clone, Copy, Debug, Default)]
pub struct PutOptions {
    /// Fail with [`ErrorKind::Exists`] when the key exists, atomically.
    pub if_absent: bool,
    /// Media type; stores without types ignore it.
    pub content_type: Option<&'static str>,
    /// Keep the object from being deleted or replaced. A store that cannot do that refuses the put as
    /// [`ErrorKind::Invalid`] before anything is written; none ignores it.
    pub retention: Option<Retention>,
}

impl PutOptions {
    /// Refuses a retention, for stores that cannot keep an object.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when there is one.
    pub fn refuse_retention(self, key: &str, store: &dyn BlobStore) -> Result<(), BucketError> {
        if self.retention.is_none() {
            return Ok(());
        }
        let message = "nothing here keeps an object from being deleted: use a bucket with object lock, or put it \
                       without retention";
        Err(BucketError::new(ErrorKind::Invalid, "put", key, store.describe(), message.to_owned()))
    }
}

/// Until when the store may not delete or replace this version of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The users that it binds.
    pub mode: RetentionMode,
    /// The object is kept until then at least; stores may count whole seconds.
    pub until: SystemTime,
}

impl Retention {
    /// The retention of an object that is kept so already and is to be kept as `wanted`: no store takes back a stronger mode or
    /// a later time.
    #[must_use]
    pub fn extended(self, wanted: Self) -> Self {
        if self.until >= wanted.until { self } else { Self { mode: self.mode.max(wanted.mode), until: wanted.until } }
    }
}

/// The users that a retention binds, the weaker mode first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RetentionMode {
    /// All users but those with the right to end it.
    Governance,
    /// All users, also the owner of the account: it cannot be taken back.
    Compliance,
}

/// Metadata of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its key.
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// When it was written, as far as the store knows.
    pub modified: Option<SystemTime>,
}

/// Metadata of an object in a listing: less than [`BlobStore::head`] has, where the store does not send the rest with
/// the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: String,
    /// Bytes, when the listing has them.
    pub size: Option<u64>,
    /// When it was written, when the listing has it.
    pub modified: Option<SystemTime>,
}

/// The keys of a listing, and its form.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Only keys that begin with this string (not a path: `a` finds `ab/c`).
    pub prefix: String,
    /// Roll up keys that contain this text after the prefix into [`Entry::Prefix`].
    pub delimiter: Option<String>,
    /// Only entries that are rolled up, no objects: a store may find them without going through all keys.
    pub prefixes_only: bool,
    /// Most entries of a page; zero for what the store likes.
    pub page_size: usize,
    /// The position at which the page before ended.
    pub continuation: Option<String>,
}

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An object.
    Object(Listed),
    /// All keys with this prefix, delimiter included.
    Prefix(String),
}

/// A page of a listing, in key order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The entries.
    pub entries: Vec<Entry>,
    /// For the next page; `None` at the end.
    pub continuation: Option<String>,
}

/// A bucket.
///
/// Every call is safe to repeat. Dropping a future abandons the operation; a put that did not return may or may
/// not have taken effect, but never in part: an object is there whole or not at all.
#[async_trait]
pub trait BlobStore: Debug + Send + Sync {
    /// Says what this store is and where, without secrets, as messages name it.
    fn describe(&self) -> String;

    /// Returns true if reading a range of an object, or asking for its size, costs no more than that. Returns false
    /// where objects can be read only from their beginning: a range is found by reading all bytes before it, a size by
    /// reading everything, and [`BlobStore::head`] knows nothing but that size. A caller that needs several ranges
    /// copies such an object first.
    fn reads_ranges(&self) -> bool {
        true
    }

    /// Stores an object; returns its size. When it returns, the object is durable and visible under its key, whole.
    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError>;

    /// Keeps the newest version of an object from being deleted or replaced until then, whatever kept it before. One that is kept
    /// longer already stays so, and a stronger mode stays what it is. A store that cannot do that, or not to this object, refuses it as [`ErrorKind::Unsupported`] or
    /// [`ErrorKind::Invalid`]; none ignores it.
    async fn retain(&self, key: &str, retention: Retention) -> Result<(), BucketError> {
        let _ = retention;
        let message = "nothing here keeps an object from being deleted: use a bucket with object lock".to_owned();
        Err(BucketError::new(ErrorKind::Unsupported, "retain", key, self.describe(), message))
    }

    /// Reads an object or a range of it. A range beyond the end is [`ErrorKind::Invalid`].
    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError>;

    /// Asks for size and time of an object.
    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError>;

    /// Returns true if there is an object under this key. Asks the store for nothing else.
    async fn exists(&self, key: &str) -> Result<bool, BucketError> {
        match self.head(key).await {
            Ok(_) => Ok(true),
            Err(e) if e.is_not_found() => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Lists one page of keys.
    async fn list(&self, options: ListOptions) -> Result<Page, BucketError>;

    /// Deletes keys; a missing key is no error.
    async fn delete(&self, keys: &[String]) -> Result<(), BucketError>;

    /// Removes what interrupted puts have left behind below the prefix, when it is older than `age`. Gives how many it has
    /// removed.
    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError>;

    /// Makes a URL by which every client can read the object for a while; `None` when this store cannot.
    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError>;
}

/// Gathers a stream into memory, refusing more than `limit` bytes.
///
/// # Errors
/// The stream's error, or [`ErrorKind::Invalid`] beyond the limit.
pub async fn collect(mut stream: ByteStream, limit: usize) -> Result<Bytes, BucketError> {
    let mut out = BytesMut::new();
    while let Some(piece) = stream.try_next().await? {
        if out.len() + piece.len() > limit {
            return Err(BucketError {
                kind: ErrorKind::Invalid,
                operation: "read",
                key: String::new(),
                store: "the bucket".to_owned(),
                message: format!("the object is larger than {limit} bytes"),
                source: None,
            });
        }
        out.extend_from_slice(&piece);
    }
    Ok(out.freeze())
}
