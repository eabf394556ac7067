//! `cargo xtask deploy`: what of `deploy` is made of the objects of `lifeboat install`.

use crate::cargo;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The base of kustomize: no flag that an overlay could not add.
const BASE: [&str; 3] = ["--no-default-backup-location", "--use-volume-snapshots=false", "--no-secret"];
/// The flag of `lifeboat install` with whose output the chart gets the smaller rights.
const LESS: &str = "--least-privilege";

/// Writes the base of kustomize, and the definitions and the smaller rights of the chart.
pub(crate) fn write() -> Result<()> {
    put("kustomize/base/install.yaml", &install(&BASE, "yaml")?)?;
    put("helm/lifeboat/crds/definitions.yaml", &documents(&install(&["--crds-only"], "yaml")?)?)?;
    for (file, flags) in
        [("least-privilege.json", &[LESS][..]), ("least-privilege-node-agent.json", &[LESS, "--use-node-agent"])]
    {
        let objects: Value = serde_json::from_str(&install(&[&BASE[..], flags].concat(), "json")?)?;
        put(&format!("helm/lifeboat/files/{file}"), &format!("{:#}\n", rules(&objects)))?;
    }
    Ok(())
}

fn put(name: &str, content: &str) -> Result<()> {
    let path: PathBuf = Path::new("deploy").join(name);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

/// Prints the objects of `lifeboat install` in this form.
fn install(flags: &[&str], form: &str) -> Result<String> {
    let mut command = cargo();
    command.args(["run", "--quiet", "--bin", "lifeboat", "--", "install", "--dry-run", "--output", form]).args(flags);
    let output = command.output().context("run lifeboat install")?;
    if !output.status.success() {
        bail!("lifeboat install {}: {}", flags.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).context("what lifeboat install prints")
}

/// The items of a list in YAML, each as a document of its own: helm takes no list for definitions.
fn documents(list: &str) -> Result<String> {
    let items = list.lines().skip_while(|line| *line != "items:").skip(1);
    let mut out = String::new();
    for line in items.take_while(|line| line.is_empty() || line.starts_with(['-', ' '])) {
        if let Some(first) = line.strip_prefix("- ") {
            out.push_str("---\n");
            out.push_str(first);
        } else {
            out.push_str(line.strip_prefix("  ").unwrap_or(line));
        }
        out.push('\n');
    }
    ensure!(out.starts_with("---"), "there are no items");
    Ok(out)
}

/// The rules of each kind of role.
fn rules(objects: &Value) -> Value {
    let items = objects["items"].as_array().into_iter().flatten();
    let roles = items.filter(|object| object["rules"].is_array());
    roles
        .map(|role| (role["kind"].as_str().unwrap_or_default().to_owned(), role["rules"].clone()))
        .collect::<Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn items_become_documents() {
        let list = "apiVersion: v1\nitems:\n- a: 1\n  b:\n  - c: |\n      x\n\n      y\n- a: 2\nkind: List\n";
        assert_eq!(documents(list).unwrap(), "---\na: 1\nb:\n- c: |\n    x\n\n    y\n---\na: 2\n");
        assert!(documents("kind: List\n").is_err());
    }

    #[test]
    fn rules_are_those_of_roles() {
        let role = json!({"kind": "Role", "rules": [{"verbs": ["get"]}]});
        let objects = json!({"items": [{"kind": "RoleBinding", "roleRef": {}}, role]});
        assert_eq!(rules(&objects), json!({"Role": [{"verbs": ["get"]}]}));
    }
}
