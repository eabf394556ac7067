//! Puts an object on condition that there is none: by the store itself, or, where the store cannot do it, by reading
//! back the object that was put.

use crate::{ConditionalPuts, Store, StoreError};
use bytes::Bytes;
use lifeboat_bucket::{BucketError, ErrorKind, PutOptions};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The longest time that a put without a condition may take between the look that found nothing and its end. A slower
/// one proves nothing, because another writer may count its own by then.
const LONGEST: Duration = Duration::from_secs(3);
/// The time after which an object that was put is read back: any writer that looked before this put has put its own
/// object by then, or was too slow.
pub(crate) const SETTLED: Duration = Duration::from_secs(7);

/// The result of a put on condition.
#[derive(Debug)]
pub(crate) struct PutIfAbsent {
    /// Tells that the store keeps the condition: what is there was put first.
    pub(crate) is_proved: bool,
    pub(crate) put: Result<(), StoreError>,
}

impl Store {
    /// The same store, which makes this of conditional puts.
    #[must_use]
    pub fn with_conditional_puts(mut self, conditional_puts: ConditionalPuts) -> Self {
        self.conditional_puts = conditional_puts;
        self
    }

    /// Stores a JSON object when there is none under its key. Its bytes have to be those of this writer alone. Where
    /// the store cannot keep the condition and several writers come at the same time, the last one wins, after some
    /// seconds.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] when there is one, or another writer has put one meanwhile.
    pub(crate) async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<(), StoreError> {
        self.try_put_if_absent(key, bytes).await.put
    }

    /// [`Store::put_if_absent`], with how it was done.
    pub(crate) async fn try_put_if_absent(&self, key: &str, bytes: Bytes) -> PutIfAbsent {
        if self.conditional_puts == ConditionalPuts::Kept {
            let options =
                PutOptions { content_type: Some("application/json"), if_absent: true, ..PutOptions::default() };
            match self.put(key, bytes.clone(), options).await {
                Err(StoreError::Bucket(e)) if e.kind == ErrorKind::Unsupported => {}
                put => return PutIfAbsent { is_proved: true, put },
            }
        }
        PutIfAbsent { is_proved: false, put: self.put_and_read_back(key, bytes).await }
    }

    async fn put_and_read_back(&self, key: &str, bytes: Bytes) -> Result<(), StoreError> {
        let options = PutOptions { content_type: Some("application/json"), ..PutOptions::default() };
        let begun = Instant::now();
        if self.read(key).await?.is_some() {
            return Err(self.failed(ErrorKind::Exists, key, "it exists"));
        }
        self.put(key, bytes.clone(), options).await?;
        if begun.elapsed() > LONGEST {
            let why = "the store keeps no conditions on puts, and was too slow to tell who was first: try again";
            return Err(self.failed(ErrorKind::Transient, key, why));
        }
        sleep(SETTLED).await;
        match self.read(key).await? {
            Some(found) if found == bytes => Ok(()),
            _ => Err(self.failed(ErrorKind::Exists, key, "another writer has put it meanwhile")),
        }
    }

    fn failed(&self, kind: ErrorKind, key: &str, message: &str) -> StoreError {
        let (key, store, message) = (key.to_owned(), self.describe(), message.to_owned());
        BucketError { kind, operation: "put", key, store, message, source: None }.into()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use lifeboat_bucket::faults::{PutCondition, Unconditional};
    use std::sync::Arc;

    pub(crate) fn unconditional(condition: PutCondition) -> Store {
        slow(condition, Duration::from_millis(300))
    }

    pub(crate) fn slow(condition: PutCondition, slow: Duration) -> Store {
        let store = Store::new(Arc::new(Unconditional::new(condition, slow)));
        store.with_conditional_puts(match condition {
            PutCondition::Refused => ConditionalPuts::Kept,
            PutCondition::Ignored => ConditionalPuts::Ignored,
        })
    }

    fn kind(put: Result<(), StoreError>) -> Option<ErrorKind> {
        match put {
            Ok(()) => None,
            Err(StoreError::Bucket(e)) => Some(e.kind),
            Err(e) => panic!("{e}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_several_writers_wins_where_a_store_keeps_no_conditions() {
        for condition in [PutCondition::Refused, PutCondition::Ignored] {
            let store = unconditional(condition);
            let put = |text: &'static str, later: u64| {
                let store = store.clone();
                async move {
                    sleep(Duration::from_millis(later)).await;
                    kind(store.put_if_absent("k", Bytes::from_static(text.as_bytes())).await)
                }
            };
            let outcomes = tokio::join!(put("a", 0), put("b", 100), put("c", 200), put("d", 900));
            let exists = Some(ErrorKind::Exists);
            assert_eq!(outcomes, (exists, exists, None, exists), "{condition:?}");
            assert_eq!(store.read("k").await.unwrap().as_deref(), Some(b"c".as_slice()));
            assert_eq!(put("e", 0).await, exists);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_put_that_was_too_slow_proves_nothing() {
        let store = slow(PutCondition::Refused, Duration::from_secs(4));
        let put = store.put_if_absent("k", Bytes::from_static(b"a")).await;
        assert_eq!(kind(put), Some(ErrorKind::Transient));
    }
}
