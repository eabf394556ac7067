//! Questions about the rights of the user of a connection.

use crate::send::parse;
use crate::{Cluster, ClusterError, WriteBody};
use lifeboat_object::ApiResource;
use serde_json::{Value, json};

/// The things that a user wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessRequest<'a> {
    /// The verb, such as `delete`.
    pub verb: &'a str,
    /// The API group of the type; empty for the core group.
    pub group: &'a str,
    /// The plural name of the type.
    pub resource: &'a str,
    /// The namespace of the objects.
    pub namespace: &'a str,
}

/// The answer of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// The user may do it.
    Allowed,
    /// The user may not do it, with the reason of the authorizer, which is often empty.
    Denied(String),
}

impl Cluster {
    /// Asks whether the user of this connection may do something, by a `SelfSubjectAccessReview`. Paced.
    ///
    /// # Errors
    /// [`ClusterError`]: also when the user may not ask.
    pub async fn access(&self, request: AccessRequest<'_>) -> Result<Access, ClusterError> {
        let reviews =
            ApiResource::new("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview");
        let AccessRequest { verb, group, resource, namespace } = request;
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {
            "resourceAttributes": {"namespace": namespace, "verb": verb, "group": group, "resource": resource}}});
        let reviewed = self.create(&reviews, None, "", WriteBody::of(review.to_string().into())).await?;
        let reviewed: Value = parse("create", &reviews.group_resource().to_string(), &reviewed)?;
        if reviewed["status"]["allowed"] == true {
            return Ok(Access::Allowed);
        }
        Ok(Access::Denied(reviewed["status"]["reason"].as_str().unwrap_or_default().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::ScriptedResponse;

    #[tokio::test]
    async fn what_a_user_may_is_asked_and_answered() {
        let answers = [json!({"allowed": true}), json!({"allowed": false, "reason": "no"}), json!({"allowed": false})];
        let answers = answers.map(|status| ScriptedResponse::json(201, &json!({"status": status})));
        let (cluster, sent) = Cluster::scripted(answers.into());
        let request = AccessRequest { verb: "delete", group: "", resource: "pods", namespace: "shop" };
        let mut told = Vec::new();
        for _ in 0..3 {
            told.push(cluster.access(request).await.unwrap());
        }
        assert_eq!(told, [Access::Allowed, Access::Denied("no".to_owned()), Access::Denied(String::new())]);
        let asked = sent.lines().concat();
        assert!(asked.contains("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"), "{asked}");
    }
}
