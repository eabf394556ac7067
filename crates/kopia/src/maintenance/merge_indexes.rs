//! Merges of index blobs into one set (kopia: internal/epoch). Entries marked deleted are kept.

use crate::KopiaError;
use crate::Repository;
use crate::blobs::BlobInfo;
use crate::content::writer::ContentWriter;
use crate::crypto::Crypto;
use crate::format::blob_name::{IndexKind, IndexSetName};
use crate::format::content_id::ContentHash;
use crate::format::index::{Entry, Index, build};
use crate::format::session::session_id;
use crate::options::{Random, random_bytes};
use crate::tasks::blocking;
use bytes::Bytes;
use std::sync::Arc;

/// The most entries of a blob that is written: some 15 MB, while kopia takes up to 16 million. A set may have any number of
/// blobs.
const MOST_ENTRIES: u64 = 250_000;

/// Reads all blobs, then writes their entries as a set. An entry that cannot be read is an error: it would be lost. Cut off, it
/// leaves a set that is not complete, which nobody looks at.
///
/// # Errors
/// A blob that is damaged, or gone because another merge has replaced it; those of the bucket.
pub(super) async fn merge(
    repository: &Repository,
    writer: &ContentWriter,
    blobs: &[BlobInfo],
    kind: IndexKind,
) -> Result<(), KopiaError> {
    let crypto = repository.crypto().clone();
    let mut builder = repository.contents().index_set().begin_another();
    for blob in blobs {
        let plain = repository.contents().read_index(blob).await?;
        let (name, overhead) = (blob.name.clone(), crypto.overhead());
        builder = blocking(move || {
            let index = Index::open(plain, overhead);
            builder.add_index(&index.map_err(|e| KopiaError::damaged(format!("the index of blob {name}"), e))?)?;
            Ok(builder)
        })
        .await?;
    }
    let set = Arc::new(blocking(move || builder.finish(0)).await?);
    if set.damaged_entries() > 0 {
        let why = format!("{} entries cannot be read, and a merge would lose them", set.damaged_entries());
        return Err(KopiaError::damaged(format!("an index of {kind}"), why));
    }
    let count = set.len().div_ceil(MOST_ENTRIES);
    let random = writer.options().random.clone();
    let session = session_id(random_bytes(&random), writer.now());
    let name = IndexSetName { kind, session: &session, count };
    let version = repository.format().index_version;
    let mut scan = set.scan(None);
    for _ in 0..count {
        let (crypto, random) = (crypto.clone(), random.clone());
        let (hash, stored, rest) = blocking(move || {
            let most = usize::try_from(MOST_ENTRIES).unwrap_or(usize::MAX);
            let entries: Result<Vec<Entry>, KopiaError> = scan.by_ref().take(most).collect();
            let (hash, stored) = seal(&crypto, &random, version, &entries?)?;
            Ok((hash, stored, scan))
        })
        .await?;
        scan = rest;
        writer.put_blob(&name.of_blob(&hash), stored).await?;
    }
    Ok(())
}

fn seal(crypto: &Crypto, random: &Random, version: u8, entries: &[Entry]) -> Result<(ContentHash, Bytes), KopiaError> {
    let refused = |why| KopiaError::refused("write an index", why);
    let plain = build(version, entries).map_err(refused)?;
    let (hash, stored) = crypto.seal_blob(&plain, random_bytes(random)).map_err(refused)?;
    Ok((hash, stored.into()))
}
