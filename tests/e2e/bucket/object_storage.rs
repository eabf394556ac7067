//! Into a real S3 server and back.

use crate::support::{Run, program, run};
use lifeboat_testbed::S3Server;
use std::path::PathBuf;
use std::process::Command;

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run the tests by `make test`"))
}

struct Location {
    server: S3Server,
    folder: tempfile::TempDir,
    url: String,
}

impl Location {
    fn new(bucket: &str) -> Self {
        let server = S3Server::start().expect("an S3 server");
        server.make_bucket(bucket).expect("a bucket");
        let url = format!("s3://{bucket}/deep/er?region=us-east-1&endpoint={}", server.endpoint());
        Self { server, folder: tempfile::tempdir().expect("a folder"), url }
    }

    fn local(&self, args: &[&str]) -> Run {
        let mut command = Command::new(program());
        command.arg("local").args(args).arg("--bucket").arg(&self.url);
        command.env("KUBECONFIG", PathBuf::from(variable("LIFEBOAT_TEST_KUBECONFIG")));
        command.env("XDG_STATE_HOME", self.folder.path());
        command.env("AWS_ACCESS_KEY_ID", self.server.access_key());
        command.env("AWS_SECRET_ACCESS_KEY", self.server.secret_key());
        run(&mut command)
    }
}

/// scenario: NamespaceMapping
#[test]
fn a_namespace_goes_into_object_storage_and_back_under_another_name() {
    let location = Location::new("walk");
    let kubectl =
        lifeboat_testbed::Kubectl::new(&PathBuf::from(variable("LIFEBOAT_TEST_KUBECONFIG"))).expect("kubectl");
    kubectl.try_run(&["create", "namespace", "s3-walk"]).expect("a namespace");
    let literal = format!("--from-literal=big={}", "x".repeat(100_000));
    for n in 0..20 {
        kubectl.try_run(&["create", "configmap", &format!("big-{n}"), "--namespace=s3-walk", &literal]).expect("a map");
    }

    let run = location.local(&["backup", "one", "--include-namespaces", "s3-walk"]);
    assert_eq!(run.code, 0, "{run:?}");
    let run = location.local(&["verify", "one"]);
    assert!(run.code == 0 && run.out.starts_with("one: OK, 9 files"), "{run:?}");
    let run = location.local(&["ls"]);
    assert!(run.code == 0 && run.out.contains("one"), "{run:?}");
    let run = location.local(&["restore", "r", "--from-backup", "one", "--namespace-mappings", "s3-walk:s3-back"]);
    assert_eq!(run.code, 0, "{run:?}");
    let names = |namespace: &str| {
        let namespace = format!("--namespace={namespace}");
        kubectl.try_run(&["get", "configmaps", &namespace, "--output=name"]).expect("names")
    };
    assert_eq!(names("s3-back"), names("s3-walk"));
    assert_eq!(names("s3-back").lines().count(), 21);
}
