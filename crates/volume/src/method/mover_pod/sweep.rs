//! Removes the movers that killed restores have left behind.
//!
//! A mover that this restore did not start may be one of another machine that works on. It is left alone until nobody can wait for it any
//! more: it has ended a good while ago, or the time that it carries with it is over. The Secret of a pod goes with it.

use super::objects::{pods, secrets};
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::well_known::{ANNOTATION_MOVER_DEADLINE, LABEL_MOVER_OF_RESTORE, LABEL_RESTORE_UID};
use lifeboat_api::{NamespacedName, Restore, label_value};
use lifeboat_cluster::{Cluster, ClusterError, ListRequest};
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The time that a restore may take to see that its mover has ended, and that clocks of two machines may differ.
const SLACK: SignedDuration = SignedDuration::from_hours(1);
/// The longest life of one that does not say until when it is waited for.
const UNSAID: SignedDuration = SignedDuration::from_hours(24);

/// A pod or Secret that was left behind and is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweptMover {
    /// `Pod` or `Secret`.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The name of its restore.
    pub restore: String,
}

/// Removes the pods and Secrets of movers that nobody waits for, from a namespace or from all. A restore keeps its own and takes them up;
/// movers of earlier restores of its name go. Gives what was removed.
///
/// # Errors
/// [`ClusterError`].
pub(super) async fn sweep(
    namespace: Option<&str>,
    restore: &Restore,
    now: Timestamp,
    cluster: &Cluster,
) -> Result<Vec<SweptMover>, ClusterError> {
    let mut swept: Vec<SweptMover> = Vec::new();
    for kind in [pods(), secrets()] {
        let mut list = cluster.list(ListRequest {
            resource: Arc::new(kind.clone()),
            namespace: namespace.map(str::to_owned),
            selector: LABEL_MOVER_OF_RESTORE.to_owned(),
            // Nobody needs to see the credentials.
            metadata_only: kind.resource == secrets().resource,
        });
        let gone: BTreeSet<NamespacedName> =
            swept.iter().map(|one| NamespacedName::new(&one.namespace, &one.name)).collect();
        while let Some(bodies) = list.next().await? {
            let found = bodies.iter().filter_map(|body| serde_json::from_slice::<Value>(body).ok());
            for found in found {
                let text = |field: &str| found["metadata"][field].as_str().unwrap_or_default().to_owned();
                let mover = NamespacedName::new(text("namespace"), text("name"));
                if gone.contains(&mover) || is_left(&found, restore, now) {
                    remove(&kind, &found, cluster).await?;
                    let of = found["metadata"]["labels"][LABEL_MOVER_OF_RESTORE].as_str().unwrap_or_default();
                    let NamespacedName { namespace, name } = mover;
                    let (kind, restore) = (kind.kind.clone(), of.to_owned());
                    swept.push(SweptMover { kind, namespace, name, restore });
                }
            }
        }
    }
    Ok(swept)
}

async fn remove(kind: &ApiResource, found: &Value, cluster: &Cluster) -> Result<(), ClusterError> {
    let text = |field: &str| found["metadata"][field].as_str().unwrap_or_default();
    cluster.delete_exactly(kind, Some(text("namespace")), text("name"), text("uid")).await.map(drop)
}

/// Returns true if nobody waits for a pod or Secret any more.
fn is_left(object: &Value, restore: &Restore, now: Timestamp) -> bool {
    let metadata = &object["metadata"];
    let labels = &metadata["labels"];
    if labels[LABEL_RESTORE_UID] == restore.metadata.uid {
        return false;
    }
    if labels[LABEL_MOVER_OF_RESTORE] == label_value(&restore.metadata.name) {
        return true;
    }
    let time = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let said = time(&metadata["annotations"][ANNOTATION_MOVER_DEADLINE]);
    let until = said.or_else(|| time(&metadata["creationTimestamp"])?.checked_add(UNSAID).ok());
    let ended = time(&object["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]);
    [until, ended].into_iter().flatten().any(|then| now.duration_since(then) > SLACK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::Time;
    use serde_json::json;

    #[test]
    fn a_mover_of_another_restore_stays_while_somebody_may_wait_for_it() {
        let now: Timestamp = "2026-11-28T12:00:00Z".parse().unwrap();
        let ago = |minutes: i64| Time::new(now - SignedDuration::from_mins(minutes)).to_string();
        let mut restore = Restore::default();
        (restore.metadata.name, restore.metadata.uid) = ("back".to_owned(), "u-1".to_owned());
        let of = |name: &str, uid: &str, more: Value| {
            let mut mover = json!({"metadata": {
                "labels": {LABEL_MOVER_OF_RESTORE: name, LABEL_RESTORE_UID: uid},
                "annotations": {ANNOTATION_MOVER_DEADLINE: ago(-240)}, "creationTimestamp": ago(30),
            }});
            merge(&mut mover, &more);
            mover
        };
        let ended = |minutes: i64| json!({"status": {"containerStatuses": [{"state": {"terminated": {"finishedAt": ago(minutes)}}}]}});
        let deadline = |at: Value| json!({"metadata": {"annotations": {ANNOTATION_MOVER_DEADLINE: at}}});
        let unsaid = |created: i64| json!({"metadata": {"annotations": {ANNOTATION_MOVER_DEADLINE: null}, "creationTimestamp": ago(created)}});
        for (mover, expected) in [
            (of("back", "u-1", ended(600)), false),
            (of("back", "u-0", json!({})), true),
            (of("other", "u-2", json!({})), false),
            (of("other", "u-2", ended(59)), false),
            (of("other", "u-2", ended(61)), true),
            (of("other", "u-2", deadline(json!(ago(59)))), false),
            (of("other", "u-2", deadline(json!(ago(61)))), true),
            (of("other", "u-2", unsaid(24 * 60)), false),
            (of("other", "u-2", unsaid(26 * 60)), true),
        ] {
            assert_eq!(is_left(&mover, &restore, now), expected, "{mover}");
        }
    }

    fn merge(into: &mut Value, from: &Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                from.iter().for_each(|(key, value)| merge(into.entry(key.clone()).or_insert(Value::Null), value));
            }
            (into, from) => *into = from.clone(),
        }
    }
}
