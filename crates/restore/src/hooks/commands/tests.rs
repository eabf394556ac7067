use super::*;
use jiff::Timestamp;
use lifeboat_action::Actions;
use lifeboat_api::{
    ExecRestoreHook, HookErrorMode, HookStatus, RestoreHooks as Spec, RestoreResourceHook, RestoreResourceHookSpec,
};
use lifeboat_cluster::{Cluster, ConnectOptions};
use lifeboat_operation::Operation;
use lifeboat_sandbox::{Sandbox, SandboxOptions};
use lifeboat_store::Store;
use lifeboat_testbed::{Proxy, Ran};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};

/// A cluster whose pods are as a test says, and a restore with hooks.
struct Ground {
    sandbox: Sandbox,
    proxy: Proxy,
    env: Env,
    /// Commands that ran, as `pod container command`.
    ran: Arc<Mutex<Vec<String>>>,
}

impl Ground {
    /// Commands end with this exit code.
    async fn start(code: impl Fn(&str) -> i32 + Send + Sync + 'static) -> Self {
        let sandbox = Sandbox::start(SandboxOptions::for_tests()).await.unwrap();
        let proxy = Proxy::start(&format!("https://{}", sandbox.address()), Some(sandbox.authority_pem())).unwrap();
        let ran = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&ran);
        proxy.run_commands_by(Arc::new(move |command| {
            let words = command.words.join(" ");
            lock(&log).push(format!("{} {} {words}", command.pod, command.container));
            Ran { code: code(&words), ..Ran::default() }
        }));
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&kubeconfig, proxy.kubeconfig("token")).unwrap();
        let options = ConnectOptions { kubeconfig: Some(kubeconfig.path().into()), ..ConnectOptions::default() };
        let env = Env {
            cluster: Cluster::connect(&options).await.unwrap(),
            store: Store::in_memory(),
            actions: Actions::default(),
            operation: Operation::new(Arc::new(|| Timestamp::UNIX_EPOCH), "restore=velero/r", std::env::temp_dir()),
        };
        let ground = Self { sandbox, proxy, env, ran };
        let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "shop"}});
        ground.sandbox.apply(vec![shop]).await.unwrap();
        ground
    }

    /// Makes a pod with the containers `web` and `db`, or brings it into another state.
    async fn pod(&self, name: &str, status: Value) -> Value {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "uid": format!("of-{name}")},
            "spec": {"containers": [{"name": "web", "image": "i"}, {"name": "db", "image": "i"}]},
            "status": status});
        self.sandbox.apply(vec![pod.clone()]).await.unwrap();
        pod
    }

    fn commands(&self, hooks: Vec<ExecRestoreHook>) -> PodCommands {
        let post_hooks = hooks
            .into_iter()
            .map(|exec| RestoreResourceHook { exec: Some(exec), init: None, ..RestoreResourceHook::default() })
            .collect();
        let resource =
            RestoreResourceHookSpec { name: "h".to_owned(), post_hooks, ..RestoreResourceHookSpec::default() };
        let hooks = RestoreHooks::new(&Spec { resources: vec![resource], ..Spec::default() }).unwrap();
        PodCommands::new(Arc::new(hooks), Duration::from_secs(600), &self.env)
    }

    async fn begin(&self, commands: &PodCommands, name: &str) -> bool {
        let pod = self.pod(name, json!({"phase": "Pending"})).await;
        commands.begin(&HookPod::of(&pod).key(), &pod).await
    }

    /// Waits until so many commands ran, and gives them.
    async fn ran(&self, count: usize) -> Vec<String> {
        while lock(&self.ran).len() < count {
            sleep(Duration::from_millis(5)).await;
        }
        lock(&self.ran).clone()
    }

    fn errors(&self) -> Vec<String> {
        let results = self.env.operation.journal.close().results;
        results.errors.messages().map(str::to_owned).collect()
    }
}

fn up(web: (bool, bool), db: (bool, bool)) -> Value {
    let container = |name: &str, (is_running, is_ready): (bool, bool)| {
        let state = if is_running { json!({"running": {}}) } else { json!({"waiting": {}}) };
        json!({"name": name, "ready": is_ready, "state": state})
    };
    json!({"phase": "Running", "containerStatuses": [container("web", web), container("db", db)]})
}

fn exec(container: &str, word: &str) -> ExecRestoreHook {
    ExecRestoreHook { container: container.to_owned(), command: vec![word.to_owned()], ..ExecRestoreHook::default() }
}

fn counts(attempted: i64, failed: i64) -> Option<HookStatus> {
    Some(HookStatus { hooks_attempted: attempted, hooks_failed: failed, ..HookStatus::default() })
}

#[tokio::test]
async fn commands_run_in_their_order_when_their_container_is_up() {
    let ground = Ground::start(|_| 0).await;
    let ready = ExecRestoreHook { wait_for_ready: Some(true), ..exec("db", "b") };
    let commands = ground.commands(vec![exec("db", "a"), exec("", "c"), ready]);
    assert!(ground.begin(&commands, "p").await);
    ground.pod("p", up((true, false), (true, false))).await;
    assert_eq!(ground.ran(1).await, ["shop/p web c"]);
    ground.pod("p", up((true, false), (true, true))).await;
    assert_eq!(commands.end().await.status(), counts(3, 0));
    assert_eq!(ground.ran(3).await, ["shop/p web c", "shop/p db a", "shop/p db b"]);
    assert_eq!(ground.errors(), Vec::<String>::new());
    drop(ground.proxy);
}

#[tokio::test]
async fn a_failure_that_counts_for_its_pod_ends_the_commands_of_that_pod_only() {
    let ground = Ground::start(|words| i32::from(words == "bad") * 4).await;
    let bad = |mode| ExecRestoreHook { on_error: mode, ..exec("web", "bad") };
    for (mode, expected) in
        [(None, &["shop/p web bad", "shop/p web good"][..]), (Some(HookErrorMode::Fail), &["shop/p web bad"])]
    {
        lock(&ground.ran).clear();
        let commands = ground.commands(vec![bad(mode), exec("web", "good")]);
        ground.begin(&commands, "p").await;
        ground.pod("p", up((true, true), (true, true))).await;
        commands.end().await;
        assert_eq!(*lock(&ground.ran), expected);
    }
    let of_pod = |text: &str| format!("hook h in container web in pod shop/p {text}");
    let failed = of_pod("failed to execute, err: command terminated with exit code 4");
    assert_eq!(ground.errors(), [failed.clone(), failed, of_pod("not executed: a command before it failed")]);
}

#[tokio::test]
async fn what_cannot_run_is_said_with_its_reason() {
    let ground = Ground::start(|_| 0).await;
    let soon = ExecRestoreHook { wait_timeout: lifeboat_api::Duration::from_secs(1), ..exec("web", "soon") };
    let commands = ground.commands(vec![soon, exec("gone", "never"), exec("db", "later")]);
    ground.begin(&commands, "p").await;
    ground.begin(&commands, "q").await;
    ground.pod("q", json!({"phase": "Succeeded"})).await;
    while ground.errors().len() < 5 {
        sleep(Duration::from_millis(5)).await;
    }
    ground.env.operation.cancel.cancel();
    assert_eq!(commands.end().await.status(), counts(6, 6));
    let mut errors = ground.errors();
    errors.sort();
    let no_container = "not executed: there is no such container, the pod has web, db";
    assert_eq!(
        errors,
        [
            "hook h in container db in pod shop/p not executed: the restore was cancelled".to_owned(),
            "hook h in container db in pod shop/q not executed: the pod has ended".to_owned(),
            format!("hook h in container gone in pod shop/p {no_container}"),
            format!("hook h in container gone in pod shop/q {no_container}"),
            "hook h in container web in pod shop/p expired before executing".to_owned(),
            "hook h in container web in pod shop/q not executed: the pod has ended".to_owned(),
        ]
    );
    assert_eq!(*lock(&ground.ran), Vec::<String>::new());
}

#[tokio::test]
async fn a_resumed_restore_repeats_commands_of_a_pod_only_if_some_did_not_run() {
    let ground = Ground::start(|_| 0).await;
    let commands = ground.commands(vec![exec("web", "x")]);
    ground.begin(&commands, "done").await;
    ground.begin(&commands, "waits").await;
    ground.pod("done", up((true, true), (true, true))).await;
    ground.ran(1).await;
    let ended = |note: Option<bytes::Bytes>| note.is_some_and(|note| String::from_utf8_lossy(&note).contains("Ended"));
    while !ended(ground.env.operation.records.read("hooks.0").await.unwrap()) {
        sleep(Duration::from_millis(5)).await;
    }
    // The process dies.
    drop(commands);
    let commands = ground.commands(vec![exec("web", "x")]);
    commands.load().await;
    assert!(!ground.begin(&commands, "done").await);
    assert!(ground.begin(&commands, "waits").await);
    ground.pod("waits", up((true, true), (true, true))).await;
    assert_eq!(commands.end().await.status(), counts(2, 0));
    assert_eq!(*lock(&ground.ran), ["shop/done web x", "shop/waits web x"]);
}

#[tokio::test]
async fn what_went_wrong_in_a_run_that_was_cut_off_is_told_by_the_next_one() {
    let ground = Ground::start(|_| 4).await;
    let commands = ground.commands(vec![exec("web", "x"), exec("gone", "y")]);
    ground.begin(&commands, "p").await;
    ground.pod("p", up((true, true), (true, true))).await;
    assert_eq!(commands.end().await.status(), counts(2, 2));
    let told = ground.errors();
    assert_eq!(told.len(), 2);
    // The process dies before the results are stored.
    let again = Ground { env: Env { operation: reopened(&ground.env.operation), ..ground.env.clone() }, ..ground };
    let commands = again.commands(vec![exec("web", "x"), exec("gone", "y")]);
    commands.load().await;
    let pod = again.pod("p", up((true, true), (true, true))).await;
    assert!(!commands.begin(&HookPod::of(&pod).key(), &pod).await);
    assert_eq!((commands.end().await.status(), again.errors()), (counts(2, 2), told));
}

/// The operation of a process that has the notes of the one before.
fn reopened(before: &Operation) -> Operation {
    let operation = Operation::new(Arc::new(|| Timestamp::UNIX_EPOCH), "restore=velero/r", std::env::temp_dir());
    Operation { records: Arc::clone(&before.records), ..operation }
}

#[tokio::test]
async fn commands_run_in_a_pod_that_was_up_before_it_is_waited_for() {
    let ground = Ground::start(|_| 0).await;
    let commands = ground.commands(vec![exec("web", "x")]);
    // Its namespace is watched for another one already.
    assert!(ground.begin(&commands, "other").await);
    sleep(Duration::from_millis(300)).await;
    let made = ground.pod("p", json!({"phase": "Pending"})).await;
    ground.pod("p", up((true, true), (true, true))).await;
    sleep(Duration::from_millis(300)).await;
    assert!(commands.begin(&HookPod::of(&made).key(), &made).await);
    assert_eq!(ground.ran(1).await, ["shop/p web x"]);
}

#[tokio::test]
async fn commands_that_a_restore_gives_up_when_it_breaks_off_are_told() {
    let ground = Ground::start(|_| 0).await;
    let commands = ground.commands(vec![exec("web", "x")]);
    ground.begin(&commands, "p").await;
    assert_eq!(commands.break_off().await.status(), counts(1, 1));
    assert_eq!(ground.errors(), ["hook h in container web in pod shop/p not executed: the restore broke off"]);
    assert!(ground.env.operation.records.keys().await.unwrap().is_empty());
}

/// A cluster in which the command `long` ends when what is given is dropped.
async fn with_a_long_command() -> (Ground, std::sync::mpsc::SyncSender<()>) {
    let (end, waiting) = std::sync::mpsc::sync_channel(1);
    let waiting = Mutex::new(waiting);
    let ground = Ground::start(move |words| {
        if words == "long" {
            let _ = lock(&waiting).recv_timeout(Duration::from_secs(20));
        }
        0
    });
    (ground.await, end)
}

#[tokio::test]
async fn a_command_in_which_a_restore_breaks_off_runs_again_with_all_behind_it() {
    for is_cancelled in [false, true] {
        let (ground, end) = with_a_long_command().await;
        let commands = ground.commands(vec![exec("web", "long"), exec("web", "after")]);
        ground.begin(&commands, "p").await;
        ground.pod("p", up((true, true), (true, true))).await;
        ground.ran(1).await;
        let why = if is_cancelled { "the restore was cancelled" } else { "the restore broke off" };
        let tally = if is_cancelled {
            ground.env.operation.cancel.cancel();
            commands.end().await
        } else {
            commands.break_off().await
        };
        assert_eq!(tally.status(), counts(2, 2));
        let of_pod = |text: &str| format!("hook h in container web in pod shop/p {text}");
        let told = [of_pod(&format!("was cut off: {why} while it ran")), of_pod(&format!("not executed: {why}"))];
        assert_eq!(ground.errors(), told);
        drop(end);
        let again = Ground { env: Env { operation: reopened(&ground.env.operation), ..ground.env.clone() }, ..ground };
        let commands = again.commands(vec![exec("web", "long"), exec("web", "after")]);
        commands.load().await;
        let pod = again.pod("p", up((true, true), (true, true))).await;
        assert!(commands.begin(&HookPod::of(&pod).key(), &pod).await);
        assert_eq!((commands.end().await.status(), again.errors()), (counts(2, 0), Vec::new()));
        assert_eq!(*lock(&again.ran), ["shop/p web long", "shop/p web long", "shop/p web after"]);
    }
}

#[tokio::test]
async fn a_server_that_no_longer_leads_leaves_the_commands_to_the_next_one() {
    let mut ground = Ground::start(|_| 0).await;
    ground.env.operation.fence = Arc::new(|| Err("this server no longer leads".to_owned()));
    let commands = ground.commands(vec![exec("web", "a"), exec("web", "b")]);
    ground.begin(&commands, "p").await;
    let pod = ground.pod("p", up((true, true), (true, true))).await;
    assert_eq!(commands.end().await.status(), counts(2, 2));
    let told = "hook h in container web in pod shop/p not executed: this server no longer leads";
    assert_eq!(ground.errors(), [told, told]);
    let again = Ground { env: Env { operation: reopened(&ground.env.operation), ..ground.env.clone() }, ..ground };
    let commands = again.commands(vec![exec("web", "a"), exec("web", "b")]);
    commands.load().await;
    assert!(commands.begin(&HookPod::of(&pod).key(), &pod).await);
    assert_eq!((commands.end().await.status(), again.errors()), (counts(2, 0), Vec::new()));
    assert_eq!(*lock(&again.ran), ["shop/p web a", "shop/p web b"]);
}

#[tokio::test]
async fn concurrent_commands_are_limited_and_do_not_expire_while_they_wait() {
    let (is_open, running) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new((0, 0))));
    let (gate, count) = (Arc::clone(&is_open), Arc::clone(&running));
    let ground = Ground::start(move |_| {
        {
            let (now, most) = &mut *lock(&count);
            *now += 1;
            *most = (*most).max(*now);
        }
        while !gate.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        lock(&count).0 -= 1;
        0
    })
    .await;
    let soon = ExecRestoreHook { wait_timeout: lifeboat_api::Duration::from_secs(1), ..exec("web", "x") };
    let mut commands = ground.commands(vec![soon]);
    Arc::get_mut(&mut commands.runner).unwrap().runs = Semaphore::new(2);
    for name in ["a", "b", "c", "d"] {
        let pod = ground.pod(name, up((true, true), (true, true))).await;
        assert!(commands.begin(&HookPod::of(&pod).key(), &pod).await);
    }
    sleep(Duration::from_millis(1500)).await;
    is_open.store(true, Ordering::Release);
    assert_eq!(commands.end().await.status(), counts(4, 0));
    assert_eq!((ground.errors(), lock(&running).1), (Vec::new(), 2));
    // Nobody waits for any of them any more.
    assert!(commands.states.is_unused("shop"));
}
