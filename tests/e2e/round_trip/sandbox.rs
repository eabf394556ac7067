//! The same walk with nothing but the binary: a sandbox serves the shop.

use crate::shop;
use crate::snapshot::{self, written};
use crate::support::{eventually, local, program, results};
use lifeboat_testbed::Kubectl;
use serde_json::json;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A sandbox that ends with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(kubeconfig: &Path) -> Served {
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testbed/fixtures/shop");
    let mut command = Command::new(program());
    command.args(["sandbox", "--kubeconfig"]).arg(kubeconfig).arg("--load").arg(shop);
    let served = Served(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary"));
    eventually("the kubeconfig", || kubeconfig.exists());
    served
}

#[test]
fn a_whole_shop_comes_back_in_a_sandbox() {
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    let _served = serve(&kubeconfig);
    let kubectl = Kubectl::new(&kubeconfig).expect("kubectl");
    shop::stock(&kubectl);
    let before = snapshot::of(&kubectl);
    let run = |args: &[&str]| {
        let run = local(&kubeconfig, folder.path(), args);
        assert_eq!(run.code, 0, "{args:?}: {run:?}");
    };

    run(&["backup", "all"]);
    run(&["verify", "all"]);
    shop::lose(&kubectl);
    run(&["restore", "back", "--from-backup", "all"]);
    let after = snapshot::settled(&kubectl, &before, &[]);
    assert_eq!(results(folder.path(), "back"), json!({"errors": {}, "warnings": {}}));

    run(&["restore", "again", "--from-backup", "all", "--existing-resource-policy", "update"]);
    assert_eq!(written(&after, &snapshot::of(&kubectl)), [""; 0]);
    assert_eq!(results(folder.path(), "again"), json!({"errors": {}, "warnings": {}}));
}
