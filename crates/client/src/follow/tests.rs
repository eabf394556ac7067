//! Objects of an API server in memory, followed through the fault proxy and changed past it.

use super::*;
use lifeboat_api::{Backup, BackupPhase};
use lifeboat_cluster::{Cluster, ConnectOptions};
use lifeboat_sandbox::{Sandbox, SandboxOptions};
use lifeboat_testbed::{Fault, Nth, Proxy, Rule};
use serde_json::json;

const WATCHES: &str = "*watch=true*";
const GETS: &str = "*/backups/b";

struct Ground {
    proxy: Proxy,
    /// Past the proxy.
    direct: Client,
    /// Through the proxy.
    through: Client,
    _sandbox: Sandbox,
}

impl Ground {
    /// A cluster with the backup `b`.
    async fn start() -> Self {
        let sandbox = Sandbox::start(SandboxOptions::for_tests()).await.unwrap();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "velero"}});
        sandbox.apply(std::iter::once(namespace).chain(lifeboat_api::crds()).collect()).await.unwrap();
        let proxy = Proxy::start(&format!("https://{}", sandbox.address()), Some(sandbox.authority_pem())).unwrap();
        let direct = client(&sandbox.kubeconfig(), None).await;
        // It has little patience with a single request.
        let through = client(&proxy.kubeconfig("token"), Some(Duration::from_secs(3))).await;
        let ground = Self { proxy, direct, through, _sandbox: sandbox };
        ground.create("b").await;
        ground
    }

    async fn create(&self, name: &str) {
        let mut backup = Backup::default();
        backup.metadata.name = name.to_owned();
        backup.metadata.namespace = "velero".to_owned();
        self.direct.create(name, &backup).await.unwrap().unwrap();
    }

    async fn becomes(&self, phase: BackupPhase) {
        self.direct.patch::<Backup>("b", &json!({"status": {"phase": phase}})).await.unwrap();
    }

    async fn delete(&self) {
        assert!(self.direct.delete::<Backup>("b").await.unwrap());
    }

    fn breaks(&self, path: &str, nth: Nth, fault: Fault) {
        self.proxy.script(vec![Rule::new("GET", path, nth, fault)]);
    }

    /// The requests that were made since the last call, and how they were answered.
    fn asked(&self) -> Vec<(&'static str, u16)> {
        let kind = |path: &str| match path {
            path if path.contains("watch=true") => "watch",
            path if path.contains("fieldSelector") => "list",
            _ => "get",
        };
        self.proxy.take_seen().iter().map(|seen| (kind(&seen.path), seen.status)).collect()
    }
}

async fn client(kubeconfig: &str, request_timeout: Option<Duration>) -> Client {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, kubeconfig).unwrap();
    let options = ConnectOptions { kubeconfig: Some(file.path().into()), request_timeout, ..ConnectOptions::default() };
    Client { cluster: Cluster::connect(&options).await.unwrap(), namespace: "velero".to_owned() }
}

fn answer(status: u16, reason: &str) -> Fault {
    let body = json!({"kind": "Status", "code": status, "reason": reason, "message": reason});
    Fault::Answer { status, headers: vec![], body: body.to_string() }
}

/// The next phase, or the end; "none" for an object without a phase.
async fn next(follow: &mut Follow<Backup>) -> &'static str {
    match follow.next().await.unwrap() {
        FollowedObject::Is(backup) => backup.status.phase.map_or("none", BackupPhase::as_str),
        FollowedObject::Gone => "gone",
    }
}

#[tokio::test]
async fn what_is_there_comes_first_then_each_change_then_the_end() {
    let ground = Ground::start().await;
    let mut follow = ground.through.follow::<Backup>("b");
    assert_eq!(next(&mut follow).await, "none");
    // What happens before the watch runs is not missed, and what happens to others is not seen.
    ground.becomes(BackupPhase::InProgress).await;
    ground.create("other").await;
    ground.becomes(BackupPhase::Completed).await;
    assert_eq!(next(&mut follow).await, "InProgress");
    assert_eq!(next(&mut follow).await, "Completed");
    ground.delete().await;
    assert_eq!(next(&mut follow).await, "gone");
    assert_eq!(next(&mut follow).await, "gone");
    assert_eq!(ground.asked(), [("get", 200), ("watch", 200)]);
}

#[tokio::test]
async fn an_object_that_is_not_there_is_gone() {
    let ground = Ground::start().await;
    assert_eq!(ground.through.follow::<Backup>("none").next().await.unwrap(), FollowedObject::Gone);
}

#[tokio::test]
async fn an_object_that_is_deleted_before_the_watch_is_gone() {
    let ground = Ground::start().await;
    let mut follow = ground.through.follow::<Backup>("b");
    assert_eq!(next(&mut follow).await, "none");
    ground.delete().await;
    // The watch alone tells of it: no get comes after it.
    assert_eq!(next(&mut follow).await, "gone");
    assert_eq!(ground.asked(), [("get", 200), ("watch", 200)]);
}

#[tokio::test]
async fn a_watch_that_ends_or_breaks_resumes_from_a_get_without_duplicates() {
    let ends = Fault::Answer { status: 200, headers: vec![], body: String::new() };
    for fault in [ends, Fault::Truncate(0)] {
        let ground = Ground::start().await;
        ground.breaks(WATCHES, Nth::First(2), fault.clone());
        let mut follow = ground.through.follow::<Backup>("b");
        assert_eq!(next(&mut follow).await, "none");
        let mut asked = Vec::new();
        let changes = async {
            while asked.iter().filter(|(kind, _)| *kind == "watch").count() < 3 {
                asked.extend(ground.asked());
                tokio::task::yield_now().await;
            }
            ground.becomes(BackupPhase::Completed).await;
        };
        assert_eq!(tokio::join!(next(&mut follow), changes).0, "Completed", "{fault:?}");
        assert_eq!(asked, [[("get", 200), ("watch", 200)]; 3].concat(), "{fault:?}");
    }
}

#[tokio::test]
async fn what_changed_while_no_watch_ran_is_seen_by_the_get() {
    let ground = Ground::start().await;
    ground.breaks(WATCHES, Nth::First(1), Fault::Truncate(0));
    let mut follow = ground.through.follow::<Backup>("b");
    assert_eq!(next(&mut follow).await, "none");
    ground.becomes(BackupPhase::InProgress).await;
    ground.becomes(BackupPhase::Completed).await;
    assert_eq!(next(&mut follow).await, "Completed");
}

#[tokio::test]
async fn an_object_deleted_between_watches_is_gone_even_if_its_name_is_reused() {
    for taken in [false, true] {
        let ground = Ground::start().await;
        ground.breaks(WATCHES, Nth::Only(1), Fault::Truncate(0));
        let mut follow = ground.through.follow::<Backup>("b");
        assert_eq!(next(&mut follow).await, "none");
        ground.delete().await;
        if taken {
            ground.create("b").await;
        }
        assert_eq!(next(&mut follow).await, "gone", "{taken}");
    }
}

#[tokio::test]
async fn a_revision_that_is_too_old_for_a_watch_is_replaced_by_that_of_a_list() {
    let ground = Ground::start().await;
    ground.breaks(WATCHES, Nth::Only(1), answer(410, "Expired"));
    let mut follow = ground.through.follow::<Backup>("b");
    assert_eq!(next(&mut follow).await, "none");
    ground.becomes(BackupPhase::InProgress).await;
    assert_eq!(next(&mut follow).await, "InProgress", "by the list");
    ground.becomes(BackupPhase::Completed).await;
    assert_eq!(next(&mut follow).await, "Completed", "by the watch");
    assert_eq!(ground.asked(), [("get", 200), ("watch", 410), ("list", 200), ("watch", 200)]);

    let ground = Ground::start().await;
    ground.breaks(WATCHES, Nth::Only(1), answer(410, "Expired"));
    let mut follow = ground.through.follow::<Backup>("b");
    assert_eq!(next(&mut follow).await, "none");
    ground.delete().await;
    assert_eq!(next(&mut follow).await, "gone", "the list is empty");
}

#[tokio::test]
async fn who_may_read_and_not_watch_gets_each_state_by_gets() {
    let forbidden = || answer(403, "Forbidden");
    let watches = Rule::new("GET", WATCHES, Nth::Every, forbidden());
    let expires = Rule::new("GET", WATCHES, Nth::Only(1), answer(410, "Expired"));
    let lists = Rule::new("GET", "*fieldSelector*", Nth::Every, forbidden());
    for (rules, refused) in
        [(vec![watches], vec![("watch", 403)]), (vec![expires, lists], vec![("watch", 410), ("list", 403)])]
    {
        let ground = Ground::start().await;
        ground.proxy.script(rules);
        let mut follow = ground.through.follow::<Backup>("b");
        assert_eq!(next(&mut follow).await, "none");
        ground.becomes(BackupPhase::Completed).await;
        assert_eq!(next(&mut follow).await, "Completed");
        ground.delete().await;
        assert_eq!(next(&mut follow).await, "gone");
        let gets = [("get", 200), ("get", 404)];
        assert_eq!(ground.asked(), [&[("get", 200)][..], &refused, &gets].concat());
    }
}

#[tokio::test]
async fn a_server_that_is_away_for_longer_than_a_request_may_take_is_waited_for() {
    for fault in [answer(503, "ServiceUnavailable"), Fault::CutBefore] {
        let ground = Ground::start().await;
        ground.proxy.script(vec![
            Rule::new("GET", WATCHES, Nth::Only(1), Fault::Truncate(0)),
            // The first one passes. One that is given up was tried five times or less.
            Rule::new("GET", GETS, Nth::Only(1), Fault::Delay(Duration::ZERO)),
            Rule::new("GET", GETS, Nth::First(8), fault.clone()),
        ]);
        let mut follow = ground.through.follow::<Backup>("b");
        assert_eq!(next(&mut follow).await, "none");
        ground.becomes(BackupPhase::Completed).await;
        assert_eq!(next(&mut follow).await, "Completed", "{fault:?}");
    }
}

#[tokio::test]
async fn what_cannot_pass_is_an_error() {
    let ground = Ground::start().await;
    ground.breaks(GETS, Nth::Every, answer(403, "Forbidden"));
    let refused = ground.through.follow::<Backup>("b").next().await.unwrap_err();
    assert_eq!(refused.to_string(), "cannot get backups.velero.io/velero/b: Forbidden");

    // Rights that are lost on the way.
    ground.proxy.script(vec![
        Rule::new("GET", WATCHES, Nth::Every, answer(401, "Unauthorized")),
        Rule::new("GET", GETS, Nth::Only(1), Fault::Delay(Duration::ZERO)),
        Rule::new("GET", GETS, Nth::From(2), answer(401, "Unauthorized")),
    ]);
    let mut follow = ground.through.follow::<Backup>("b");
    assert_eq!(next(&mut follow).await, "none");
    let refused = follow.next().await.unwrap_err();
    assert_eq!(refused.to_string(), "cannot get backups.velero.io/velero/b: Unauthorized");

    // What an API server says of a type that it does not serve.
    let body = "404 page not found\n".to_owned();
    ground.breaks(GETS, Nth::Every, Fault::Answer { status: 404, headers: vec![], body });
    let unserved = ground.through.follow::<Backup>("b").next().await.unwrap_err();
    assert_eq!(unserved.to_string(), "cannot get backups.velero.io/velero/b: 404 page not found");

    ground.proxy.script(Vec::new());
    ground.direct.patch::<Backup>("b", &json!({"spec": {"includedNamespaces": 1}})).await.unwrap();
    let unreadable = ground.through.follow::<Backup>("b").next().await.unwrap_err();
    assert!(unreadable.to_string().starts_with("cannot read b: the answer is not valid: "), "{unreadable}");
}

#[tokio::test]
async fn a_wait_that_is_broken_off_loses_no_state() {
    let ground = Ground::start().await;
    let mut follow = ground.through.follow::<Backup>("b");
    assert_eq!(next(&mut follow).await, "none");
    ground.becomes(BackupPhase::InProgress).await;
    assert_eq!(next(&mut follow).await, "InProgress", "the watch runs");
    for phase in [BackupPhase::Finalizing, BackupPhase::Completed] {
        ground.becomes(phase).await;
        let seen = loop {
            tokio::select! {
                biased;
                seen = next(&mut follow) => break seen,
                () = tokio::task::yield_now() => {}
            }
        };
        assert_eq!(seen, phase.as_str());
    }
}
