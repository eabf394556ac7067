//! The YAML of the pages below docs/ works as it stands there.

use crate::ground::Ground;
use crate::support::{program, run, with_object};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The YAML documents of all pages, by page.
fn examples() -> BTreeMap<String, Vec<String>> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut out = BTreeMap::new();
    for entry in std::fs::read_dir(docs).expect("the pages") {
        let path = entry.expect("a page").path();
        if path.extension().is_none_or(|ending| ending != "md") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a page");
        let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        // Values of the chart are rendered by a test of the chart.
        let blocks = blocks.filter(|block| !block.starts_with("# values.yaml\n"));
        let documents: Vec<String> = blocks.flat_map(|block| block.split("---\n")).map(str::to_owned).collect();
        if !documents.is_empty() {
            out.insert(path.file_name().expect("a name").to_string_lossy().into_owned(), documents);
        }
    }
    out
}

struct Place {
    ground: Ground,
    bucket: PathBuf,
}

impl Place {
    /// Asks the API server, or a dry run of the command that takes such a document.
    fn check(&self, page: &str, text: &str) {
        let value: Value = serde_saphyr::from_str(text).unwrap_or_else(|e| panic!("{page}: {e}\n{text}"));
        if value["kind"].is_string() {
            let mut object = value;
            if object["kind"] == "Pod" {
                // The pages show what hooks are about only.
                object["metadata"]["name"] = json!("example");
                let container = object["metadata"]["annotations"]["container"].as_str().unwrap_or("db").to_owned();
                object["spec"] = json!({"containers": [{"name": container, "image": "example"}]});
            }
            let args = ["create", "--dry-run=server", "--validate=strict"];
            with_object(&self.ground.kubectl(), &args, &object).unwrap_or_else(|e| panic!("{page}: {e:#}\n{text}"));
            return;
        }
        let file = self.ground.directories.path().join("example.yaml");
        std::fs::write(&file, text).expect("write");
        let file = file.display().to_string();
        let has = |key: &str| text.contains(key);
        let args = match () {
            () if has("resourceModifierRules") => {
                vec!["restore", "r", "--from-backup", "b", "--resource-modifiers", &file]
            }
            () if has("Policies") || has("FilterPolicy") || has("includeExcludePolicy") => {
                vec!["backup", "dry", "--resource-policies", &file]
            }
            () if has("postHooks") => vec!["restore", "r", "--from-backup", "b", "--spec", &file],
            () if has("hooks") => vec!["backup", "dry", "--spec", &file],
            () => panic!("{page}: nothing takes this:\n{text}"),
        };
        let run = self.local(&[&args[..], &["--dry-run"]].concat());
        assert_eq!(run.0, 0, "{page}: {}\n{text}", run.1);
    }

    fn local(&self, args: &[&str]) -> (i32, String) {
        let mut command = Command::new(program());
        command.arg("local").args(args).arg("--bucket").arg(&self.bucket);
        command.env("KUBECONFIG", self.ground.bed.plane.kubeconfig());
        let run = run(command.env("XDG_STATE_HOME", self.ground.directories.path()));
        (run.code, run.err)
    }
}

#[test]
fn the_examples_of_the_pages_are_taken_as_they_stand() {
    let ground = Ground::start();
    ground.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    let bucket = ground.directories.path().join("bucket");
    let place = Place { ground, bucket };
    let made = place.local(&["backup", "b", "--include-namespaces", "shop"]);
    assert_eq!(made.0, 0, "{}", made.1);
    let examples = examples();
    for (page, documents) in &examples {
        documents.iter().for_each(|document| place.check(page, document));
    }
    let pages: Vec<&str> = examples.keys().map(String::as_str).collect();
    for page in [
        "existing-resources.md",
        "hooks.md",
        "resource-modifiers.md",
        "resource-policies.md",
        "schedules.md",
        "server.md",
    ] {
        assert!(pages.contains(&page), "{page} has no example any more, or none is found");
    }
}
