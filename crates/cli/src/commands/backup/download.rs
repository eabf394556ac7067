//! `lifeboat backup download`.

use anyhow::{Context, Result, bail};
use clap::Args;
use lifeboat_requests::archive::FromServerArgs;
use lifeboat_terminal::flags::Optional;
use lifeboat_terminal::flags::globals::Globals;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The file to download, and the file to write.
#[derive(Debug, Args)]
pub(crate) struct DownloadArgs {
    /// The backup
    name: String,
    /// The file to write; NAME-data.tar.gz in this folder when left out
    #[arg(long, short, default_value = "", value_name = "FILE")]
    output: Optional<PathBuf>,
    /// Overwrite a file that exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    server: FromServerArgs,
}

impl DownloadArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let name = &self.name;
        let archive = self.server.archive_of(name, globals).await?;
        let path = match &*self.output {
            Some(path) => path.clone(),
            None => std::env::current_dir().context("find the current folder")?.join(format!("{name}-data.tar.gz")),
        };
        let mut file = create(&path, self.force)?;
        let coming = tokio::select! {
            coming = archive.write_to(&mut file) => coming,
            _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
        };
        let written = coming.and_then(|()| file.sync_all().with_context(|| format!("write {}", path.display())));
        if let Err(e) = written {
            // Half an archive must not look like one.
            let _ = std::fs::remove_file(&path);
            return Err(e);
        }
        writeln!(std::io::stdout(), "Backup {name} has been successfully downloaded to {}", path.display())?;
        Ok(ExitCode::SUCCESS)
    }
}

fn create(path: &Path, force: bool) -> Result<File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).mode(0o600);
    if force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    match options.open(path) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("{} exists already; --force overwrites it", path.display())
        }
        other => other.with_context(|| format!("create {}", path.display())),
    }
}
