//! The Helm chart over what is there: a release of Velero's chart, an installation by command line, definitions of
//! before.

use super::{Ground, chart};
use crate::support::{Run, program, run, with_object};
use serde_json::{Value, json};
use std::path::PathBuf;

impl Ground {
    fn helm(&self, args: &[&str]) -> Run {
        let mut command = chart::command(self.folder.path());
        let run = run(command.args(args).env("KUBECONFIG", self.bed.plane.kubeconfig()));
        assert_eq!(run.code, 0, "{args:?}: {run:?}");
        run
    }

    fn one(&self, namespace: &str, kind: &str, name: &str) -> Value {
        let found = self.json(&["get", kind, name, "-n", namespace]);
        assert!(found.is_object(), "there is no {kind} {name}");
        found
    }

    /// The service account that a namespace's cluster-wide rights are bound to, and the role.
    fn bound(&self, name: &str) -> (Value, Value) {
        let binding = self.json(&["get", "clusterrolebinding", name]);
        (binding["subjects"][0]["name"].clone(), binding["roleRef"]["name"].clone())
    }
}

fn path(file: PathBuf) -> String {
    file.display().to_string()
}

/// Whichever selector its Deployment has: nothing is refused, what has a name keeps it, and no object is made anew.
#[test]
fn a_release_of_veleros_chart_becomes_one_of_ours() {
    let ground = Ground::start();
    assert_eq!(ground.run(&["install", "--crds-only"]).code, 0);
    let (theirs, ours) = (path(chart::beside("velero-chart")), path(chart::chart()));
    let values = path(chart::beside("velero-values.yaml"));
    let kept = [
        ("deployment", "velero"),
        ("serviceaccount", "velero-server"),
        ("secret", "velero"),
        ("service", "velero"),
        ("backupstoragelocation", "default"),
        ("schedule", "velero-nightly"),
    ];
    for (namespace, selector) in [("velero", ""), ("older", "selector.name=velero")] {
        ground.helm(&["install", "velero", &theirs, "-n", namespace, "--create-namespace", "--set", selector]);
        let before = kept.map(|(kind, name)| ground.one(namespace, kind, name)["metadata"]["uid"].clone());
        let selected = ground.one(namespace, "deployment", "velero")["spec"]["selector"].clone();

        // No kubelet runs the Job of the hook. The cluster has no monitors.
        let more = ["--no-hooks", "--set", "metrics.serviceMonitor.enabled=false"];
        let upgrade = ["upgrade", "velero", &ours, "-n", namespace, "-f", &values];
        let upgraded = ground.helm(&[&upgrade[..], &more].concat());
        let said = chart::IGNORED.replace('\n', "\n  ");
        let said = said.lines().filter(|line| !line.contains("honorLabels")).collect::<Vec<_>>().join("\n");
        let notes = upgraded.out.lines().filter(|line| !line.contains("honorLabels")).collect::<Vec<_>>().join("\n");
        assert!(notes.contains(&format!("These values change nothing:\n\n  {said}")), "{}", upgraded.out);

        let after = kept.map(|(kind, name)| ground.one(namespace, kind, name)["metadata"]["uid"].clone());
        assert_eq!(after, before, "{namespace}");
        let deployment = ground.one(namespace, "deployment", "velero");
        assert_eq!(deployment["spec"]["selector"], selected, "{namespace}");
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], format!("lifeboat/lifeboat:v{}", env!("CARGO_PKG_VERSION")));
        assert_eq!(
            container["livenessProbe"]["httpGet"],
            json!({"path": "/healthz", "port": "http-monitoring", "scheme": "HTTP"})
        );
        let everything = if namespace == "velero" { "velero" } else { "velero-older" };
        assert_eq!(ground.bound(everything), (json!("velero-server"), json!("cluster-admin")));
        assert_eq!(ground.bound(&format!("{namespace}-velero-server")).1, Value::Null, "Velero's own is gone");

        // The smaller rights and back, though no binding can be given another role.
        let less = format!("{everything}-least-privilege");
        ground.helm(&[&upgrade[..], &more, &["--set", "leastPrivilege=true"]].concat());
        assert_eq!(ground.bound(&less), (json!("velero-server"), json!(less)));
        assert_eq!(ground.bound(everything).1, Value::Null);
        ground.helm(&[&upgrade[..], &more].concat());
        assert_eq!(ground.bound(everything).1, "cluster-admin");
        ground.helm(&["uninstall", "velero", "-n", namespace]);
        assert!(ground.json(&["get", "schedule", "velero-nightly", "-n", namespace]).is_null());
    }
    assert_eq!(ground.names(&["customresourcedefinitions", "-l", "component=velero"]).len(), 13, "backups stay known");
}

/// As `velero install` and ours leave it: helm is told to take it.
#[test]
fn an_installation_by_command_line_becomes_a_release() {
    let ground = Ground::start();
    ground.install(&[]);
    let before = ground.one("velero", "deployment", "velero");
    let values = "credentials: {existingSecret: cloud-credentials}\n\
                  configuration: {backupStorageLocation: [{provider: aws, bucket: install, default: true, config: {region: x}}]}\n";
    std::fs::write(ground.folder.path().join("values.yaml"), values).expect("write");
    let take = ["install", "velero", &path(chart::chart()), "-n", "velero", "-f", "values.yaml", "--no-hooks"];
    ground.helm(&[&take[..], &["--take-ownership"]].concat());
    let after = ground.one("velero", "deployment", "velero");
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["spec"]["selector"], json!({"matchLabels": {"deploy": "velero"}}));
    assert_eq!(ground.bound("velero"), (json!("velero-server"), json!("cluster-admin")));
    assert_eq!(ground.one("velero", "backupstoragelocation", "default")["spec"]["config"]["region"], "x");
    let volumes = after["spec"]["template"]["spec"]["volumes"].as_array().expect("volumes").clone();
    let secrets: Vec<_> = volumes.iter().filter_map(|volume| volume["secret"]["secretName"].as_str()).collect();
    assert_eq!(secrets, ["cloud-credentials"]);
}

/// The rights of the Job suffice for what it does.
#[test]
fn the_job_of_the_chart_brings_definitions_up_to_date() {
    let ground = Ground::start();
    assert_eq!(ground.run(&["install", "--crds-only"]).code, 0);
    ground.bed.kubectl(&["create", "namespace", "velero"]);
    let definition = "customresourcedefinitions/backups.velero.io";
    let cancel = |ground: &Ground| {
        let found = ground.json(&["get", definition]);
        found.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/cancel").is_some()
    };
    let remove =
        r#"[{"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/cancel"}]"#;
    ground.bed.kubectl(&["patch", definition, "--type=json", "-p", remove]);
    assert!(!cancel(&ground));

    let hooks = chart::hooks(&[""]);
    let (job, rights) = hooks.split_last().expect("hooks");
    for object in rights {
        with_object(&ground.kubectl(), &["apply"], object).unwrap_or_else(|e| panic!("{e:#}"));
    }
    let account = job["spec"]["template"]["spec"]["serviceAccountName"].as_str().expect("an account");
    let kubeconfig = ground.as_account("velero", account);
    let args: Vec<String> =
        serde_json::from_value(job["spec"]["template"]["spec"]["containers"][0]["args"].clone()).expect("flags");
    let mut command = std::process::Command::new(program());
    let run = run(command.args(args).env("KUBECONFIG", kubeconfig));
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
    assert!(cancel(&ground));
}
