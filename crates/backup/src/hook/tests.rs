//! Notes about pods that are owed hooks, and their use after a crash.

use super::*;
use crate::env::{Env, test_env_of};
use lifeboat_hook::BackupHooks;
use lifeboat_object::Catalog;
use lifeboat_sandbox::{Sandbox, SandboxOptions};
use lifeboat_testbed::{Fault, Nth, Proxy, Ran, Rule};
use serde_json::json;

struct Ground {
    sandbox: Sandbox,
    proxy: Proxy,
    env: Env,
    /// The commands that ran.
    ran: Arc<Mutex<Vec<String>>>,
}

impl Ground {
    async fn start() -> Self {
        let sandbox = Sandbox::start(SandboxOptions::for_tests()).await.unwrap();
        let proxy = Proxy::start(&format!("https://{}", sandbox.address()), Some(sandbox.authority_pem())).unwrap();
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&kubeconfig, proxy.kubeconfig("token")).unwrap();
        let env = test_env_of(kubeconfig.path()).await;
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let ground = Self { sandbox, proxy, env, ran: Arc::clone(&log) };
        ground.proxy.run_commands_by(Arc::new(move |command| {
            lock_log(&log).push(command.words.join(" "));
            Ran::default()
        }));
        let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "shop"}});
        ground.sandbox.apply(vec![shop]).await.unwrap();
        ground
    }

    fn commands(&self) -> Commands {
        Commands::new(&self.env.cluster, &self.env.operation)
    }

    /// The operation of another process a minute later, when no command has time left.
    fn later(&self) -> Operation {
        let clock = Arc::clone(&self.env.operation.clock);
        let later = move || clock() + SignedDuration::from_mins(1);
        Operation { clock: Arc::new(later), ..self.env.operation.clone() }
    }

    async fn notes(&self) -> Vec<OwedHooks> {
        Owed::new(Arc::clone(&self.env.operation.records)).all().await.unwrap().0
    }

    fn errors(&self) -> Vec<String> {
        self.env.operation.journal.close().results.errors.messages().map(str::to_owned).collect()
    }
}

fn lock_log(log: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pod(uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "db", "namespace": "shop", "uid": uid, "annotations": {
            "pre.hook.backup.velero.io/command": "freeze", "post.hook.backup.velero.io/command": "thaw"}},
        "spec": {"containers": [{"name": "db", "image": "i"}]}, "status": {"phase": "Running"}})
}

fn hooks(pod: &Value) -> (HookPod, PodHooks) {
    let hooks = BackupHooks::new(&lifeboat_api::BackupHooks::default(), &Catalog::default()).unwrap();
    let pod = HookPod::of(pod);
    let of_pod = hooks.of(&pod);
    (pod, of_pod)
}

#[tokio::test]
async fn what_is_noted_is_the_pod_that_is_there_when_its_commands_run() {
    let ground = Ground::start().await;
    ground.sandbox.apply(vec![pod("new")]).await.unwrap();
    let (listed, hooks) = hooks(&pod("old"));
    let mut tally = HookTally::default();
    let quiesced = ground.commands().quiesce(listed, hooks, &mut tally).await;
    let uids: Vec<String> = ground.notes().await.into_iter().map(|owed| owed.uid).collect();
    assert_eq!((uids, quiesced.pod.uid.as_str()), (vec!["new".to_owned()], "new"));
    // Whoever takes over thaws it.
    assert!(run_owed_hooks(&ground.env.cluster, &ground.later()).await);
    let ran = lock_log(&ground.ran).clone();
    assert_eq!((ran, ground.notes().await), (vec!["freeze".to_owned(), "thaw".to_owned()], vec![]));
}

#[tokio::test]
async fn a_pod_that_is_deleted_after_it_was_frozen_is_no_error() {
    let ground = Ground::start().await;
    ground.sandbox.apply(vec![pod("u")]).await.unwrap();
    let (listed, hooks) = hooks(&pod("u"));
    let commands = ground.commands();
    let mut tally = HookTally::default();
    let quiesced = commands.quiesce(listed, hooks, &mut tally).await;
    let pods = ApiResource { namespaced: true, ..ApiResource::new("", "v1", "pods", "Pod") };
    ground.env.cluster.delete(&pods, Some("shop"), "db").await.unwrap();
    let gone = || {
        Fault::Answer {
        status: 404,
        headers: Vec::new(),
        body: json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "pods \"db\" not found"}).to_string(),
    }
    };
    let path = "/api/v1/namespaces/shop/pods/db";
    let exec = format!("{path}/exec*");
    ground.proxy.script(vec![Rule::new("*", path, Nth::Every, gone()), Rule::new("*", &exec, Nth::Every, gone())]);
    assert!(commands.thaw(quiesced, &mut tally).await);
    assert_eq!((ground.errors(), ground.notes().await), (vec![], vec![]));
}

#[tokio::test]
async fn what_could_not_be_paid_now_stays_owed() {
    let ground = Ground::start().await;
    ground.sandbox.apply(vec![pod("u")]).await.unwrap();
    let (listed, hooks) = hooks(&pod("u"));
    ground.commands().quiesce(listed, hooks, &mut HookTally::default()).await;
    let fenced = Operation { fence: Arc::new(|| Err("another server leads".to_owned())), ..ground.later() };
    assert!(!run_owed_hooks(&ground.env.cluster, &fenced).await);
    assert_eq!(ground.notes().await.len(), 1);
    assert!(run_owed_hooks(&ground.env.cluster, &ground.later()).await);
    assert_eq!(ground.notes().await, vec![]);
}

#[tokio::test]
async fn a_pod_that_cannot_be_read_is_not_taken_for_gone() {
    let ground = Ground::start().await;
    ground.sandbox.apply(vec![pod("u")]).await.unwrap();
    let (listed, hooks) = hooks(&pod("u"));
    let commands = ground.commands();
    let mut tally = HookTally::default();
    let quiesced = commands.quiesce(listed, hooks, &mut tally).await;
    let answer = |status: u16, reason: &str| {
        let body = json!({"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": reason});
        Fault::Answer { status, headers: Vec::new(), body: body.to_string() }
    };
    let path = "/api/v1/namespaces/shop/pods/db";
    ground.proxy.script(vec![
        Rule::new("*", path, Nth::Every, answer(403, "Forbidden")),
        // The API server answers so when the node is not there, too.
        Rule::new("*", &format!("{path}/exec*"), Nth::Every, answer(404, "NotFound")),
    ]);
    commands.thaw(quiesced, &mut tally).await;
    let errors = ground.errors();
    assert!(errors.len() == 1 && errors[0].contains("the application may be frozen still"), "{errors:?}");
    assert_eq!(tally.status().unwrap().hooks_failed, 1);
}

#[tokio::test]
async fn a_command_of_a_dead_caller_may_freeze_its_pod_until_its_time_is_over() {
    let ground = Ground::start().await;
    ground.sandbox.apply(vec![pod("u")]).await.unwrap();
    let (of_pod, hooks) = hooks(&pod("u"));
    let by = Time::new((ground.env.operation.clock)() + SignedDuration::from_secs(1));
    let owed = Owed::new(Arc::clone(&ground.env.operation.records));
    owed.owe(&of_pod, &hooks.post, by).await.unwrap();
    assert!(!ground.commands().pay(true).await, "it stays owed for the attempt that follows");
    let ran = || lock_log(&ground.ran).len();
    assert_eq!((ran(), ground.notes().await.len()), (1, 1));
    assert!(ground.commands().pay(false).await);
    assert_eq!((ran(), ground.notes().await), (3, vec![]));
    assert_eq!(ground.errors(), [""; 0]);
}

#[tokio::test]
async fn the_pods_of_a_block_do_not_wait_for_each_other_to_be_thawed() {
    let ground = Ground::start().await;
    let named = |name: &str| {
        let mut pod = pod(name);
        pod["metadata"]["name"] = json!(name);
        pod
    };
    let pods: Vec<Value> = ["a", "b", "c"].map(named).into();
    ground.sandbox.apply(pods.clone()).await.unwrap();
    let (commands, mut tally, mut quiesced) = (ground.commands(), HookTally::default(), Vec::new());
    for pod in &pods {
        let (listed, hooks) = hooks(pod);
        quiesced.push(commands.quiesce(listed, hooks, &mut tally).await);
    }
    // Each ends when all have begun.
    let all = Arc::new(std::sync::Barrier::new(pods.len()));
    ground.proxy.run_commands_by(Arc::new(move |_| {
        all.wait();
        Ran::default()
    }));
    commands.thaw_all(quiesced, &mut tally).await;
    assert_eq!((ground.errors(), ground.notes().await), (vec![], vec![]));
}

#[tokio::test]
async fn a_thaw_of_an_attempt_before_may_fail_when_another_attempt_follows() {
    for (follows, warnings, errors, notes) in [(true, 1, 0, 1), (false, 0, 1, 0)] {
        let ground = Ground::start().await;
        ground.sandbox.apply(vec![pod("u")]).await.unwrap();
        let (listed, hooks) = hooks(&pod("u"));
        ground.commands().quiesce(listed, hooks, &mut HookTally::default()).await;
        ground.proxy.run_commands_by(Arc::new(|_| Ran { code: 1, ..Ran::default() }));
        let commands = Commands::new(&ground.env.cluster, &ground.later());
        assert_eq!(commands.pay(follows).await, !follows, "the note stays for the attempt that follows");
        let results = ground.env.operation.journal.close().results;
        let counts = (results.warnings.messages().count(), results.errors.messages().count());
        assert_eq!((counts, ground.notes().await.len()), ((warnings, errors), notes), "{results:?}");
    }
}

/// The API server has no connection to the kubelet: it says so, and passes nothing on.
fn dead_node() -> Fault {
    let message = "error dialing backend: dial tcp 10.0.0.5:10250: connect: connection refused";
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 502, "reason": "InternalError", "message": message});
    Fault::Answer { status: 502, headers: Vec::new(), body: body.to_string() }
}

#[tokio::test]
async fn a_pod_whose_node_does_not_answer_holds_no_backup_up() {
    let ground = Ground::start().await;
    ground.sandbox.apply(vec![pod("u")]).await.unwrap();
    let (listed, hooks) = hooks(&pod("u"));
    let exec = "/api/v1/namespaces/shop/pods/db/exec*";
    ground.proxy.script(vec![Rule::new("*", exec, Nth::Every, dead_node())]);
    let commands = ground.commands();
    let mut tally = HookTally::default();
    let quiesced = commands.quiesce(listed, hooks, &mut tally).await;
    assert!(!quiesced.may_be_frozen, "no command was begun");
    let _ = ground.proxy.take_seen();
    assert!(commands.thaw(quiesced, &mut tally).await);
    let tried = ground.proxy.take_seen().iter().filter(|seen| seen.path.contains("/exec")).count();
    assert_eq!((tried, lock_log(&ground.ran).len()), (1, 0), "the command after the backup is tried once");
    assert_eq!(tally.status().unwrap().hooks_failed, 2);
}
