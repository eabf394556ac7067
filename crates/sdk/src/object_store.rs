//! Storage for the files of backups.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use lifeboat_action::ActionError;
use std::time::Duration;

/// Bytes in pieces. An error ends it.
pub type ByteStream = BoxStream<'static, Result<Bytes, ActionError>>;

/// Stores the files of backups (velero: pkg/plugin/velero/object_store.go). One stands for one storage location, whose
/// configuration it was made with.
///
/// Calls come at the same time. One that the server gives up is dropped where it waits; only `put_object` goes on, and finds an error at
/// the end of `body`.
#[async_trait]
pub trait ObjectStore: Send + Sync {
    /// Stores an object, or replaces it. It succeeds when the object is durable; when `body` ends with an error, nothing is stored.
    async fn put_object(&self, bucket: &str, key: &str, body: ByteStream) -> Result<(), ActionError>;

    /// Returns true if there is an object of this key.
    async fn object_exists(&self, bucket: &str, key: &str) -> Result<bool, ActionError>;

    /// An object's bytes. The message of the error for one that is missing says `not found`, by which servers know it.
    async fn get_object(&self, bucket: &str, key: &str) -> Result<ByteStream, ActionError>;

    /// The different beginnings of all keys that begin with `prefix`, up to and with the first `delimiter` after it: all of them, in any
    /// order.
    async fn list_common_prefixes(
        &self,
        bucket: &str,
        delimiter: &str,
        prefix: &str,
    ) -> Result<Vec<String>, ActionError>;

    /// All keys that begin with `prefix`, in any order.
    async fn list_objects(&self, bucket: &str, prefix: &str) -> Result<Vec<String>, ActionError>;

    /// Deletes an object; one that is gone already is no error.
    async fn delete_object(&self, bucket: &str, key: &str) -> Result<(), ActionError>;

    /// A URL from which everybody can read the object for so long; an empty text where the store cannot sign: Lifeboat serves the file
    /// itself then.
    async fn create_signed_url(&self, bucket: &str, key: &str, valid: Duration) -> Result<String, ActionError>;
}
