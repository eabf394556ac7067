//! Object stores of plugins as buckets (velero: pkg/plugin/proto, pkg/plugin/velero/object_store.go).

mod download;
mod listing;
mod remote_bucket;
mod upload;
mod whole;

use crate::caller::PluginCaller;
use crate::client;
use crate::failure::{CallFailure, Cause};
use crate::identity::PluginName;
use crate::object_store::download::Download;
use crate::object_store::remote_bucket::{RemoteBucket, kind};
use async_trait::async_trait;
use futures::StreamExt;
use lifeboat_bucket::{
    BlobStore, Body, BucketError, ByteStream, Entry, ErrorKind, ListOptions, ObjectInfo, Page, PutOptions, sequential,
};
use lifeboat_plugin_proto::generated;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Objects that are deleted at the same time.
const DELETED_AT_ONCE: usize = 8;

/// A bucket in a process of its own, which has its configuration.
///
/// Features that the protocol lacks are emulated. A range is read from the beginning of the object, and its size is
/// found by reading all of it ([`BlobStore::reads_ranges`]); [`PutOptions::if_absent`] looks first, so it is not
/// atomic.
#[derive(Clone, Debug)]
pub(crate) struct RemoteObjectStore {
    at: RemoteBucket,
}

impl RemoteObjectStore {
    /// The bucket of this name at a plugin.
    pub(crate) fn new(caller: PluginCaller, name: PluginName, bucket: &str) -> Self {
        Self { at: RemoteBucket { caller: Arc::new(caller), name, bucket: bucket.trim_matches('/').to_owned() } }
    }

    async fn has(&self, key: &str) -> Result<bool, CallFailure> {
        let request = generated::ObjectExistsRequest {
            plugin: self.at.name.to_string(),
            bucket: self.at.bucket.clone(),
            key: key.to_owned(),
        };
        let ask = |channel| async move { client::object_store(channel).object_exists(request).await };
        Ok(self.at.call(ask).await?.exists)
    }

    /// Returns true if a call has failed because there is no such object. The texts of plugins for that differ, and
    /// some use them for other errors too, so the plugin is asked.
    async fn is_missing(&self, key: &str, failure: &CallFailure) -> bool {
        match kind(failure) {
            ErrorKind::NotFound => true,
            ErrorKind::Transient => false,
            _ => matches!(self.has(key).await, Ok(false)),
        }
    }

    async fn download(&self, operation: &'static str, key: &str) -> Result<Download, BucketError> {
        match Download::begin(&self.at, key).await {
            Ok(download) => Ok(download),
            Err(failure) if self.is_missing(key, &failure).await => {
                Err(self.at.error(ErrorKind::NotFound, operation, key, failure.text))
            }
            Err(failure) => Err(self.at.failed(operation, key, failure)),
        }
    }

    async fn delete_one(&self, key: &str) -> Result<(), BucketError> {
        let request = generated::DeleteObjectRequest {
            plugin: self.at.name.to_string(),
            bucket: self.at.bucket.clone(),
            key: key.to_owned(),
        };
        let delete = |channel| async move { client::object_store(channel).delete_object(request).await };
        match self.at.call(delete).await {
            Ok(_) => Ok(()),
            Err(failure) if self.is_missing(key, &failure).await => Ok(()),
            Err(failure) => Err(self.at.failed("delete", key, failure)),
        }
    }

    /// All entries of a listing, in order.
    async fn entries(&self, options: &ListOptions) -> Result<Vec<Entry>, BucketError> {
        let (plugin, bucket, prefix) = (self.at.name.to_string(), self.at.bucket.clone(), options.prefix.clone());
        let fail = |failure| self.at.failed("list", &options.prefix, failure);
        let delimiter = options.delimiter.clone().filter(|delimiter| !delimiter.is_empty());
        let entries = match (options.prefixes_only, delimiter) {
            (true, None) => Ok(Vec::new()),
            (true, Some(delimiter)) => {
                let request = generated::ListCommonPrefixesRequest { plugin, bucket, delimiter, prefix };
                let list = |channel| async move { client::object_store(channel).list_common_prefixes(request).await };
                listing::of_prefixes(self.at.call(list).await.map_err(fail)?.prefixes, options)
            }
            (false, _) => {
                let request = generated::ListObjectsRequest { plugin, bucket, prefix };
                let list = |channel| async move { client::object_store(channel).list_objects(request).await };
                listing::of_keys(self.at.call(list).await.map_err(fail)?.keys, options)
            }
        };
        entries.map_err(|why| self.at.error(ErrorKind::Other, "list", &options.prefix, why))
    }
}

fn may_pass(failure: &CallFailure) -> bool {
    matches!(kind(failure), ErrorKind::Transient | ErrorKind::Throttled)
}

#[async_trait]
impl BlobStore for RemoteObjectStore {
    fn describe(&self) -> String {
        self.at.describe()
    }

    fn reads_ranges(&self) -> bool {
        false
    }

    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        options.refuse_retention(key, self)?;
        if options.if_absent && self.has(key).await.map_err(|failure| self.at.failed("put", key, failure))? {
            return Err(self.at.error(ErrorKind::Exists, "put", key, "it exists"));
        }
        upload::upload(&self.at, key, body.into_stream()).await
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        let download = self.download("get", key).await?;
        match range {
            None => Ok(download.all()),
            Some(range) => {
                let (place, key) = (self.at.clone(), key.to_owned());
                let beyond = move || place.error(ErrorKind::Invalid, "get", &key, "the range is beyond the end");
                sequential::part(download.all(), range, beyond).await
            }
        }
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        if !self.exists(key).await? {
            return Err(self.at.error(ErrorKind::NotFound, "head", key, "it does not exist"));
        }
        let size = sequential::measure(self.download("head", key).await?.all()).await?;
        Ok(ObjectInfo { key: key.to_owned(), size, modified: None })
    }

    async fn exists(&self, key: &str) -> Result<bool, BucketError> {
        self.has(key).await.map_err(|failure| self.at.failed("head", key, failure))
    }

    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        Ok(listing::page(self.entries(&options).await?, &options))
    }

    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        let deleting = futures::stream::iter(keys.to_vec()).map(|key| async move { self.delete_one(&key).await });
        let deleted = deleting.buffered(DELETED_AT_ONCE);
        // One that cannot be deleted keeps no other.
        let deleted: Vec<Result<(), BucketError>> = deleted.collect().await;
        deleted.into_iter().collect()
    }

    async fn abort_stale_uploads(&self, _prefix: &str, _age: Duration) -> Result<u64, BucketError> {
        // What a plugin leaves open is its own: the protocol has no word for it.
        Ok(0)
    }

    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
        let request = generated::CreateSignedUrlRequest {
            plugin: self.at.name.to_string(),
            bucket: self.at.bucket.clone(),
            key: key.to_owned(),
            ttl: i64::try_from(valid.as_nanos()).unwrap_or(i64::MAX),
        };
        let sign = |channel| async move { client::object_store(channel).create_signed_url(request).await };
        match self.at.call(sign).await {
            Ok(answer) => Ok(Some(answer.url).filter(|url| !url.is_empty())),
            // The plugin itself has said no: it cannot sign at all, or not with these credentials. Trying again would change nothing.
            Err(failure) if matches!(failure.cause, Cause::Said(_)) && !may_pass(&failure) => {
                let bucket = self.at.describe();
                tracing::info!(
                    bucket,
                    why = failure.text,
                    "the plugin signs no URLs, so files are served by this server"
                );
                Ok(None)
            }
            Err(failure) => Err(self.at.failed("presign", key, failure)),
        }
    }
}
