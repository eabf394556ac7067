//! `lifeboat local verify`.

use clap::Args;
use lifeboat_archive::ReadLimits;
use lifeboat_standalone::bucket_url::{self, Purpose};
use lifeboat_store::OpenOptions;
use lifeboat_terminal::flags::globals::Globals;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// `lifeboat local verify NAME --bucket URL`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The backup to verify; all when left out
    name: Option<String>,
    /// Where the backups lie: a directory, file:///directory, or s3://bucket/prefix?region=…&endpoint=…
    #[arg(long, value_name = "URL")]
    bucket: String,
    /// A folder for the temporary copy of an archive that has no index
    #[arg(long, value_name = "DIRECTORY")]
    scratch: Option<PathBuf>,
}

impl VerifyArgs {
    pub(crate) async fn run(self, globals: &Globals) -> anyhow::Result<ExitCode> {
        let store = bucket_url::open(&self.bucket, Purpose::Read, globals.patience()).await?;
        let names = match &self.name {
            Some(name) => vec![name.clone()],
            None => store.backup_names().await?,
        };
        let scratch = self.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let options = OpenOptions { limits: ReadLimits::default(), scratch, ignore_index: false };
        let mut out = std::io::stdout();
        let mut proved = true;
        for name in names {
            let found = store.verify(&name, &options).await?;
            for problem in &found.problems {
                writeln!(out, "{name}: {}: {}", problem.what, problem.problem)?;
            }
            proved &= found.problems.is_empty();
            let (files, bytes, objects) = (found.files, found.bytes, found.objects);
            match (found.problems.len(), found.has_manifest) {
                (0, true) => writeln!(out, "{name}: OK, {files} files with {bytes} bytes, {objects} objects")?,
                (0, false) => writeln!(
                    out,
                    "{name}: readable, {objects} objects; it has no manifest, so nothing says that it is complete"
                )?,
                (n, _) => writeln!(out, "{name}: DAMAGED, {n} problems")?,
            }
        }
        Ok(if proved { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
