//! The Helm chart, as helm renders it.

mod command;
mod keys;
mod values;

pub(super) use values::IGNORED;

use crate::support::{Run, program, run};
use lifeboat_testbed::helm;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use tempfile::TempDir;

/// Helm, built once however many tests ask for it.
static HELM: LazyLock<PathBuf> = LazyLock::new(|| helm().expect("helm"));

pub(super) fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/lifeboat")
}

/// A file beside this one.
pub(super) fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("install").join(name)
}

/// Helm with a home of its own.
pub(super) fn command(home: &Path) -> Command {
    let mut command = Command::new(&*HELM);
    command.current_dir(home);
    for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(name, home);
    }
    command
}

/// A folder with the files that values and flags name.
fn folder(values: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut files = vec![("credentials".to_owned(), "[default]\n".to_owned()), ("ca.pem".to_owned(), "PEM".to_owned())];
    files.extend(values.iter().enumerate().map(|(n, values)| (format!("values-{n}.yaml"), (*values).to_owned())));
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).expect("write");
    }
    folder
}

/// Renders the chart with helm, for a release `velero`: with these values, each put over those before, and with more
/// flags.
fn template(values: &[&str], flags: &[&str]) -> Run {
    template_as("velero", values, flags)
}

fn template_as(release: &str, values: &[&str], flags: &[&str]) -> Run {
    let folder = folder(values);
    let mut command = command(folder.path());
    command.args(["template", release]).arg(chart()).args(["--kube-version", "1.34.0"]);
    for n in 0..values.len() {
        command.args(["--values", &format!("values-{n}.yaml")]);
    }
    run(command.args(flags))
}

fn documents(text: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
    documents.into_iter().filter(|document| !document.is_null()).collect()
}

fn name(object: &Value) -> String {
    format!("{} {}", object["kind"], object["metadata"]["name"]).replace('"', "")
}

fn is_hook(object: &Value) -> bool {
    object["metadata"]["annotations"]["helm.sh/hook"].is_string()
}

fn is_definition(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

fn by_name(objects: impl IntoIterator<Item = Value>) -> BTreeMap<String, Value> {
    objects.into_iter().map(|object| (name(&object), object)).collect()
}

/// The objects that helm installs, by kind and name; hooks have a test of their own.
fn rendered(values: &[&str], flags: &[&str]) -> BTreeMap<String, Value> {
    let run = template(values, flags);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{values:?}");
    by_name(documents(&run.out).into_iter().filter(|object| !is_hook(object)))
}

pub(super) fn hooks(values: &[&str]) -> Vec<Value> {
    documents(&template(values, &["-n", "velero"]).out).into_iter().filter(is_hook).collect()
}

/// The objects that the command prints, with no cluster to be found.
fn installed(flags: &str) -> Vec<Value> {
    let folder = folder(&[]);
    let mut command = Command::new(program());
    command.arg("install").args(flags.split_whitespace()).args(["--dry-run", "-o", "json"]);
    let run = run(command.current_dir(folder.path()).env("KUBECONFIG", folder.path().join("none")));
    assert_eq!(run.code, 0, "{flags}: {run:?}");
    let list: Value = serde_json::from_str(&run.out).expect("JSON");
    list["items"].as_array().expect("a list").clone()
}
