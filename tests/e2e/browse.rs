//! A backup seen with kubectl.

mod clients;
mod kubectl;
mod printed;
mod raw;
mod since;
mod velero;

use crate::shop;
use crate::snapshot::{self, Snapshot};
use crate::support::{Bed, Sandbox, eventually, local, program, run};
use lifeboat_patch::restored::comparable;
use lifeboat_testbed::{Binaries, Kubectl};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// `lifeboat browse`, which ends with this value.
struct Browsing {
    process: Child,
    folder: TempDir,
}

impl Browsing {
    /// Opens a backup in a bucket.
    fn of(name: &str, bucket: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let process = Command::new(program())
            .args(["browse", name, "--bucket"])
            .arg(bucket)
            .arg("--write-kubeconfig")
            .arg(folder.path().join("kubeconfig"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary");
        let browsing = Self { process, folder };
        eventually("the kubeconfig", || browsing.kubeconfig().exists());
        browsing
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    fn kubectl(&self) -> Kubectl {
        Kubectl::new(&self.kubeconfig()).expect("kubectl")
    }
}

impl Drop for Browsing {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `lifeboat browse NAME MORE -- kubectl ARGS`.
fn browse(name: &str, more: &[&str], kubectl: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(["browse", name]).args(more).arg("--");
    command.arg(Binaries::ensure().expect("kubectl").path("kubectl")).args(kubectl);
    command
}

/// Every object that can be listed but events.
fn all(kubectl: &Kubectl) -> Snapshot {
    let types = kubectl.printed(&["api-resources", "--verbs=list", "--output=name"]).expect("types");
    let types: Vec<&str> = types.lines().filter(|name| !name.starts_with("events")).collect();
    let args = ["get", &types.join(","), "--all-namespaces", "--output=json", "--show-managed-fields"];
    let list: Value = serde_json::from_str(&kubectl.try_run(&args).expect("all objects")).expect("a list");
    list["items"].as_array().expect("items").iter().map(|object| (snapshot::name(object), object.clone())).collect()
}

#[test]
fn a_backup_shows_the_cluster_as_it_was() {
    let bed = Bed::start();
    let before = shop::backed_up(&bed);
    shop::lose(&bed.plane.kubectl());
    let browsing = Browsing::of("all", &bed.bucket());
    let kubectl = browsing.kubectl();
    let shown = all(&kubectl);
    // Leaders renew their leases all the time.
    let steady = |(key, _): &(&String, &Value)| !key.starts_with("Lease.");
    // The controller of autoscalers may write a status between the look at the cluster and the backup.
    let same = |live: &Value, object: &Value| {
        live == object || object["kind"] == "HorizontalPodAutoscaler" && comparable(live) == comparable(object)
    };
    let different: Vec<&String> = shown
        .iter()
        .filter(steady)
        .filter(|(key, object)| before.get(*key).is_some_and(|live| !same(live, object)))
        .map(|(key, _)| key)
        .collect();
    assert_eq!(different, [""; 0]);
    let is_event = |key: &&String| key.starts_with("Event.");
    let missing: Vec<&String> = before.keys().filter(|key| !shown.contains_key(*key) && !is_event(key)).collect();
    assert_eq!(missing, [""; 0]);
    let names = |args: &[&str]| kubectl.try_run(args).expect("names");
    // A custom type, by its short name and in pages.
    let catalogs = names(&["get", "catalogs", "--all-namespaces", "--output=name", "--chunk-size=1"]);
    let live = before.keys().filter(|key| key.starts_with("Catalog.")).count();
    assert_eq!(catalogs.lines().count(), live, "{catalogs}");
    let gold = names(&["get", "configmaps", "--namespace=storefront", "--selector=tier=gold", "--output=name"]);
    let is_gold = |object: &&Value| object["kind"] == "ConfigMap" && object["metadata"]["labels"]["tier"] == "gold";
    assert_eq!(gold.lines().count(), before.values().filter(is_gold).count(), "{gold}");
    let described = names(&["describe", "deployments", "--namespace=storefront"]);
    assert!(described.contains("Namespace:              storefront"), "{described}");
}

const MANIFESTS: &str = r#"
{apiVersion: v1, kind: Namespace, metadata: {name: tea}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: menu, namespace: tea}, data: {of: today}}
---
{apiVersion: v1, kind: Pod, metadata: {name: kettle, namespace: tea}, spec: {containers: [{name: c, image: i}]}}
"#;

#[test]
fn a_backup_can_be_read_and_nothing_else() {
    let sandbox = Sandbox::start(MANIFESTS);
    let folder = tempfile::tempdir().expect("a folder");
    let backup = local(&sandbox.kubeconfig(), folder.path(), &["backup", "nightly", "--include-namespaces", "tea"]);
    assert_eq!(backup.code, 0, "{backup:?}");
    let browsing = Browsing::of("nightly", &folder.path().join("bucket"));
    let kubectl = browsing.kubectl();
    // The namespace of all its objects is the one of the kubeconfig.
    assert_eq!(
        kubectl.try_run(&["get", "configmap/menu", "--output=jsonpath={.data.of}"]).expect("an object"),
        "today"
    );
    let refused = |args: &[&str]| kubectl.try_run(args).expect_err("a refusal").to_string();
    let what = "which can be read and not changed";
    for args in [
        &["delete", "configmap/menu"][..],
        &["label", "configmap/menu", "a=b"],
        &["create", "configmap", "other"],
        &["logs", "kettle"],
        &["exec", "kettle", "--", "true"],
    ] {
        let told = refused(args);
        assert!(told.contains("this is the backup \"nightly\" of ") && told.contains(what), "{args:?}: {told}");
    }
    assert_eq!(kubectl.try_run(&["auth", "can-i", "list", "pods"]).expect("an answer"), "yes\n");
    let told = kubectl.printed(&["auth", "can-i", "delete", "pods"]).expect("an answer");
    assert!(told.contains("no - this is the backup"), "{told}");
    let told = refused(&["get", "configmap/none"]);
    assert!(told.contains("configmaps \"none\" not found"), "{told}");
    // A watch shows what is there, and then nothing happens.
    let watched = ["get", "pods", "--watch", "--request-timeout=1s", "--output=name"];
    assert_eq!(kubectl.try_run(&watched).expect("a watch"), "pod/kettle\n");
}

#[test]
fn a_command_runs_with_the_backup_as_its_cluster_and_gives_its_exit_code() {
    let sandbox = Sandbox::start(MANIFESTS);
    let folder = tempfile::tempdir().expect("a folder");
    let backup = local(&sandbox.kubeconfig(), folder.path(), &["backup", "nightly"]);
    assert_eq!(backup.code, 0, "{backup:?}");
    let browse = |command: &str| {
        let mut browse = Command::new(program());
        browse.args(["browse", "nightly", "--bucket"]).arg(folder.path().join("bucket"));
        browse.arg("--scratch").arg(folder.path()).args(["--", "sh", "-c", command]);
        run(&mut browse)
    };
    let run = browse("cat \"$KUBECONFIG\"; exit 7");
    assert!(run.code == 7 && run.out.contains("current-context: \"nightly\""), "{run:?}");
    assert_eq!(browse("kill -9 $$").code, 137);
    let left: Vec<String> = std::fs::read_dir(folder.path())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("lifeboat-browse"))
        .collect();
    assert_eq!(left, [""; 0], "what was temporary");
    let mut none = Command::new(program());
    none.args(["browse", "other", "--bucket"]).arg(folder.path().join("bucket"));
    let none = crate::support::run(&mut none);
    assert!(none.code == 1 && none.err.contains("other"), "{none:?}");
}

/// A sandbox with [`MANIFESTS`] and a Secret, and a folder with a bucket in which its backup `first` lies.
fn saved() -> (Sandbox, TempDir) {
    let secret = "---\n{apiVersion: v1, kind: Secret, metadata: {name: key, namespace: tea}, data: {k: c2VjcmV0}}\n";
    let sandbox = Sandbox::start(&format!("{MANIFESTS}{secret}"));
    let folder = tempfile::tempdir().expect("a folder");
    let backup = local(&sandbox.kubeconfig(), folder.path(), &["backup", "first", "--include-namespaces", "tea"]);
    assert_eq!(backup.code, 0, "{backup:?}");
    (sandbox, folder)
}

/// `lifeboat ARGS --bucket BUCKET`, the bucket before what comes after a name.
fn lifeboat(folder: &TempDir, args: &[&str]) -> crate::support::Run {
    let mut command = Command::new(program());
    command.args(args).arg("--bucket").arg(folder.path().join("bucket"));
    run(&mut command)
}

#[test]
fn the_contents_of_a_backup_are_listed_printed_and_written_into_files() {
    let (_sandbox, folder) = saved();
    let run = lifeboat(&folder, &["local", "contents", "first"]);
    let listed: Vec<Vec<&str>> = run.out.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    assert!(listed.contains(&vec!["pods", "v1", "1"]) && listed.contains(&vec!["secrets", "v1", "1"]), "{run:?}");

    let bucket = folder.path().join("bucket").display().to_string();
    let contents = |args: &[&str]| {
        let mut command = Command::new(program());
        crate::support::run(command.args(["local", "contents", "first", "--bucket", &bucket]).args(args))
    };
    let menu = contents(&["get", "cm/menu", "--object-namespace", "tea"]);
    assert!(menu.code == 0 && menu.out.starts_with("---\n") && menu.out.contains("\n  of: today\n"), "{menu:?}");
    assert_eq!(contents(&["get", "pods", "-o", "name"]).out, "pods/tea/kettle\n");
    let hidden = contents(&["get", "secrets", "-o", "json"]);
    assert!(hidden.out.contains(r#""k":"(hidden)""#) && !hidden.out.contains("c2VjcmV0"), "{hidden:?}");
    assert!(contents(&["get", "secrets", "--show-secrets"]).out.contains("k: c2VjcmV0"));
    let none = contents(&["get", "pods/none"]);
    assert!(none.code == 1 && none.err.contains("has no pods/none"), "{none:?}");
    let unknown = contents(&["get", "kettles"]);
    assert!(unknown.code == 1 && unknown.err.contains("no type is called \"kettles\""), "{unknown:?}");

    let files = folder.path().join("files");
    let place = files.display().to_string();
    let extracted = contents(&["extract", &place, "--clean"]);
    assert!(
        extracted.code == 0 && extracted.err.contains("1 Secrets are left out") && extracted.err.contains("  tea/key"),
        "{extracted:?}"
    );
    assert!(!files.join("namespaces/tea/secrets").exists());
    let text = std::fs::read_to_string(files.join("namespaces/tea/configmaps/menu.yaml")).expect("a file");
    assert_eq!(
        text.trim_end(),
        "apiVersion: v1\ndata:\n  of: today\nkind: ConfigMap\nmetadata:\n  name: menu\n  namespace: tea"
    );
    assert!(files.join("cluster/namespaces/tea.yaml").exists());
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode(&files.join("namespaces/tea/configmaps/menu.yaml")), 0o600);
        assert_eq!([mode(&files), mode(&files.join("namespaces/tea"))], [0o700; 2]);
    }
    let again = contents(&["extract", &place]);
    assert!(again.code == 1 && again.err.contains("is not empty"), "{again:?}");
    let other = folder.path().join("other").display().to_string();
    assert_eq!(contents(&["extract", &other, "--show-secrets", "--include-resources", "secrets"]).code, 0);
    assert!(Path::new(&other).join("namespaces/tea/secrets/key.yaml").exists());
}

#[test]
fn a_diff_of_two_backups_names_objects_and_fields_and_sets_the_exit_code() {
    let (sandbox, folder) = saved();
    let kubectl = sandbox.kubectl();
    let backup = |name: &str| {
        let backup = local(&sandbox.kubeconfig(), folder.path(), &["backup", name, "--include-namespaces", "tea"]);
        assert_eq!(backup.code, 0, "{backup:?}");
    };
    backup("same");
    let same = lifeboat(&folder, &["diff", "first", "same"]);
    assert!(same.code == 0 && same.out.starts_with("0 added, 0 removed, 0 changed, "), "{same:?}");
    for args in [
        &["patch", "configmap/menu", "--namespace=tea", "--type=merge", "--patch", r#"{"data":{"of":"tomorrow"}}"#][..],
        &["patch", "secret/key", "--namespace=tea", "--type=merge", "--patch", r#"{"data":{"k":"b3RoZXI="}}"#],
        &["delete", "pod/kettle", "--namespace=tea", "--wait=false", "--grace-period=0", "--force"],
        &["create", "configmap", "new", "--namespace=tea"],
    ] {
        kubectl.try_run(args).expect("a change");
    }
    backup("second");
    let run = lifeboat(&folder, &["diff", "first", "second"]);
    let lines = "changed  configmaps/tea/menu\n           /data/of: \"today\" -> \"tomorrow\"\nadded    configmaps/tea/new\n\
                 removed  pods/tea/kettle\nchanged  secrets/tea/key\n           /data/k: \"(hidden)\" -> \"(hidden)\"\n\
                 1 added, 1 removed, 2 changed, ";
    assert!(run.code == 1 && run.out.starts_with(lines), "{run:?}");
    let only = lifeboat(&folder, &["diff", "first", "second", "--include-resources", "pods", "--stat"]);
    assert!(only.code == 1 && only.out.contains("\npods   0       1         0\n"), "{only:?}");
    for wrong in [&["diff", "first", "none"][..], &["diff", "first", "second", "--include-resources", "kettles"]] {
        let run = lifeboat(&folder, wrong);
        assert!(run.code == 2 && !run.err.is_empty(), "{run:?}");
    }
}
