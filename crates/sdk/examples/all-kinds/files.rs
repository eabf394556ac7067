//! A store in memory, which ends with the program.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use lifeboat_plugin_sdk::{ActionError, ByteStream, Config, ObjectStore, async_trait};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The objects by `bucket/key`.
pub(crate) type Objects = Arc<Mutex<BTreeMap<String, Bytes>>>;

/// The store of a location.
pub(crate) struct Files {
    config: Config,
    objects: Objects,
}

impl Files {
    pub(crate) fn new(config: Config, objects: Objects) -> Self {
        Self { config, objects }
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Bytes>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys of a bucket that begin so.
    fn keys(&self, bucket: &str, prefix: &str) -> Vec<String> {
        let bucket = format!("{bucket}/");
        let objects = self.objects();
        let in_bucket = objects.keys().filter_map(|name| name.strip_prefix(&bucket));
        in_bucket.filter(|key| key.starts_with(prefix)).map(str::to_owned).collect()
    }
}

#[async_trait]
impl ObjectStore for Files {
    async fn put_object(&self, bucket: &str, key: &str, body: ByteStream) -> Result<(), ActionError> {
        if key == "refused" {
            return Err(ActionError::item("the quota is used up"));
        }
        if key.ends_with("counted") {
            // As a store does that hands the pieces on.
            let size = body.try_fold(0, |size, piece| async move { Ok(size + piece.len()) }).await?;
            self.objects().insert(format!("{bucket}/{key}"), size.to_string().into());
            return Ok(());
        }
        // Who breaks off waits until the first piece is here.
        let body = body.inspect_ok(|_| {
            if key == "half" {
                self.objects().insert(format!("{bucket}/half-begun"), Bytes::new());
            }
        });
        let pieces: Result<Vec<Bytes>, ActionError> = body.try_collect().await;
        let pieces = pieces.inspect_err(|why| tracing::warn!(key, error = %why, "given up"))?;
        self.objects().insert(format!("{bucket}/{key}"), pieces.concat().into());
        Ok(())
    }

    async fn object_exists(&self, bucket: &str, key: &str) -> Result<bool, ActionError> {
        Ok(self.objects().contains_key(&format!("{bucket}/{key}")))
    }

    async fn get_object(&self, bucket: &str, key: &str) -> Result<ByteStream, ActionError> {
        if let Some(mebibytes) = key.strip_prefix("mebibytes-").and_then(|count| count.parse::<u64>().ok()) {
            let piece = Bytes::from(vec![7; 1 << 20]);
            return Ok(stream::iter((0..mebibytes).map(move |_| Ok(piece.clone()))).boxed());
        }
        let object = self.objects().get(&format!("{bucket}/{key}")).cloned();
        let object = object.ok_or_else(|| ActionError::item(format!("{key} was not found in {bucket}")))?;
        Ok(stream::iter([Ok(object)]).boxed())
    }

    async fn list_common_prefixes(
        &self,
        bucket: &str,
        delimiter: &str,
        prefix: &str,
    ) -> Result<Vec<String>, ActionError> {
        let up_to_delimiter = |key: &String| {
            let end = key[prefix.len()..].find(delimiter)? + prefix.len() + delimiter.len();
            Some(key[..end].to_owned())
        };
        let prefixes: BTreeSet<String> = self.keys(bucket, prefix).iter().filter_map(up_to_delimiter).collect();
        Ok(prefixes.into_iter().collect())
    }

    async fn list_objects(&self, bucket: &str, prefix: &str) -> Result<Vec<String>, ActionError> {
        Ok(self.keys(bucket, prefix))
    }

    async fn delete_object(&self, bucket: &str, key: &str) -> Result<(), ActionError> {
        self.objects().remove(&format!("{bucket}/{key}"));
        Ok(())
    }

    async fn create_signed_url(&self, bucket: &str, key: &str, valid: Duration) -> Result<String, ActionError> {
        let endpoint = self.config.get("endpoint").map_or("", String::as_str);
        Ok(format!("https://{endpoint}/{bucket}/{key}?seconds={}", valid.as_secs()))
    }
}
