//! Object locks, extended (kopia: repo/maintenance/extend_blob_retention.go).

use crate::blobs::{BlobInfo, is_not_found};
use crate::content::writer::ContentWriter;
use crate::format::repository::Retention;
use crate::{KopiaError, Repository};
use futures::TryStreamExt;
use lifeboat_bucket::ErrorKind;
use std::sync::{Mutex, PoisonError};

/// Blobs that are extended at once.
const AT_ONCE: usize = 16;
/// The beginnings of the names of blobs that have locks.
const PREFIXES: [&str; 5] = ["kopia.", "p", "q", "n", "x"];
/// The blobs that are named of those whose locks cannot be extended.
const NAMED: usize = 5;
/// The blobs after which it is given up where the lock of none could be extended: the right to it is missing.
const HOPELESS: u64 = 100;

/// Keeps all blobs that have locks from deletion for as long as new ones are. One that goes meanwhile needs none. The storage may
/// refuse a blob, such as one that was locked by another tool: the others are kept all the same.
///
/// # Errors
/// The number of blobs that could not be kept, and the first of them; a repository without locks; those of the bucket.
pub(super) async fn extend(repository: &Repository, contents: &ContentWriter) -> Result<(), KopiaError> {
    let until = contents.kept_until();
    let until = until.ok_or_else(|| KopiaError::refused("extend object locks", "the repository has no retention"))?;
    let locks = Mutex::new(ExtendedLocks::default());
    let note = |blob: &str, result| locks.lock().unwrap_or_else(PoisonError::into_inner).note(blob, result);
    for prefix in PREFIXES {
        let blobs = repository.blobs().list(prefix).try_filter(|blob| {
            let has_lock = Retention::covers(&blob.name);
            async move { has_lock }
        });
        let extend =
            |blob: BlobInfo| async move { note(&blob.name, repository.blobs().retain(&blob.name, until).await) };
        let extended = blobs.map_ok(extend).try_buffer_unordered(AT_ONCE);
        extended.try_for_each(|()| async { Ok(()) }).await?;
    }
    let locks = locks.into_inner().unwrap_or_else(PoisonError::into_inner);
    if locks.refused == 0 { Ok(()) } else { Err(locks.error()) }
}

/// The count of blobs that are kept, and of those that the storage refuses to keep.
#[derive(Default)]
struct ExtendedLocks {
    kept: u64,
    refused: u64,
    first: Vec<String>,
}

impl ExtendedLocks {
    /// Notes the result of one blob. An error that does not concern it alone ends everything.
    fn note(&mut self, blob: &str, result: Result<(), KopiaError>) -> Result<(), KopiaError> {
        match result {
            Ok(()) => self.kept += 1,
            Err(error) if is_not_found(&error) => {}
            Err(KopiaError::Bucket(error)) if matches!(error.kind, ErrorKind::Denied | ErrorKind::Invalid) => {
                self.refused += 1;
                if self.first.len() < NAMED {
                    self.first.push(format!("{blob} ({})", error.message));
                }
                if self.kept == 0 && self.refused >= HOPELESS {
                    return Err(self.error());
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn error(&self) -> KopiaError {
        let Self { kept, refused, first } = self;
        let unnamed = refused.saturating_sub(first.len() as u64);
        let more = if unnamed == 0 { String::new() } else { format!(", and {unnamed} more") };
        let why = format!(
            "the storage refused that for {refused} blobs, while {kept} are kept: {}{more}. Until their locks are extended they \
             can be deleted when those end. See who may change the retention of these objects, and run full maintenance again",
            first.join(", ")
        );
        KopiaError::refused("extend object locks", why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_bucket::BucketError;

    fn refusal(kind: ErrorKind) -> Result<(), KopiaError> {
        let (key, store, message) = ("k".to_owned(), "s".to_owned(), "no".to_owned());
        Err(BucketError { kind, operation: "retain", key, store, message, source: None }.into())
    }

    #[test]
    fn extending_goes_on_after_a_refused_blob_unless_none_is_kept() {
        let mut locks = ExtendedLocks::default();
        assert!(locks.note("gone", refusal(ErrorKind::NotFound)).is_ok());
        for _ in 1..HOPELESS {
            assert!(locks.note("p1", refusal(ErrorKind::Denied)).is_ok());
        }
        assert!(locks.note("p2", refusal(ErrorKind::Denied)).is_err());
        assert!(locks.note("p3", Ok(())).is_ok());
        assert!(locks.note("p4", refusal(ErrorKind::Invalid)).is_ok());
        assert_eq!((locks.kept, locks.refused, locks.first.len()), (1, HOPELESS + 1, NAMED));
    }

    #[test]
    fn an_error_of_the_bucket_ends_extending_at_once() {
        for kind in [ErrorKind::Transient, ErrorKind::Throttled, ErrorKind::Unsupported, ErrorKind::Other] {
            assert!(ExtendedLocks::default().note("p", refusal(kind)).is_err(), "{kind:?}");
        }
    }
}
