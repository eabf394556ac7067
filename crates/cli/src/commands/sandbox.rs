//! `lifeboat sandbox`: an embedded Kubernetes API server to try things on.

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use lifeboat_sandbox::{Sandbox, SandboxOptions};
use lifeboat_select::RulesText;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::process::signals::terminated;
use serde_json::Value;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// `lifeboat sandbox --kubeconfig FILE`: here the file is written, not read.
#[derive(Debug, Args)]
pub(crate) struct SandboxArgs {
    /// Where to listen; a port of 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Manifests to load first: a file, or a folder of .yaml, .yml and .json files
    #[arg(long, value_name = "DIR-OR-FILE")]
    load: Vec<PathBuf>,
}

/// Options of a sandbox on this machine.
pub(crate) fn options(listen: SocketAddr) -> SandboxOptions {
    SandboxOptions {
        listen,
        token: uuid::Uuid::new_v4().to_string(),
        now: Arc::new(jiff::Timestamp::now),
        new_uid: Arc::new(|| uuid::Uuid::new_v4().to_string()),
        version: "v1.34.4".to_owned(),
        name: "sandbox".to_owned(),
        namespace: "default".to_owned(),
    }
}

impl SandboxArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let Some(file) = globals.kubeconfig.0.clone() else {
            bail!("give --kubeconfig FILE: the sandbox writes there how to reach it");
        };
        let objects = self.load.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?.concat();
        let terminate = terminated()?;
        let sandbox = Sandbox::start(options(self.listen)).await?;
        sandbox.apply(objects).await.context("load the manifests")?;
        write_kubeconfig(&file, &sandbox.kubeconfig())?;
        let _ = writeln!(std::io::stderr(), "serving at https://{}, kubeconfig {}", sandbox.address(), file.display());
        terminate.await;
        sandbox.shutdown().await;
        Ok(ExitCode::SUCCESS)
    }
}

/// Whole or not at all, readable by the owner alone: it holds a token.
pub(crate) fn write_kubeconfig(file: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let name = file.file_name().with_context(|| format!("{} is no file name", file.display()))?;
    let temporary = file.with_file_name(format!(".{}.new", name.to_string_lossy()));
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut out| out.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&temporary, file));
    written.with_context(|| format!("write {}", file.display()))
}

/// The objects of a manifest, or of all manifests of a folder in order of their names. Lists are taken apart.
pub(crate) fn read(path: &Path) -> Result<Vec<Value>> {
    let mut files = Vec::new();
    if path.is_dir() {
        for entry in std::fs::read_dir(path).with_context(|| format!("read {}", path.display()))? {
            let file = entry.with_context(|| format!("read {}", path.display()))?.path();
            if file.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json") {
                files.push(file);
            }
        }
        files.sort();
    } else {
        files.push(path.to_owned());
    }
    let mut out = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text)
            .map_err(|e| anyhow!(RulesText::yaml_error(&e)))
            .with_context(|| format!("read the manifest {}", file.display()))?;
        for document in documents {
            match document {
                Value::Null => {}
                Value::Object(mut list) if list.get("kind").is_some_and(|k| k == "List") => {
                    if let Some(Value::Array(items)) = list.remove("items") {
                        out.extend(items);
                    }
                }
                Value::Object(object) => out.push(Value::Object(object)),
                _ => bail!("{} holds something that is no object", file.display()),
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn manifests_of_a_folder_are_read_in_order_and_lists_taken_apart() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("b.yaml"), "kind: B\n---\n---\nkind: C\n").unwrap();
        std::fs::write(folder.path().join("a.json"), r#"{"kind":"List","items":[{"kind":"A"}]}"#).unwrap();
        std::fs::write(folder.path().join("notes.txt"), "not a manifest").unwrap();
        assert_eq!(read(folder.path()).unwrap(), [json!({"kind": "A"}), json!({"kind": "B"}), json!({"kind": "C"})]);
        std::fs::write(folder.path().join("c.yaml"), "just text").unwrap();
        assert!(read(folder.path()).unwrap_err().to_string().contains("c.yaml holds something that is no object"));
    }

    #[test]
    fn a_kubeconfig_is_for_its_owner() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        write_kubeconfig(&file, "x").unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
