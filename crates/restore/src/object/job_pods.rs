//! Pods of Jobs that have not ended. Such a Job makes its pods anew: with those of the backup there would be twice as many, since no
//! restored pod has an owner.

use crate::state::lock::lock;
use lifeboat_api::well_known::ANNOTATION_BACKUP_VOLUMES;
use lifeboat_object::{ObjectKey, ResultScope, first_names};
use lifeboat_operation::Journal;
use lifeboat_volume::RecordedVolumes;
use lifeboat_volume::facts::{claim_of_volume, name_of_object};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Which pods of the backup are made by Jobs of it, both by their keys there.
pub(crate) type JobPods = BTreeMap<ObjectKey, ObjectKey>;

/// Jobs and pods that were read of a backup.
#[derive(Debug, Default)]
pub(crate) struct SeenJobs {
    /// Jobs that have not ended, by UID.
    running: BTreeMap<String, ObjectKey>,
    /// Pods, with the UID of the Job that made them.
    pods: Vec<(ObjectKey, String)>,
}

impl SeenJobs {
    /// Notes an object that is restored.
    pub(crate) fn note(&mut self, key: &ObjectKey, object: &Value, recorded: &RecordedVolumes) {
        match (&*key.resource.group, &*key.resource.resource) {
            ("batch", "jobs") if !has_ended(object) => {
                let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
                self.running.insert(uid.to_owned(), key.clone());
            }
            ("", "pods") if !has_data(key, object, recorded) => {
                if let Some(uid) = job_of(object) {
                    self.pods.push((key.clone(), uid.to_owned()));
                }
            }
            _ => {}
        }
    }

    /// The pods that their Jobs make anew.
    pub(crate) fn pods(self) -> JobPods {
        let Self { running, pods } = self;
        pods.into_iter().filter_map(|(pod, uid)| Some((pod, running.get(&uid)?.clone()))).collect()
    }
}

/// Returns true if a Job has ended, successfully or not: it is not started again.
pub(crate) fn has_ended(job: &Value) -> bool {
    let status = &job["status"];
    let is_end = |one: &Value| (one["type"] == "Complete" || one["type"] == "Failed") && one["status"] == "True";
    let completed = status["completionTime"].as_str().is_some_and(|time| !time.is_empty());
    completed || status["conditions"].as_array().is_some_and(|all| all.iter().any(is_end))
}

/// The UID of the Job that made a pod.
fn job_of(pod: &Value) -> Option<&str> {
    let owners = pod["metadata"]["ownerReferences"].as_array()?;
    let is_batch = |one: &Value| one["apiVersion"].as_str().is_some_and(|version| version.starts_with("batch/"));
    let job = owners.iter().find(|one| one["controller"] == true && one["kind"] == "Job" && is_batch(one))?;
    job["uid"].as_str()
}

/// Returns true if data of the volumes of a pod was saved that is restored into this very pod.
fn has_data(key: &ObjectKey, pod: &Value, recorded: &RecordedVolumes) -> bool {
    let named = pod["metadata"]["annotations"][ANNOTATION_BACKUP_VOLUMES].as_str();
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let claims = volumes.filter_map(|volume| claim_of_volume(&key.name, volume));
    let is_saved =
        |claim: &str| recorded.pod_volumes.keys().any(|one| one.name == claim && one.namespace == key.namespace);
    recorded.of_pods.contains_key(&name_of_object(key))
        || named.is_some_and(|names| !names.is_empty())
        || claims.into_iter().any(|claim| is_saved(&claim))
}

/// Pods that were left out, by the Job that makes them, both in the cluster.
#[derive(Debug, Default)]
pub(crate) struct LeftToJobs(Mutex<BTreeMap<ObjectKey, Vec<String>>>);

impl LeftToJobs {
    pub(crate) fn add(&self, pod: &ObjectKey, job: ObjectKey) {
        lock(&self.0).entry(job).or_default().push(pod.to_string());
    }

    /// Warns of them, once for each Job.
    pub(crate) fn tell(&self, journal: &Journal) {
        for (job, mut pods) in std::mem::take(&mut *lock(&self.0)) {
            pods.sort_unstable();
            let (count, were) =
                if pods.len() == 1 { ("1 pod".to_owned(), "was") } else { (format!("{} pods", pods.len()), "were") };
            let text = format!(
                "{count} of {job} {were} left out, because the Job has not ended and makes its pods anew: {}",
                first_names(&pods)
            );
            journal.warn(&ResultScope::of(job.namespace.as_deref()), text);
        }
    }
}

/// The reason why a pod is left out, for people.
pub(crate) fn left_to(job: &ObjectKey) -> String {
    format!("its Job {}, which has not ended, makes its pods anew", job.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::NamespacedName;
    use lifeboat_object::GroupResource;
    use lifeboat_volume::SavedFiles;
    use serde_json::json;

    #[test]
    fn a_job_has_ended_when_it_is_complete_or_has_failed() {
        let condition = |of: &str, is: &str| json!({"conditions": [{"type": of, "status": is}]});
        for (status, expected) in [
            (json!({"completionTime": "2026-01-01T00:00:00Z"}), true),
            (condition("Complete", "True"), true),
            (condition("Failed", "True"), true),
            (condition("Failed", "False"), false),
            (condition("FailureTarget", "True"), false),
            (condition("Suspended", "True"), false),
            (json!({"active": 1}), false),
            (Value::Null, false),
        ] {
            assert_eq!(has_ended(&json!({ "status": status })), expected, "{status}");
        }
    }

    #[test]
    fn pods_of_a_running_job_are_left_to_it_unless_data_goes_into_them() {
        let key =
            |resource: &str, name: &str| ObjectKey::new(resource.parse::<GroupResource>().unwrap(), Some("shop"), name);
        let owner =
            |kind: &str, uid: &str| json!([{"apiVersion": "batch/v1", "kind": kind, "uid": uid, "controller": true}]);
        let pod = |owners: Value, rest: Value| {
            let mut pod = json!({"metadata": {"ownerReferences": owners}});
            lifeboat_patch::merge(&mut pod, &rest);
            pod
        };
        let job = |uid: &str, status: Value| json!({"metadata": {"uid": uid}, "status": status});
        let claim = |name: &str| json!({"spec": {"volumes": [{"persistentVolumeClaim": {"claimName": name}}]}});
        let recorded = RecordedVolumes {
            pod_volumes: ["saved", "with-saved-own"]
                .map(|claim| (key("persistentvolumeclaims", claim), SavedFiles::default()))
                .into(),
            of_pods: [(NamespacedName::new("shop", "with-files"), BTreeMap::new())].into(),
            ..RecordedVolumes::default()
        };
        let own = json!({"spec": {"volumes": [{"name": "own", "ephemeral": {}}]}});
        let mut seen = SeenJobs::default();
        for (key, object) in [
            (key("pods", "of-running"), pod(owner("Job", "r"), json!({}))),
            (key("jobs.batch", "running"), job("r", json!({"active": 1}))),
            (key("jobs.batch", "failed"), job("f", json!({"conditions": [{"type": "Failed", "status": "True"}]}))),
            (key("pods", "of-failed"), pod(owner("Job", "f"), json!({}))),
            (key("pods", "of-missing"), pod(owner("Job", "m"), json!({}))),
            (key("pods", "of-set"), pod(owner("ReplicaSet", "r"), json!({}))),
            (key("pods", "alone"), pod(Value::Null, json!({}))),
            (key("pods", "with-claim"), pod(owner("Job", "r"), claim("other"))),
            (key("pods", "with-saved-claim"), pod(owner("Job", "r"), claim("saved"))),
            (key("pods", "with-saved"), pod(owner("Job", "r"), own.clone())),
            (key("pods", "with-other"), pod(owner("Job", "r"), own)),
            (key("pods", "with-files"), pod(owner("Job", "r"), json!({}))),
            (
                key("pods", "with-volumes"),
                pod(owner("Job", "r"), json!({"metadata": {"annotations": {ANNOTATION_BACKUP_VOLUMES: "v"}}})),
            ),
        ] {
            seen.note(&key, &object, &recorded);
        }
        let running = key("jobs.batch", "running");
        let expected = ["of-running", "with-claim", "with-other"].map(|name| (key("pods", name), running.clone()));
        assert_eq!(seen.pods(), JobPods::from(expected));
    }
}
