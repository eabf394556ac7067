//! `contents NAME extract FOLDER`: writes each object of a backup to a file of its own.

use super::objects::{ObjectPages, types_of};
use crate::backup_source::OpenBackup;
use anyhow::{Context, Result, bail};
use clap::Args;
use lifeboat_object::{GroupResource, printable};
use lifeboat_patch::restored::comparable;
use lifeboat_terminal::flags::{self, List};
use lifeboat_terminal::output::yaml;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The longest name of a file on common file systems, in bytes.
const LONGEST: usize = 255;
/// Metadata with which no API server takes an object that is applied.
const REFUSED: [&str; 3] = ["resourceVersion", "uid", "managedFields"];

/// Objects to write, and the file to write to.
#[derive(Debug, Args)]
pub(crate) struct ExtractArgs {
    /// The folder to write to: a new or an empty one
    folder: PathBuf,
    /// Only objects of these types, by plural, singular, short name or kind
    #[arg(long, value_parser = flags::list, default_value = "", value_name = "TYPES")]
    include_resources: List,
    /// Only objects of these namespaces
    #[arg(long, value_parser = flags::list, default_value = "", value_name = "NAMESPACES")]
    pub(super) include_namespaces: List,
    /// Leave out what servers and controllers have written: status, owners, times and the like
    #[arg(long)]
    clean: bool,
    /// Write Secrets too, with their values; otherwise they are left out and named
    #[arg(long)]
    show_secrets: bool,
}

impl ExtractArgs {
    pub(super) async fn run(self, opened: &OpenBackup) -> Result<()> {
        let resources = self.resources(opened)?;
        prepare(&self.folder)?;
        let (mut written, mut left_out) = (0_usize, Vec::new());
        for resource in resources {
            // Each namespace alone, or all at once.
            let namespaces: Vec<Option<String>> = match self.include_namespaces.0.as_slice() {
                [] => vec![None],
                names => names.iter().collect::<BTreeSet<_>>().into_iter().map(|name| Some(name.clone())).collect(),
            };
            for namespace in namespaces {
                let mut objects = ObjectPages::of(&opened.store, resource.clone(), namespace, None)?;
                loop {
                    let page = objects.next(self.show_secrets).await?;
                    if page.is_empty() {
                        break;
                    }
                    for object in page {
                        if resource.is_secrets() && !self.show_secrets {
                            left_out.push(place_of(&object));
                            continue;
                        }
                        self.write(&resource, &object)?;
                        written += 1;
                    }
                }
            }
        }
        writeln!(std::io::stdout(), "{written} objects are in {}", self.folder.display())?;
        if !left_out.is_empty() {
            let mut err = std::io::stderr();
            writeln!(err, "{} Secrets are left out; --show-secrets writes them with their values:", left_out.len())?;
            for place in left_out {
                writeln!(err, "  {}", printable(place))?;
            }
        }
        Ok(())
    }

    fn resources(&self, opened: &OpenBackup) -> Result<BTreeSet<GroupResource>> {
        if self.include_resources.0.is_empty() {
            return Ok(opened.store.contents().into_iter().map(|of_type| of_type.resource).collect());
        }
        let mut found = BTreeSet::new();
        for word in &self.include_resources.0 {
            found.extend(types_of(&opened.store, word).context("--include-resources")?);
        }
        Ok(found)
    }

    fn write(&self, resource: &GroupResource, object: &Value) -> Result<()> {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let folder = match text("namespace") {
            "" => self.folder.join("cluster"),
            namespace => self.folder.join("namespaces").join(namespace),
        };
        let folder = folder.join(resource.to_string());
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.with_context(|| format!("make the folder {}", folder.display()))?;
        let file = folder.join(file_name(text("name")));
        let content = yaml::print(&applicable(object, self.clean))?;
        let out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file);
        out.and_then(|mut out| out.write_all(content.as_bytes())).with_context(|| format!("write {}", file.display()))
    }
}

/// Makes the folder, for its owner alone; one that holds something is refused.
fn prepare(folder: &Path) -> Result<()> {
    let holds_something = match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            return made.with_context(|| format!("make the folder {}", folder.display()));
        }
        Err(e) => return Err(e).with_context(|| format!("look into the folder {}", folder.display())),
    };
    if holds_something {
        bail!("the folder {} is not empty: name a new one", folder.display());
    }
    Ok(())
}

/// The object as it can be applied.
fn applicable(object: &Value, clean: bool) -> Value {
    let mut object = if clean { comparable(object) } else { object.clone() };
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !REFUSED.contains(&field.as_str()));
    }
    object
}

/// The name of an object's file. A name that is too long for one is cut, and a hash keeps it apart from others.
fn file_name(name: &str) -> String {
    const END: &str = ".yaml";
    if name.len() + END.len() <= LONGEST {
        return format!("{name}{END}");
    }
    let hash = hex::encode(&Sha256::digest(name)[..8]);
    let kept: String = name.chars().take(LONGEST / 4).collect();
    format!("{kept}~{hash}{END}")
}

fn place_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_of_files_fit_and_stay_apart() {
        assert_eq!(file_name("system:node"), "system:node.yaml");
        let long = |end: &str| format!("{}{end}", "x".repeat(252));
        let (one, other) = (file_name(&long("a")), file_name(&long("b")));
        assert!(one != other && one.len() < LONGEST && one.ends_with(".yaml"), "{one} {other}");
    }

    #[test]
    fn an_object_can_be_applied() {
        let object = json!({"kind": "Pod", "metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "managedFields": [],
            "creationTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Running"}});
        let kept = json!({"kind": "Pod", "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"phase": "Running"}});
        assert_eq!(applicable(&object, false), kept);
        assert_eq!(applicable(&object, true), json!({"kind": "Pod", "metadata": {"name": "a"}}));
    }

    #[test]
    fn a_folder_that_holds_something_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path()).unwrap();
        prepare(&folder.path().join("a/b")).unwrap();
        let error = prepare(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("is not empty: name a new one"), "{error}");
    }
}
