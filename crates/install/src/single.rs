//! Addresses, reads, creates and applies one object of an installation.

use crate::error::InstallError;
use crate::read::get;
use bytes::Bytes;
use lifeboat_cluster::{Cluster, WriteBody};
use lifeboat_object::ApiResource;
use serde_json::Value;

/// The manager of applied fields. It is Velero's, so that each program can take over the other's installation.
const FIELD_MANAGER: &str = "velero-cli";

/// The address of an object of an installation: its type, its namespace, its name.
pub(crate) fn address(object: &Value) -> Result<(ApiResource, Option<&str>, &str), InstallError> {
    let text = |value: &Value| value.as_str().map(str::to_owned).unwrap_or_default();
    let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    // The plurals of all of these kinds are regular.
    let plural = format!("{}s", kind.to_lowercase());
    let namespace = object["metadata"]["namespace"].as_str();
    let Some(name) = object["metadata"]["name"].as_str() else { return Err(InstallError::Nameless { kind }) };
    let resource = ApiResource { namespaced: namespace.is_some(), ..ApiResource::new(group, version, plural, kind) };
    Ok((resource, namespace, name))
}

/// Reads the object as it is in the cluster; `None` when there is none.
pub(crate) async fn found(cluster: &Cluster, wanted: &Value) -> Result<Option<Value>, InstallError> {
    let (resource, namespace, name) = address(wanted)?;
    Ok(get(cluster, &resource, namespace, name).await?)
}

/// Makes an object have these fields, and takes them over from other managers.
pub(crate) async fn apply(cluster: &Cluster, object: &Value) -> Result<(), InstallError> {
    let (resource, namespace, name) = address(object)?;
    let fields = WriteBody { body: Bytes::from(object.to_string()), field_manager: FIELD_MANAGER };
    cluster.apply(&resource, namespace, name, fields).await?;
    Ok(())
}

/// Creates an object; `false` when there is one of its name.
pub(crate) async fn create(cluster: &Cluster, object: &Value) -> Result<bool, InstallError> {
    let (resource, namespace, name) = address(object)?;
    let body = Bytes::from(object.to_string());
    match cluster.create(&resource, namespace, name, WriteBody::of(body)).await {
        Ok(_) => Ok(true),
        Err(e) if e.is_already_exists() => Ok(false),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::{Credentials, Installation};
    use crate::objects::{definitions, objects};
    use std::collections::BTreeSet;

    #[test]
    fn every_object_can_be_addressed() {
        let installation = Installation {
            namespace: "n".into(),
            secret: Some(Credentials(Vec::new())),
            least_privilege: true,
            replicas: 2,
            ..Installation::default()
        };
        let all = [definitions(), objects(&installation)].concat();
        let types: BTreeSet<String> = all
            .iter()
            .map(|object| {
                let (resource, namespace, _) = address(object).unwrap();
                format!("{} {}", resource.group_resource(), namespace.unwrap_or_default())
            })
            .collect();
        let expected = [
            "backupstoragelocations.velero.io n",
            "clusterrolebindings.rbac.authorization.k8s.io ",
            "clusterroles.rbac.authorization.k8s.io ",
            "customresourcedefinitions.apiextensions.k8s.io ",
            "deployments.apps n",
            "namespaces ",
            "poddisruptionbudgets.policy n",
            "rolebindings.rbac.authorization.k8s.io n",
            "roles.rbac.authorization.k8s.io n",
            "secrets n",
            "serviceaccounts n",
            "volumesnapshotlocations.velero.io n",
        ];
        assert_eq!(types, expected.map(str::to_owned).into());
    }

    #[test]
    fn what_has_no_name_is_not_sent() {
        let error = address(&serde_json::json!({"apiVersion": "v1", "kind": "Secret"})).unwrap_err();
        assert_eq!(error.to_string(), "cannot address a Secret: an object without name; give it metadata.name");
    }
}
