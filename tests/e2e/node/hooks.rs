//! Commands in real containers: an application that writes to its volume all the time is frozen by `fsfreeze`, and must
//! never stay so.

use super::turn::Turn;
use crate::faults::in_parallel;
use crate::ground::{Ground, Server};
use crate::support::{ended, eventually, program, run};
use lifeboat_testbed::{Fault, Kill, Nth, Proxy, Rule};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// Writes a number to its volume, again and again, each larger by one.
const WRITER: &str = "n=0; while true; do n=$((n+1)); echo $n > /data/number; sleep 0.05; done";
/// Notes that it runs, and freezes the volume; the pause is a moment in which a server can die.
const FREEZE: &str =
    "echo freeze >> /log/commands; fsfreeze --freeze /data; code=$?; cat /data/number; sleep 1; exit $code";
const THAW: &str = "echo thaw >> /log/commands; cat /data/number; fsfreeze --unfreeze /data";

/// A server's namespace and an application's on the node.
struct Place {
    ground: Ground,
    own: String,
    shop: String,
    // Given back when everything else has ended.
    _turn: Turn,
}

impl Place {
    fn start(name: &str) -> Self {
        let own = format!("velero-{name}");
        let turn = Turn::beside_others();
        let ground = Ground::with_node(&own);
        let place = Self { ground, own, shop: format!("shop-{name}"), _turn: turn };
        place.ground.bed.kubectl(&["create", "namespace", &place.shop]);
        let account = ["wait", "--for=create", "serviceaccount/default", "-n", &place.shop, "--timeout=180s"];
        place.ground.bed.kubectl(&account);
        place.ground.s3_location_in(&place.own, name, place.ground.s3.endpoint());
        place
    }

    fn server(&self, identity: &str, kubeconfig: &Path) -> Server {
        let server = self.ground.server_with(identity, kubeconfig, &["--namespace", &self.own]);
        self.ground.until_in(&self.own, "backupstoragelocation", self.location(), "Available");
        server
    }

    /// Named as the test is.
    fn location(&self) -> &str {
        self.own.trim_start_matches("velero-")
    }

    /// An application with a volume, frozen while it is saved.
    fn writer(&self) {
        self.ground.create(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": self.shop},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "csi",
                "resources": {"requests": {"storage": "16Mi"}}}}));
        let command = |script: &str| json!(["/bin/sh", "-c", script]).to_string();
        let annotations = json!({
            "pre.hook.backup.velero.io/command": command(FREEZE), "pre.hook.backup.velero.io/on-error": "Fail",
            "post.hook.backup.velero.io/command": command(THAW),
        });
        self.ground.create(&json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "db", "namespace": self.shop, "annotations": annotations},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [container("db", WRITER, json!({"securityContext": {"privileged": true},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "log", "mountPath": "/log"}]}))],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "log", "emptyDir": {}}],
        }}));
        self.until_ready("db");
    }

    fn until_ready(&self, pod: &str) {
        let pod = format!("pod/{pod}");
        self.ground.bed.kubectl(&["wait", "--for=condition=Ready", &pod, "-n", &self.shop, "--timeout=180s"]);
    }

    fn sh(&self, script: &str) -> String {
        self.ground.bed.kubectl(&["exec", "-n", &self.shop, "db", "-c", "db", "--", "/bin/sh", "-c", script])
    }

    /// The commands that have run in the application, in their order.
    fn commands(&self) -> Vec<String> {
        self.sh("cat /log/commands").lines().map(str::to_owned).collect()
    }

    fn writes_again(&self) {
        let number = || self.sh("cat /data/number").trim().parse::<u64>().unwrap_or_default();
        let before = number();
        eventually("a number that was written after the backup", || number() > before + 3);
    }

    fn backup(&self, rest: &Value) {
        let mut spec = json!({"includedNamespaces": [self.shop], "storageLocation": self.location()});
        spec.as_object_mut().expect("a map").extend(rest.as_object().cloned().unwrap_or_default());
        self.ground.velero_in(&self.own, "Backup", "b", &spec);
    }

    fn lifeboat(&self, args: &[&str]) -> String {
        let mut command = Command::new(program());
        command.args(args).args(["--namespace", &self.own]).env("KUBECONFIG", self.ground.bed.plane.kubeconfig());
        let run = run(&mut command);
        assert_eq!(run.code, 0, "{run:?}");
        run.out
    }
}

fn container(name: &str, script: &str, rest: Value) -> Value {
    let mut container = json!({"name": name, "image": "testbed.local/busybox:1", "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", script]});
    let map = container.as_object_mut().expect("a map");
    map.extend(rest.as_object().cloned().unwrap_or_default());
    container
}

/// scenario: Hooks
#[test]
#[ignore = "needs a node: make test-node"]
fn an_application_is_frozen_while_it_is_saved_and_told_of_its_restore() {
    let place = Place::start("still");
    place.writer();
    let _server = place.server("one", &place.ground.bed.plane.kubeconfig());
    place.backup(&json!({}));
    let backup = place.ground.until_in(&place.own, "backup", "b", "Completed");
    assert_eq!(backup["status"]["hookStatus"], json!({"hooksAttempted": 2}));
    assert_eq!(place.commands(), ["freeze", "thaw"]);
    place.writes_again();
    let logs = place.lifeboat(&["backup", "logs", "b"]);
    let printed: Vec<&str> = logs
        .lines()
        .filter(|line| line.contains("A hook printed"))
        .filter_map(|line| line.split_once("stdout=").map(|(_, rest)| rest))
        .map(|rest| rest.trim_start_matches('"').split(['\\', '"', ' ']).next().unwrap_or_default())
        .collect();
    assert!(matches!(printed[..], [before, after] if before == after && !before.is_empty()), "{logs}");

    let other = format!("{}-restored", place.shop);
    let init = json!({"init": {"initContainers": [container("fill", "echo filled > /data/filled", json!({
        "volumeMounts": [{"name": "data", "mountPath": "/data"}]}))]}});
    let tell = json!({"exec": {"container": "db", "command": ["/bin/sh", "-c", "cat /data/filled > /log/told"]}});
    let hooks = json!({"resources": [{"name": "tell", "postHooks": [init, tell]}]});
    let mapping = json!({&place.shop: other});
    let spec = json!({"backupName": "b", "namespaceMapping": mapping, "hooks": hooks});
    place.ground.velero_in(&place.own, "Restore", "r", &spec);
    let restore = place.ground.until_in(&place.own, "restore", "r", "Completed");
    assert_eq!(restore["status"]["hookStatus"], json!({"hooksAttempted": 1}));
    let told = place.ground.bed.kubectl(&["exec", "-n", &other, "db", "-c", "db", "--", "cat", "/log/told"]);
    assert_eq!(told, "filled\n");
    place.ground.bed.kubectl(&["delete", "namespace", &place.shop, &other, &place.own, "--wait=false"]);
}

#[test]
#[ignore = "needs a node: make test-node"]
fn nothing_stays_frozen_when_a_server_dies_at_a_command() {
    let cases = [
        ("before-freeze", 1, Kill::Before, vec!["thaw", "freeze", "thaw"]),
        ("in-freeze", 1, Kill::After, vec!["freeze", "thaw", "freeze", "thaw"]),
        ("before-thaw", 2, Kill::Before, vec!["freeze", "thaw", "freeze", "thaw"]),
        // It is not known that it has run, so it runs again.
        ("in-thaw", 2, Kill::After, vec!["freeze", "thaw", "thaw", "freeze", "thaw"]),
    ];
    in_parallel(2, &cases, |(name, nth, kill, expected)| {
        let place = Place::start(name);
        place.writer();
        let plane = place.ground.bed.plane.kubeconfig();
        let (proxy, kubeconfig) = Proxy::before_api_server(&plane, &format!("node-{name}")).expect("a proxy");
        let mut first = place.server("one", &kubeconfig);
        proxy.victim(first.0.id());
        let path = format!("/api/v1/namespaces/{}/pods/db/exec*", place.shop);
        proxy.script(vec![Rule::new("*", &path, Nth::Only(*nth), Fault::Kill(*kill))]);
        place.backup(&json!({}));
        ended(&mut first.0);
        place.ground.end_lease(&place.own);
        let _second = place.server("two", &plane);
        let backup = place.ground.until_in(&place.own, "backup", "b", "Completed");
        assert_eq!(place.commands(), *expected, "{name}");
        assert_eq!(backup["status"]["hookStatus"], json!({"hooksAttempted": 2}), "{name}");
        place.writes_again();
        place.ground.bed.kubectl(&["delete", "namespace", &place.shop, &place.own, "--wait=false"]);
    });
}

#[test]
#[ignore = "needs a node: make test-node"]
fn an_application_is_thawed_when_its_backup_is_cancelled() {
    let place = Place::start("cancelled");
    place.writer();
    let _server = place.server("one", &place.ground.bed.plane.kubeconfig());
    place.backup(&json!({}));
    eventually("the first command", || {
        let seen = ["exec", "-n", &place.shop, "db", "-c", "db", "--", "/bin/sh", "-c", "cat /log/commands || true"];
        place.ground.bed.kubectl(&seen).contains("freeze")
    });
    place.lifeboat(&["backup", "cancel", "b"]);
    eventually("the end of the backup", || {
        let status = place.ground.get_in(&place.own, "backup", "b");
        !matches!(status["status"]["phase"].as_str(), Some("New" | "InProgress") | None)
    });
    place.writes_again();
    assert_eq!(place.commands(), ["freeze", "thaw"]);
    place.ground.bed.kubectl(&["delete", "namespace", &place.shop, &place.own, "--wait=false"]);
}

#[test]
#[ignore = "needs a node: make test-node"]
fn what_cannot_run_is_one_error_each_and_the_rest_goes_on() {
    let place = Place::start("cannot");
    let pod = |name: &str, containers: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": place.shop, "labels": {"app": name}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": containers}})
    };
    let sleeps = |name: &str| container(name, "sleep 3600", json!({}));
    for (name, containers) in [
        ("hangs", json!([sleeps("a")])),
        ("lacks", json!([sleeps("a")])),
        ("ended", json!([sleeps("a"), container("b", "true", json!({}))])),
        ("waits", json!([{"name": "a", "image": "testbed.local/missing:1", "imagePullPolicy": "Never"}])),
        ("floods", json!([sleeps("a")])),
        ("good", json!([sleeps("a")])),
    ] {
        place.ground.create(&pod(name, containers));
    }
    ["hangs", "lacks", "floods", "good"].iter().for_each(|name| place.until_ready(name));
    eventually("the end of a container", || {
        let pod = place.ground.get_in(&place.shop, "pod", "ended");
        pod["status"]["containerStatuses"].to_string().contains("Completed")
    });
    let hook = |app: &str, container: &str, command: Value| {
        json!({"name": app, "labelSelector": {"matchLabels": {"app": app}}, "pre": [{"exec": {"container": container,
            "command": command, "timeout": "3s"}}]})
    };
    let hooks = json!({"resources": [
        hook("hangs", "a", json!(["sleep", "3600"])), hook("lacks", "a", json!(["/no/such/program"])),
        hook("ended", "b", json!(["true"])), hook("waits", "a", json!(["true"])),
        hook("floods", "a", json!(["/bin/sh", "-c", "yes | head -c 20000000"])), hook("good", "a", json!(["true"])),
    ]});
    let _server = place.server("one", &place.ground.bed.plane.kubeconfig());
    place.backup(&json!({"hooks": hooks}));
    let backup = place.ground.until_in(&place.own, "backup", "b", "PartiallyFailed");
    assert_eq!(backup["status"]["hookStatus"], json!({"hooksAttempted": 6, "hooksFailed": 4}), "{backup}");
    assert_eq!(backup["status"]["errors"], 4);
    let described = place.lifeboat(&["backup", "describe", "b", "--details", "-o", "json"]);
    for words in [
        "hook hangs: timed out after 3 s",
        "hook ended: the container b does not run: its process has ended",
        "/no/such/program",
        "hook waits: ",
    ] {
        assert!(described.contains(words), "{words} in {described}");
    }
    place.ground.bed.kubectl(&["delete", "namespace", &place.shop, &place.own, "--wait=false"]);
}
