//! The end of a Job and its pod. Pure.

use jiff::Timestamp;
use lifeboat_api::{BackupRepositoryMaintenanceResult as Outcome, BackupRepositoryMaintenanceStatus, Time};
use lifeboat_repository::{MAINTENANCE_ERROR, MaintenanceSummary};
use serde_json::Value;

/// The message of a run of which nothing says why it failed. compat: Velero's.
const UNKNOWN: &str = "Repo maintenance failed but result is not retrievable";
/// The most bytes of a message in the status, of which there are 25.
const LONGEST: usize = 1000;

/// A Job that maintains a repository.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MaintenanceJob {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) created: Timestamp,
    /// When it was started, as its run is recorded.
    pub(super) started: Time,
    pub(super) state: JobState,
}

/// The state of a Job.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum JobState {
    Active,
    Succeeded(Time),
    /// It failed at this time, for a reason of its own, such as its deadline.
    Failed(Time, String),
}

/// A run that has ended, and the report of it, if there is one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EndedRun {
    pub(super) run: BackupRepositoryMaintenanceStatus,
    pub(super) summary: Option<MaintenanceSummary>,
}

impl EndedRun {
    /// A run that came to its end with this report.
    pub(super) fn with(summary: MaintenanceSummary, [start, end]: [Time; 2]) -> Self {
        let failure = summary.failure();
        let result = if failure.is_some() { Outcome::Failed } else { Outcome::Succeeded };
        let beside = || (!summary.other_run.is_empty()).then(|| summary.to_string());
        let message = failure.or_else(|| summary.blocked()).or_else(beside).unwrap_or_default();
        Self { run: run(result, [start, end], &message), summary: Some(summary) }
    }

    /// The same where the runs before it are known. One that found another run at work counts as the run before it: that other one may be
    /// the remains of its own, which was killed.
    pub(super) fn after(self, before: Option<Outcome>) -> Self {
        let is_beside = self.summary.as_ref().is_some_and(|summary| !summary.other_run.is_empty());
        match before.filter(|_| is_beside) {
            Some(result) => {
                Self { run: BackupRepositoryMaintenanceStatus { result: Some(result), ..self.run }, ..self }
            }
            None => self,
        }
    }

    /// A run that failed, for this reason.
    pub(super) fn failed(why: &str, times: [Time; 2]) -> Self {
        Self { run: run(Outcome::Failed, times, why), summary: None }
    }
}

fn run(result: Outcome, [start, end]: [Time; 2], message: &str) -> BackupRepositoryMaintenanceStatus {
    let end_of_message = (0..=LONGEST.min(message.len())).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
    BackupRepositoryMaintenanceStatus {
        result: Some(result),
        start_timestamp: Some(start),
        complete_timestamp: Some(end),
        message: message.get(..end_of_message).unwrap_or_default().to_owned(),
        ..BackupRepositoryMaintenanceStatus::default()
    }
}

impl MaintenanceJob {
    /// Reads a Job; `None` for what is none.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let job: Value = serde_json::from_slice(body).ok()?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let time = |value: &Value| value.as_str()?.parse::<Timestamp>().ok();
        let (meta, status) = (&job["metadata"], &job["status"]);
        let created = time(&meta["creationTimestamp"])?;
        let started = Time::new(time(&status["startTime"]).unwrap_or(created));
        let condition = |name: &str| {
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            conditions.find(|condition| condition["type"] == name && condition["status"] == "True")
        };
        let since = |condition: Option<&Value>| condition.and_then(|c| time(&c["lastTransitionTime"])).map(Time::new);
        let count = |field: &str| status[field].as_i64().unwrap_or_default();
        let (complete, failed) = (condition("Complete"), condition("Failed"));
        let state = if complete.is_some() || count("succeeded") > 0 {
            let end = time(&status["completionTime"]).map(Time::new).or(since(complete));
            JobState::Succeeded(end.unwrap_or(started))
        } else if failed.is_some() || count("failed") > 0 {
            let why = failed.map(|condition| text(&condition["message"])).unwrap_or_default();
            JobState::Failed(since(failed).unwrap_or(started), why)
        } else {
            JobState::Active
        };
        let [name, uid, resource_version] = ["name", "uid", "resourceVersion"].map(|field| text(&meta[field]));
        Some(Self { name, uid, resource_version, created, started, state })
    }

    /// The pod that it has made.
    fn pod<'a>(&self, pods: &'a [Value]) -> Option<&'a Value> {
        let owned = |pod: &Value| {
            let mut owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            owners.any(|owner| owner["uid"] == self.uid.as_str())
        };
        pods.iter().find(|pod| owned(pod))
    }

    /// The run that it was, once it has ended.
    pub(super) fn ended(&self, pods: &[Value]) -> Option<EndedRun> {
        let pod = self.pod(pods);
        match &self.state {
            JobState::Active => None,
            JobState::Succeeded(end) => {
                let message = pod.and_then(terminated).and_then(|ended| ended["message"].as_str());
                let times = [self.started, *end];
                Some(match message.and_then(|message| serde_json::from_str(message).ok()) {
                    Some(summary) => EndedRun::with(summary, times),
                    None => EndedRun { run: run(Outcome::Succeeded, times, ""), summary: None },
                })
            }
            JobState::Failed(end, why) => {
                let message = pod.and_then(terminated).and_then(|ended| ended["message"].as_str());
                let report =
                    message.and_then(|message| message.split_once(MAINTENANCE_ERROR)).map(|(report, _)| report);
                let summary = report.and_then(|report| serde_json::from_str(report.trim()).ok());
                Some(EndedRun { summary, ..EndedRun::failed(&self.failure(pod, why), [self.started, *end]) })
            }
        }
    }

    fn failure(&self, pod: Option<&Value>, of_job: &str) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
        let ended = pod.and_then(terminated);
        let message = ended.map(|ended| text(&ended["message"])).unwrap_or_default();
        if let Some((_, error)) = message.split_once(MAINTENANCE_ERROR) {
            return error.trim().to_owned();
        }
        let last = message.lines().last().map(|line| format!("; the last line of its log: {line}")).unwrap_or_default();
        if ended.is_some_and(|ended| ended["reason"] == "OOMKilled") {
            return format!(
                "the pod needed more memory than it may have, and was killed (OOMKilled): raise podResources.memoryLimit in the ConfigMap \
                 of --repo-maintenance-job-configmap, or leave it out{last}"
            );
        }
        let [reason, of_pod] =
            ["reason", "message"].map(|field| pod.map(|pod| text(&pod["status"][field])).unwrap_or_default());
        if !reason.is_empty() {
            return format!("the pod has failed: {reason}: {of_pod}{last}");
        }
        if let Some(ended) = ended {
            let (reason, code) = (text(&ended["reason"]), ended["exitCode"].as_i64().unwrap_or_default());
            return format!("the pod has ended with code {code} ({reason}), and said no reason{last}");
        }
        if !of_job.is_empty() {
            return format!("the Job {} has failed: {of_job}", self.name);
        }
        format!("{UNKNOWN}: the pod of Job {} is gone", self.name)
    }

    /// The reason for which its pod has not started; `None` when it has.
    pub(super) fn obstacle(&self, pods: &[Value]) -> Option<String> {
        let Some(pod) = self.pod(pods) else {
            return Some(format!(
                "no pod was made for Job {}: `kubectl describe job {}` says why, such as a priority class that does not exist",
                self.name, self.name
            ));
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        if let Some(unscheduled) = conditions.find(|c| c["type"] == "PodScheduled" && c["status"] == "False") {
            return Some(format!("its pod has no node: {}", text(&unscheduled["message"])));
        }
        let state = &pod["status"]["containerStatuses"][0]["state"];
        if !state["running"].is_null() || !state["terminated"].is_null() {
            return None;
        }
        let waiting = &state["waiting"];
        Some(match text(&waiting["reason"]) {
            none if none.is_empty() => format!("its pod is {}", text(&pod["status"]["phase"])),
            reason => format!("its container waits: {reason}: {}", text(&waiting["message"])),
        })
    }
}

/// The end of the container of a pod.
fn terminated(pod: &Value) -> Option<&Value> {
    Some(&pod["status"]["containerStatuses"][0]["state"]["terminated"]).filter(|ended| ended.is_object())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job(status: Value) -> MaintenanceJob {
        let meta =
            json!({"name": "j", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-11-28T10:00:00Z"});
        MaintenanceJob::parse(json!({"metadata": meta, "status": status}).to_string().as_bytes()).unwrap()
    }

    fn failed() -> MaintenanceJob {
        job(
            json!({"startTime": "2026-11-28T10:00:01Z", "failed": 1, "conditions": [{"type": "Failed", "status": "True",
            "lastTransitionTime": "2026-11-28T10:02:00Z", "reason": "BackoffLimitExceeded", "message": "Job has reached the limit"}]}),
        )
    }

    fn succeeded() -> MaintenanceJob {
        job(json!({"startTime": "2026-11-28T10:00:01Z", "succeeded": 1, "completionTime": "2026-11-28T10:03:00Z"}))
    }

    fn pod(status: Value) -> Value {
        json!({"metadata": {"ownerReferences": [{"kind": "Job", "uid": "u"}]}, "status": status})
    }

    fn ended_pod(terminated: Value) -> Value {
        pod(json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": terminated}}]}))
    }

    fn at(text: &str) -> Time {
        Time::new(text.parse().unwrap())
    }

    #[test]
    fn the_state_of_a_job_is_read() {
        let expected = MaintenanceJob {
            name: "j".into(),
            uid: "u".into(),
            resource_version: "7".into(),
            created: "2026-11-28T10:00:00Z".parse().unwrap(),
            started: at("2026-11-28T10:00:00Z"),
            state: JobState::Active,
        };
        assert_eq!(job(json!({})), expected);
        assert_eq!(job(json!({"active": 1})), expected);
        assert_eq!(succeeded().state, JobState::Succeeded(at("2026-11-28T10:03:00Z")));
        let end = at("2026-11-28T10:02:00Z");
        assert_eq!(failed().state, JobState::Failed(end, "Job has reached the limit".into()));
        assert_eq!(MaintenanceJob::parse(b"{"), None);
        assert_eq!(MaintenanceJob::parse(b"{}"), None);
    }

    #[test]
    fn a_failed_job_is_recorded_with_the_true_reason() {
        let message = |pods: &[Value]| {
            let ended = failed().ended(pods).unwrap();
            assert_eq!(ended.run.result, Some(Outcome::Failed));
            assert_eq!(
                (ended.run.start_timestamp, ended.run.complete_timestamp),
                (Some(at("2026-11-28T10:00:01Z")), Some(at("2026-11-28T10:02:00Z")))
            );
            ended.run.message
        };
        let said = "time=x level=info msg=\"opening\"\nRepo maintenance error: the bucket is gone\n";
        let last = "; the last line of its log: reading";
        for (pod, expected) in [
            (ended_pod(json!({"exitCode": 1, "reason": "Error", "message": said})), "the bucket is gone".to_owned()),
            (
                ended_pod(json!({"exitCode": 137, "reason": "OOMKilled", "message": "opened\nreading\n"})),
                format!(
                    "the pod needed more memory than it may have, and was killed (OOMKilled): raise podResources.memoryLimit in the \
                     ConfigMap of --repo-maintenance-job-configmap, or leave it out{last}"
                ),
            ),
            (
                pod(json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."})),
                "the pod has failed: Evicted: The node was low on memory.".to_owned(),
            ),
            (
                ended_pod(json!({"exitCode": 2, "reason": "Error", "message": "reading"})),
                format!("the pod has ended with code 2 (Error), and said no reason{last}"),
            ),
            // Neither a status of the container nor a reason.
            (pod(json!({"phase": "Failed"})), "the Job j has failed: Job has reached the limit".to_owned()),
        ] {
            assert_eq!(message(&[pod]), expected);
        }
        assert_eq!(message(&[]), "the Job j has failed: Job has reached the limit");
        let unsaid = job(json!({"failed": 1}));
        let ended = unsaid.ended(&[]).unwrap();
        assert_eq!(ended.run.message, format!("{UNKNOWN}: the pod of Job j is gone"));
    }

    #[test]
    fn a_job_that_succeeded_has_the_report_of_its_pod() {
        let summary = MaintenanceSummary { mode: "full".into(), deleted_blobs: 3, ..MaintenanceSummary::default() };
        let of = |message: String| succeeded().ended(&[ended_pod(json!({"exitCode": 0, "message": message}))]).unwrap();
        let ended = of(serde_json::to_string(&summary).unwrap());
        let times = [at("2026-11-28T10:00:01Z"), at("2026-11-28T10:03:00Z")];
        assert_eq!(ended, EndedRun { run: run(Outcome::Succeeded, times, ""), summary: Some(summary.clone()) });
        let blocked = MaintenanceSummary { blocked: vec!["snapshot k1".into()], ..summary };
        let ended = of(serde_json::to_string(&blocked).unwrap());
        assert_eq!(ended.run, run(Outcome::Succeeded, times, "space does not come back: snapshot k1"));
        // Velero's program says nothing.
        let silent = EndedRun { run: run(Outcome::Succeeded, times, ""), summary: None };
        assert_eq!((of(String::new()), succeeded().ended(&[]).unwrap()), (silent.clone(), silent));
        assert_eq!(job(json!({"active": 1})).ended(&[]), None);
    }

    #[test]
    fn a_run_beside_that_of_another_cluster_is_no_failure() {
        let summary = MaintenanceSummary { other_run: "a sign of life".into(), ..MaintenanceSummary::default() };
        let times = [at("2026-11-28T10:00:01Z"), at("2026-11-28T10:03:00Z")];
        let ended = EndedRun::with(summary.clone(), times);
        let message = "the repository is maintained by somebody else now: a sign of life";
        assert_eq!(ended, EndedRun { run: run(Outcome::Succeeded, times, message), summary: Some(summary) });
        // The other run may be one of its own that was killed, and is no success then.
        for (before, expected) in [
            (None, Outcome::Succeeded),
            (Some(Outcome::Succeeded), Outcome::Succeeded),
            (Some(Outcome::Failed), Outcome::Failed),
        ] {
            assert_eq!(ended.clone().after(before).run, run(expected, times, message));
        }
        let failed = EndedRun::failed("no", times);
        assert_eq!(failed.clone().after(Some(Outcome::Succeeded)), failed);
    }

    #[test]
    fn a_job_of_which_a_step_failed_has_its_error_and_its_report() {
        let failed_steps = vec!["delete 2 blobs: refused".to_owned()];
        let summary = MaintenanceSummary { mode: "full".into(), failed: failed_steps, ..MaintenanceSummary::default() };
        let (report, why) = (serde_json::to_string(&summary).unwrap(), summary.failure().unwrap());
        let message = format!("{report}\n{MAINTENANCE_ERROR}{why}");
        let ended = failed().ended(&[ended_pod(json!({"exitCode": 1, "message": message}))]).unwrap();
        let times = [at("2026-11-28T10:00:01Z"), at("2026-11-28T10:02:00Z")];
        assert_eq!(ended, EndedRun { run: run(Outcome::Failed, times, &why), summary: Some(summary) });
    }

    #[test]
    fn a_pod_that_does_not_start_says_why() {
        let obstacle = |pods: &[Value]| job(json!({"active": 1})).obstacle(pods);
        let container = |state: Value| pod(json!({"phase": "Pending", "containerStatuses": [{"state": state}]}));
        let unscheduled = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes"}]});
        let waiting = json!({"waiting": {"reason": "ErrImagePull", "message": "not found"}});
        assert_eq!(obstacle(&[pod(unscheduled)]).unwrap(), "its pod has no node: 0/1 nodes");
        assert_eq!(obstacle(&[container(waiting)]).unwrap(), "its container waits: ErrImagePull: not found");
        assert_eq!(obstacle(&[pod(json!({"phase": "Pending"}))]).unwrap(), "its pod is Pending");
        assert!(obstacle(&[]).unwrap().starts_with("no pod was made for Job j: "));
        assert_eq!(obstacle(&[container(json!({"running": {}}))]), None);
        assert_eq!(obstacle(&[ended_pod(json!({}))]), None);
    }

    #[test]
    fn a_long_message_is_cut() {
        let failed = EndedRun::failed(&"é".repeat(600), [at("2026-11-28T10:00:01Z"); 2]);
        assert_eq!(failed.run.message, "é".repeat(500));
    }
}
