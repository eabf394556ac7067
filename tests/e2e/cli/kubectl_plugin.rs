//! The program as a plugin of kubectl.

use crate::support::{Run, program, run};
use crate::tea::Tea;
use lifeboat_testbed::Binaries;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

fn kubectl() -> PathBuf {
    Binaries::ensure().expect("the programs of the test bed").path("kubectl")
}

/// kubectl with the plugin beside it.
struct Plugged<'a> {
    tea: &'a Tea,
    links: TempDir,
}

impl<'a> Plugged<'a> {
    fn of(tea: &'a Tea) -> Self {
        let links = tempfile::tempdir().expect("a folder");
        for name in ["kubectl-lifeboat", "kubectl_complete-lifeboat"] {
            std::os::unix::fs::symlink(program(), links.path().join(name)).expect("a link");
        }
        Self { tea, links }
    }

    /// `kubectl LINE`; `""` stands for an empty word.
    fn run(&self, line: &str) -> Run {
        let path = format!("{}:/usr/bin:/bin", self.links.path().display());
        let words = line.split(' ').map(|word| if word == "\"\"" { "" } else { word });
        let mut command = Command::new(kubectl());
        command.args(words).env("PATH", path).env("HOME", self.tea.folder.path());
        command.env("XDG_STATE_HOME", self.tea.folder.path().join("state"));
        run(command.env("KUBECONFIG", self.tea.sandbox.kubeconfig()).env_remove("VELERO_NAMESPACE"))
    }
}

#[test]
fn kubectl_runs_the_program_as_its_plugin() {
    let tea = Tea::saved();
    let plugged = Plugged::of(&tea);
    let bucket = tea.folder.path().join("bucket").display().to_string();
    let version = plugged.run("lifeboat version --client-only");
    assert!(version.code == 0 && version.out.contains("Version: v"), "{version:?}");
    let help = plugged.run("lifeboat undelete --help");
    assert!(help.code == 0 && help.out.contains("Usage: kubectl lifeboat undelete ["), "{help:?}");
    assert!(help.out.contains("--lifeboat-namespace <NAMESPACE>"), "{help:?}");
    let refused = plugged.run("lifeboat frob");
    assert!(
        refused.code == 1 && refused.err.contains("unknown command \"frob\" for \"kubectl lifeboat\""),
        "{refused:?}"
    );

    tea.lose("cm/menu");
    // As kubectl has it, -n is the namespace of the object.
    let undeleted = plugged.run(&format!("lifeboat undelete cm/menu -n tea --bucket {bucket} --confirm"));
    assert!(undeleted.code == 0 && tea.get("cm/menu").is_object(), "{undeleted:?}");
    tea.lose("cm/old");
    tea.back_up("second");
    let diff = |namespace: &str| {
        plugged.run(&format!("lifeboat -n {namespace} diff first second --bucket {bucket} --include-resources cm"))
    };
    let of_tea = diff("tea");
    assert!(of_tea.code == 1 && of_tea.out.contains("removed  configmaps/tea/old\n"), "{of_tea:?}");
    let of_other = diff("default");
    assert!(of_other.code == 0, "{of_other:?}");
    let browse =
        format!("lifeboat browse first -n tea --bucket {bucket} -- {} get cm/old -o name", kubectl().display());
    let browsed = plugged.run(&browse);
    assert!(browsed.code == 0 && browsed.out == "configmap/old\n", "{browsed:?}");
}

/// A definition of a custom type.
fn widgets() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}})
}

#[test]
fn kubectl_completes_the_commands_of_its_plugin() {
    let tea = Tea::saved();
    let plugged = Plugged::of(&tea);
    let offered = |line: &str| {
        let run = plugged.run(&format!("__complete lifeboat {line}"));
        assert_eq!(run.code, 0, "{line}: {run:?}");
        run.out
    };
    let commands = offered("und");
    assert!(commands.starts_with("undelete\tBring one object back") && commands.contains("\n:4\n"), "{commands}");
    let types = offered("undelete conf");
    assert!(types.starts_with("configmaps/\n") && types.contains("\n:6\n"), "{types}");
    tea.sandbox.kubectl().create(&widgets()).unwrap_or_else(|e| panic!("{e:#}"));
    let all = offered("undelete \"\"");
    let offers = |word: &str| all.lines().any(|line| line == word);
    assert!(offers("configmaps/") && offers("deployments.apps/") && offers("widgets.example.com/"), "{all}");
    for never in ["nodes/", "events/", "events.events.k8s.io/", "widgets/"] {
        assert!(!offers(never), "{never}: {all}");
    }
    let flags = offered("undelete --with-");
    assert!(flags.starts_with("--with-owned\t"), "{flags}");
}
