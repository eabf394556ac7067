//! The clients of buckets, which are kept: each has connections, and credentials that were looked up.

use crate::options::Providers;
use crate::world::Meta;
use lifeboat_api::NamespacedName;
use lifeboat_api::{BackupStorageLocation, BackupStorageLocationSpec};
use lifeboat_bucket::{BlobStore, StorageAccess};
use lifeboat_client::Client;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Age at which a client is replaced: sources outside of the location and its Secrets, such as a file with credentials,
/// may have changed by then.
const LONGEST: Duration = Duration::from_secs(600);

/// Time for which visits use a client without reading its Secrets again. With many locations these reads would be most
/// of a server's requests to the API server. Refused credentials are read anew at once.
const UNASKED: Duration = Duration::from_secs(300);

/// The clients of buckets by location. A client is kept as long as the location and its Secrets stay the same.
#[derive(Debug, Default)]
pub(crate) struct Buckets {
    kept: Mutex<HashMap<NamespacedName, CachedBucket>>,
}

#[derive(Debug)]
struct CachedBucket {
    spec: BackupStorageLocationSpec,
    access: StorageAccess,
    since: Instant,
    /// When its Secrets were read last.
    confirmed: Instant,
    bucket: Arc<dyn BlobStore>,
}

impl CachedBucket {
    fn is_of(&self, location: &BackupStorageLocation) -> bool {
        self.spec == location.spec && self.since.elapsed() < LONGEST
    }
}

/// The purpose for which a bucket is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A periodic look at a location: its validation, its sync, and what follows from that.
    Visit,
    /// An operation or a download, which may fail for good: an outdated client from before must not be the cause.
    Operation,
}

impl Buckets {
    /// The bucket of a location, below its prefix; otherwise why it cannot be used.
    pub(crate) async fn open(
        &self,
        client: &Client,
        providers: &dyn Providers,
        location: &BackupStorageLocation,
        purpose: Purpose,
    ) -> Result<Arc<dyn BlobStore>, String> {
        if purpose == Purpose::Visit
            && providers.may_keep(location)
            && let Some(bucket) = self.confirmed(location)
        {
            return Ok(bucket);
        }
        let access = client.storage_access(location).await?;
        // Credentials that are not those of a Secret may have been replaced without our knowledge.
        let is_known = access.credentials.is_some() || purpose == Purpose::Visit;
        if !is_known || !providers.may_keep(location) {
            return providers.open(location, access).await;
        }
        let key = location.key();
        let now = Instant::now();
        if let Some(kept) = self.lock().get_mut(&key).filter(|kept| kept.is_of(location) && kept.access == access) {
            kept.confirmed = now;
            return Ok(Arc::clone(&kept.bucket));
        }
        let bucket = providers.open(location, access.clone()).await?;
        let (since, confirmed) = (Instant::now(), now);
        let kept = CachedBucket { spec: location.spec.clone(), access, since, confirmed, bucket: Arc::clone(&bucket) };
        self.lock().insert(key, kept);
        Ok(bucket)
    }

    /// The client of a location whose Secrets were read just before.
    fn confirmed(&self, location: &BackupStorageLocation) -> Option<Arc<dyn BlobStore>> {
        let kept = self.lock();
        let kept = kept.get(&location.key()).filter(|kept| kept.is_of(location))?;
        (kept.confirmed.elapsed() < UNASKED).then(|| Arc::clone(&kept.bucket))
    }

    /// Drops the client of a location, so that the next one is made anew.
    pub(crate) fn forget(&self, location: &NamespacedName) {
        self.lock().remove(location);
    }

    /// Drops the client of a location that was made before this moment; whether there was one. Another one that is made
    /// as freshly would be no better.
    pub(crate) fn forget_kept(&self, location: &NamespacedName, before: Instant) -> bool {
        let mut kept = self.lock();
        let is_older = kept.get(location).is_some_and(|kept| kept.since < before);
        if is_older {
            kept.remove(location);
        }
        is_older
    }

    /// Drops the clients of all other locations.
    pub(crate) fn keep_only(&self, is_there: impl Fn(&NamespacedName) -> bool) {
        self.lock().retain(|location, _| is_there(location));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NamespacedName, CachedBucket>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bucket of a location, below its prefix, opened once by the rights of this client to read the Secrets that it names.
///
/// # Errors
/// A message for people that says why the bucket cannot be used.
pub async fn open_location(
    client: &Client,
    providers: &dyn Providers,
    location: &BackupStorageLocation,
) -> Result<Arc<dyn BlobStore>, String> {
    providers.open(location, client.storage_access(location).await?).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::{api_server, named};
    use async_trait::async_trait;
    use base64::Engine;
    use lifeboat_bucket::Memory;
    use serde_json::json;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::task::JoinSet;

    /// Counts what it opens.
    #[derive(Debug, Default)]
    struct Counting(AtomicUsize);

    #[async_trait]
    impl Providers for Counting {
        async fn open(&self, _: &BackupStorageLocation, _: StorageAccess) -> Result<Arc<dyn BlobStore>, String> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Arc::new(Memory::default()))
        }

        fn may_keep(&self, location: &BackupStorageLocation) -> bool {
            location.spec.provider != "folder"
        }
    }

    fn location(name: &str) -> BackupStorageLocation {
        let mut location = BackupStorageLocation::default();
        location.metadata.name = name.into();
        location.spec.provider = "aws".into();
        location
    }

    /// A client whose Secrets have these contents, one after the other.
    async fn client(tasks: &mut JoinSet<()>, contents: &[&str]) -> Client {
        let secret = |content: &&str| {
            let content = base64::engine::general_purpose::STANDARD.encode(content);
            (200, json!({"metadata": {"name": "cloud"}, "data": {"cloud": content}}))
        };
        let cluster = api_server(tasks, contents.iter().map(secret).collect()).await;
        Client { cluster, namespace: "velero".into() }
    }

    #[tokio::test]
    async fn a_client_is_kept_as_long_as_its_location_and_its_secret_are_the_same() {
        let mut tasks = JoinSet::new();
        let client = client(&mut tasks, &["one", "one", "two", "two", "two"]).await;
        let (buckets, providers) = (Buckets::default(), Counting::default());
        let mut place = location("main");
        let secret = json!({"name": "cloud", "key": "cloud"});
        place.spec.credential = Some(serde_json::from_value(secret).unwrap());
        let mut opened = Vec::new();
        for step in ["first", "same", "secret", "status", "spec", "same"] {
            match step {
                "status" => place.status.last_validation_time = Some(lifeboat_api::Time::new(jiff::Timestamp::now())),
                "spec" => drop(place.spec.config.insert("region".into(), "elsewhere".into())),
                _ => {}
            }
            buckets.open(&client, &providers, &place, Purpose::Operation).await.unwrap();
            opened.push((step, providers.0.load(Ordering::Relaxed)));
        }
        let expected = [("first", 1), ("same", 1), ("secret", 2), ("status", 2), ("spec", 3), ("same", 3)];
        assert_eq!(opened, expected);
    }

    #[tokio::test]
    async fn a_visit_reads_no_secret_that_was_read_just_before() {
        let mut tasks = JoinSet::new();
        let client = client(&mut tasks, &["one", "two", "three", "three"]).await;
        let (buckets, providers) = (Buckets::default(), Counting::default());
        let mut place = location("main");
        place.spec.credential = Some(serde_json::from_value(json!({"name": "cloud", "key": "cloud"})).unwrap());
        let opened = async |purpose| {
            buckets.open(&client, &providers, &place, purpose).await.unwrap();
            providers.0.load(Ordering::Relaxed)
        };
        assert_eq!([opened(Purpose::Visit).await, opened(Purpose::Visit).await], [1, 1]);
        assert_eq!([opened(Purpose::Operation).await, opened(Purpose::Visit).await], [2, 2]);
        tokio::time::pause();
        tokio::time::advance(UNASKED).await;
        tokio::time::resume();
        assert_eq!([opened(Purpose::Visit).await, opened(Purpose::Operation).await], [3, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_old_or_of_another_location_is_not_used() {
        let mut tasks = JoinSet::new();
        let client = client(&mut tasks, &["none is read"]).await;
        let (buckets, providers) = (Buckets::default(), Counting::default());
        let opened = async |name: &str| {
            buckets.open(&client, &providers, &location(name), Purpose::Visit).await.unwrap();
            providers.0.load(Ordering::Relaxed)
        };
        assert_eq!([opened("a").await, opened("b").await, opened("a").await, opened("b").await], [1, 2, 2, 2]);
        tokio::time::advance(LONGEST).await;
        assert_eq!([opened("a").await, opened("a").await], [3, 3]);
        buckets.forget(&named("a"));
        assert_eq!([opened("a").await, opened("a").await], [4, 4]);
        buckets.keep_only(|location| location.name == "b");
        assert_eq!(buckets.lock().keys().cloned().collect::<Vec<_>>(), [named("b")]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fresh_client_is_not_made_a_second_time() {
        let mut tasks = JoinSet::new();
        let client = client(&mut tasks, &["none is read"]).await;
        let (buckets, providers) = (Buckets::default(), Counting::default());
        let mut dropped = Vec::new();
        for _ in 0..2 {
            let begun = Instant::now();
            buckets.open(&client, &providers, &location("a"), Purpose::Visit).await.unwrap();
            // The first is fresh, the second one is that of the first time.
            dropped.push(buckets.forget_kept(&named("a"), begun));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(dropped, [false, true]);
        assert!(!buckets.forget_kept(&named("a"), Instant::now()), "there is none any more");
    }

    #[tokio::test]
    async fn an_operation_uses_a_kept_client_only_with_the_same_credentials() {
        use Purpose::{Operation, Visit};
        let mut tasks = JoinSet::new();
        let client = client(&mut tasks, &["one"]).await;
        for (provider, with_secret, expected) in [
            ("aws", true, [1, 1, 1, 1]),
            // What the environment gives may be another every time.
            ("aws", false, [1, 2, 2, 3]),
            // Its folder may have been replaced.
            ("folder", true, [1, 2, 3, 4]),
            ("folder", false, [1, 2, 3, 4]),
        ] {
            let (buckets, providers) = (Buckets::default(), Counting::default());
            let mut place = location("main");
            place.spec.provider = provider.into();
            let secret = json!({"name": "cloud", "key": "cloud"});
            place.spec.credential = with_secret.then(|| serde_json::from_value(secret).unwrap());
            let mut opened = Vec::new();
            for purpose in [Visit, Operation, Visit, Operation] {
                buckets.open(&client, &providers, &place, purpose).await.unwrap();
                opened.push(providers.0.load(Ordering::Relaxed));
            }
            assert_eq!(opened, expected, "{provider} {with_secret}");
        }
    }
}
