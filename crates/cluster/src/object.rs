//! Reads and writes of single objects.

use crate::path::{resource_path, segment};
use crate::send::Call;
use crate::{Cluster, ClusterError};
use bytes::Bytes;
use http::Method;
use lifeboat_object::ApiResource;
use serde_json::json;

/// How a patch is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 7386.
    Merge,
    /// RFC 6902.
    Json,
}

impl PatchKind {
    fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Json => "application/json-patch+json",
        }
    }
}

/// How to create.
#[derive(Clone, Copy, Debug, Default)]
pub struct Create<'a> {
    /// Who owns the fields; empty for what the server makes of the user agent.
    pub field_manager: &'a str,
    /// Let the server check everything but store nothing.
    pub dry_run: bool,
}

impl Cluster {
    /// One object; `None` when there is none.
    ///
    /// # Errors
    /// [`ClusterError`] for anything but 404.
    pub async fn get(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Bytes>, ClusterError> {
        let call = self.single("get", Method::GET, resource, namespace, name);
        match self.call(&call).await {
            Ok(body) => Ok(Some(body)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Creates an object of the given JSON and returns it as stored. Paced.
    ///
    /// # Errors
    /// [`ClusterError`]; after a lost answer the repetition says "already exists" for our own object.
    pub async fn create(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        body: Bytes,
        how: Create<'_>,
    ) -> Result<Bytes, ClusterError> {
        let mut call = self.single("create", Method::POST, resource, namespace, name);
        call.path = resource_path(resource, namespace);
        let mut separator = '?';
        if !how.field_manager.is_empty() {
            call.path.push_str(&format!("{separator}fieldManager={}", segment(how.field_manager)));
            separator = '&';
        }
        if how.dry_run {
            call.path.push_str(&format!("{separator}dryRun=All"));
        }
        call.body = Some(("application/json", body));
        self.paced(&call).await
    }

    /// Patches an object, or its status, and returns it as stored. Paced.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn patch(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        subresource: Option<&str>,
        kind: PatchKind,
        patch: Bytes,
    ) -> Result<Bytes, ClusterError> {
        let mut call = self.single("patch", Method::PATCH, resource, namespace, name);
        if let Some(subresource) = subresource {
            call.path.push('/');
            call.path.push_str(subresource);
            call.what = format!("{subresource} of {}", call.what);
        }
        call.body = Some((kind.content_type(), patch));
        self.paced(&call).await
    }

    /// Makes an object have these fields, whether it exists or not, and takes them over from other owners (server-side
    /// apply by force); returns it as stored. Paced.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn apply(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        body: Bytes,
        field_manager: &str,
    ) -> Result<Bytes, ClusterError> {
        let mut call = self.single("apply", Method::PATCH, resource, namespace, name);
        call.path.push_str(&format!("?fieldManager={}&force=true", segment(field_manager)));
        // JSON is YAML.
        call.body = Some(("application/apply-patch+yaml", body));
        self.paced(&call).await
    }

    /// Deletes an object; `false` when there was none. Paced.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn delete(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<bool, ClusterError> {
        let call = self.single("delete", Method::DELETE, resource, namespace, name);
        match self.paced(&call).await {
            Ok(_) => Ok(true),
            Err(e) if e.is_not_found() => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Deletes this very object; `false` when there was none, or another of its name. Paced.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn delete_exactly(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        uid: &str,
    ) -> Result<bool, ClusterError> {
        let mut call = self.single("delete", Method::DELETE, resource, namespace, name);
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}});
        call.body = Some(("application/json", Bytes::from(options.to_string())));
        match self.paced(&call).await {
            Ok(_) => Ok(true),
            Err(e) if e.is_not_found() || e.is_conflict() => Ok(false),
            Err(e) => Err(e),
        }
    }

    async fn paced(&self, call: &Call) -> Result<Bytes, ClusterError> {
        let permit = self.pace.enter().await;
        let result = self.call(call).await;
        permit.leave(&result);
        result
    }

    fn single(
        &self,
        verb: &'static str,
        method: Method,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Call {
        let what = match namespace {
            Some(namespace) => format!("{}/{namespace}/{name}", resource.group_resource()),
            None => format!("{}/{name}", resource.group_resource()),
        };
        let path = format!("{}/{}", resource_path(resource, namespace), segment(name));
        Call { verb, what, method, path, accept: None, body: None }
    }
}
