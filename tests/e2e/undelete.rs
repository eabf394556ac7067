//! Tests of `lifeboat undelete`, which brings back a single object.

mod shown;

use crate::faults::namespace;
use crate::ground::Ground;
use crate::shop;
use crate::snapshot::{self, Snapshot};
use crate::support::{Bed, Client, Sandbox, ended, eventually, local, ok, program, run};
use crate::tea::{Tea, undelete};
use lifeboat_testbed::{Fault, Kill, Nth, Proxy, Rule, Seen};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An object of each type of the shop: the first one, but those that hold others, which are lost with them.
fn one_of_each(shop: &Snapshot) -> BTreeMap<String, Value> {
    let of_shop = |object: &&Value| {
        let metadata = &object["metadata"];
        metadata["labels"]["app.kubernetes.io/part-of"] == "teahouse"
            || metadata["namespace"].as_str().is_some_and(|name| shop::NAMESPACES.contains(&name))
    };
    let holds_others =
        |object: &Value| matches!(object["kind"].as_str(), Some("Namespace" | "CustomResourceDefinition"));
    let mut found = BTreeMap::new();
    for object in shop.values().filter(of_shop).filter(|object| snapshot::is_kept(object) && !holds_others(object)) {
        let group =
            object["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group);
        let kind = object["kind"].as_str().expect("a kind").to_lowercase();
        let word = if group.is_empty() { kind } else { format!("{kind}.{group}") };
        found.entry(word).or_insert_with(|| object.clone());
    }
    found
}

#[test]
fn an_object_of_each_type_comes_back_as_it_was() {
    let shop_of = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testbed/fixtures/shop");
    let sandbox = Sandbox::start_with(&shop_of);
    let folder = tempfile::tempdir().expect("a folder");
    let kubectl = sandbox.kubectl();
    shop::stock(&kubectl);
    let before = snapshot::of(&kubectl);
    let backup = local(&sandbox.kubeconfig(), folder.path(), &["backup", "all"]);
    assert_eq!(backup.code, 0, "{backup:?}");

    let objects = one_of_each(&before);
    assert!(objects.len() > 25, "{:?}", objects.keys());
    for (word, object) in &objects {
        let metadata = &object["metadata"];
        let what = format!("{word}/{}", metadata["name"].as_str().expect("a name"));
        let namespace = metadata["namespace"].as_str();
        let flag = namespace.map(|name| format!("--namespace={name}"));
        if metadata["finalizers"].is_array() {
            let release = [&["patch", &what, "--type=merge", "--patch", r#"{"metadata":{"finalizers":null}}"#][..]];
            ok(&kubectl, &[&release.concat()[..], &flag.iter().map(String::as_str).collect::<Vec<_>>()].concat());
        }
        let delete = ["delete", &what, "--cascade=orphan", "--force", "--grace-period=0"];
        ok(&kubectl, &[&delete[..], &flag.iter().map(String::as_str).collect::<Vec<_>>()].concat());
        let place = namespace.map(|name| format!(" --object-namespace {name}")).unwrap_or_default();
        let line = format!("{}{place} --confirm", what.replace(' ', "~"));
        let run = undelete(&sandbox.kubeconfig(), folder.path(), &line);
        assert!(run.code == 0 && run.out.contains("\ncreate    "), "{what}: {run:?}");
    }
    snapshot::settled(&kubectl, &before, &[]);
}

#[test]
fn the_newest_backup_that_has_it_is_taken_unless_one_is_named() {
    let tea = Tea::saved();
    tea.kubectl(&["patch", "cm/menu", "-n", "tea", "--type=merge", "-p", r#"{"data":{"of":"tomorrow"}}"#]);
    tea.lose("cm/old");
    tea.back_up("second");
    tea.lose("cm/menu");
    let run = tea.restored("cm/menu --object-namespace tea");
    assert!(run.out.starts_with("configmaps/tea/menu is in the backup \"second\" of "), "{run:?}");
    assert_eq!(tea.get("cm/menu")["data"]["of"], "tomorrow");
    let run = tea.restored("configmap/old --object-namespace tea");
    assert!(run.out.starts_with("configmaps/tea/old is in the backup \"first\" of "), "{run:?}");
    assert_eq!(tea.get("cm/old")["data"]["of"], "yesterday");
    tea.restored("cm/menu --object-namespace tea --from first");
    assert_eq!(tea.get("cm/menu")["data"]["of"], "today");
    let nothing = tea.undelete("cm/menu --object-namespace tea --from first --confirm");
    assert!(nothing.code == 0 && nothing.err.contains("it is there as in the backup"), "{nothing:?}");
}

#[test]
fn what_no_backup_has_is_told_with_the_backups_that_were_looked_through() {
    let tea = Tea::saved();
    tea.lose("cm/old");
    tea.back_up("second");
    let told = |line: &str| {
        let run = tea.undelete(line);
        assert_eq!(run.code, 1, "{line}: {run:?}");
        run.err
    };
    let none = told("cm/none --object-namespace tea");
    assert!(
        none.contains("none of 2 backups has configmaps/tea/none; looked through, the newest first: second of "),
        "{none}"
    );
    assert!(none.contains(", first of "), "{none}");
    let unknown = told("kettles/a --object-namespace tea");
    let no_type = "the cluster has no type that is called \"kettles\" (`kubectl api-resources` lists those it has), and none of 2 backups \
                   has kettles/a (in the namespace tea";
    assert!(unknown.contains(no_type), "{unknown}");
    assert!(!none.contains("no type"), "{none}");
    let not_there = told("cm/old --object-namespace tea --from second");
    assert!(
        not_there.contains("the backup second of ") && not_there.contains("does not have configmaps/tea/old"),
        "{not_there}"
    );
    let cluster_scoped = told("clusterrole/tea:axb --object-namespace tea");
    assert!(cluster_scoped.contains("clusterroles.rbac.authorization.k8s.io are in no namespace"), "{cluster_scoped}");
    let not_a_backup = told("cm/old --from third");
    assert!(not_a_backup.contains("backup \"third\" not found in "), "{not_a_backup}");
    // The namespace of the kubeconfig's context, which has none.
    assert!(told("cm/old").contains("has configmaps/default/old"));
}

/// Overwrites a file; its size and age stay as they are.
fn spoil(path: &Path) {
    let before = std::fs::metadata(path).expect("the file");
    let file = File::options().write(true).open(path).expect("the file");
    let bytes = vec![0; usize::try_from(before.len()).expect("a size")];
    (&file).write_all(&bytes).expect("write");
    file.set_modified(before.modified().expect("a time")).expect("set the time");
}

#[test]
fn an_archive_that_does_not_have_it_is_not_opened() {
    let tea = Tea::saved();
    tea.lose("cm/old");
    tea.back_up("second");
    let file = |end: &str| tea.folder.path().join(format!("bucket/backups/second/second{end}"));
    // As Velero writes it: what is in it is remembered.
    std::fs::remove_file(file("-index.json.gz")).expect("the index");
    let line = "cm/old --object-namespace tea --dry-run";
    let first = tea.undelete(line);
    spoil(&file(".tar.gz"));
    let again = tea.undelete(line);
    for run in [first, again] {
        assert!(run.code == 0 && run.out.starts_with("configmaps/tea/old is in the backup \"first\" of "), "{run:?}");
        assert!(!run.err.contains("not looked through"), "{run:?}");
    }
    let spoiled = tea.undelete("cm/menu --object-namespace tea --dry-run");
    assert!(spoiled.err.contains("not looked through: second: "), "{spoiled:?}");
}

#[test]
fn unasked_no_older_backup_is_taken_for_one_that_cannot_be_read() {
    let tea = Tea::saved();
    tea.back_up("second");
    tea.lose("cm/menu");
    let file = |end: &str| tea.folder.path().join(format!("bucket/backups/second/second{end}"));
    std::fs::remove_file(file("-index.json.gz")).expect("the index");
    spoil(&file(".tar.gz"));
    let line = "cm/menu --object-namespace tea";
    let refused = tea.undelete(&format!("{line} --confirm"));
    assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{refused:?}");
    for part in [
        "An error occurred: configmaps/tea/menu is in first of ",
        ", but backups that may be newer could not be looked through: second: ",
        ". Nothing was restored; say by --from first that it is the one, or try again when they can be read\n",
    ] {
        assert!(refused.err.contains(part), "{refused:?} does not say {part:?}");
    }
    assert!(tea.get("cm/menu").is_null());
    let shown = tea.undelete(&format!("{line} --confirm --dry-run"));
    assert!(shown.code == 0 && shown.err.contains("warning: not looked through: second: "), "{shown:?}");
    tea.restored(&format!("{line} --from first"));
    assert_eq!(tea.get("cm/menu")["data"]["of"], "today");
}

#[test]
fn a_name_is_no_pattern() {
    let tea = Tea::saved();
    tea.lose("clusterrole/tea:a*b");
    tea.lose("clusterrole/tea:axb");
    tea.restored("clusterrole/tea:a*b");
    assert_eq!(tea.get("clusterrole/tea:a*b")["metadata"]["name"], "tea:a*b");
    assert!(tea.get("clusterrole/tea:axb").is_null());
}

#[test]
fn what_it_needs_comes_along_and_is_told_before() {
    let tea = Tea::saved();
    for object in ["pod/kettle", "pvc/leaves", "cm/old"] {
        tea.lose(object);
    }
    let line = "pod/kettle --object-namespace tea";
    let dry = tea.undelete(&format!("{line} --dry-run"));
    let needed = "Needed by these, and left as they are where they exist: persistentvolumeclaims/tea/leaves\n";
    assert!(
        dry.code == 0 && dry.out.contains("create    persistentvolumeclaims/tea/leaves\n") && dry.out.contains(needed),
        "{dry:?}"
    );
    tea.restored(line);
    assert!(tea.get("pod/kettle").is_object() && tea.get("pvc/leaves").is_object());
    assert!(tea.get("cm/old").is_null(), "nobody needs it");
}

#[test]
fn what_it_needs_is_not_changed_with_what_it_owned() {
    let tea = Tea::saved();
    let uid = tea.get("pod/kettle")["metadata"]["uid"].clone();
    let cup = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "cup", "namespace": "tea",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "kettle", "uid": uid}]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    tea.sandbox.kubectl().create(&cup).unwrap_or_else(|e| panic!("{e:#}"));
    tea.kubectl(&["label", "pvc/leaves", "-n", "tea", "of=today"]);
    tea.back_up("second");
    for object in ["pvc/cup", "pod/kettle"] {
        tea.lose(object);
    }
    tea.kubectl(&["label", "pvc/leaves", "-n", "tea", "of=never", "--overwrite"]);
    let line = "pod/kettle --object-namespace tea --with-owned --confirm";
    let refused = tea.undelete(line);
    let why = "being of a type of what was asked for: persistentvolumeclaims/tea/leaves. Undelete";
    assert!(refused.code == 1 && refused.err.contains(why), "{refused:?}");
    assert!(tea.get("pod/kettle").is_null() && tea.get("pvc/cup").is_null());
    let run = tea.undelete(&format!("{line} --existing-resource-policy none"));
    assert!(tea.get("pod/kettle").is_object() && tea.get("pvc/cup").is_object(), "{run:?}");
    assert_eq!(tea.get("pvc/leaves")["metadata"]["labels"]["of"], "never", "{run:?}");
}

/// A ConfigMap that another one owns.
fn owned(tea: &Tea, name: &str, owner: &str) {
    let uid = tea.get(&format!("cm/{owner}"))["metadata"]["uid"].clone();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "tea",
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "controller": true}]}});
    tea.sandbox.kubectl().create(&object).unwrap_or_else(|e| panic!("{e:#}"));
}

#[test]
fn what_it_owned_comes_back_with_it_and_belongs_to_it_again() {
    let tea = Tea::saved();
    owned(&tea, "page", "menu");
    owned(&tea, "line", "page");
    owned(&tea, "rust", "old");
    tea.back_up("second");
    let all = ["cm/line", "cm/page", "cm/menu", "cm/rust", "cm/old"];
    // The owners last: what they own would go with them.
    all.iter().for_each(|object| tea.lose(object));
    let run = tea.restored("cm/menu --object-namespace tea --with-owned");
    assert!(run.out.contains(", with 2 objects that it owned.\n"), "{run:?}");
    for (object, owner) in [("cm/page", "cm/menu"), ("cm/line", "cm/page")] {
        let references = tea.get(object)["metadata"]["ownerReferences"].clone();
        assert_eq!(references[0]["uid"], tea.get(owner)["metadata"]["uid"], "{object}: {references}");
    }
    assert!(tea.get("cm/rust").is_null() && tea.get("cm/old").is_null());
}

#[test]
fn what_it_owned_and_never_comes_back_is_not_missed() {
    let tea = Tea::saved();
    let owned_by = |kind: &str, version: &str, name: &str| {
        let uid = tea.get(&format!("{kind}/{name}"))["metadata"]["uid"].clone();
        json!([{"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": true}])
    };
    let make = |object: &Value| {
        tea.sandbox.kubectl().create(object).unwrap_or_else(|e| panic!("{e:#}"));
    };
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}});
    make(&json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "brew", "namespace": "tea"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": template}}}}));
    make(&json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template},
        "metadata": {"name": "brew-1", "namespace": "tea", "ownerReferences": owned_by("CronJob", "batch/v1", "brew")}}));
    let ended =
        r#"{"status":{"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:00:01Z","succeeded":1}}"#;
    tea.kubectl(&["patch", "job/brew-1", "-n", "tea", "--subresource=status", "--type=merge", "-p", ended]);
    tea.back_up("second");
    for object in ["job/brew-1", "cronjob/brew"] {
        tea.lose(object);
    }
    let line = "cronjob/brew --object-namespace tea --with-owned";
    let run = tea.restored(line);
    assert!(run.out.contains("skip      jobs.batch/tea/brew-1"), "{run:?}");
    assert!(tea.get("cronjob/brew").is_object() && tea.get("job/brew-1").is_null());
    let again = tea.undelete(&format!("{line} --confirm"));
    assert!(again.code == 0 && again.err.contains("it is there as in the backup"), "{again:?}");
}

/// Requests that list objects of a type, but for the configuration of actions.
fn lists_of(seen: &[Seen], plural: &str) -> usize {
    let is_list = |path: &str| {
        let of_type = path.split('?').next().is_some_and(|path| path.rsplit('/').next() == Some(plural));
        of_type && !path.contains("plugin-config")
    };
    seen.iter().filter(|one| one.method == "GET" && is_list(&one.path)).count()
}

#[test]
fn only_what_it_needs_is_looked_for_in_the_cluster() {
    let bed = Bed::start();
    let map = |namespace: &str, n: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("leaf-{n}"), "namespace": namespace}});
    // Enough of them for lists.
    let maps = ["shop", "tea"].iter().flat_map(|namespace| (0..60).map(move |n| map(namespace, n)));
    let items: Vec<Value> = [namespace("shop"), namespace("tea")].into_iter().chain(maps).collect();
    let all = json!({"apiVersion": "v1", "kind": "List", "items": items});
    bed.plane.kubectl().create(&all).unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(bed.local(&["backup", "first"]).code, 0);
    bed.kubectl(&["delete", "configmap", "leaf-7", "--namespace=shop"]);
    let (proxy, kubeconfig) = Proxy::before_api_server(&bed.plane.kubeconfig(), "proxied").expect("a proxy");
    let folder = bed.bucket().parent().expect("a folder").to_owned();
    let run = undelete(&kubeconfig, &folder, "cm/leaf-7 --object-namespace shop --confirm");
    assert!(run.code == 0 && run.out.contains("create    configmaps/shop/leaf-7"), "{run:?}");
    let seen = proxy.take_seen();
    let made = seen.iter().filter(|one| one.method == "POST").count();
    assert_eq!((made, lists_of(&seen, "configmaps")), (1, 0), "{seen:?}");
}

#[test]
fn the_namespace_is_made_when_it_is_gone() {
    let tea = Tea::saved();
    tea.kubectl(&["delete", "namespace", "tea", "--timeout=180s"]);
    let run = tea.restored("cm/menu --object-namespace tea");
    assert!(run.out.contains("create    namespaces/tea\ncreate    configmaps/tea/menu\n"), "{run:?}");
    assert_eq!(tea.get("cm/menu")["data"]["of"], "today");
    assert!(tea.get("cm/old").is_null());
}

#[test]
fn a_deployment_with_what_it_owned_goes_on_as_it_was() {
    let bed = Bed::start();
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    for object in [
        namespace("shop"),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}}),
    ] {
        bed.plane.kubectl().create(&object).unwrap_or_else(|e| panic!("{e:#}"));
    }
    let names = |types: &str| {
        let found = bed.kubectl(&["get", types, "--namespace=shop", "--output=name"]);
        found.lines().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let all = "deployments,replicasets,pods";
    eventually("the pods", || names("pods").len() == 2);
    let before = names(all);
    let backup = bed.local(&["backup", "first"]);
    assert_eq!(backup.code, 0, "{backup:?}");
    bed.kubectl(&["delete", "deployment", "web", "--namespace=shop", "--cascade=foreground", "--timeout=180s"]);
    assert_eq!(names(all), BTreeSet::new());
    let folder = bed.bucket().parent().expect("a folder").to_owned();
    let line = "deploy/web --object-namespace shop --with-owned --confirm";
    let run = undelete(&bed.plane.kubeconfig(), &folder, line);
    assert!(run.code == 0 && run.out.contains(", with 3 objects that it owned.\n"), "{run:?}");
    let owner = |object: &str, path: &str| {
        bed.kubectl(&["get", object, "--namespace=shop", &format!("--output=jsonpath={path}")])
    };
    eventually("the replica set is adopted", || {
        owner("replicasets", "{.items[*].metadata.ownerReferences[*].uid}")
            == owner("deployment/web", "{.metadata.uid}")
    });
    eventually("the pods are adopted", || {
        let of_pods = owner("pods", "{.items[*].metadata.ownerReferences[*].uid}");
        let of_set = owner("replicasets", "{.items[*].metadata.uid}");
        of_pods == format!("{of_set} {of_set}")
    });
    assert_eq!(names(all), before, "controllers have made nothing anew");
}

#[test]
fn what_was_cut_off_goes_on_although_all_objects_are_there() {
    let bed = Bed::start();
    let map = |name: &str, owners: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "shop", "ownerReferences": owners}})
    };
    for object in [namespace("shop"), map("menu", json!([]))] {
        bed.plane.kubectl().create(&object).unwrap_or_else(|e| panic!("{e:#}"));
    }
    let field = |name: &str, path: &str| {
        bed.kubectl(&["get", "configmap", name, "--namespace=shop", &format!("--output=jsonpath={path}")])
    };
    let owner =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "menu", "uid": field("menu", "{.metadata.uid}")}]);
    bed.plane.kubectl().create(&map("page", owner)).unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(bed.local(&["backup", "first"]).code, 0);
    bed.kubectl(&["delete", "configmap", "page", "menu", "--namespace=shop"]);

    let (proxy, kubeconfig) = Proxy::before_api_server(&bed.plane.kubeconfig(), "proxied").expect("a proxy");
    let path = "/api/v1/namespaces/shop/configmaps/*";
    proxy.script(vec![Rule::new("PATCH", path, Nth::Only(1), Fault::Kill(Kill::Before))]);
    let folder = bed.bucket().parent().expect("a folder").to_owned();
    let command = || {
        let mut command = Command::new(program());
        command.args(["undelete", "cm/menu", "--object-namespace=shop", "--with-owned", "--confirm", "--bucket"]);
        command.arg(bed.bucket()).env("KUBECONFIG", &kubeconfig).env("XDG_STATE_HOME", folder.join("state"));
        command
    };
    let mut first = command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command");
    proxy.victim(first.id());
    assert!(!ended(&mut first).success());
    proxy.no_victim();
    proxy.script(Vec::new());
    assert_eq!(field("page", "{.metadata.ownerReferences}"), "");
    // This one has the half of it.
    assert_eq!(bed.local(&["backup", "second"]).code, 0);
    let again = run(&mut command());
    assert!(again.code == 0 && again.out.contains("unchanged configmaps/shop/page"), "{again:?}");
    let goes_on = "Going on with the undelete that was cut off, from the backup first of ";
    assert!(again.err.contains(goes_on) && again.out.contains("is in the backup \"first\" of "), "{again:?}");
    assert_eq!(field("page", "{.metadata.ownerReferences[*].uid}"), field("menu", "{.metadata.uid}"));
    let done = run(&mut command());
    assert!(done.code == 0 && done.err.contains("it is there as in the backup"), "{done:?}");
    assert!(!done.err.contains("cut off") && done.out.contains("is in the backup \"second\" of "), "{done:?}");
}

/// A kubeconfig of the cluster for an account with this token.
fn kubeconfig_of(bed: &Bed, token: &str) -> PathBuf {
    let mut config: Value =
        serde_json::from_str(&bed.kubectl(&["config", "view", "--raw", "--output=json"])).expect("JSON");
    config["users"][0]["user"] = json!({"token": token});
    let path = bed.bucket().with_file_name("tenant");
    std::fs::write(&path, config.to_string()).expect("write");
    path
}

#[test]
fn who_may_edit_a_namespace_brings_its_objects_back() {
    let bed = Bed::start();
    let subject = json!([{"kind": "ServiceAccount", "name": "tenant", "namespace": "shop"}]);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "menu", "namespace": "shop"}, "data": {"of": "today"}});
    for object in [
        &namespace("shop"),
        &map,
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tenant", "namespace": "shop"}}),
        &json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "tenant", "namespace": "shop"},
            "subjects": subject, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}}),
    ] {
        bed.plane.kubectl().create(object).unwrap_or_else(|e| panic!("{e:#}"));
    }
    assert_eq!(bed.local(&["backup", "first"]).code, 0);
    let token = bed.kubectl(&["create", "token", "tenant", "--namespace=shop"]);
    let kubeconfig = kubeconfig_of(&bed, token.trim());
    let folder = bed.bucket().parent().expect("a folder").to_owned();
    bed.kubectl(&["delete", "configmap", "menu", "--namespace=shop"]);
    let run = undelete(&kubeconfig, &folder, "cm/menu --object-namespace shop --confirm");
    assert!(run.code == 0, "{run:?}");
    assert_eq!(bed.kubectl(&["get", "configmap", "menu", "-n", "shop", "--output=jsonpath={.data.of}"]), "today");
    // What the account may not write is refused by the API server, and said.
    bed.kubectl(&["delete", "rolebinding", "tenant", "--namespace=shop"]);
    bed.kubectl(&["delete", "configmap", "menu", "--namespace=shop"]);
    let refused = undelete(&kubeconfig, &folder, "cm/menu --object-namespace shop --confirm");
    assert!(refused.code != 0 && refused.err.contains("forbidden"), "{refused:?}");
}

#[test]
fn an_object_comes_back_through_the_server() {
    let ground = Ground::start();
    let server = ground.server("one");
    ground.directory("default", &json!({"default": true}));
    ground.until("backupstoragelocation", "default", "Available");
    ground.many("shop", 3);
    let back_up = |name: &str| {
        ground.velero("Backup", name, &json!({"includedNamespaces": ["shop"], "storageLocation": "default"}));
        ground.until("backup", name, "Completed");
    };
    back_up("first");
    let before = ground.maps("shop");
    let lost = before.keys().next().expect("a map").clone();
    ground.bed.kubectl(&["delete", "configmap", &lost, "--namespace=shop"]);
    back_up("second");
    let client = Client::new(ground.bed.plane.kubeconfig());
    let out = client.ok(&format!("undelete configmap/{lost} --object-namespace shop --confirm"));
    assert!(out.starts_with(&format!("configmaps/shop/{lost} is in the backup \"first\" of ")), "{out}");
    assert_eq!(ground.maps("shop"), before);
    let none = client.fails("undelete configmap/none --object-namespace shop");
    assert!(none.contains("none of 2 backups has configmap/none") && none.contains("second of "), "{none}");

    // Nobody answers: that is waited for once.
    drop(server);
    let requests = || {
        let all = ground.bed.kubectl(&["get", "downloadrequests", "--namespace=velero", "--output=name"]);
        all.lines().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let before = requests();
    let away = client.fails("undelete configmap/none --object-namespace shop --timeout 1s");
    assert_eq!(requests().difference(&before).count(), 1, "{away}");
    let skipped = "1 more in the storage location \"default\", for which the server was not asked any more";
    assert!(away.contains("second: ") && away.contains(skipped) && away.contains("--bucket"), "{away}");
}
