//! Nodes that can attach a volume, and storage classes of which volumes wait for one. Pure.

use crate::config::NodeAgentConfig;
use crate::kube::text;
use crate::pod::{PodView, Scheduling};
use crate::transfer::Transfer;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

/// The beginning of the reason of a wait for an attachment.
pub(crate) const WAITS_FOR_ATTACHMENT: &str = "its pod waits for a node that can attach one more volume";
/// The pause before one more of a class is exposed, for each that waits: it may be for a zone in which there is room.
const PAUSE_OF_CLASS: SignedDuration = SignedDuration::from_mins(1);
/// The most nodes that are named.
const MOST_NODES: usize = 5;

/// Returns true if the scheduler says that nodes have as many volumes as their CSI drivers allow.
pub(crate) fn is_about_attachments(scheduler: &str) -> bool {
    scheduler.contains("exceed max volume count")
}

/// Returns true if a pod has no node because of its volume: no other node would help.
pub(crate) fn is_about_storage(scheduler: &str) -> bool {
    scheduler.contains("unbound immediate PersistentVolumeClaims") || scheduler.contains("persistentvolumeclaim \"")
}

/// Returns true if a pod has no node now because none can attach its volume.
pub(crate) fn waits_for_attachment(pod: &PodView) -> bool {
    matches!(&pod.scheduling, Scheduling::Unschedulable(why) if is_about_attachments(why))
}

/// The storage class of the claim that is made for an upload, whose nodes have to attach it.
pub(crate) fn class_to_attach<'a>(transfer: &'a Transfer, config: &'a NodeAgentConfig) -> Option<&'a str> {
    let source = transfer.storage_class()?;
    let class = config.backup_claims.get(source).map_or(source, |claim| claim.final_class(source));
    Some(class).filter(|class| !class.is_empty())
}

/// An upload that is accepted and not prepared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AcceptedUpload<'a> {
    /// The storage class of its claim.
    pub(crate) class: &'a str,
    pub(crate) accepted: Timestamp,
    /// Its pod waits for an attachment.
    pub(crate) waits: bool,
}

/// The storage classes of which volumes wait for an attachment, with the times at which one more of each is exposed:
/// others would only wait too, unless they are for other nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FullClasses(BTreeMap<String, Timestamp>);

impl FullClasses {
    /// The classes that are full by these uploads.
    pub(crate) fn of<'a>(accepted: impl Iterator<Item = AcceptedUpload<'a>>, now: Timestamp) -> Self {
        let mut classes = BTreeMap::<&str, (i32, Timestamp)>::new();
        for upload in accepted {
            // Clocks of nodes differ.
            let at = upload.accepted.min(now);
            let (waiting, last) = classes.entry(upload.class).or_insert((0, at));
            *waiting += i32::from(upload.waits);
            *last = at.max(*last);
        }
        let full = classes.into_iter().filter(|(_, (waiting, _))| *waiting > 0);
        Self(full.map(|(class, (waiting, last))| (class.to_owned(), last + PAUSE_OF_CLASS * waiting)).collect())
    }

    /// Returns true while no other upload of a class is exposed.
    pub(crate) fn contains(&self, class: &str, now: Timestamp) -> bool {
        self.0.get(class).is_some_and(|until| now < *until)
    }

    /// Notes that an upload of a class is accepted now.
    pub(crate) fn accept(&mut self, class: &str, now: Timestamp) {
        if let Some(until) = self.0.get_mut(class) {
            *until = (*until).max(now + PAUSE_OF_CLASS);
        }
    }
}

/// The nodes on which a CSI driver has as many volumes as it allows there, for people; `None` where there are none.
pub(crate) fn full_nodes(csi_nodes: &[Value], attachments: &[Value]) -> Option<String> {
    let mut attached = BTreeMap::<(&str, &str), u64>::new();
    for one in attachments {
        *attached.entry((text(one, &["spec", "nodeName"]), text(one, &["spec", "attacher"]))).or_default() += 1;
    }
    let mut full = Vec::new();
    for node in csi_nodes {
        let name = text(node, &["metadata", "name"]);
        for driver in node["spec"]["drivers"].as_array().into_iter().flatten() {
            let (of, limit) = (text(driver, &["name"]), driver["allocatable"]["count"].as_u64());
            let used = attached.get(&(name, of)).copied().unwrap_or_default();
            if let Some(limit) = limit.filter(|limit| used >= *limit) {
                full.push(format!("{name} has {used} of {limit} volumes of {of}"));
            }
        }
    }
    let more = full.len().saturating_sub(MOST_NODES);
    full.truncate(MOST_NODES);
    if more > 0 {
        full.push(format!("and {more} more"));
    }
    (!full.is_empty()).then(|| full.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::TransferKind;
    use serde_json::json;

    #[test]
    fn a_class_of_which_volumes_wait_lets_one_more_in_now_and_then() {
        let now: Timestamp = "2026-11-28T12:00:00Z".parse().unwrap();
        let ago = |seconds: i64| now - SignedDuration::from_secs(seconds);
        let upload = |class, seconds, waits| AcceptedUpload { class, accepted: ago(seconds), waits };
        for (accepted, expected) in [
            (vec![], false),
            // None of them waits.
            (vec![upload("fast", 1, false)], false),
            (vec![upload("slow", 1, true)], false),
            (vec![upload("fast", 59, true)], true),
            (vec![upload("fast", 60, true)], false),
            // The last one has not been looked at by the scheduler.
            (vec![upload("fast", 600, true), upload("fast", 30, false)], true),
            // The more wait the longer is the pause.
            (vec![upload("fast", 600, true), upload("fast", 119, true)], true),
            (vec![upload("fast", 600, true), upload("fast", 120, true)], false),
            // A clock that is ahead closes a class for no longer.
            (vec![upload("fast", -9000, true)], true),
        ] {
            let mut full = FullClasses::of(accepted.iter().copied(), now);
            assert_eq!(full.contains("fast", now), expected, "{accepted:?}");
            assert!(!full.contains("fast", now + SignedDuration::from_mins(2)), "{accepted:?}");
            let is_known = accepted.iter().any(|upload| upload.class == "fast" && upload.waits);
            full.accept("fast", now);
            assert_eq!(full.contains("fast", now), is_known, "{accepted:?}: one at a time");
        }
    }

    #[test]
    fn the_class_of_the_claim_that_is_made_counts() {
        let text = json!({"backupPVC": {"fast": {"storageClass": "cheap"}, "slow": {"readOnly": true}}}).to_string();
        let config = NodeAgentConfig::parse("c", &[("k".to_owned(), text)].into()).unwrap().config;
        for (source, expected) in
            [("fast", Some("cheap")), ("slow", Some("slow")), ("other", Some("other")), ("", None)]
        {
            let spec =
                json!({"csiSnapshot": {"volumeSnapshot": "vs", "storageClass": source}, "operationTimeout": "10m0s"});
            let object = json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataUpload", "metadata": {"name": "du"}, "spec": spec});
            let upload = Transfer::parse(TransferKind::DataUpload, object.to_string().as_bytes()).unwrap();
            assert_eq!(class_to_attach(&upload, &config), expected, "{source}");
        }
    }

    #[test]
    fn nodes_with_as_many_volumes_as_their_driver_allows_are_named() {
        let node = |name: &str, limit: Value| {
            let drivers = json!([{"name": "csi.local", "allocatable": {"count": limit}}, {"name": "other"}]);
            json!({"metadata": {"name": name}, "spec": {"drivers": drivers}})
        };
        let attached = |node: &str| json!({"spec": {"nodeName": node, "attacher": "csi.local"}});
        let nodes = [node("n1", json!(2)), node("n2", json!(2)), node("n3", json!(null))];
        let all = [attached("n1"), attached("n1"), attached("n2"), attached("n3")];
        assert_eq!(full_nodes(&nodes, &all).as_deref(), Some("n1 has 2 of 2 volumes of csi.local"));
        assert_eq!(full_nodes(&nodes, &all[2..]), None);
        let many: Vec<Value> = (0..7).map(|n| node(&format!("m{n}"), json!(0))).collect();
        let told = full_nodes(&many, &[]).unwrap();
        assert!(told.starts_with("m0 has 0 of 0 volumes of csi.local, ") && told.ends_with(", and 2 more"), "{told}");
        let scheduler = "0/3 nodes are available: 3 node(s) exceed max volume count. preemption: not helpful";
        assert!(is_about_attachments(scheduler) && !is_about_attachments("3 Insufficient cpu"));
    }
}
