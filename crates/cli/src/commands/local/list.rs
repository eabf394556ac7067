//! `lifeboat local ls`.

use clap::Args;
use lifeboat_standalone::bucket_url::{self, Purpose};
use lifeboat_store::BackupSummary;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::Output;
use lifeboat_terminal::output::print_resource;
use std::io::Write;
use std::process::ExitCode;
use tabwriter::TabWriter;

/// `lifeboat local ls [NAME] --bucket URL`.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// The backup to show; all when left out
    name: Option<String>,
    /// Where the backups lie: a directory, file:///directory, or s3://bucket/prefix?region=…&endpoint=…
    #[arg(long, value_name = "URL")]
    bucket: String,
    /// Print the Backups as json or yaml
    #[arg(long, short, value_enum)]
    output: Option<Output>,
}

impl LsArgs {
    pub(crate) async fn run(self, globals: &Globals) -> anyhow::Result<ExitCode> {
        let store = bucket_url::open(&self.bucket, Purpose::Read, globals.patience()).await?;
        let backups = match &self.name {
            Some(name) => vec![BackupSummary { name: name.clone(), backup: Ok(Box::new(store.backup(name).await?)) }],
            None => store.backups().await?,
        };
        if let Some(output) = self.output {
            for (name, e) in backups.iter().filter_map(|b| Some((&b.name, b.backup.as_ref().err()?))) {
                writeln!(std::io::stderr(), "error: backup {name} cannot be read: {e}")?;
            }
            let items: Vec<_> = backups.iter().filter_map(|b| b.backup.as_deref().ok()).collect();
            let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
            print_resource(&list, output)?;
            return Ok(ExitCode::SUCCESS);
        }
        if backups.is_empty() {
            writeln!(std::io::stderr(), "No backups found in {}", store.describe())?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = TabWriter::new(std::io::stdout()).minwidth(6).padding(3);
        writeln!(table, "NAME\tSTATUS\tERRORS\tWARNINGS\tCREATED\tOBJECTS")?;
        for summary in &backups {
            match &summary.backup {
                Ok(backup) => {
                    let status = &backup.status;
                    let phase = status.phase.map_or_else(|| "New".to_owned(), |p| format!("{p:?}"));
                    let created = status.start_timestamp.map_or_else(|| "n/a".to_owned(), |t| t.to_string());
                    let items = status.progress.as_ref().map_or(0, |progress| progress.items_backed_up);
                    writeln!(
                        table,
                        "{}\t{phase}\t{}\t{}\t{created}\t{items}",
                        summary.name, status.errors, status.warnings
                    )?;
                }
                Err(e) => writeln!(table, "{}\tUnreadable: {e}\t\t\t\t", summary.name)?,
            }
        }
        table.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}
