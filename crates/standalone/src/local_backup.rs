//! A backup that this machine makes, without a server in the cluster.

use super::bucket_url::{self, EmptyFolders, Purpose};
use super::dry_run::print_backup_preview;
use super::local_operation::operation_key::{OperationKey, identity};
use super::local_operation::pending::end_backup;
use super::local_operation::specification::Specification;
use super::local_operation::state::{OldState, OperationState, OperationStateFile};
use lifeboat_action::Actions;
use lifeboat_api::{Backup, BackupPhase, Time};
use lifeboat_backup::{Env, Outcome, Request, Settings};
use lifeboat_cluster::Cluster;
use lifeboat_operation::Operation;
use lifeboat_store::{Store, StoreError};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::Output;
use lifeboat_terminal::output::exit_code::PARTIALLY_FAILED;
use lifeboat_terminal::output::print_resource;
use lifeboat_terminal::output::progress::watched;
use lifeboat_terminal::output::results::print_results;
use lifeboat_terminal::process::clock::clock;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// A backup that this machine makes.
pub struct LocalBackup {
    /// The backup, without UID and time.
    pub backup: Backup,
    /// Settings of the engine.
    pub settings: Settings,
    /// The URL of the bucket that it is written to.
    pub bucket: String,
    /// A folder for objects that must wait on disk until they are uploaded.
    pub scratch: PathBuf,
    /// The form in which the final Backup is printed; a line of text when there is none.
    pub output: Option<Output>,
}

impl LocalBackup {
    /// Makes the backup, or goes on with one that was cut off.
    ///
    /// # Errors
    /// Returns the error that kept it from beginning or ending.
    pub async fn run(self, globals: &Globals) -> anyhow::Result<ExitCode> {
        let _empty = EmptyFolders::of(&self.bucket);
        let store = bucket_url::open(&self.bucket, Purpose::Write, globals.patience()).await?;
        let cluster = globals.connect().await?;
        let specification = Specification::of(&self.backup.spec)
            .with_rules("resource policies (digest)", self.settings.resource_policies.as_ref());
        let state = self.state(&cluster, &store, OperationState::of(clock()(), specification)).await?;
        let mut env = self.env(cluster, store);
        env.operation.records = Arc::new(state.records());
        let output = self.output;
        let request = self.request(&state.content);
        let operation = lifeboat_backup::run(&request, &env);
        let mut outcome = watched("backup", &env.operation.progress, &env.operation.cancel, operation).await?;
        if outcome.is_pending() {
            Box::pin(end_backup(&mut outcome, &env)).await?;
        }
        state.forget();
        report(&outcome, output)
    }

    /// Prints what the backup would hold. Makes no folders: those that are there at its end are somebody else's.
    ///
    /// # Errors
    /// Returns the error that keeps the backup from being previewed.
    pub async fn preview(self, globals: &Globals) -> anyhow::Result<ExitCode> {
        let store = bucket_url::open(&self.bucket, Purpose::Preview, globals.patience()).await?;
        let cluster = globals.connect().await?;
        let env = self.env(cluster, store);
        let output = self.output;
        print_backup_preview(&self.request(&OperationState::new(clock()())), &env, output).await
    }

    /// The state of an earlier run of the same backup of the same cluster that was cut off, or a new one. One that saves something
    /// else goes on with it too, as long as none is in the bucket: nothing of a backup is there before its end.
    ///
    /// # Errors
    /// The earlier run has made a backup that holds something else, and only waits for what it has begun.
    async fn state(&self, cluster: &Cluster, store: &Store, new: OperationState) -> anyhow::Result<OperationStateFile> {
        let cluster = identity(cluster).await?;
        let key = OperationKey { kind: "backup", bucket: store.describe(), cluster, name: self.name().to_owned() };
        let mut new = new;
        // The claim in the bucket says of which cluster that run was.
        if let Some(old) = OldState::find(&key) {
            if let Some(content) = old.content() {
                new = OperationState { specification: new.specification, ..content };
            }
            old.remove();
        }
        let state = OperationStateFile::open(&key, new.clone())?;
        let differences = state.content.specification.differences(&new.specification);
        if differences.is_empty() {
            return Ok(state);
        }
        let made = match store.backup(self.name()).await {
            Err(StoreError::NoBackup { .. }) => None,
            made => Some(made?),
        };
        if made.is_some_and(|made| made.metadata.uid == state.content.uid) {
            anyhow::bail!(
                "an earlier run has made the backup {:?} and was cut off while it waited for what it had begun, and it saved something \
                 else: {}. The same command as then ends it; this one needs another name",
                self.name(),
                differences.join("; ")
            );
        }
        let content = OperationState { uid: state.content.uid.clone(), started: state.content.started, ..new };
        state.with(content)
    }

    fn name(&self) -> &str {
        &self.backup.metadata.name
    }

    fn env(&self, cluster: Cluster, store: Store) -> Env {
        let metadata = &self.backup.metadata;
        let subject = format!("backup={}/{}", metadata.namespace, metadata.name);
        let operation = Operation::new(clock(), &subject, self.scratch.clone());
        Env { cluster, store, actions: Actions::default(), operation }
    }

    fn request(self, content: &OperationState) -> Request {
        let Self { mut backup, settings, .. } = self;
        backup.metadata.uid.clone_from(&content.uid);
        backup.metadata.creation_timestamp = Some(Time::new(content.started));
        Request { backup, settings }
    }
}

/// Prints the outcome of a backup.
fn report(outcome: &Outcome, output: Option<Output>) -> anyhow::Result<ExitCode> {
    print_results(&outcome.results);
    let backup = &outcome.backup;
    let phase = backup.status.phase.unwrap_or(BackupPhase::New);
    match output {
        Some(output) => print_resource(backup, output)?,
        None => {
            let items = backup.status.progress.as_ref().map_or(0, |progress| progress.items_backed_up);
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
