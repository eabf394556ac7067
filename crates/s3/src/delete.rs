//! Deleting many objects.

use crate::error::{ErrorResponse, Failures};
use aws_sdk_s3::Client;
use aws_sdk_s3::types::{Delete, ObjectIdentifier};
use futures::{StreamExt, TryStreamExt};
use lifeboat_bucket::{BucketError, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Most keys of one request.
const BATCH: usize = 1000;
/// Requests in flight where a server takes keys one by one.
const SINGLE: usize = 8;

/// Codes with which servers refuse batches that do not know them, or want a checksum that the SDK no longer has.
const NO_BATCHES: [&str; 6] =
    ["NotImplemented", "MethodNotAllowed", "MissingContentMD5", "InvalidRequest", "MalformedXML", "InvalidDigest"];

/// Deletes objects, in batches as long as the server takes them.
#[derive(Debug, Default)]
pub(crate) struct Deleter {
    one_by_one: AtomicBool,
}

impl Deleter {
    /// Deletes all of these keys. A missing one is no error. One error stands for all keys that failed.
    pub(crate) async fn delete(
        &self,
        client: &Client,
        failures: &Failures,
        keys: &[String],
    ) -> Result<(), BucketError> {
        // XML cannot hold every key.
        let (batched, single): (Vec<&str>, Vec<&str>) =
            keys.iter().map(String::as_str).partition(|key| !key.is_empty() && !key.chars().any(char::is_control));
        one_by_one(client, failures, &single).await?;
        for batch in batched.chunks(BATCH) {
            if self.one_by_one.load(Ordering::Relaxed) || !in_batch(client, failures, batch).await? {
                self.one_by_one.store(true, Ordering::Relaxed);
                one_by_one(client, failures, batch).await?;
            }
        }
        Ok(())
    }
}

/// Deletes at most a thousand objects with one request; false when the server does not take such requests.
async fn in_batch(client: &Client, failures: &Failures, keys: &[&str]) -> Result<bool, BucketError> {
    let first = keys.first().copied().unwrap_or_default();
    let invalid = |e: aws_sdk_s3::error::BuildError| {
        failures.own(ErrorKind::Invalid, "delete", first, format!("the request cannot be made: {e}"))
    };
    let objects = keys.iter().map(|key| ObjectIdentifier::builder().key(*key).build());
    let objects = objects.collect::<Result<Vec<_>, _>>().map_err(invalid)?;
    let delete = Delete::builder().set_objects(Some(objects)).quiet(true).build().map_err(invalid)?;
    let answer = match client.delete_objects().bucket(&failures.bucket).delete(delete).send().await {
        Ok(answer) => answer,
        Err(error) => {
            let status = error.raw_response().map(|r| r.status().as_u16());
            let code = error.as_service_error().and_then(|e| e.meta().code()).unwrap_or_default();
            if NO_BATCHES.contains(&code) || matches!(status, Some(405 | 501)) {
                return Ok(false);
            }
            return Err(failures.of("delete", first, error));
        }
    };
    let refused: Vec<_> = answer.errors().iter().filter(|e| e.code() != Some("NoSuchKey")).collect();
    let Some(worst) = refused.first() else { return Ok(true) };
    let refusal = ErrorResponse {
        code: worst.code().unwrap_or_default(),
        message: worst.message().unwrap_or_default(),
        ..ErrorResponse::default()
    };
    let mut error = failures.refused("delete", worst.key().unwrap_or(first), refusal);
    if refused.len() > 1 {
        error.message = format!("{}; {} of {} objects were not deleted", error.message, refused.len(), keys.len());
    }
    Err(error)
}

async fn one_by_one(client: &Client, failures: &Failures, keys: &[&str]) -> Result<(), BucketError> {
    let deletions = keys.iter().map(|key| async move {
        match client.delete_object().bucket(&failures.bucket).key(*key).send().await {
            Ok(_) => Ok(()),
            Err(error) if error.as_service_error().and_then(|e| e.meta().code()) == Some("NoSuchKey") => Ok(()),
            Err(error) => Err(failures.of("delete", key, error)),
        }
    });
    // Collected first: the compiler cannot see through a lazy iterator of futures that borrow.
    let deletions: Vec<_> = deletions.collect();
    futures::stream::iter(deletions).buffer_unordered(SINGLE).try_collect::<()>().await
}
