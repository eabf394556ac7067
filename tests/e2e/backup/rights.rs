//! Tests that a user who may read only some namespaces backs up those.

use crate::cli::refusals::{kubeconfig_with, local};
use crate::faults::{archived, config_maps, namespace, shared_plane};
use crate::support::gunzip_json;
use lifeboat_testbed::Kubectl;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Two namespaces that an account may read ConfigMaps of, and the account's kubeconfig.
struct Tenant {
    kubectl: Kubectl,
    names: [String; 2],
    folder: tempfile::TempDir,
}

impl Tenant {
    fn start(what: &str) -> Self {
        let kubectl = Kubectl::new(&shared_plane()).expect("kubectl");
        let names = ["a", "b"].map(|n| format!("{what}-{}-{n}", std::process::id()));
        let tenant = Self { kubectl, names, folder: tempfile::tempdir().expect("a folder") };
        let account = json!([{"kind": "ServiceAccount", "name": "tenant", "namespace": tenant.names[0]}]);
        for name in &tenant.names {
            tenant.create(&namespace(name));
            config_maps(name, 1).for_each(|map| tenant.create(&map));
            tenant.create(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": {"name": "tenant", "namespace": name},
                "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]}));
            tenant.create(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": {"name": "tenant", "namespace": name}, "subjects": account,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"}}));
        }
        tenant.create(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "tenant", "namespace": tenant.names[0]}}));
        let token = ["create", "token", "tenant", "--namespace", &tenant.names[0]];
        kubeconfig_with(tenant.kubectl.try_run(&token).expect("a token").trim(), &tenant.kubeconfig());
        tenant
    }

    fn create(&self, object: &Value) {
        self.kubectl.create(object).unwrap_or_else(|e| panic!("{e:#}"));
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Backs up as the account; gives exit code and results.
    fn back_up(&self, args: &[&str]) -> (i32, Value) {
        let bucket = self.folder.path().join("bucket").display().to_string();
        let all = [&["backup", "b", "--bucket", &bucket, "--include-resources", "configmaps"], args].concat();
        let run = local(&all, &self.kubeconfig(), self.folder.path());
        let results = Path::new(&bucket).join("backups/b/b-results.gz");
        assert!(results.exists(), "{run:?}");
        (run.code, gunzip_json(&results))
    }

    /// The ConfigMaps that were made, of those that the backup holds.
    fn saved(&self) -> Vec<String> {
        let mut all = archived(&self.folder.path().join("bucket/backups/b/b.tar.gz"));
        all.retain(|name| !name.ends_with("kube-root-ca.crt"));
        all
    }

    fn expected(&self) -> [String; 2] {
        self.names.each_ref().map(|name| format!("configmaps/{name}/map-0"))
    }
}

#[test]
fn who_may_not_list_namespaces_backs_up_those_that_are_named() {
    let tenant = Tenant::start("named");
    let (code, results) = tenant.back_up(&["--include-namespaces", &tenant.names.join(",")]);
    assert_eq!(code, 0, "{results}");
    assert_eq!(tenant.saved(), tenant.expected());
    assert_eq!(results["errors"], json!({}));
    for name in &tenant.names {
        let warning = results["warnings"]["namespaces"][name][0].as_str().unwrap_or_default();
        let begin = format!(
            "the Namespace {name} itself is not in the backup, only what is in it: cannot get namespaces/{name}"
        );
        assert!(warning.starts_with(&begin), "{results}");
    }
}

#[test]
fn a_type_that_may_not_be_listed_everywhere_is_listed_where_it_may() {
    let tenant = Tenant::start("partly");
    // The names of namespaces are no secret here.
    let name = &tenant.names[0];
    tenant.create(
        &json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list"]}]}),
    );
    tenant.create(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": name}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}}));
    let (code, results) = tenant.back_up(&[]);
    assert_eq!(code, 3, "{results}");
    assert_eq!(tenant.saved(), tenant.expected());
    let denied = results["errors"]["namespaces"]["default"][0].as_str().unwrap_or_default();
    assert!(denied.contains("Error listing items") && denied.contains("forbidden"), "{results}");
    assert!(tenant.names.iter().all(|name| results["errors"]["namespaces"][name].is_null()), "{results}");
}
