//! Buckets of plugins as the tests use them: those of our own fixture and those of Velero's library have the same configuration.

use crate::bed::Bed;
use bytes::Bytes;
use lifeboat_bucket::{BlobStore, Body, BucketError, PutOptions, collect};
use lifeboat_plugin::{PluginHost, PluginName};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The plugins of a program with a bucket and a snapshotter.
pub(crate) const STORAGE: &str = "VolumeSnapshotter=velero.io/aws ObjectStore=velero.io/aws";

pub(crate) fn aws() -> PluginName {
    PluginName::of_provider("aws").unwrap()
}

/// A configuration whose objects are in this folder.
pub(crate) fn config(bed: &Bed, root: &str) -> BTreeMap<String, String> {
    let root = bed.path(root).display().to_string();
    [("bucket", "b"), ("prefix", "p"), ("root", &root)].map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

pub(crate) async fn store(host: &PluginHost, bed: &Bed) -> Arc<dyn BlobStore> {
    host.object_store(&aws(), config(bed, "objects")).await.unwrap()
}

pub(crate) async fn put(store: &dyn BlobStore, key: &str, body: impl Into<Body>) -> Result<u64, BucketError> {
    store.put(key, body.into(), PutOptions::default()).await
}

pub(crate) async fn read(store: &dyn BlobStore, key: &str) -> Result<Bytes, BucketError> {
    collect(store.get(key, None).await?, 100 << 20).await
}
