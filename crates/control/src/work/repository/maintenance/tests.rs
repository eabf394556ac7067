//! Repositories maintained, in a bucket in a folder and a cluster in memory, where the test is the controller of Jobs.

use super::*;
use crate::options::ServerClock;
use crate::own_pod::OwnPod;
use crate::stub::{OneBucket, api_server, context, sandbox};
use crate::work::repository::prepare;
use jiff::Timestamp;
use lifeboat_api::BackupRepositoryMaintenanceResult as Outcome;
use lifeboat_api::well_known::ANNOTATION_LAST_MAINTENANCE;
use lifeboat_bucket::{Directory, Memory, PutOptions};
use lifeboat_cluster::MergePatch;
use lifeboat_sandbox::Sandbox;
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;

const NAME: &str = "shop-main-kopia";

/// A server, and a repository that is ready in a location `main`.
struct Ground {
    _folder: tempfile::TempDir,
    context: Context,
    sandbox: Sandbox,
    clock: Arc<Mutex<Timestamp>>,
    location: BackupStorageLocation,
    repository: BackupRepository,
}

impl Ground {
    async fn start(objects: Vec<Value>) -> Self {
        let (sandbox, cluster) = sandbox().await;
        // A bucket in memory does not tell when a blob was stored.
        let folder = tempfile::tempdir().unwrap();
        let bucket = Arc::new(Directory::open(folder.path()).unwrap());
        let mut context = context(cluster, Arc::new(OneBucket(bucket)));
        let clock = Arc::new(Mutex::new(Timestamp::UNIX_EPOCH));
        let read = Arc::clone(&clock);
        context.env.clock = ServerClock(Arc::new(move || *read.lock().unwrap()));
        context.options.repository.jobs.config_map = Some("jobs".into());
        let location = json!({"provider": "aws", "objectStorage": {"bucket": "b"}});
        let repository = json!({"volumeNamespace": "shop", "backupStorageLocation": "main", "repositoryType": "kopia",
            "maintenanceFrequency": "1h0m0s"});
        let own = [("BackupStorageLocation", "main", location), ("BackupRepository", NAME, repository)].map(
            |(kind, name, spec)| json!({"apiVersion": "velero.io/v1", "kind": kind, "metadata": {"name": name, "namespace": "velero"}, "spec": spec}),
        );
        sandbox.apply(own.into_iter().chain(objects).collect()).await.unwrap();
        let location = context.client.get("main").await.unwrap().unwrap();
        let repository = context.client.get(NAME).await.unwrap().unwrap();
        let mut ground = Self { _folder: folder, context, sandbox, clock, location, repository };
        prepare(&ground.context, &ground.repository, &ground.location).await.unwrap();
        ground.refresh().await;
        ground
    }

    /// A server that runs in the pod of a Deployment.
    async fn in_a_pod(objects: Vec<Value>) -> Self {
        let mut ground = Self::start(objects).await;
        let spec = json!({"serviceAccountName": "velero", "containers": [
            {"name": "velero", "image": "lifeboat:v1", "command": ["/velero"], "args": ["server"]}]});
        let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "velero-1", "namespace": "velero"},
            "spec": {"template": {"metadata": {"labels": {"deploy": "velero"}}, "spec": spec}}});
        ground.sandbox.apply(vec![set]).await.unwrap();
        let uid = ground.object("apps", "replicasets", "ReplicaSet", "velero-1").await["metadata"]["uid"].clone();
        let mut injected = spec;
        injected["containers"][0]["image"] = json!("lifeboat:injected");
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "velero-1-a", "namespace": "velero",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "velero-1", "uid": uid, "controller": true}]},
            "spec": injected});
        ground.sandbox.apply(vec![pod]).await.unwrap();
        let uid = ground.object("", "pods", "Pod", "velero-1-a").await["metadata"]["uid"].as_str().unwrap().to_owned();
        ground.context.env.process.pod = Some(OwnPod { name: "velero-1-a".into(), uid });
        ground
    }

    async fn object(&self, group: &str, plural: &str, kind: &str, name: &str) -> Value {
        let resource = ApiResource::new(group, "v1", plural, kind);
        let found = self.context.client.cluster.get(&resource, Some("velero"), name).await.unwrap();
        serde_json::from_slice(&found.unwrap()).unwrap()
    }

    async fn refresh(&mut self) {
        self.repository = self.context.client.get(NAME).await.unwrap().unwrap();
    }

    /// A single look: the pause until the next one, or `None` when something was recorded.
    async fn look(&mut self) -> Option<Duration> {
        let done = maintain(&self.context, &self.repository, &self.location, CancellationToken::new()).await;
        self.refresh().await;
        match done {
            Ok(_) => None,
            Err(StepError::NotYet(pause)) => Some(pause),
            Err(why) => panic!("{why}"),
        }
    }

    async fn jobs(&self) -> Vec<MaintenanceJob> {
        jobs_of(&self.context, &self.repository).await.unwrap()
    }

    /// Lets so many minutes pass since the newest Job was made.
    async fn pass(&self, minutes: i64) {
        let made = self.jobs().await.last().unwrap().created;
        *self.clock.lock().unwrap() = made + SignedDuration::from_mins(minutes);
    }

    /// Ends the newest Job, as its controller does, with a pod whose container has ended so. Its times are those of this minute.
    async fn end(&self, minute: u32, has_succeeded: bool, terminated: Value) {
        let job = self.jobs().await.pop().unwrap();
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("{}-x", job.name), "namespace": "velero", "labels": {"velero.io/repo-name": NAME},
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": job.name, "uid": job.uid}]},
            "status": {"containerStatuses": [{"name": "c", "state": {"terminated": terminated}}]}});
        self.sandbox.apply(vec![pod]).await.unwrap();
        let time = |second: u32| format!("2026-11-28T10:{minute:02}:{second:02}Z");
        let status = match has_succeeded {
            true => json!({"startTime": time(0), "succeeded": 1, "completionTime": time(30)}),
            false => json!({"startTime": time(0), "failed": 1,
                "conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": time(30)}]}),
        };
        let body = Bytes::from(json!({"status": status}).to_string());
        let patch = MergePatch { body, subresource: Some("status") };
        self.context.client.cluster.patch(&jobs(), Some("velero"), &job.name, patch).await.unwrap();
    }

    /// The results and messages of the runs that are recorded.
    fn runs(&self) -> Vec<(Outcome, &str)> {
        let runs = self.repository.status.recent_maintenance.iter();
        runs.map(|run| (run.result.unwrap(), run.message.as_str())).collect()
    }

    async fn events(&self) -> Vec<(String, String)> {
        let events = ApiResource::new("", "v1", "events", "Event");
        let mut list = self.context.client.cluster.list(ListRequest::all(events).in_namespace("velero".to_owned()));
        let mut out = Vec::new();
        while let Some(bodies) = list.next().await.unwrap() {
            for body in bodies {
                let event: Value = serde_json::from_slice(&body).unwrap();
                out.push((event["type"].as_str().unwrap().into(), event["reason"].as_str().unwrap().into()));
            }
        }
        out.sort();
        out
    }
}

fn config(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "jobs", "namespace": "velero"}, "data": data})
}

#[tokio::test]
async fn one_job_at_a_time_maintains_a_repository_and_its_end_is_recorded() {
    let mut ground = Ground::in_a_pod(vec![]).await;
    assert_eq!(ground.look().await, Some(PAUSES[0]));
    let made = ground.jobs().await;
    let job = ground.object("batch", "jobs", "Job", &made[0].name).await;
    assert_eq!(job["spec"]["template"]["spec"]["containers"][0]["image"], "lifeboat:v1", "that of the ReplicaSet");
    // It runs: the server waits for it, also one that was started since.
    assert_eq!(ground.look().await, Some(PAUSES[0]));
    ground.context.notes = Arc::default();
    ground.pass(5).await;
    assert_eq!(ground.look().await, Some(PAUSES[1]));
    assert_eq!(ground.jobs().await, made);

    let report = json!({"mode": "full", "reason": "it is due", "deletedBlobs": 3, "deletedBytes": 70}).to_string();
    ground.end(0, true, json!({"exitCode": 0, "message": report})).await;
    assert_eq!(ground.look().await, None);
    assert_eq!(ground.runs(), [(Outcome::Succeeded, "")]);
    let end: Timestamp = "2026-11-28T10:00:30Z".parse().unwrap();
    assert_eq!(ground.repository.status.last_maintenance_time, Some(Time::new(end)));
    let noted: Value =
        serde_json::from_str(&ground.repository.metadata.annotations[ANNOTATION_LAST_MAINTENANCE]).unwrap();
    let expected = json!({"full": {"completed": "2026-11-28T10:00:30Z", "mode": "full", "reason": "it is due",
        "deletedBlobs": 3, "deletedBytes": 70}});
    assert_eq!(noted, expected);
    assert_eq!(ground.events().await, [("Normal".to_owned(), "Maintained".to_owned())]);

    // The next one fails, and the report of the one before stays.
    assert_eq!(ground.look().await, Some(PAUSES[0]));
    ground.end(5, false, json!({"exitCode": 1, "message": "Repo maintenance error: no bucket"})).await;
    assert_eq!(ground.look().await, None);
    assert_eq!(ground.runs(), [(Outcome::Succeeded, ""), (Outcome::Failed, "no bucket")]);
    assert_eq!(ground.repository.status.last_maintenance_time, Some(Time::new(end)));
    assert_eq!(ground.events().await.len(), 2);
    assert!(ground.repository.metadata.annotations.contains_key(ANNOTATION_LAST_MAINTENANCE));
}

#[tokio::test]
async fn as_many_jobs_stay_as_the_config_map_says() {
    let kept = config(&json!({"global": "{", "shop-main-kopia": r#"{"keepLatestMaintenanceJobs": 1}"#}));
    let mut ground = Ground::in_a_pod(vec![kept]).await;
    for minute in 0..3 {
        *ground.clock.lock().unwrap() = Timestamp::from_second(i64::from(minute) + 1).unwrap();
        assert_eq!(ground.look().await, Some(PAUSES[0]));
        ground.end(minute, true, json!({"exitCode": 0})).await;
        assert_eq!(ground.look().await, None);
        assert_eq!(ground.jobs().await.len(), 1);
    }
    assert_eq!(ground.runs(), [(Outcome::Succeeded, ""); 3]);
}

#[tokio::test]
async fn a_job_whose_pod_does_not_start_is_given_up_with_the_reason() {
    let mut ground = Ground::in_a_pod(vec![]).await;
    assert_eq!(ground.look().await, Some(PAUSES[0]));
    ground.pass(29).await;
    assert_eq!(ground.look().await, Some(PAUSES[1]));
    ground.pass(30).await;
    let name = ground.jobs().await[0].name.clone();
    assert_eq!(ground.look().await, None);
    let why = format!(
        "the Job {name} did not start within 30 minutes: no pod was made for Job {name}: `kubectl describe job {name}` says why, \
         such as a priority class that does not exist"
    );
    assert_eq!(ground.runs(), [(Outcome::Failed, why.as_str())]);
    assert_eq!(ground.jobs().await, []);
    assert_eq!(ground.events().await, [("Warning".to_owned(), "MaintenanceFailed".to_owned())]);
}

#[tokio::test]
async fn a_server_that_runs_in_no_pod_maintains_by_itself() {
    let mut ground = Ground::start(vec![]).await;
    assert_eq!(ground.look().await, None);
    assert_eq!((ground.runs(), ground.jobs().await), (vec![(Outcome::Succeeded, "")], vec![]));
    let noted: Value =
        serde_json::from_str(&ground.repository.metadata.annotations[ANNOTATION_LAST_MAINTENANCE]).unwrap();
    assert_eq!(noted["full"]["reason"], "full maintenance has not run yet");
    // A pod that is not there any more, or is another one, is none.
    let mut ground = Ground::in_a_pod(vec![]).await;
    ground.context.env.process.pod.as_mut().unwrap().uid = "other".into();
    assert_eq!((ground.look().await, ground.jobs().await), (None, vec![]));
}

#[tokio::test]
async fn a_run_beside_that_of_another_cluster_is_no_failure_and_no_event() {
    let mut ground = Ground::start(Vec::new()).await;
    let bucket = ground.context.bucket(&ground.location).await.unwrap();
    let claim = "kopia/shop/io.lifeboat.maintenance.0123";
    bucket.put(claim, Bytes::from("a run of another cluster").into(), PutOptions::default()).await.unwrap();
    assert_eq!(ground.look().await, None);
    let [(result, message)] = ground.runs()[..] else { panic!("{:?}", ground.runs()) };
    let beside = "the repository is maintained by somebody else now: another run shows signs of life, ";
    assert!(result == Outcome::Succeeded && message.starts_with(beside), "{result:?} {message}");
    assert_eq!(ground.events().await, []);
}

#[tokio::test]
async fn a_run_that_is_stopped_with_the_server_is_no_failure() {
    let mut ground = Ground::start(vec![]).await;
    let stop = CancellationToken::new();
    stop.cancel();
    let done = maintain(&ground.context, &ground.repository, &ground.location, stop).await;
    assert!(matches!(done, Err(StepError::NotYet(_))), "{done:?}");
    ground.refresh().await;
    assert_eq!(ground.runs(), []);
    assert_eq!(ground.look().await, None, "its claim was given back");
    assert_eq!(ground.runs(), [(Outcome::Succeeded, "")]);
}

#[tokio::test]
async fn a_job_that_is_refused_is_recorded_as_a_failure() {
    let ground = Ground::start(vec![]).await;
    let mut tasks = JoinSet::new();
    let pod = json!({"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [{"name": "velero"}]}});
    let denied = json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "may not create jobs"});
    let mut recorded = serde_json::to_value(&ground.repository).unwrap();
    recorded["apiVersion"] = json!("velero.io/v1");
    recorded["kind"] = json!("BackupRepository");
    let answers = vec![
        (200, json!({"kind": "JobList", "apiVersion": "batch/v1", "metadata": {}, "items": []})),
        (200, pod),
        (404, json!({"kind": "Status", "code": 404, "reason": "NotFound"})),
        (403, denied),
        (200, recorded),
    ];
    let mut context = context(api_server(&mut tasks, answers).await, Arc::new(OneBucket(Arc::new(Memory::default()))));
    context.env.process.pod = Some(OwnPod { name: "p".into(), uid: "u".into() });
    context.options.repository.jobs.config_map = Some("jobs".into());
    let stop = CancellationToken::new();
    let done = maintain(&context, &ground.repository, &ground.location, stop).await.unwrap();
    assert_eq!(done.len(), 1);
    let told = String::from_utf8(context.metrics.text().unwrap()).unwrap();
    assert!(told.contains("velero_repo_maintenance_failure_total{repository_name=\"shop-main-kopia\"} 1"), "{told}");
}
