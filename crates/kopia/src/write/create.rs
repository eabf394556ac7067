//! A new repository (kopia: repo/initialize.go).

use crate::KopiaError;
use crate::blobs::layout::Layout;
use crate::blobs::{Blobs, is_not_found};
use crate::crypto::Password;
use crate::format::blob_name::{BLOB_CONFIG, FORMAT};
use crate::format::repository::{FormatRandom, NewRepository, create_format};
use crate::options::{Random, random_bytes};
use crate::tasks::blocking;
use bytes::Bytes;
use lifeboat_bucket::{BlobStore, ErrorKind, PutOptions};
use std::sync::Arc;

/// The most bytes of `kopia.blobcfg`.
const MAX_CONFIG: u64 = 1 << 20;

/// Makes the two blobs of a repository. Of two that do so at once in one place, one succeeds.
pub(super) async fn create(
    store: Arc<dyn BlobStore>,
    password: &Password,
    new: &NewRepository,
    random: &Random,
    layout: &Layout,
) -> Result<(), KopiaError> {
    let (new, password, random) = (new.clone(), password.clone(), random.clone());
    let made = blocking(move || {
        let random = FormatRandom {
            unique_id: random_bytes(&random),
            secret: random_bytes(&random),
            master_key: random_bytes(&random),
            format_nonce: random_bytes(&random),
            config_nonce: random_bytes(&random),
        };
        create_format(&new, &password, &random).map_err(|e| KopiaError::refused("make a repository", e))
    })
    .await?;
    let blobs = Blobs::begin(store, layout).await?;
    let config = Bytes::from(made.blob_config);
    // One that a creation left which was cut off; its key is lost.
    blobs.delete(&[BLOB_CONFIG.to_owned()]).await?;
    put_new(&blobs, BLOB_CONFIG, config.clone()).await?;
    match put_new(&blobs, FORMAT, made.format_blob.into()).await {
        Err(error @ KopiaError::RepositoryExists { .. }) => {
            // The other repository has another key, and is readable without that blob. Its maker puts it again.
            if read_config(&blobs).await?.as_ref() == Some(&config) {
                blobs.delete(&[BLOB_CONFIG.to_owned()]).await?;
            }
            return Err(error);
        }
        made => made?,
    }
    // Another one may have taken it for a rest, too, and put its own before it saw this repository.
    if read_config(&blobs).await?.as_ref() == Some(&config) { Ok(()) } else { blobs.put(BLOB_CONFIG, config).await }
}

async fn read_config(blobs: &Blobs) -> Result<Option<Bytes>, KopiaError> {
    match blobs.read(BLOB_CONFIG, MAX_CONFIG).await {
        Err(error) if is_not_found(&error) => Ok(None),
        stored => stored.map(Some),
    }
}

/// Puts a blob that is not there.
async fn put_new(blobs: &Blobs, name: &str, bytes: Bytes) -> Result<(), KopiaError> {
    let options = PutOptions { if_absent: true, ..PutOptions::default() };
    match blobs.put_with(name, bytes.clone(), options).await {
        Err(KopiaError::Bucket(error)) if error.kind == ErrorKind::Exists => {
            Err(KopiaError::RepositoryExists { location: blobs.location() })
        }
        Err(KopiaError::Bucket(error)) if error.kind == ErrorKind::Unsupported => blobs.put(name, bytes).await,
        other => other,
    }
}
