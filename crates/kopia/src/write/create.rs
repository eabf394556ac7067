//! A new repository (kopia: repo/initialize.go).

use super::creation_claim::CreationClaim;
use crate::KopiaError;
use crate::blobs::Blobs;
use crate::blobs::layout::Layout;
use crate::crypto::Password;
use crate::format::blob_name::{BLOB_CONFIG, FORMAT};
use crate::format::repository::{FormatRandom, NewRepository, create_format};
use crate::options::{Random, random_bytes};
use crate::tasks::blocking;
use bytes::Bytes;
use lifeboat_bucket::{BlobStore, ErrorKind, PutOptions};
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of each blob of the format.
const MAX_BLOB: u64 = 1 << 20;
/// The time in which another creation has put its next blob, or seen that it was not the first.
const PAUSE: Duration = Duration::from_secs(5);

/// Makes the two blobs of a repository. Of two that do so at once in one place, one succeeds.
pub(super) async fn create(
    store: Arc<dyn BlobStore>,
    password: &Password,
    new: &NewRepository,
    random: &Random,
    layout: &Layout,
) -> Result<(), KopiaError> {
    let (new, password, of_keys) = (new.clone(), password.clone(), random.clone());
    let made = blocking(move || {
        let random = FormatRandom {
            unique_id: random_bytes(&of_keys),
            secret: random_bytes(&of_keys),
            master_key: random_bytes(&of_keys),
            format_nonce: random_bytes(&of_keys),
            config_nonce: random_bytes(&of_keys),
        };
        create_format(&new, &password, &random).map_err(|e| KopiaError::refused("make a repository", e))
    })
    .await?;
    let blobs = Blobs::begin(store, layout).await?;
    let (config, format) = (Bytes::from(made.blob_config), Bytes::from(made.format_blob));
    if begin_config(&blobs, &config).await? == Conditions::Known {
        return finish(&blobs, &config, format).await;
    }
    let claim = CreationClaim::take(&blobs, random).await?;
    let result = match blobs.read_if_there(FORMAT, MAX_BLOB).await {
        Ok(None) => match blobs.put(BLOB_CONFIG, config.clone()).await {
            Ok(()) => finish(&blobs, &config, format).await,
            failed => failed,
        },
        Ok(Some(_)) => Err(exists(&blobs)),
        Err(error) => Err(error),
    };
    claim.release(&blobs).await;
    result
}

/// Puts the format beside the settings that were put, and looks at both.
async fn finish(blobs: &Blobs, config: &Bytes, format: Bytes) -> Result<(), KopiaError> {
    if let Err(error) = put_format(blobs, format).await {
        // Another one was first. Settings that only our key opens must not stay beside its format; without any it opens.
        if matches!(error, KopiaError::RepositoryExists { .. })
            && blobs.read_if_there(BLOB_CONFIG, MAX_BLOB).await?.as_ref() == Some(config)
        {
            blobs.delete(&[BLOB_CONFIG.to_owned()]).await?;
        }
        return Err(error);
    }
    // Another one may have taken ours for a rest, and put its own before it saw this repository.
    if blobs.read_if_there(BLOB_CONFIG, MAX_BLOB).await?.as_ref() == Some(config) {
        return Ok(());
    }
    blobs.put(BLOB_CONFIG, config.clone()).await
}

/// The conditions of puts that a bucket knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conditions {
    /// A put only where nothing is.
    Known,
    /// None: of two puts the later one counts.
    Unknown,
}

/// Puts `kopia.blobcfg`. One that is there already is of a creation that was cut off, whose key is lost, or of one that goes
/// on just now: only one that stays alone for a while is deleted.
/// A bucket that knows no conditions gets none yet.
async fn begin_config(blobs: &Blobs, config: &Bytes) -> Result<Conditions, KopiaError> {
    let before = blobs.read_if_there(BLOB_CONFIG, MAX_BLOB).await?;
    if before.is_some() {
        tokio::time::sleep(PAUSE).await;
        let is_another = blobs.read_if_there(BLOB_CONFIG, MAX_BLOB).await? != before;
        if is_another || blobs.read_if_there(FORMAT, MAX_BLOB).await?.is_some() {
            return Err(exists(blobs));
        }
        blobs.delete(&[BLOB_CONFIG.to_owned()]).await?;
    }
    match put_new(blobs, BLOB_CONFIG, config.clone()).await? {
        NewBlob::Put => Ok(Conditions::Known),
        NewBlob::Exists => Err(exists(blobs)),
        NewBlob::Unconditional => Ok(Conditions::Unknown),
    }
}

/// Puts `kopia.repository` where none is. Where the bucket cannot refuse a second one the last one counts, and others that
/// know no claims, such as kopia, see that after a while.
async fn put_format(blobs: &Blobs, format: Bytes) -> Result<(), KopiaError> {
    match put_new(blobs, FORMAT, format.clone()).await? {
        NewBlob::Put => return Ok(()),
        NewBlob::Exists => return Err(exists(blobs)),
        NewBlob::Unconditional => {}
    }
    if blobs.read_if_there(FORMAT, MAX_BLOB).await?.is_some() {
        return Err(exists(blobs));
    }
    blobs.put(FORMAT, format.clone()).await?;
    tokio::time::sleep(PAUSE).await;
    if blobs.read_if_there(FORMAT, MAX_BLOB).await? == Some(format) { Ok(()) } else { Err(exists(blobs)) }
}

fn exists(blobs: &Blobs) -> KopiaError {
    KopiaError::RepositoryExists { location: blobs.location() }
}

/// The outcome of putting a blob only where none is.
enum NewBlob {
    Put,
    Exists,
    /// The bucket knows no such condition; nothing was put.
    Unconditional,
}

async fn put_new(blobs: &Blobs, name: &str, bytes: Bytes) -> Result<NewBlob, KopiaError> {
    let options = PutOptions { if_absent: true, ..PutOptions::default() };
    match blobs.put_with(name, bytes, options).await {
        Ok(()) => Ok(NewBlob::Put),
        Err(KopiaError::Bucket(error)) if error.kind == ErrorKind::Exists => Ok(NewBlob::Exists),
        Err(KopiaError::Bucket(error)) if error.kind == ErrorKind::Unsupported => Ok(NewBlob::Unconditional),
        Err(error) => Err(error),
    }
}
