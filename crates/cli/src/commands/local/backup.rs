//! `lifeboat local backup`.

use crate::standalone::bucket_url::{self, EmptyFolders, Purpose};
use crate::standalone::local_operation::document::document;
use crate::standalone::local_operation::operation_key::{OperationKey, identity};
use crate::standalone::local_operation::pending::end_backup;
use crate::standalone::local_operation::specification::Specification;
use crate::standalone::local_operation::state::{OldState, OperationState, OperationStateFile};
use crate::view::preview::print_backup;
use clap::Args;
use lifeboat_action::Actions;
use lifeboat_api::well_known::ANNOTATION_RESOURCE_POLICIES;
use lifeboat_api::{Backup, BackupPhase, Time};
use lifeboat_backup::{Env, Outcome, Request, Settings};
use lifeboat_cluster::Cluster;
use lifeboat_operation::Operation;
use lifeboat_store::{Store, StoreError};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::spec::{BackupSpecArgs, file, no_flags};
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

/// `lifeboat local backup NAME --bucket URL`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The name of the backup
    name: String,
    /// Where to put it: a directory, file:///directory, or s3://bucket/prefix?region=…&endpoint=…
    #[arg(long, value_name = "URL")]
    bucket: String,
    #[command(flatten)]
    spec: BackupSpecArgs,
    /// A file (YAML or JSON, - for the standard input) with a Backup or its spec, for what has no flags, such as hooks. A flag
    /// that is given wins over it
    #[arg(long = "spec", value_name = "FILE")]
    spec_file: Option<PathBuf>,
    /// A file with resource policies, in place of a ConfigMap
    #[arg(long, value_name = "FILE")]
    resource_policies: Option<PathBuf>,
    /// Accepted for scripts: this command always waits
    #[arg(long, short)]
    wait: bool,
    /// Print the final Backup as json or yaml
    #[arg(long, short, value_enum)]
    output: Option<Output>,
    /// Only say what would be saved, how much, and what not and why; nothing is written
    #[arg(long)]
    dry_run: bool,
    /// Take over the name from another run that you know has died
    #[arg(long)]
    take_over: bool,
    /// Level of compression: 1 is fastest, 9 is smallest
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=9), value_name = "LEVEL")]
    compression_level: u32,
    /// A folder for objects that must wait on disk, beyond the memory budget, until they are uploaded
    #[arg(long, value_name = "DIRECTORY")]
    scratch: Option<PathBuf>,
    /// Megabytes of memory for objects that are read and not yet uploaded
    #[arg(long, default_value_t = lifeboat_backup::MEMORY_BUDGET_MIB, value_parser = clap::value_parser!(u32).range(4..=65_536), value_name = "MB")]
    memory_budget: u32,
}

impl BackupArgs {
    pub(crate) async fn run(self, globals: &Globals) -> anyhow::Result<ExitCode> {
        let asked = self.asked()?;
        if !asked.spec.volume_snapshot_locations.is_empty() {
            anyhow::bail!("--volume-snapshot-locations: without a server there are none; leave the flag out");
        }
        let purpose = if self.dry_run { Purpose::Preview } else { Purpose::Write };
        // A preview makes no folders: those that are there at its end are somebody else's.
        let _empty = (!self.dry_run).then(|| EmptyFolders::of(&self.bucket));
        let store = bucket_url::open(&self.bucket, purpose, globals.patience()).await?;
        let cluster = globals.connect().await?;
        if self.dry_run {
            return self.preview(asked, globals, cluster, store).await;
        }
        let specification = Specification::of(&asked.spec)
            .with_rules("resource policies (digest)", self.settings(globals)?.resource_policies.as_ref());
        let state = self.state(&cluster, &store, OperationState::of(clock()(), specification)).await?;
        let request =
            Request { backup: self.backup(asked, globals, &state.content), settings: self.settings(globals)? };
        let mut env = self.env(globals, cluster, store);
        env.operation.records = Arc::new(state.records());
        let operation = lifeboat_backup::run(&request, &env);
        let mut outcome = watched("backup", &env.operation.progress, &env.operation.cancel, operation).await?;
        if outcome.is_pending() {
            Box::pin(end_backup(&mut outcome, &env)).await?;
        }
        state.forget();
        self.report(&outcome)
    }

    /// The state of an earlier run of the same backup of the same cluster that was cut off, or a new one. One that saves something
    /// else goes on with it too, as long as none is in the bucket: nothing of a backup is there before its end.
    ///
    /// # Errors
    /// The earlier run has made a backup that holds something else, and only waits for what it has begun.
    async fn state(&self, cluster: &Cluster, store: &Store, new: OperationState) -> anyhow::Result<OperationStateFile> {
        let cluster = identity(cluster).await?;
        let key = OperationKey { kind: "backup", bucket: store.describe(), cluster, name: self.name.clone() };
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
        let made = match store.backup(&self.name).await {
            Err(StoreError::NoBackup { .. }) => None,
            made => Some(made?),
        };
        if made.is_some_and(|made| made.metadata.uid == state.content.uid) {
            anyhow::bail!(
                "an earlier run has made the backup {:?} and was cut off while it waited for what it had begun, and it saved something \
                 else: {}. The same command as then ends it; this one needs another name",
                self.name,
                differences.join("; ")
            );
        }
        let content = OperationState { uid: state.content.uid.clone(), started: state.content.started, ..new };
        state.with(content)
    }

    async fn preview(
        &self,
        asked: Backup,
        globals: &Globals,
        cluster: Cluster,
        store: Store,
    ) -> anyhow::Result<ExitCode> {
        let request = Request {
            backup: self.backup(asked, globals, &OperationState::new(clock()())),
            settings: self.settings(globals)?,
        };
        let env = self.env(globals, cluster, store);
        let operation = lifeboat_backup::preview(&request, &env);
        let preview = watched("dry run", &env.operation.progress, &env.operation.cancel, operation).await?;
        print_backup(&preview, self.output)
    }

    fn env(&self, globals: &Globals, cluster: Cluster, store: Store) -> Env {
        let subject = format!("backup={}/{}", globals.namespace, self.name);
        let scratch = self.scratch.clone().unwrap_or_else(std::env::temp_dir);
        Env { cluster, store, actions: Actions::default(), operation: Operation::new(clock(), &subject, scratch) }
    }

    fn backup(&self, mut backup: Backup, globals: &Globals, content: &OperationState) -> Backup {
        backup.metadata.name.clone_from(&self.name);
        backup.metadata.namespace.clone_from(&globals.namespace);
        backup.metadata.uid.clone_from(&content.uid);
        backup.metadata.creation_timestamp = Some(Time::new(content.started));
        if self.resource_policies.is_some() {
            let annotation = ANNOTATION_RESOURCE_POLICIES.to_owned();
            backup.metadata.annotations.insert(annotation, "file".to_owned());
        }
        backup
    }

    /// Returns the backup that the flags and the file of the spec ask for.
    fn asked(&self) -> anyhow::Result<Backup> {
        let mut backup = Backup::default();
        self.spec.apply(&mut backup);
        if let Some(file) = &self.spec_file {
            let mut none = Backup::default();
            no_flags::<BackupSpecArgs>()?.apply(&mut none);
            backup.spec = file::overlaid(&file::read(file, "Backup")?, &backup.spec, &none.spec)?;
        }
        Ok(backup)
    }

    fn settings(&self, globals: &Globals) -> anyhow::Result<Settings> {
        Ok(Settings {
            resource_policies: self.resource_policies.as_deref().map(document).transpose()?,
            features: globals.features(),
            compression: self.compression_level,
            memory_budget: (self.memory_budget as usize) << 20,
            take_over: self.take_over,
            tool: format!("lifeboat {}", env!("CARGO_PKG_VERSION")),
            ..Settings::default()
        })
    }

    fn report(&self, outcome: &Outcome) -> anyhow::Result<ExitCode> {
        print_results(&outcome.results);
        let backup = &outcome.backup;
        let phase = backup.status.phase.unwrap_or(BackupPhase::New);
        match self.output {
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
}
