//! Sends what was planned, one object after the other (cli-and-install.md 3.6).

use super::objects::is_custom;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use lifeboat_cluster::{Cluster, ClusterError, Create, PatchKind};
use lifeboat_object::ApiResource;
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Who owns the fields of what is applied, as with Velero: so each can take over the other's installation.
const FIELD_MANAGER: &str = "velero-cli";
/// How long definitions may take to be served.
const DEFINITIONS_LIMIT: Duration = Duration::from_secs(60);
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// Sends objects in their order and says what becomes of each. What is there already stays, or with `apply` is changed.
pub(super) async fn send(cluster: &Cluster, objects: &[Value], apply: bool) -> Result<()> {
    let mut out = std::io::stdout();
    for object in objects {
        let (resource, namespace, name) = address(object)?;
        let title = format!("{}/{name}", resource.kind);
        let verb = if apply { "apply" } else { "create" };
        writeln!(out, "{title}: attempting to create resource client")?;
        writeln!(out, "{title}: attempting to {verb} resource")?;
        let end = Instant::now() + DEFINITIONS_LIMIT;
        let done = loop {
            let body = Bytes::from(object.to_string());
            let sent = if apply {
                make_way(cluster, &resource, namespace, name, object).await?;
                cluster.apply(&resource, namespace, name, body, FIELD_MANAGER).await.map(|_| "applied")
            } else {
                create(cluster, &resource, namespace, name, body).await
            };
            match sent {
                // A type is served a moment after its definition is established.
                Err(e) if e.is_not_found() && is_custom(object) && Instant::now() < end => sleep(PAUSE).await,
                sent => break sent?,
            }
        };
        writeln!(out, "{title}: {done}")?;
    }
    Ok(())
}

async fn create(
    cluster: &Cluster,
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
    body: Bytes,
) -> Result<&'static str, ClusterError> {
    match cluster.create(resource, namespace, name, body, Create::default()).await {
        Ok(_) => Ok("created"),
        Err(e) if e.is_already_exists() => Ok("already exists, proceeding"),
        Err(e) => Err(e),
    }
}

/// Removes what stands against an object that is to be applied: an apply removes no field of somebody else's, and a
/// Deployment that Velero has installed has bounds for rolling updates, which the API server put there.
async fn make_way(
    cluster: &Cluster,
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
    object: &Value,
) -> Result<()> {
    if object["kind"] != "Deployment" {
        return Ok(());
    }
    let Some(bytes) = cluster.get(resource, namespace, name).await? else { return Ok(()) };
    if let Some(patch) = out_of_the_way(&serde_json::from_slice(&bytes)?, object) {
        let patch = Bytes::from(patch.to_string());
        cluster.patch(resource, namespace, name, None, PatchKind::Merge, patch).await?;
    }
    Ok(())
}

/// The merge patch that makes way for a Deployment, when one is needed.
fn out_of_the_way(found: &Value, deployment: &Value) -> Option<Value> {
    let strategy = &deployment["spec"]["strategy"]["type"];
    let bounds = &found["spec"]["strategy"]["rollingUpdate"];
    (strategy == "Recreate" && !bounds.is_null())
        .then(|| json!({"spec": {"strategy": {"type": strategy, "rollingUpdate": null}}}))
}

/// Waits until the API server serves all of these definitions.
pub(super) async fn established(cluster: &Cluster, definitions: &[Value]) -> Result<()> {
    writeln!(std::io::stdout(), "Waiting for resources to be ready in cluster...")?;
    let end = Instant::now() + DEFINITIONS_LIMIT;
    for definition in definitions {
        let (resource, _, name) = address(definition)?;
        loop {
            let found = cluster.get(&resource, None, name).await?;
            let found: Value = found.map(|bytes| serde_json::from_slice(&bytes)).transpose()?.unwrap_or_default();
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
fn address(object: &Value) -> Result<(ApiResource, Option<&str>, &str)> {
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
    use std::collections::BTreeSet;

    #[test]
    fn every_object_can_be_addressed() {
        let args = parse("--provider aws --bucket b --least-privilege --use-node-agent");
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
            "daemonsets.apps n",
            "deployments.apps n",
            "namespaces ",
            "rolebindings.rbac.authorization.k8s.io n",
            "roles.rbac.authorization.k8s.io n",
            "secrets n",
            "serviceaccounts n",
            "volumesnapshotlocations.velero.io n",
        ];
        assert_eq!(types, expected.map(str::to_owned).into());
    }

    #[test]
    fn bounds_of_rolling_updates_make_way() {
        let deployment = |strategy: Value| json!({"spec": {"strategy": strategy}});
        let bounds = json!({"maxSurge": "25%"});
        let rolling = deployment(json!({"type": "RollingUpdate", "rollingUpdate": bounds}));
        let recreate = deployment(json!({"type": "Recreate"}));
        assert_eq!(
            out_of_the_way(&rolling, &recreate),
            Some(json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}}))
        );
        assert_eq!(out_of_the_way(&recreate, &recreate), None);
        assert_eq!(out_of_the_way(&rolling, &deployment(json!({"type": "RollingUpdate"}))), None);
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
