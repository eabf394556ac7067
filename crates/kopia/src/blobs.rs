//! Blobs by name in both storage layouts: flat (object stores) and sharded with suffix `.f` (kopia: repo/blob/filesystem,
//! repo/blob/sharded).

pub mod layout;

use crate::KopiaError;
use crate::format::blob_name::{BLOB_CONFIG, CREATION_CLAIM, FORMAT};
use crate::format::time::UnixNanos;
use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use layout::Layout;
use lifeboat_bucket::{
    BlobStore, BucketError, ByteStream, Entry, ErrorKind, ListOptions, Listed, PutOptions, Retention,
};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The media type under which kopia stores blobs.
const CONTENT_TYPE: &str = "application/x-kopia";
/// The most bytes of a `.shards`.
const MAX_SHARDS: u64 = 1 << 20;
/// The most bytes for which there is room before they come.
const MAX_RESERVED: u64 = 32 << 20;

/// A blob of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobInfo {
    /// The name.
    pub name: String,
    /// The length.
    pub length: u64,
    /// The storage's time, the clock of epochs. `None` where the store gives none; nothing may then be taken for old.
    pub modified: Option<UnixNanos>,
}

/// A bucket seen as blobs of a repository.
#[derive(Debug, Clone)]
pub struct Blobs {
    store: Arc<dyn BlobStore>,
    layout: Arc<Layout>,
}

impl Blobs {
    /// The place of the bucket for people.
    pub(crate) fn describe(&self) -> String {
        self.store.describe()
    }

    /// Recognises the layout: `.shards` or `kopia.repository.f` say that it is the one of file systems.
    ///
    /// # Errors
    /// Errors of the bucket; a `.shards` that cannot be read.
    pub async fn open(store: Arc<dyn BlobStore>) -> Result<Self, KopiaError> {
        let layout = match store.get(layout::SHARDS, None).await {
            Ok(stream) => {
                Layout::parse(&collect(layout::SHARDS, stream, Lengths { most: MAX_SHARDS, expected: 0 }).await?)?
            }
            Err(e) if e.is_not_found() => {
                if store.exists(layout::FORMAT_FILE).await? {
                    Layout::old_default()
                } else {
                    Layout::Flat
                }
            }
            Err(e) => return Err(e.into()),
        };
        Ok(Self { store, layout: Arc::new(layout) })
    }

    /// Blobs in a place that is to become a repository: in the layout of `.shards` where there is one, else in `layout`,
    /// which is described then.
    ///
    /// # Errors
    /// A repository or other data that is there, in whichever layout; errors of the bucket.
    pub(crate) async fn begin(store: Arc<dyn BlobStore>, layout: &Layout) -> Result<Self, KopiaError> {
        let exists = || KopiaError::RepositoryExists { location: store.describe() };
        let found = Self::open(store.clone()).await?;
        for name in [layout::FORMAT_FILE, FORMAT] {
            if store.exists(name).await? {
                return Err(exists());
            }
        }
        if found.list(FORMAT).try_next().await?.is_some_and(|blob| blob.name == FORMAT) {
            return Err(exists());
        }
        let is_described = found.layout() != &Layout::Flat;
        let layout = if is_described { found.layout } else { Arc::new(layout.clone()) };
        let blobs = Self { store, layout };
        let mut names = blobs.list("");
        while let Some(blob) = names.try_next().await? {
            // Left by a creation that was cut off, or of one that goes on.
            if blob.name != BLOB_CONFIG && !blob.name.starts_with(CREATION_CLAIM) {
                return Err(KopiaError::NotEmpty { location: blobs.location(), key: blobs.layout.key(&blob.name) });
            }
        }
        drop(names);
        if let Some(description) = blobs.layout.description().filter(|_| !is_described) {
            blobs.store.put(layout::SHARDS, description.into(), PutOptions::default()).await?;
        }
        Ok(blobs)
    }

    /// The location, as the store describes itself.
    pub fn location(&self) -> String {
        self.store.describe()
    }

    /// The layout that was recognised.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Reads a blob whole, at most `limit` bytes.
    ///
    /// # Errors
    /// Errors of the bucket; a blob that is longer.
    pub async fn read(&self, name: &str, limit: u64) -> Result<Bytes, KopiaError> {
        let stream = self.store.get(&self.layout.key(name), None).await?;
        collect(name, stream, Lengths { most: limit, expected: 0 }).await
    }

    /// Reads a blob as [`Blobs::read`] does, where there is one.
    ///
    /// # Errors
    /// Errors of the bucket; a blob that is longer.
    pub async fn read_if_there(&self, name: &str, limit: u64) -> Result<Option<Bytes>, KopiaError> {
        match self.read(name, limit).await {
            Err(error) if is_not_found(&error) => Ok(None),
            stored => stored.map(Some),
        }
    }

    /// Reads exactly this range. Fewer bytes are an error.
    ///
    /// # Errors
    /// Errors of the bucket; a blob that ends before the range does.
    pub async fn read_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, KopiaError> {
        let wanted = range.end.saturating_sub(range.start);
        let too_short = |why: String| KopiaError::Damaged { what: format!("blob {name}"), why };
        let stream = match self.store.get(&self.layout.key(name), Some(range.clone())).await {
            // The bucket says so of a range beyond the end.
            Err(e) if e.kind == ErrorKind::Invalid => {
                return Err(too_short(format!("bytes {} to {} cannot be read: {}", range.start, range.end, e.message)));
            }
            stream => stream?,
        };
        let bytes = collect(name, stream, Lengths { most: wanted, expected: wanted }).await?;
        if bytes.len() as u64 != wanted {
            let got = bytes.len();
            return Err(too_short(format!(
                "bytes {} to {} were asked for and only {got} came",
                range.start, range.end
            )));
        }
        Ok(bytes)
    }

    /// The length of a blob.
    ///
    /// # Errors
    /// Errors of the bucket.
    pub async fn length(&self, name: &str) -> Result<u64, KopiaError> {
        Ok(self.store.head(&self.layout.key(name)).await?.size)
    }

    /// Lists the blobs whose name begins with `prefix`, in no order that may be relied on. Temporary files are left out.
    pub fn list(&self, prefix: &str) -> BoxStream<'_, Result<BlobInfo, KopiaError>> {
        let listings = self.layout.listings(prefix).into_iter().map(|listing| self.list_keys(listing));
        let prefix = prefix.to_owned();
        futures::stream::iter(listings)
            .flatten()
            .try_filter_map(move |listed| {
                let name = self.layout.name(&listed.key).filter(|name| name.starts_with(&prefix));
                async move {
                    let Some(name) = name else { return Ok(None) };
                    let (length, modified) = match listed.size {
                        Some(size) => (size, listed.modified),
                        None => {
                            let info = self.store.head(&listed.key).await?;
                            (info.size, info.modified)
                        }
                    };
                    Ok(Some(BlobInfo { name, length, modified: modified.and_then(nanoseconds) }))
                }
            })
            .boxed()
    }

    /// Lists as [`Blobs::list`] does, into memory and ordered by name.
    ///
    /// # Errors
    /// Errors of the bucket.
    pub async fn list_all(&self, prefix: &str) -> Result<Vec<BlobInfo>, KopiaError> {
        let mut blobs: Vec<BlobInfo> = self.list(prefix).try_collect().await?;
        blobs.sort_by(|a, b| a.name.cmp(&b.name));
        blobs.dedup_by(|a, b| a.name == b.name);
        Ok(blobs)
    }

    fn list_keys(&self, listing: layout::Listing) -> BoxStream<'_, Result<Listed, KopiaError>> {
        struct Pages {
            options: Option<ListOptions>,
            ready: VecDeque<Entry>,
        }
        let options = ListOptions {
            prefix: listing.prefix,
            delimiter: listing.is_one_folder.then(|| "/".to_owned()),
            ..ListOptions::default()
        };
        let pages = Pages { options: Some(options), ready: VecDeque::new() };
        futures::stream::try_unfold(pages, move |mut pages| async move {
            loop {
                match pages.ready.pop_front() {
                    Some(Entry::Object(listed)) => return Ok(Some((listed, pages))),
                    Some(Entry::Prefix(_)) => continue,
                    None => {}
                }
                let Some(options) = pages.options.take() else { return Ok(None) };
                let page = self.store.list(options.clone()).await?;
                pages.ready = page.entries.into();
                pages.options = page.continuation.map(|next| ListOptions { continuation: Some(next), ..options });
            }
        })
        .boxed()
    }

    /// Stores a blob. Blobs are immutable but for the format blobs and the schedule.
    ///
    /// # Errors
    /// Errors of the bucket.
    pub async fn put(&self, name: &str, bytes: Bytes) -> Result<(), KopiaError> {
        self.put_with(name, bytes, PutOptions::default()).await
    }

    /// Stores a blob with options; its media type is kopia's.
    ///
    /// # Errors
    /// Errors of the bucket.
    pub async fn put_with(&self, name: &str, bytes: Bytes, options: PutOptions) -> Result<(), KopiaError> {
        let options = PutOptions { content_type: Some(CONTENT_TYPE), ..options };
        self.store.put(&self.layout.key(name), bytes.into(), options).await?;
        Ok(())
    }

    /// Keeps a blob from deletion until then, unless it is kept longer already.
    ///
    /// # Errors
    /// Errors of the bucket; one that keeps nothing from deletion.
    pub async fn retain(&self, name: &str, retention: Retention) -> Result<(), KopiaError> {
        Ok(self.store.retain(&self.layout.key(name), retention).await?)
    }

    /// Deletes blobs; one that is not there is deleted.
    ///
    /// # Errors
    /// Errors of the bucket.
    pub async fn delete(&self, names: &[String]) -> Result<(), KopiaError> {
        let keys: Vec<String> = names.iter().map(|name| self.layout.key(name)).collect();
        match self.store.delete(&keys).await {
            Err(e) if e.is_not_found() => Ok(()),
            other => Ok(other?),
        }
    }
}

/// The bytes that a stream may have at most, and those that it has as far as that is known.
struct Lengths {
    most: u64,
    expected: u64,
}

async fn collect(name: &str, mut stream: ByteStream, lengths: Lengths) -> Result<Bytes, KopiaError> {
    let Lengths { most: limit, expected } = lengths;
    let mut pieces: Option<Bytes> = None;
    let mut joined = BytesMut::new();
    let mut length = 0_u64;
    while let Some(piece) = stream.try_next().await? {
        length = length.saturating_add(piece.len() as u64);
        if length > limit {
            let why = format!("it has more than the {limit} bytes that were expected");
            return Err(KopiaError::Damaged { what: format!("blob {name}"), why });
        }
        // One piece alone, as stores in memory give it, is not copied.
        match pieces.take() {
            None if joined.is_empty() => pieces = Some(piece),
            first => {
                if let Some(first) = first {
                    // What is expected comes from an index, which may be wrong.
                    joined.reserve(usize::try_from(expected.min(MAX_RESERVED)).unwrap_or(0));
                    joined.extend_from_slice(&first);
                }
                joined.extend_from_slice(&piece);
            }
        }
    }
    Ok(pieces.unwrap_or_else(|| joined.freeze()))
}

/// The time in the format's form; `None` outside of 64 bits.
fn nanoseconds(time: SystemTime) -> Option<UnixNanos> {
    let nanoseconds = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).ok()?,
        Err(before) => i64::try_from(before.duration().as_nanos()).ok()?.checked_neg()?,
    };
    Some(UnixNanos(nanoseconds))
}

/// True for an error that says that a blob does not exist.
pub(crate) fn is_not_found(error: &KopiaError) -> bool {
    matches!(error, KopiaError::Bucket(bucket) if BucketError::is_not_found(bucket))
}
