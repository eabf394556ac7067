//! Reads and writes of single objects.

use crate::path::{resource_path, segment};
use crate::send::ApiCall;
use crate::{Cluster, ClusterError};
use bytes::Bytes;
use http::Method;
use lifeboat_object::ApiResource;
use serde_json::{Value, json};

/// Conditions that an object must meet for a request to have an effect.
#[derive(Clone, Copy, Debug)]
pub struct Preconditions<'a> {
    /// It has this UID.
    pub uid: &'a str,
    /// It is at this revision.
    pub resource_version: &'a str,
}

/// The JSON that an object shall have, and the manager that owns its fields.
#[derive(Clone, Debug)]
pub struct WriteBody<'a> {
    /// The JSON.
    pub body: Bytes,
    /// The manager that owns the fields; when empty, the server names it after the user agent.
    pub field_manager: &'a str,
}

impl WriteBody<'_> {
    /// JSON whose fields belong to the manager that the server names after the user agent.
    #[must_use]
    pub fn of(body: Bytes) -> Self {
        Self { body, field_manager: "" }
    }
}

/// A merge patch (RFC 7386) of an object or of a subresource of it.
#[derive(Clone, Debug)]
pub struct MergePatch<'a> {
    /// The JSON.
    pub body: Bytes,
    /// The subresource that is patched, such as `status`; otherwise the object itself.
    pub subresource: Option<&'a str>,
}

impl MergePatch<'_> {
    /// A patch of the object itself.
    #[must_use]
    pub fn of(body: Bytes) -> Self {
        Self { body, subresource: None }
    }
}

impl Cluster {
    /// Reads one object; `None` when there is none.
    ///
    /// # Errors
    /// [`ClusterError`] for anything but 404.
    pub async fn get(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Bytes>, ClusterError> {
        match self.get_existing(resource, namespace, name).await {
            Ok(body) => Ok(Some(body)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Reads one object that should be there.
    ///
    /// # Errors
    /// [`ClusterError`]; with 404, [`ClusterError::is_unserved`] says whether it is the type that is missing.
    pub async fn get_existing(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Bytes, ClusterError> {
        self.call(&single("get", Method::GET, resource, namespace, name)).await
    }

    /// Creates an object and returns it as stored. Paced.
    ///
    /// # Errors
    /// [`ClusterError`]; when the answer to an attempt was lost, the next attempt may fail with "already exists" because of the
    /// object that the first one created.
    pub async fn create(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        object: WriteBody<'_>,
    ) -> Result<Bytes, ClusterError> {
        let mut call = single("create", Method::POST, resource, namespace, name);
        call.path = resource_path(resource, namespace);
        if !object.field_manager.is_empty() {
            call.path.push_str(&format!("?fieldManager={}", segment(object.field_manager)));
        }
        call.body = Some(("application/json", object.body));
        self.paced(&call).await
    }

    /// Creates an object whose every field the cluster's definition of its type has, and returns it as stored. Paced.
    ///
    /// # Errors
    /// [`ClusterError`], as of [`Cluster::create`]; [`ClusterError::unknown_fields`] names the fields that the definition lacks.
    pub async fn create_strictly(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        object: Bytes,
    ) -> Result<Bytes, ClusterError> {
        let mut call = single("create", Method::POST, resource, namespace, name);
        call.path = format!("{}?fieldValidation=Strict", resource_path(resource, namespace));
        call.body = Some(("application/json", object));
        self.paced(&call).await
    }

    /// Asks the API server whether it would create this object, without doing so, and returns it as it would be stored. Paced.
    ///
    /// # Errors
    /// [`ClusterError`]: why it would not.
    pub async fn dry_run_create(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        object: Bytes,
    ) -> Result<Bytes, ClusterError> {
        let mut call = single("create (as a dry run)", Method::POST, resource, namespace, name);
        call.path = format!("{}?dryRun=All", resource_path(resource, namespace));
        call.body = Some(("application/json", object));
        self.paced(&call).await
    }

    /// Patches an object, or a subresource of it, and returns it as stored. Paced.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn patch(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        patch: MergePatch<'_>,
    ) -> Result<Bytes, ClusterError> {
        let mut call = single("patch", Method::PATCH, resource, namespace, name);
        if let Some(subresource) = patch.subresource {
            call.path.push('/');
            call.path.push_str(subresource);
            call.what = format!("{subresource} of {}", call.what);
        }
        call.body = Some(("application/merge-patch+json", patch.body));
        self.paced(&call).await
    }

    /// Asks the API server whether it would take this merge patch, without changing anything. Paced.
    ///
    /// # Errors
    /// [`ClusterError`]: why it would not.
    pub async fn dry_run_patch(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        patch: Bytes,
    ) -> Result<(), ClusterError> {
        let mut call = single("patch (as a dry run)", Method::PATCH, resource, namespace, name);
        call.path.push_str("?dryRun=All");
        call.body = Some(("application/merge-patch+json", patch));
        self.paced(&call).await.map(drop)
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
        fields: WriteBody<'_>,
    ) -> Result<Bytes, ClusterError> {
        let mut call = single("apply", Method::PATCH, resource, namespace, name);
        call.path.push_str(&format!("?fieldManager={}&force=true", segment(fields.field_manager)));
        // JSON is YAML.
        call.body = Some(("application/apply-patch+yaml", fields.body));
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
        let call = single("delete", Method::DELETE, resource, namespace, name);
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
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}});
        self.delete_by(single("delete", Method::DELETE, resource, namespace, name), &options).await
    }

    /// Deletes this very object at this very revision and leaves its dependents without owner; `false` when there was none,
    /// another of its name, or one that has changed since. Paced.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn delete_and_orphan(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        preconditions: Preconditions<'_>,
    ) -> Result<bool, ClusterError> {
        let Preconditions { uid, resource_version } = preconditions;
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan",
            "preconditions": {"uid": uid, "resourceVersion": resource_version}});
        self.delete_by(single("delete", Method::DELETE, resource, namespace, name), &options).await
    }

    /// Deletes this very object at this very revision, and then what it owns; `false` when there was none, another of its name, or
    /// one that has changed since. Paced.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn delete_with_dependents(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        preconditions: Preconditions<'_>,
    ) -> Result<bool, ClusterError> {
        let Preconditions { uid, resource_version } = preconditions;
        // Some types would leave their dependents by default.
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background",
            "preconditions": {"uid": uid, "resourceVersion": resource_version}});
        self.delete_by(single("delete", Method::DELETE, resource, namespace, name), &options).await
    }

    async fn delete_by(&self, mut call: ApiCall, options: &Value) -> Result<bool, ClusterError> {
        call.body = Some(("application/json", Bytes::from(options.to_string())));
        match self.paced(&call).await {
            Ok(_) => Ok(true),
            Err(e) if e.is_not_found() || e.is_conflict() => Ok(false),
            Err(e) => Err(e),
        }
    }

    async fn paced(&self, call: &ApiCall) -> Result<Bytes, ClusterError> {
        let permit = self.pace.enter().await;
        let result = self.call(call).await;
        permit.leave(&result);
        result
    }
}

/// A call about one object, without a body.
fn single(verb: &'static str, method: Method, resource: &ApiResource, namespace: Option<&str>, name: &str) -> ApiCall {
    let what = match namespace {
        Some(namespace) => format!("{}/{namespace}/{name}", resource.group_resource()),
        None => format!("{}/{name}", resource.group_resource()),
    };
    let path = format!("{}/{}", resource_path(resource, namespace), segment(name));
    ApiCall { verb, what, method, path, accept: None, body: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::ScriptedResponse;

    fn maps() -> ApiResource {
        ApiResource { namespaced: true, ..ApiResource::new("", "v1", "configmaps", "ConfigMap") }
    }

    fn body() -> Bytes {
        Bytes::from_static(b"{}")
    }

    #[tokio::test]
    async fn each_write_is_sent_in_the_form_that_kubernetes_documents() {
        let (cluster, sent) = Cluster::scripted(vec![ScriptedResponse::new(200, "{}")]);
        let (maps, roles) =
            (maps(), ApiResource::new("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole"));
        let shop = Some("shop");
        let as_velero = || WriteBody { body: body(), field_manager: "velero server" };
        let exactly = Preconditions { uid: "u", resource_version: "7" };
        let status = MergePatch { body: body(), subresource: Some("status") };
        cluster.get(&roles, None, "system:node/a").await.unwrap();
        cluster.create(&maps, shop, "a", WriteBody::of(body())).await.unwrap();
        cluster.create(&roles, None, "system:node", as_velero()).await.unwrap();
        cluster.create_strictly(&maps, shop, "a", body()).await.unwrap();
        cluster.dry_run_create(&maps, shop, "a", body()).await.unwrap();
        cluster.patch(&maps, shop, "a", MergePatch::of(body())).await.unwrap();
        cluster.patch(&maps, shop, "a", status).await.unwrap();
        cluster.dry_run_patch(&maps, shop, "a", body()).await.unwrap();
        cluster.apply(&maps, shop, "a", as_velero()).await.unwrap();
        assert!(cluster.delete(&maps, shop, "a").await.unwrap());
        assert!(cluster.delete_exactly(&maps, shop, "a", "u").await.unwrap());
        assert!(cluster.delete_and_orphan(&maps, shop, "a", exactly).await.unwrap());
        assert!(cluster.delete_with_dependents(&maps, shop, "a", exactly).await.unwrap());
        let options = |more: &str| {
            format!(
                r#"DELETE /api/v1/namespaces/shop/configmaps/a application/json {{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{{{more}"uid":"u"}}"#
            )
        };
        let at_revision = r#""resourceVersion":"7","#;
        assert_eq!(
            sent.lines(),
            [
                "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/system:node%2Fa".to_owned(),
                "POST /api/v1/namespaces/shop/configmaps application/json {}".to_owned(),
                "POST /apis/rbac.authorization.k8s.io/v1/clusterroles?fieldManager=velero%20server application/json {}".to_owned(),
                "POST /api/v1/namespaces/shop/configmaps?fieldValidation=Strict application/json {}".to_owned(),
                "POST /api/v1/namespaces/shop/configmaps?dryRun=All application/json {}".to_owned(),
                "PATCH /api/v1/namespaces/shop/configmaps/a application/merge-patch+json {}".to_owned(),
                "PATCH /api/v1/namespaces/shop/configmaps/a/status application/merge-patch+json {}".to_owned(),
                "PATCH /api/v1/namespaces/shop/configmaps/a?dryRun=All application/merge-patch+json {}".to_owned(),
                "PATCH /api/v1/namespaces/shop/configmaps/a?fieldManager=velero%20server&force=true application/apply-patch+yaml {}".to_owned(),
                "DELETE /api/v1/namespaces/shop/configmaps/a".to_owned(),
                format!("{}}}", options("")),
                format!(r#"{},"propagationPolicy":"Orphan"}}"#, options(at_revision)),
                format!(r#"{},"propagationPolicy":"Background"}}"#, options(at_revision)),
            ]
        );
    }

    #[tokio::test]
    async fn an_object_that_is_gone_or_another_one_is_no_error_of_its_deletion() {
        let exactly = Preconditions { uid: "u", resource_version: "7" };
        for (code, reason, by_name, by_uid) in [
            (404, "NotFound", Some(false), Some(false)),
            (409, "Conflict", None, Some(false)),
            (409, "AlreadyExists", None, None),
            (403, "Forbidden", None, None),
        ] {
            let (cluster, _) = Cluster::scripted(vec![ScriptedResponse::refusal(code, reason, "no")]);
            let maps = maps();
            assert_eq!(cluster.delete(&maps, Some("shop"), "a").await.ok(), by_name, "{code} {reason}");
            assert_eq!(cluster.delete_exactly(&maps, Some("shop"), "a", "u").await.ok(), by_uid, "{code} {reason}");
            let deleted = cluster.delete_and_orphan(&maps, Some("shop"), "a", exactly).await;
            assert_eq!(deleted.ok(), by_uid, "{code} {reason}");
            let deleted = cluster.delete_with_dependents(&maps, Some("shop"), "a", exactly).await;
            assert_eq!(deleted.ok(), by_uid, "{code} {reason}");
        }
    }

    #[tokio::test]
    async fn an_error_names_the_verb_and_the_object() {
        let refusal = ScriptedResponse::refusal(403, "Forbidden", "you may not");
        let (cluster, sent) = Cluster::scripted(vec![refusal]);
        let maps = maps();
        let status = MergePatch { body: body(), subresource: Some("status") };
        let errors = [
            cluster.get(&maps, Some("shop"), "a").await.unwrap_err(),
            cluster.patch(&maps, Some("shop"), "a", status).await.unwrap_err(),
            cluster.dry_run_create(&maps, None, "a", body()).await.unwrap_err(),
        ];
        let said = errors.map(|error| error.to_string());
        assert_eq!(
            said,
            [
                "cannot get configmaps/shop/a: you may not",
                "cannot patch status of configmaps/shop/a: you may not",
                "cannot create (as a dry run) configmaps/a: you may not",
            ]
        );
        assert_eq!(sent.lines().len(), 3, "a refusal for good is not tried again");
    }
}
