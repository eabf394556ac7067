//! A sandbox with a few objects, of which there are backups.

use crate::support::{Run, Sandbox, local, ok, run};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const MANIFESTS: &str = r#"
{apiVersion: v1, kind: Namespace, metadata: {name: tea}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: menu, namespace: tea}, data: {of: today}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: old, namespace: tea}, data: {of: yesterday}}
---
{apiVersion: v1, kind: Secret, metadata: {name: key, namespace: tea}, data: {k: c2VjcmV0}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: leaves, namespace: tea},
  spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: kettle, namespace: tea},
  spec: {containers: [{name: c, image: i}], volumes: [{name: v, persistentVolumeClaim: {claimName: leaves}}]}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: "tea:a*b"}, rules: []}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: "tea:axb"}, rules: []}
"#;

/// A sandbox, and a folder with a bucket.
pub(crate) struct Tea {
    pub(crate) sandbox: Sandbox,
    pub(crate) folder: TempDir,
}

impl Tea {
    /// With a backup `first` of everything.
    pub(crate) fn saved() -> Self {
        let tea = Self { sandbox: Sandbox::start(MANIFESTS), folder: tempfile::tempdir().expect("a folder") };
        tea.back_up("first");
        tea
    }

    pub(crate) fn back_up(&self, name: &str) {
        let backup = local(&self.sandbox.kubeconfig(), self.folder.path(), &["backup", name]);
        assert_eq!(backup.code, 0, "{backup:?}");
    }

    pub(crate) fn kubectl(&self, args: &[&str]) -> String {
        ok(&self.sandbox.kubectl(), args)
    }

    pub(crate) fn lose(&self, object: &str) {
        self.kubectl(&["delete", object, "--namespace=tea", "--force", "--grace-period=0"]);
    }

    /// The object, or null.
    pub(crate) fn get(&self, object: &str) -> Value {
        let args = ["get", object, "--namespace=tea", "--ignore-not-found", "--output=json"];
        serde_json::from_str(&self.kubectl(&args)).unwrap_or_default()
    }

    /// `lifeboat undelete LINE` from the bucket.
    pub(crate) fn undelete(&self, line: &str) -> Run {
        undelete(&self.sandbox.kubeconfig(), self.folder.path(), line)
    }

    /// The same, of which must come what is wanted.
    pub(crate) fn restored(&self, line: &str) -> Run {
        let run = self.undelete(&format!("{line} --confirm"));
        assert!(run.code == 0 && run.out.contains("Restore completed with status: Completed. "), "{line}: {run:?}");
        run
    }
}

/// `lifeboat undelete LINE` from the bucket of a folder; `~` stands for a blank within a word.
pub(crate) fn undelete(kubeconfig: &Path, folder: &Path, line: &str) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lifeboat"));
    let words = line.split(' ').map(|word| word.replace('~', " "));
    command.arg("undelete").args(words).arg("--bucket").arg(folder.join("bucket"));
    command.env("KUBECONFIG", kubeconfig).env("XDG_CACHE_HOME", folder.join("cache"));
    run(command.env("XDG_STATE_HOME", folder.join("state")))
}
