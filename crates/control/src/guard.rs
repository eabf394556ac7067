//! Two generations never lead at once: while a server of Velero runs, we wait.
//!
//! Velero's server takes no part in any election, so nothing else would keep the two apart: it would act on the same
//! resources, and we would end its running backups as left by a dead server. So a pod that runs one is waited for twice:
//! before we stand for the leadership, and again when we have it, before any work begins, because a server may have stood
//! by for days. The second wait holds the Lease, so that no other of ours begins meanwhile. What starts later, beside a
//! leader at work, is not seen.
//!
//! A server of Velero is known by what its pod runs, whatever installed it, or by the label of Velero's installer. A pod
//! with the image of our own pod is one of ours: it waits for the Lease. Our token says which pod we are;
//! without it, our name does.

use crate::own_pod::OwnPod;
use lifeboat_api::well_known::LABEL_DEPLOY;
use lifeboat_api::{known_server_container, server_container};
use lifeboat_cluster::{Cluster, ClusterError, ListRequest};
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Pause between two looks at the pods.
const PAUSE: Duration = Duration::from_secs(3);
/// The value of [`LABEL_DEPLOY`] that Velero's installer gives to the server.
const DEPLOYED: &str = "velero";

/// The marks by which this server finds its own pod among those of the namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnPodMarks<'a> {
    /// The pod that the token of this server names.
    pub(crate) pod: Option<&'a OwnPod>,
    /// The name of the pod, when the token says nothing.
    pub(crate) identity: &'a str,
}

impl OwnPodMarks<'_> {
    fn is(&self, pod: &Value) -> bool {
        match self.pod {
            Some(own) => pod["metadata"]["uid"] == own.uid,
            None => pod["metadata"]["name"] == self.identity,
        }
    }
}

/// Waits until no pod of the namespace runs a server of Velero; false when told to stop before.
pub(crate) async fn wait_for_velero_to_end(
    cluster: &Cluster,
    namespace: &str,
    own: OwnPodMarks<'_>,
    cancel: &CancellationToken,
) -> bool {
    let mut is_said = false;
    loop {
        match pods_of(cluster, namespace).await.map(|pods| (strangers(&pods, own), hint(&pods, own))) {
            Ok((others, _)) if others.is_empty() => return true,
            Ok((others, hint)) => tracing::warn!(
                pods = others.join(", "),
                "a Velero server runs in this namespace: waiting until it has ended (scale its Deployment to 0){hint}"
            ),
            // Without the right to look it is not known that there is none. Once is enough to say it.
            Err(e) if e.is_denied() => {
                if !std::mem::replace(&mut is_said, true) {
                    tracing::error!(
                        error = %e,
                        "it is not known whether a Velero server runs in this namespace: waiting for the right to list its pods"
                    );
                }
            }
            Err(e) => tracing::warn!(error = %e, "it is not known whether a Velero server runs, looking again"),
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = cancel.cancelled() => return false,
        }
    }
}

async fn pods_of(cluster: &Cluster, namespace: &str) -> Result<Vec<Value>, ClusterError> {
    let mut list = cluster.list(ListRequest::all(pods()).in_namespace(namespace.to_owned()));
    let mut found: Vec<Value> = Vec::new();
    while let Some(bodies) = list.next().await? {
        found.extend(bodies.iter().filter_map(|body| serde_json::from_slice(body).ok()));
    }
    Ok(found)
}

/// Pods that run, or will run, a server of Velero: with another image than the pod that we are, or with any when we are
/// none of them.
fn strangers(pods: &[Value], own: OwnPodMarks<'_>) -> Vec<String> {
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let own = pods.iter().find(|pod| own.is(pod)).map(server_image);
    let runs = |pod: &&Value| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let server =
        |pod: &&Value| pod["metadata"]["labels"][LABEL_DEPLOY] == DEPLOYED || known_server_container(pod).is_some();
    let stranger = |pod: &&Value| own.as_ref().is_none_or(|own| server_image(pod) != *own);
    pods.iter().filter(runs).filter(server).filter(stranger).map(name).collect()
}

/// Returns a guess for people at what is wrong when none of the pods is ours; empty when one is.
fn hint(pods: &[Value], own: OwnPodMarks<'_>) -> String {
    if pods.iter().any(|pod| own.is(pod)) {
        return String::new();
    }
    match own.pod {
        Some(pod) => format!(
            "; the pod {}, to which the token of this server belongs, is not in this namespace: give --namespace when the server \
             is meant for that of its pod",
            pod.name
        ),
        None => format!(
            "; if it is this server itself, set POD_NAME in its environment to the name of its pod: there is no pod {}",
            own.identity
        ),
    }
}

/// The image of this server's container; `None` when its pod cannot be read.
pub async fn own_image(own: &OwnPod, namespace: &str, cluster: &Cluster) -> Option<String> {
    let pods = ApiResource::new("", "v1", "pods", "Pod");
    let body = cluster.get(&pods, Some(namespace), &own.name).await.ok().flatten()?;
    let pod: Value = serde_json::from_slice(&body).ok()?;
    let is_own = pod["metadata"]["uid"] == own.uid.as_str();
    Some(server_image(&pod).to_owned()).filter(|image| is_own && !image.is_empty())
}

/// The image of the server's container; of the first one when none is known for a server.
fn server_image(pod: &Value) -> &str {
    server_container(pod)["image"].as_str().unwrap_or_default()
}

fn pods() -> ApiResource {
    ApiResource::new("", "v1", "pods", "Pod")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::api_server;
    use serde_json::json;
    use tokio::task::JoinSet;

    fn named(identity: &str) -> OwnPodMarks<'_> {
        OwnPodMarks { pod: None, identity }
    }

    #[tokio::test]
    async fn who_may_not_look_does_not_know_that_there_is_none() {
        let denied = json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "may not list pods"});
        let mut tasks = JoinSet::new();
        let none = json!({"metadata": {"resourceVersion": "1"}, "items": []});
        let cluster = api_server(&mut tasks, vec![(403, denied), (200, none)]).await;
        let cancel = CancellationToken::new();
        let waiting = wait_for_velero_to_end(&cluster, "velero", named("we"), &cancel);
        let soon = tokio::time::timeout(PAUSE / 3, waiting).await;
        assert!(soon.is_err(), "it goes on without knowing");
        assert!(wait_for_velero_to_end(&cluster, "velero", named("we"), &cancel).await, "it was given the right");
    }

    #[test]
    fn who_is_waited_for() {
        let labels = json!({"deploy": "velero"});
        let pod = |name: &str, image: &str, phase: &str| json!({"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"image": image}]}, "status": {"phase": phase}});
        let pods = [
            pod("old", "velero:1", "Running"),
            pod("older", "velero:1", "Succeeded"),
            pod("crashed", "velero:1", "Failed"),
            pod("starting", "velero:1", "Pending"),
            pod("we", "lifeboat:1", "Running"),
            pod("replica", "lifeboat:1", "Running"),
        ];
        assert_eq!(strangers(&pods, named("we")), ["old", "starting"]);
        assert_eq!(strangers(&pods[4..], named("we")), [""; 0]);
        // Outside of the cluster: whose image is whose is not known.
        assert_eq!(strangers(&pods[4..], named("laptop")), ["we", "replica"]);
        assert_eq!(strangers(&[], named("laptop")), [""; 0]);
    }

    /// The name of the host is cut off, or that of the node: then the token names our pod. When it does, the name of
    /// the host says nothing.
    #[test]
    fn a_server_knows_its_own_pod_by_its_token() {
        let pod = |name: &str, image: &str| json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"deploy": "velero"}}, "spec": {"containers": [{"image": image}]}, "status": {"phase": "Running"}});
        let pods = [pod("old", "velero:1"), pod("we", "lifeboat:1"), pod("replica", "lifeboat:1")];
        let token = |name: &str| OwnPod { name: name.into(), uid: format!("uid-{name}") };
        for (own, identity, expected) in [
            (Some(token("we")), "node-1", vec!["old"]),
            (Some(token("we")), "old", vec!["old"]),
            (Some(OwnPod { name: "we".into(), uid: "of-another-cluster".into() }), "we", vec!["old", "we", "replica"]),
            (None, "we", vec!["old"]),
            (None, "node-1", vec!["old", "we", "replica"]),
        ] {
            assert_eq!(strangers(&pods, OwnPodMarks { pod: own.as_ref(), identity }), expected, "{own:?} {identity}");
        }
    }

    #[test]
    fn who_is_none_of_the_pods_is_told_what_may_help() {
        let pods = [json!({"metadata": {"name": "we", "uid": "ours"}})];
        let token = |uid: &str| OwnPod { name: "we".into(), uid: uid.into() };
        let elsewhere = "; the pod we, to which the token of this server belongs, is not in this namespace: give --namespace when \
                         the server is meant for that of its pod";
        let unknown = "; if it is this server itself, set POD_NAME in its environment to the name of its pod: there is no pod node-1";
        for (own, identity, expected) in [
            (Some(token("ours")), "node-1", ""),
            (Some(token("of-another-namespace")), "we", elsewhere),
            (None, "we", ""),
            (None, "node-1", unknown),
        ] {
            assert_eq!(hint(&pods, OwnPodMarks { pod: own.as_ref(), identity }), expected, "{own:?} {identity}");
        }
    }

    /// As Velero's Helm chart labels its pods, and with a container that something has put before the server's.
    #[test]
    fn labels_are_not_needed() {
        let server =
            |image: &str| json!({"name": "velero", "image": image, "command": ["/velero"], "args": ["server"]});
        let proxy = json!({"name": "proxy", "image": "proxy:1"});
        let pod = |name: &str, containers: Value| json!({"metadata": {"name": name, "labels": {"name": "velero", "app.kubernetes.io/name": "velero"}}, "spec": {"containers": containers}, "status": {"phase": "Running"}});
        let pods = [
            pod("chart", json!([proxy, server("velero/velero:v1")])),
            pod("we", json!([server("lifeboat:1"), proxy])),
            pod("replica", json!([proxy, server("lifeboat:1")])),
            pod("shop", json!([{"name": "shop", "image": "shop:1", "args": ["server"]}])),
        ];
        assert_eq!(strangers(&pods, named("we")), ["chart"]);
        assert_eq!(strangers(&pods[1..], named("we")), [""; 0]);
        assert_eq!(strangers(&pods, named("laptop")), ["chart", "we", "replica"]);
    }
}
