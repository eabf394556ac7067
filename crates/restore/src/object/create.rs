//! Creates an object, without the labels of the restore where it is too large only with them.

use crate::object::identity_fields::remove_restore_labels;
use bytes::Bytes;
use lifeboat_cluster::{Cluster, ClusterError, WriteBody};
use lifeboat_object::ApiResource;
use serde_json::Value;

/// An object that is to be created.
#[derive(Clone, Copy)]
pub(crate) struct ToCreate<'a> {
    pub(crate) resource: &'a ApiResource,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
    /// With the labels of the restore.
    pub(crate) object: &'a Value,
    /// The manager of its fields; empty for our own.
    pub(crate) field_manager: &'a str,
}

/// An object as the API server has stored it.
pub(crate) struct CreatedObject {
    pub(crate) object: Value,
    /// True when it has the labels of the restore.
    pub(crate) is_labelled: bool,
}

impl ToCreate<'_> {
    /// Creates it. Two labels are little, but an object may be of the very size that the cluster takes at most.
    ///
    /// # Errors
    /// [`ClusterError`]; of an object that is too large also without the labels, that of the attempt with them.
    pub(crate) async fn send(self, cluster: &Cluster) -> Result<CreatedObject, ClusterError> {
        let made = |body: Bytes, is_labelled| CreatedObject {
            object: serde_json::from_slice(&body).unwrap_or_default(),
            is_labelled,
        };
        let refusal = match self.send_as(self.object, cluster).await {
            Ok(body) => return Ok(made(body, true)),
            Err(e) if e.is_too_large() => e,
            Err(e) => return Err(e),
        };
        let mut bare = self.object.clone();
        remove_restore_labels(&mut bare);
        match self.send_as(&bare, cluster).await {
            Ok(body) => Ok(made(body, false)),
            Err(e) if e.is_too_large() => Err(refusal),
            Err(e) => Err(e),
        }
    }

    async fn send_as(self, object: &Value, cluster: &Cluster) -> Result<Bytes, ClusterError> {
        let Self { resource, namespace, name, field_manager, .. } = self;
        let wanted = WriteBody { body: Bytes::from(object.to_string()), field_manager };
        cluster.create(resource, namespace, name, wanted).await
    }
}

/// Warns, for people, that an object has no labels of the restore.
pub(crate) fn unlabelled(key: &impl std::fmt::Display) -> String {
    format!(
        "{key} has not got the labels velero.io/backup-name and velero.io/restore-name: with them it is larger than the API server takes"
    )
}
