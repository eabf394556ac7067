//! Commands in containers around backups and after restores, by servers that may die at any moment. No node runs the
//! pods: the proxy before the API server answers for their containers.

use crate::faults::{in_parallel, namespace};
use crate::ground::{Ground, Server};
use crate::support::{comes_to_be, ended, eventually, gunzip, gunzip_json, program, run};
use lifeboat_testbed::{ContainerCommand, Fault, Kill, Nth, Proxy, Ran, Rule};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

/// The containers of a test: what ran in them, and what they do then.
#[derive(Clone, Default)]
struct Containers(Arc<Mutex<Vec<String>>>);

impl Containers {
    fn behind(&self, proxy: &Proxy, answer: impl Fn(&ContainerCommand) -> Ran + Send + Sync + 'static) {
        let log = self.clone();
        proxy.run_commands_by(Arc::new(move |command| {
            let line = format!("{} {} {}", command.pod, command.container, command.words.join(" "));
            log.0.lock().expect("the log").push(line);
            answer(command)
        }));
    }

    fn log(&self) -> Vec<String> {
        self.0.lock().expect("the log").clone()
    }
}

fn pod(space: &str, name: &str, annotations: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": space, "labels": {"app": name}, "annotations": annotations},
        "spec": {"containers": [{"name": "web", "image": "i:1"}, {"name": "db", "image": "i:1"}]}})
}

/// A database that is frozen while it is saved.
fn database(space: &str) -> Value {
    let annotations = json!({
        "pre.hook.backup.velero.io/command": r#"["freeze", "/data"]"#,
        "pre.hook.backup.velero.io/container": "db",
        "post.hook.backup.velero.io/command": "thaw",
        "post.hook.backup.velero.io/container": "db",
    });
    pod(space, "db", &annotations)
}

fn exec(container: &str, word: &str) -> Value {
    json!({"exec": {"container": container, "command": [word], "onError": "Fail"}})
}

/// The API server as seen by clients through a proxy of their own.
fn through(ground: &Ground, name: &str) -> (Proxy, PathBuf) {
    Proxy::before_api_server(&ground.bed.plane.kubeconfig(), name).expect("a proxy")
}

#[test]
fn hooks_run_around_a_backup_and_after_its_restore() {
    let ground = Ground::start();
    let containers = Containers::default();
    let (proxy, kubeconfig) = through(&ground, "hooks");
    containers.behind(&proxy, |command| Ran { stdout: format!("{} is done", command.words[0]), ..Ran::default() });
    ground.create(&namespace("shop"));
    ground.create(&database("shop"));
    ground.create(&pod("shop", "web", &json!({})));
    let files = ground.directory("d", &json!({"default": true}));
    let _server = ground.server_with("one", &kubeconfig, &[]);
    ground.until("backupstoragelocation", "d", "Available");
    let hooks = json!({"resources": [{"name": "flush", "labelSelector": {"matchLabels": {"app": "web"}},
        "pre": [exec("", "flush"), exec("db", "sync")]}]});
    ground.velero("Backup", "b", &json!({"includedNamespaces": ["shop"], "hooks": hooks}));
    let backup = ground.until("backup", "b", "Completed");
    assert_eq!(backup["status"]["hookStatus"], json!({"hooksAttempted": 4}));
    let mut log = containers.log();
    log.sort();
    assert_eq!(
        log,
        ["shop/db db freeze /data", "shop/db db thaw", "shop/web db sync", "shop/web web flush"],
        "each pod in its own block"
    );
    let described =
        run(Command::new(program()).args(["backup", "describe", "b"]).env("KUBECONFIG", ground.bed.plane.kubeconfig()));
    assert!(described.out.contains("HooksAttempted:  4\nHooksFailed:     0\n"), "{described:?}");
    let log = String::from_utf8(gunzip(&files.join("backups/b/b-logs.gz"))).expect("text");
    assert!(log.contains("freeze is done"), "what a command prints is in the log of the backup: {log}");

    containers.0.lock().expect("the log").clear();
    let init = json!({"init": {"initContainers": [{"name": "fill", "image": "i:2", "command": ["fill"]}]}});
    let hooks = json!({"resources": [{"name": "load", "labelSelector": {"matchLabels": {"app": "db"}},
        "postHooks": [init, exec("db", "load"), exec("web", "tell")]}]});
    ground.velero("Restore", "r", &json!({"backupName": "b", "namespaceMapping": {"shop": "other"}, "hooks": hooks}));
    eventually("the restored pod", || ground.get_in("other", "pod", "db").is_object());
    let init = ground.get_in("other", "pod", "db")["spec"]["initContainers"][0]["name"].clone();
    assert_eq!(init, "fill");
    let state = |name: &str| {
        json!({"name": name, "image": "i:1", "imageID": "", "restartCount": 0, "ready": true,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}})
    };
    let status = json!({"status": {"phase": "Running", "containerStatuses": [state("db"), state("web")]}}).to_string();
    ground.bed.kubectl(&["patch", "pod", "db", "-n", "other", "--subresource=status", "--type=merge", "-p", &status]);
    let restore = ground.until("restore", "r", "Completed");
    assert_eq!(restore["status"]["hookStatus"], json!({"hooksAttempted": 2}));
    assert_eq!(containers.log(), ["other/db db load", "other/db web tell"]);
    let results = gunzip_json(&files.join("restores/r/restore-r-results.gz"));
    assert_eq!(results["errors"], json!({}));
}

/// When a server dies.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// At this command, before or after it ran.
    At(u64, Kill),
    /// It is paused in the middle of the first command, and goes on when another one has done its work.
    Paused,
}

#[test]
fn nothing_stays_frozen_when_a_server_dies() {
    let ground = Ground::start();
    let (freeze, thaw) = ("shop/db db freeze /data", "shop/db db thaw");
    ground.create(&namespace("shop"));
    ground.create(&database("shop"));
    let cases = [
        ("before-freeze", Death::At(1, Kill::Before), vec![thaw, freeze, thaw]),
        ("after-freeze", Death::At(1, Kill::After), vec![freeze, thaw, freeze, thaw]),
        ("before-thaw", Death::At(2, Kill::Before), vec![freeze, thaw, freeze, thaw]),
        // It is not known that it has run, so it runs again.
        ("after-thaw", Death::At(2, Kill::After), vec![freeze, thaw, thaw, freeze, thaw]),
        ("paused", Death::Paused, vec![freeze, thaw, freeze, thaw]),
    ];
    in_parallel(cases.len(), &cases, |(name, death, expected)| dies(&ground, name, *death, expected));
}

fn dies(ground: &Ground, name: &str, death: Death, expected: &[&str]) {
    let space = format!("velero-{name}");
    ground.create(&namespace(&space));
    ground.credentials(&space);
    ground.s3_location_in(&space, name, ground.s3.endpoint());
    let containers = Containers::default();
    let (first, kubeconfig) = through(ground, &format!("{name}-1"));
    let flags = ["--namespace", &space];
    let mut leader = ground.server_with(&format!("{name}-1"), &kubeconfig, &flags);
    first.victim(leader.0.id());
    let pid = leader.0.id().to_string();
    containers.behind(&first, move |command| {
        if matches!(death, Death::Paused) && command.words[0] == "freeze" {
            pause(&pid);
        }
        Ran::default()
    });
    if let Death::At(nth, kill) = death {
        let path = "/api/v1/namespaces/shop/pods/db/exec*";
        first.script(vec![Rule::new("*", path, Nth::Only(nth), Fault::Kill(kill))]);
    }
    ground.until_in(&space, "backupstoragelocation", name, "Available");
    ground.velero_in(&space, "Backup", "b", &json!({"includedNamespaces": ["shop"], "storageLocation": name}));
    if matches!(death, Death::Paused) {
        eventually("the pause", || !containers.log().is_empty());
    } else {
        ended(&mut leader.0);
        ground.end_lease(&space);
    }
    let (second, kubeconfig) = through(ground, &format!("{name}-2"));
    containers.behind(&second, |_| Ran::default());
    let _next = ground.server_with(&format!("{name}-2"), &kubeconfig, &flags);
    let backup = ground.until_in(&space, "backup", "b", "Completed");
    assert_eq!(containers.log(), expected, "{name}");
    assert_eq!(backup["status"]["hookStatus"], json!({"hooksAttempted": 2}), "{name}");
    if matches!(death, Death::Paused) {
        wakes(ground, &format!("{name}-1"), &mut leader);
        let logs = [1, 2].map(|number| ground.log(&format!("{name}-{number}"))).join("\n\n");
        assert_eq!(containers.log(), expected, "a server that wakes up too late runs nothing: {logs}");
    }
    // They go when its end is known.
    eventually(&format!("the end of the notes of {name}"), || ground.maps(&space).is_empty());
}

/// Stops a process, and waits until all of its threads stand still: until then it may act on what it is told.
fn pause(pid: &str) {
    assert!(Command::new("kill").args(["-STOP", pid]).status().expect("kill").success());
    let stands = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = task.and_then(|task| std::fs::read_to_string(task.path().join("stat"))).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    };
    eventually("the pause of all threads", || {
        std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads").all(stands)
    });
}

/// Lets a paused server go on, until it has seen that it leads no more.
fn wakes(ground: &Ground, identity: &str, leader: &mut Server) {
    leader.signal("CONT");
    let ends = comes_to_be(|| leader.0.try_wait().expect("its state").is_some());
    assert!(ends, "the server that was paused does not end: {}", ground.log(identity));
}

#[test]
fn the_same_command_thaws_what_a_local_backup_left_frozen() {
    let ground = Ground::start();
    let containers = Containers::default();
    let (proxy, kubeconfig) = through(&ground, "local");
    containers.behind(&proxy, |_| Ran::default());
    ground.create(&namespace("shop"));
    ground.create(&database("shop"));
    let bucket = ground.directories.path().join("bucket");
    let spec = ground.directories.path().join("spec.yaml");
    std::fs::write(
        &spec,
        "includedNamespaces: [shop]\nhooks: {resources: [{name: h, pre: [{exec: {command: [unused]}}]}]}\n",
    )
    .expect("a file");
    let command = || {
        let mut command = Command::new(program());
        command.args(["local", "backup", "b", "--bucket"]).arg(&bucket).arg("--spec").arg(&spec);
        command.env("KUBECONFIG", &kubeconfig).env("XDG_STATE_HOME", ground.directories.path().join("state"));
        command
    };
    let path = "/api/v1/namespaces/shop/pods/db/exec*";
    proxy.script(vec![Rule::new("*", path, Nth::Only(1), Fault::Kill(Kill::After))]);
    let mut first = command().spawn().expect("the command");
    proxy.victim(first.id());
    assert!(!ended(&mut first).success());
    proxy.no_victim();
    proxy.script(vec![]);
    let (freeze, thaw) = ("shop/db db freeze /data", "shop/db db thaw");
    assert_eq!(containers.log(), [freeze]);
    let second = run(&mut command());
    assert_eq!(
        (second.code, containers.log()),
        (0, vec![freeze, thaw, freeze, thaw].into_iter().map(str::to_owned).collect()),
        "{second:?}"
    );
}

/// Nothing listens where its kubelet should: the API server says so, and no command is begun. The command after the
/// backup is not tried for two minutes.
#[test]
fn a_pod_whose_node_does_not_answer_holds_no_backup_up() {
    let ground = Ground::start();
    let (proxy, kubeconfig) = through(&ground, "away");
    ground.create(&namespace("shop"));
    ground.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "away"}}));
    let address = json!({"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}});
    let patch = |what: &[&str], status: &Value| {
        let status = status.to_string();
        ground.bed.kubectl(&[&["patch"], what, &["--subresource=status", "--type=merge", "-p", &status]].concat());
    };
    patch(&["node", "away"], &address);
    let mut pod = database("shop");
    pod["spec"]["nodeName"] = "away".into();
    ground.create(&pod);
    let state = |name: &str| {
        json!({"name": name, "image": "i:1", "imageID": "", "restartCount": 0, "ready": true,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}})
    };
    patch(
        &["pod", "db", "-n", "shop"],
        &json!({"status": {"phase": "Running", "containerStatuses": [state("db"), state("web")]}}),
    );
    let files = ground.directory("d", &json!({"default": true}));
    let _server = ground.server_with("one", &kubeconfig, &[]);
    ground.until("backupstoragelocation", "d", "Available");
    let _ = proxy.take_seen();
    ground.velero("Backup", "b", &json!({"includedNamespaces": ["shop"]}));
    let backup = ground.until("backup", "b", "PartiallyFailed");
    assert_eq!(backup["status"]["hookStatus"], json!({"hooksAttempted": 2, "hooksFailed": 2}));
    let tried = proxy.take_seen().iter().filter(|seen| seen.path.contains("/pods/db/exec")).count();
    let results = gunzip_json(&files.join("backups/b/b-results.gz"));
    assert_eq!(tried, 2, "the command before the backup once, and the one after it once: {results}");
    assert!(results["errors"].to_string().contains("dial"), "{results}");
}
