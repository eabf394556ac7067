//! Finds out how a store treats conditional puts.

use crate::{ConditionalPuts, Store, StoreError};
use bytes::Bytes;
use lifeboat_archive::layout::probe_key;
use lifeboat_bucket::{BlobStore, ErrorKind, PutOptions};

/// The observed treatment by a store of puts that are conditional on the absence of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// It keeps the condition.
    Kept,
    /// It refuses them.
    Refused,
    /// It stores the object whether there is one or not.
    Ignored,
}

impl ProbeResult {
    /// The way in which objects are put there.
    #[must_use]
    pub fn puts(self) -> ConditionalPuts {
        match self {
            Self::Kept | Self::Refused => ConditionalPuts::Kept,
            Self::Ignored => ConditionalPuts::Ignored,
        }
    }

    /// A warning for people about the store; `None` for a store that keeps the condition.
    #[must_use]
    pub fn warning(self) -> Option<String> {
        let what = match self {
            Self::Kept => return None,
            Self::Refused => "refuses",
            Self::Ignored => "ignores",
        };
        Some(format!(
            "The object store {what} conditional puts (If-None-Match: *): names of backups and restores are claimed by reading back what \
             was put, which takes some seconds and protects less against two writers at the same moment. Let one cluster alone write \
             here, or use a store that has them"
        ))
    }
}

impl Store {
    /// Puts an object twice on condition that there is none, and removes it: four small requests at most. Its key has
    /// `id`, which nobody else may use at this time: if another process deletes it in between, a store that keeps
    /// conditions looks like one that ignores them. An object that is left from an earlier probe does no harm.
    ///
    /// # Errors
    /// [`StoreError::Bucket`], as when nothing may be written there.
    pub async fn probe(&self, id: &str) -> Result<ProbeResult, StoreError> {
        let key = probe_key(id);
        let options = PutOptions { if_absent: true, content_type: Some("application/json"), ..PutOptions::default() };
        let mut found = ProbeResult::Ignored;
        for _ in 0..2 {
            match self.put(&key, Bytes::from_static(b"{}"), options).await {
                Ok(()) => {}
                Err(StoreError::Bucket(e)) if e.kind == ErrorKind::Exists => found = ProbeResult::Kept,
                Err(StoreError::Bucket(e)) if e.kind == ErrorKind::Unsupported => return Ok(ProbeResult::Refused),
                Err(e) => return Err(e),
            }
        }
        if let Err(e) = self.bucket.delete(std::slice::from_ref(&key)).await {
            tracing::warn!(key, error = %e, "an object that was put to find out what the store does stays there");
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::if_absent::tests::unconditional;
    use crate::{ClaimOutcome, ClaimRequest};
    use jiff::Timestamp;
    use lifeboat_bucket::faults::PutCondition;

    #[tokio::test(start_paused = true)]
    async fn a_store_without_conditions_is_found_and_backups_are_claimed_there() {
        for (store, expected) in [
            (Store::in_memory(), ProbeResult::Kept),
            (unconditional(PutCondition::Refused), ProbeResult::Refused),
            (unconditional(PutCondition::Ignored), ProbeResult::Ignored),
        ] {
            assert_eq!(store.probe("1").await.unwrap(), expected);
            assert!(!store.exists(&probe_key("1")).await.unwrap(), "{expected:?}");
            assert_eq!(expected.warning().is_some(), expected != ProbeResult::Kept);
            let store = store.with_conditional_puts(expected.puts());
            let claim = |uid: &str| ClaimRequest {
                name: "b".into(),
                backup_uid: uid.into(),
                cluster_uid: uid.into(),
                namespace: "velero".into(),
                take_over: false,
                now: Timestamp::UNIX_EPOCH,
            };
            assert!(matches!(store.claim(&claim("1")).await.unwrap(), ClaimOutcome::Writer(_)), "{expected:?}");
            assert!(matches!(store.claim(&claim("2")).await, Err(StoreError::Claimed { .. })), "{expected:?}");
        }
    }
}
