//! Sends what was planned, one object after the other (cli-and-install.md 3.6).

use super::differ::{Left, differences};
use super::objects::{is_custom, is_restricting};
use super::way;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use lifeboat_cluster::{Cluster, ClusterError, Create};
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::io::Write;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Who owns the fields of what is applied, as with Velero: so each can take over the other's installation.
pub(super) const FIELD_MANAGER: &str = "velero-cli";
/// How long definitions may take to be served.
const DEFINITIONS_LIMIT: Duration = Duration::from_secs(60);
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// What became of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    Created,
    Applied,
    Exists,
}

/// Sends objects in their order and says what becomes of each. What is there already stays, or with `apply` is changed.
/// Gives what stayed and is another than the one that was asked for.
pub(super) async fn send(cluster: &Cluster, objects: &[Value], apply: bool) -> Result<Vec<Left>> {
    let mut out = std::io::stdout();
    let mut left = Vec::new();
    let restricted = objects.iter().any(is_restricting);
    for object in objects {
        let (resource, namespace, name) = address(object)?;
        let title = format!("{}/{name}", resource.kind);
        let verb = if apply { "apply" } else { "create" };
        writeln!(out, "{title}: attempting to create resource client")?;
        writeln!(out, "{title}: attempting to {verb} resource")?;
        let end = Instant::now() + DEFINITIONS_LIMIT;
        let sent = loop {
            let body = Bytes::from(object.to_string());
            let sent = if apply {
                way::clear(cluster, object, restricted).await?;
                cluster.apply(&resource, namespace, name, body, FIELD_MANAGER).await.map(|_| Sent::Applied)
            } else {
                create(cluster, &resource, namespace, name, body).await
            };
            match sent {
                // A type is served a moment after its definition is established.
                Err(e) if e.is_not_found() && is_custom(object) && Instant::now() < end => sleep(PAUSE).await,
                sent => break sent?,
            }
        };
        let done = match sent {
            Sent::Created => "created",
            Sent::Applied => "applied",
            Sent::Exists => "already exists, proceeding",
        };
        writeln!(out, "{title}: {done}")?;
        if sent == Sent::Exists {
            left.extend(compare(cluster, object).await?);
        }
    }
    Ok(left)
}

async fn create(
    cluster: &Cluster,
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
    body: Bytes,
) -> Result<Sent, ClusterError> {
    match cluster.create(resource, namespace, name, body, Create::default()).await {
        Ok(_) => Ok(Sent::Created),
        Err(e) if e.is_already_exists() => Ok(Sent::Exists),
        Err(e) => Err(e),
    }
}

/// How what is there differs from what was asked for, when it does.
async fn compare(cluster: &Cluster, wanted: &Value) -> Result<Option<Left>> {
    let (resource, namespace, name) = address(wanted)?;
    let differences = match found(cluster, wanted).await {
        Ok(Some(found)) => differences(&found, wanted),
        Ok(None) => return Ok(None),
        // To install over it takes no right to read it.
        Err(e) if e.downcast_ref::<ClusterError>().is_some_and(ClusterError::is_denied) => {
            vec!["we may not read it".to_owned()]
        }
        Err(e) => return Err(e),
    };
    let (name, namespace) = (name.to_owned(), namespace.map(str::to_owned));
    Ok((!differences.is_empty()).then_some(Left { kind: resource.kind, name, namespace, differences }))
}

/// The object as it is in the cluster.
pub(super) async fn found(cluster: &Cluster, wanted: &Value) -> Result<Option<Value>> {
    let (resource, namespace, name) = address(wanted)?;
    let found = cluster.get(&resource, namespace, name).await?;
    Ok(found.map(|bytes| serde_json::from_slice(&bytes)).transpose()?)
}

/// Waits until the API server serves all of these definitions.
pub(super) async fn established(cluster: &Cluster, definitions: &[Value]) -> Result<()> {
    writeln!(std::io::stdout(), "Waiting for resources to be ready in cluster...")?;
    let end = Instant::now() + DEFINITIONS_LIMIT;
    for definition in definitions {
        let (_, _, name) = address(definition)?;
        loop {
            let found = found(cluster, definition).await?.unwrap_or_default();
            if has_condition(&found, "Established") {
                break;
            }
            if Instant::now() >= end {
                bail!(
                    "{name} is not served after {} s: {}",
                    DEFINITIONS_LIMIT.as_secs(),
                    found["status"]["conditions"]
                );
            }
            sleep(PAUSE).await;
        }
    }
    Ok(())
}

/// Whether a condition is true.
pub(super) fn has_condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// How an object of an installation is addressed: its type, its namespace, its name.
pub(super) fn address(object: &Value) -> Result<(ApiResource, Option<&str>, &str)> {
    let text = |value: &'_ Value| value.as_str().map(str::to_owned).unwrap_or_default();
    let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    // All of them are regular.
    let plural = format!("{}s", kind.to_lowercase());
    let namespace = object["metadata"]["namespace"].as_str();
    let name = object["metadata"]["name"].as_str().context("an object without name")?;
    let resource = ApiResource { namespaced: namespace.is_some(), ..ApiResource::new(group, version, plural, kind) };
    Ok((resource, namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::objects::{Plan, definitions, objects};
    use crate::install::tests::parse;
    use serde_json::json;
    use std::collections::BTreeSet;

    #[test]
    fn every_object_can_be_addressed() {
        let args = parse("--provider aws --bucket b --least-privilege --replicas 2");
        let plan = Plan { args: &args, namespace: "n", secret: Some(Vec::new()), authority: None };
        let all = [definitions(), objects(&plan)].concat();
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
    fn conditions_count_when_they_are_true() {
        let definition = json!({"status": {"conditions": [
            {"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "False"},
        ]}});
        assert!(has_condition(&definition, "NamesAccepted"));
        assert!(!has_condition(&definition, "Established") && !has_condition(&Value::Null, "Established"));
    }
}
