//! `lifeboat local backup`.

use super::journal::{clock, on_signal, print_resource, print_results};
use super::state::State;
use super::{Output, PARTIALLY_FAILED};
use crate::command::Globals;
use crate::{bucket_url, progress};
use clap::Args;
use lifeboat_action::Progress;
use lifeboat_api::{Backup, BackupPhase, Time};
use lifeboat_archive::journal::Journal;
use lifeboat_backup::{Env, Outcome, Request, Settings};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// `lifeboat local backup NAME --bucket URL`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The name of the backup
    name: String,
    /// Where to put it: a directory or file:///directory
    #[arg(long, value_name = "URL")]
    bucket: String,
    /// Print the final Backup as json or yaml
    #[arg(long, short, value_enum)]
    output: Option<Output>,
    /// Take over the name from another run that you know has died
    #[arg(long)]
    take_over: bool,
    /// How hard to compress: 1 is fastest, 9 is smallest
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=9), value_name = "LEVEL")]
    compression_level: u32,
    /// Megabytes of objects to hold in memory at once
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536), value_name = "MB")]
    memory_budget: u32,
}

impl BackupArgs {
    pub(crate) async fn run(self, globals: &Globals) -> anyhow::Result<ExitCode> {
        let store = bucket_url::open(&self.bucket).await?;
        let cluster = globals.connect().await?;
        let state = State::open("backup", &store.describe(), &self.name)?;
        let request = Request { backup: self.backup(globals, &state), settings: self.settings() };
        let subject = format!("backup={}/{}", globals.namespace, self.name);
        let env = Env {
            cluster,
            store,
            clock: clock(),
            journal: Journal::new(clock(), &subject),
            progress: Arc::new(Progress::default()),
            cancel: CancellationToken::new(),
        };
        let outcome = tokio::select! {
            outcome = lifeboat_backup::run(&request, &env) => outcome,
            () = progress::show("backup", Arc::clone(&env.progress)) => unreachable!("progress is shown until the end"),
            () = on_signal(env.cancel.clone()) => unreachable!("the process has ended"),
        };
        progress::clear();
        let outcome = outcome?;
        state.forget();
        self.report(&outcome)
    }

    fn backup(&self, globals: &Globals, state: &State) -> Backup {
        let mut backup = Backup::default();
        backup.metadata.name.clone_from(&self.name);
        backup.metadata.namespace.clone_from(&globals.namespace);
        backup.metadata.uid.clone_from(&state.content.uid);
        backup.metadata.creation_timestamp = Some(Time::new(state.content.started));
        backup
    }

    fn settings(&self) -> Settings {
        Settings {
            compression: self.compression_level,
            memory_budget: (self.memory_budget as usize) << 20,
            take_over: self.take_over,
            tool: format!("lifeboat {}", env!("CARGO_PKG_VERSION")),
            ..Settings::default()
        }
    }

    fn report(&self, outcome: &Outcome) -> anyhow::Result<ExitCode> {
        print_results(&outcome.results);
        let backup = &outcome.backup;
        let phase = backup.status.phase.unwrap_or(BackupPhase::New);
        match self.output {
            Some(output) => print_resource(backup, output)?,
            None => {
                let items = backup.status.progress.unwrap_or_default().items_backed_up;
                let again = if outcome.was_complete { " (an earlier run had completed it)" } else { "" };
                writeln!(
                    std::io::stdout(),
                    "Backup completed with status: {phase:?}. {items} objects, {} warnings, {} errors{again}.",
                    backup.status.warnings,
                    backup.status.errors
                )?;
            }
        }
        Ok(match phase {
            BackupPhase::Completed => ExitCode::SUCCESS,
            BackupPhase::PartiallyFailed => ExitCode::from(PARTIALLY_FAILED),
            _ => ExitCode::FAILURE,
        })
    }
}
