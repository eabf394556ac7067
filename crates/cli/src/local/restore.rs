//! `lifeboat local restore`.

use super::journal::{clock, on_signal, print_resource, print_results};
use super::state::State;
use super::{Output, PARTIALLY_FAILED};
use crate::command::Globals;
use crate::{bucket_url, progress};
use clap::Args;
use lifeboat_action::Progress;
use lifeboat_api::{Restore, RestorePhase, Time};
use lifeboat_archive::journal::Journal;
use lifeboat_restore::{Env, Outcome, Request, Settings};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// `lifeboat local restore NAME --from-backup NAME --bucket URL`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The name of the restore
    name: String,
    /// The backup to restore from
    #[arg(long, value_name = "NAME")]
    from_backup: String,
    /// Where the backup lies: a directory or file:///directory
    #[arg(long, value_name = "URL")]
    bucket: String,
    /// Print the final Restore as json or yaml
    #[arg(long, short, value_enum)]
    output: Option<Output>,
    /// A folder for the temporary copy of an archive that has no index
    #[arg(long, value_name = "DIRECTORY")]
    scratch: Option<PathBuf>,
}

impl RestoreArgs {
    pub(crate) async fn run(self, globals: &Globals) -> anyhow::Result<ExitCode> {
        let store = bucket_url::open(&self.bucket).await?;
        let cluster = globals.connect().await?;
        let state = State::open("restore", &store.describe(), &self.name)?;
        let request = Request { restore: self.restore(globals, &state), settings: Settings::default() };
        let subject = format!("restore={}/{}", globals.namespace, self.name);
        let env = Env {
            cluster,
            store,
            clock: clock(),
            journal: Journal::new(clock(), &subject),
            progress: Arc::new(Progress::default()),
            cancel: CancellationToken::new(),
            scratch: self.scratch.clone().unwrap_or_else(std::env::temp_dir),
        };
        let outcome = tokio::select! {
            outcome = lifeboat_restore::run(&request, &env) => outcome,
            () = progress::show("restore", Arc::clone(&env.progress)) => unreachable!("progress is shown until the end"),
            () = on_signal(env.cancel.clone()) => unreachable!("the process has ended"),
        };
        progress::clear();
        let outcome = outcome?;
        state.forget();
        self.report(&outcome)
    }

    fn restore(&self, globals: &Globals, state: &State) -> Restore {
        let mut restore = Restore::default();
        restore.metadata.name.clone_from(&self.name);
        restore.metadata.namespace.clone_from(&globals.namespace);
        restore.metadata.uid.clone_from(&state.content.uid);
        restore.metadata.creation_timestamp = Some(Time::new(state.content.started));
        restore.spec.backup_name.clone_from(&self.from_backup);
        restore
    }

    fn report(&self, outcome: &Outcome) -> anyhow::Result<ExitCode> {
        print_results(&outcome.results);
        let restore = &outcome.restore;
        let phase = restore.status.phase.unwrap_or(RestorePhase::New);
        match self.output {
            Some(output) => print_resource(restore, output)?,
            None => {
                let items = restore.status.progress.unwrap_or_default().items_restored;
                writeln!(
                    std::io::stdout(),
                    "Restore completed with status: {phase:?}. {items} objects, {} warnings, {} errors.",
                    restore.status.warnings,
                    restore.status.errors
                )?;
            }
        }
        Ok(match phase {
            RestorePhase::Completed => ExitCode::SUCCESS,
            RestorePhase::PartiallyFailed => ExitCode::from(PARTIALLY_FAILED),
            _ => ExitCode::FAILURE,
        })
    }
}
