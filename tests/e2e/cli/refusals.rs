//! Bad input gets a clear error, exit code 1, and changes nothing.

use crate::support::{Run, program, run};
use std::path::Path;
use std::process::Command;

pub(crate) fn local(args: &[&str], kubeconfig: &Path, home: &Path) -> Run {
    let mut command = Command::new(program());
    command.arg("local").args(args).env("KUBECONFIG", kubeconfig).env("HOME", home).env_remove("XDG_STATE_HOME");
    run(&mut command)
}

fn bed() -> std::path::PathBuf {
    let path = std::env::var_os("LIFEBOAT_TEST_KUBECONFIG").expect("run the tests by `make test`: it starts a cluster");
    path.into()
}

/// Arguments, and what the error says.
const CASES: [(&[&str], &str); 20] = [
    (&["backup", "b", "--bucket", "gopher://x"], "--bucket: gopher:// is not known"),
    (&["backup", "b", "--bucket", "file://relative"], "write an absolute path after file://"),
    (&["backup", "Bad_Name", "--bucket", "BUCKET"], "\"Bad_Name\" is not a valid name"),
    (&["backup", "Bad_Name", "--bucket", "BUCKET", "--dry-run"], "\"Bad_Name\" is not a valid name"),
    (&["backup", "b"], "--bucket <URL>"),
    (&["backup", "b", "--bucket", "BUCKET", "--no-such-flag"], "unknown flag: --no-such-flag"),
    (&["backup", "b", "--bucket", "BUCKET", "-l", "a=b,=c"], "unable to parse requirement"),
    (&["backup", "b", "--bucket", "BUCKET", "--ttl", "3 days"], "time: unknown unit \" days\" in duration \"3 days\""),
    (
        &["backup", "b", "--bucket", "BUCKET", "-l", "a=b", "--or-selector", "c=d or e=f"],
        "encountered labelSelector as well as orLabelSelectors in backup spec",
    ),
    (
        &[
            "backup",
            "b",
            "--bucket",
            "BUCKET",
            "--include-resources",
            "pods",
            "--include-namespace-scoped-resources",
            "pods",
        ],
        "include-resources",
    ),
    (&["backup", "b", "--bucket", "BUCKET", "--include-namespaces", "a**"], "consecutive asterisks"),
    (
        &["backup", "b", "--bucket", "BUCKET", "--resource-policies-configmap", "p"],
        "fail to get ResourcePolicies velero/p ConfigMap with error ConfigMap \"p\" not found",
    ),
    (&["backup", "b", "--bucket", "BUCKET", "--backup-type", "half"], "\"half\" is neither Full nor Incremental"),
    (&["restore", "r", "--bucket", "BUCKET"], "--from-backup <NAME>"),
    (
        &["restore", "r", "--from-schedule", "nightly", "--bucket", "BUCKET"],
        "no completed backup of schedule \"nightly\" is in directory",
    ),
    (&["restore", "r", "--from-backup", "none", "--bucket", "BUCKET"], "backup \"none\" not found in directory"),
    (
        &["restore", "r", "--from-backup", "none", "--bucket", "BUCKET", "--existing-resource-policy", "replace"],
        "[possible values: none, update, recreate, exact]",
    ),
    (
        &["restore", "r", "--from-backup", "none", "--bucket", "BUCKET", "--include-resources", "nodes"],
        "nodes are non-restorable resources",
    ),
    (&["verify", "none", "--bucket", "BUCKET"], "backup \"none\" not found in directory"),
    (&["ls", "--bucket", "BUCKET-that-nobody-made"], "there is no directory"),
];

#[test]
fn bad_input_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let bucket = folder.path().join("bucket").display().to_string();
    std::fs::create_dir(&bucket).expect("a bucket");
    for (args, expected) in CASES {
        let args: Vec<String> = args.iter().map(|a| a.replace("BUCKET", &bucket)).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let run = local(&args, &bed(), folder.path());
        assert!(run.err.contains(expected), "{args:?} says {run:?}, not {expected:?}");
        assert_eq!(run.code, 1, "{args:?}: {run:?}");
        assert_eq!(run.out, "", "{args:?}");
    }
    let left = std::fs::read_dir(folder.path().join("bucket")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "nothing may be written by a refused command");
    let new = folder.path().join("new");
    let run = local(&["backup", "Bad_Name", "--bucket", &new.display().to_string()], &bed(), folder.path());
    assert_eq!((run.code, new.exists()), (1, false), "{run:?}");
}

#[test]
fn a_cluster_that_is_not_there_is_said_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let bucket = folder.path().join("bucket").display().to_string();
    let args = ["backup", "b", "--bucket", &bucket];
    let none = folder.path().join("none");
    let run = local(&args, &none, folder.path());
    let missing = format!("cannot use the kubeconfig of $KUBECONFIG: there is no such file: {}", none.display());
    assert!(run.code == 1 && run.err.contains(&missing), "{run:?}");
    for (context, why) in [(None, "run in a pod ("), (Some("prod"), "(there is no kubeconfig with the context prod)")] {
        let mut command = Command::new(program());
        command.arg("local").args(args).args(context.map(|name| format!("--kubecontext={name}")));
        let run = crate::support::run(command.env_remove("KUBECONFIG").env("HOME", folder.path()));
        assert!(run.code == 1 && run.err.contains("no cluster is configured: give --kubeconfig"), "{run:?}");
        assert!(run.err.contains(why), "{run:?}");
    }
    // A pod of a cluster, with a kubeconfig of another one that is broken: its own cluster is not meant.
    std::fs::write(&none, "apiVersion: [").expect("write");
    let broken = none.display().to_string();
    let run = local(&["backup", "b", "--bucket", &bucket, "--kubeconfig", &broken], &none, folder.path());
    assert!(run.code == 1 && run.err.contains(&format!("cannot use the kubeconfig {broken}")), "{run:?}");
    let mut command = Command::new(program());
    command.args(["uninstall", "--force"]).env("KUBECONFIG", &broken);
    command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1").env("KUBERNETES_SERVICE_PORT", "1");
    let run = crate::support::run(&mut command);
    assert!(run.code == 1 && run.err.contains(&format!("cannot use the kubeconfig {broken}")), "{run:?}");
}

/// A kubeconfig of the same cluster with another token.
pub(crate) fn kubeconfig_with(token: &str, file: &Path) {
    with_token(&bed(), token, file);
}

/// A kubeconfig like this one, with another token.
pub(crate) fn with_token(kubeconfig: &Path, token: &str, file: &Path) {
    let text = std::fs::read_to_string(kubeconfig).expect("the kubeconfig");
    let (before, after) = text.split_once("token: ").expect("a token");
    let (_, after) = after.split_once('}').expect("its end");
    std::fs::write(file, format!("{before}token: {token}}}{after}")).expect("write");
}

#[test]
fn who_may_not_is_told_what_he_may_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let bucket = folder.path().join("bucket").display().to_string();
    let kubeconfig = folder.path().join("kubeconfig");
    let kubectl = lifeboat_testbed::Kubectl::new(&bed()).expect("kubectl");
    let token = kubectl.try_run(&["create", "token", "default", "--namespace=default"]).expect("a token");
    kubeconfig_with(token.trim(), &kubeconfig);
    let run = local(&["backup", "b", "--bucket", &bucket], &kubeconfig, folder.path());
    let expected = "cannot list namespaces: namespaces is forbidden: User \"system:serviceaccount:default:default\" cannot list resource \"namespaces\"";
    assert!(run.code == 1 && run.err.contains(expected), "{run:?}");
    kubeconfig_with("wrong", &kubeconfig);
    let run = local(&["backup", "b", "--bucket", &bucket], &kubeconfig, folder.path());
    assert!(run.code == 1 && run.err.contains("cannot get the server version: Unauthorized"), "{run:?}");
    let ls = local(&["ls", "--bucket", &bucket], &kubeconfig, folder.path());
    assert_eq!((ls.code, ls.out.as_str()), (0, ""), "{ls:?}");
}

#[test]
fn a_name_belongs_to_one_backup() {
    let folder = tempfile::tempdir().expect("a folder");
    let bucket = folder.path().join("bucket").display().to_string();
    let args = ["backup", "b", "--bucket", &bucket, "--include-namespaces", "default"];
    let run = local(&args, &bed(), folder.path());
    assert_eq!(run.code, 0, "{run:?}");
    let run = local(&args, &bed(), folder.path());
    let expected = "backup already exists in object storage: \"b\" in directory";
    assert!(run.code == 1 && run.err.contains(expected) && run.err.contains("choose another name"), "{run:?}");
}

#[test]
fn wrong_credentials_are_said_so() {
    let server = lifeboat_testbed::S3Server::start().expect("an S3 server");
    server.make_bucket("here").expect("a bucket");
    let folder = tempfile::tempdir().expect("a folder");
    let ls = |bucket: &str, secret: &str| {
        let url = format!("s3://{bucket}?region=us-east-1&endpoint={}", server.endpoint());
        let mut command = Command::new(program());
        command.args(["local", "ls", "--bucket", &url]).env("HOME", folder.path());
        command.env("AWS_ACCESS_KEY_ID", server.access_key()).env("AWS_SECRET_ACCESS_KEY", secret);
        run(&mut command)
    };
    let good = ls("here", server.secret_key());
    assert_eq!(good.code, 0, "{good:?}");
    let wrong = ls("here", "wrong");
    assert!(wrong.code == 1 && wrong.err.contains("SignatureDoesNotMatch"), "{wrong:?}");
    let missing = ls("nowhere", server.secret_key());
    assert!(missing.code == 1 && missing.err.contains("nowhere") && missing.err.contains("bucket"), "{missing:?}");
}
