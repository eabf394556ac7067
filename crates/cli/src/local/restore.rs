//! `lifeboat local restore`.

use super::journal::{clock, print_resource, print_results, watched};
use super::preview::RestorePrinter;
use super::state::{Content, State};
use super::{Output, PARTIALLY_FAILED};
use crate::bucket_url::{self, Purpose};
use crate::command::Globals;
use crate::flags::{self, List, OrSelectors, Pairs};
use clap::Args;
use lifeboat_action::Progress;
use lifeboat_api::{LabelSelector, Restore, RestorePhase, RestoreStatusSpec, Time};
use lifeboat_archive::journal::Journal;
use lifeboat_cluster::Cluster;
use lifeboat_restore::{CheckpointStore, Env, NoCheckpoint, Outcome, Priorities, Request, Settings};
use lifeboat_store::Store;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Objects of a dry run waiting to be printed.
const WAITING: usize = 64;

/// `lifeboat local restore NAME --from-backup NAME --bucket URL`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The name of the restore
    name: String,
    /// The backup to restore from
    #[arg(long, value_name = "NAME")]
    from_backup: String,
    /// Where the backup lies: a directory, file:///directory, or s3://bucket/prefix?region=…&endpoint=…
    #[arg(long, value_name = "URL")]
    bucket: String,
    #[command(flatten)]
    spec: SpecArgs,
    /// Print the final Restore as json or yaml
    #[arg(long, short, value_enum)]
    output: Option<Output>,
    /// Only say what would be created, updated, left and skipped, and where objects differ; nothing is written
    #[arg(long)]
    dry_run: bool,
    /// Show the values of Secrets in the differences of a dry run
    #[arg(long, requires = "dry_run")]
    show_secrets: bool,
    /// A folder for the temporary copy of an archive that has no index
    #[arg(long, value_name = "DIRECTORY")]
    scratch: Option<PathBuf>,
}

/// What to restore: the flags of `velero restore create`.
#[derive(Debug, Args)]
struct SpecArgs {
    /// Namespaces to include; use '*' for all
    #[arg(long, value_parser = flags::list, default_value = "*", value_name = "NAMES")]
    include_namespaces: List,
    /// Namespaces to exclude
    #[arg(long, value_parser = flags::list, value_name = "NAMES")]
    exclude_namespaces: Option<List>,
    /// Types to include, such as deployments.apps; all when left out
    #[arg(long, value_parser = flags::list, value_name = "TYPES")]
    include_resources: Option<List>,
    /// Types to exclude
    #[arg(long, value_parser = flags::list, value_name = "TYPES")]
    exclude_resources: Option<List>,
    /// Namespaces to restore under another name
    #[arg(long, value_parser = flags::mappings, value_name = "SOURCE:TARGET,…")]
    namespace_mappings: Option<Pairs>,
    /// Only objects with these labels
    #[arg(long, short = 'l', value_parser = flags::selector, value_name = "SELECTOR")]
    selector: Option<LabelSelector>,
    /// Only objects that match one of the selectors, joined by ' or '
    #[arg(long, value_parser = flags::or_selectors, value_name = "SELECTORS")]
    or_selector: Option<OrSelectors>,
    /// Include cluster-scoped objects: true, false, or as needed when left out
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    include_cluster_resources: Option<bool>,
    /// What to do with objects that exist: none leaves them, update makes them match the backup
    #[arg(long, value_parser = ["none", "update"], value_name = "POLICY")]
    existing_resource_policy: Option<String>,
    /// Types whose status is restored
    #[arg(long, value_parser = flags::list, value_name = "TYPES")]
    status_include_resources: Option<List>,
    /// Types whose status is not restored; needs --status-include-resources
    #[arg(long, value_parser = flags::list, requires = "status_include_resources", value_name = "TYPES")]
    status_exclude_resources: Option<List>,
    /// Keep the node ports of services
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    preserve_nodeports: Option<bool>,
    /// Restore volumes from snapshots (this version restores none and says so for each volume)
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    restore_volumes: Option<bool>,
    /// Labels for the restore
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    labels: Option<Pairs>,
    /// Annotations for the restore
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    annotations: Option<Pairs>,
    /// Types to restore first and, after a single -, last
    #[arg(long, value_name = "TYPES")]
    restore_resource_priorities: Option<Priorities>,
}

impl SpecArgs {
    fn apply(&self, restore: &mut Restore) {
        let list = |given: &Option<List>| given.clone().unwrap_or_default().0;
        let pairs = |given: &Option<Pairs>| given.clone().unwrap_or_default().0;
        restore.metadata.labels = pairs(&self.labels);
        restore.metadata.annotations = pairs(&self.annotations);
        let spec = &mut restore.spec;
        spec.included_namespaces.clone_from(&self.include_namespaces.0);
        spec.excluded_namespaces = list(&self.exclude_namespaces);
        spec.included_resources = list(&self.include_resources);
        spec.excluded_resources = list(&self.exclude_resources);
        spec.namespace_mapping = pairs(&self.namespace_mappings);
        spec.label_selector.clone_from(&self.selector);
        spec.or_label_selectors = self.or_selector.clone().unwrap_or_default().0;
        spec.include_cluster_resources = self.include_cluster_resources;
        spec.existing_resource_policy = self.existing_resource_policy.clone().unwrap_or_default().into();
        spec.restore_status = self.status_include_resources.clone().map(|included| RestoreStatusSpec {
            included_resources: included.0,
            excluded_resources: list(&self.status_exclude_resources),
        });
        spec.preserve_node_ports = self.preserve_nodeports;
        spec.restore_pvs = self.restore_volumes;
    }
}

impl RestoreArgs {
    pub(crate) async fn run(self, globals: &Globals) -> anyhow::Result<ExitCode> {
        let store = bucket_url::open(&self.bucket, Purpose::Read).await?;
        let cluster = globals.connect().await?;
        if self.dry_run {
            return self.preview(globals, cluster, store).await;
        }
        // By the cluster's clock, so that it compares with the creation times of objects.
        let now = cluster.time().await?.unwrap_or_else(jiff::Timestamp::now);
        let state = State::open("restore", &store.describe(), &self.name, now)?;
        let request = Request { restore: self.restore(globals, &state.content), settings: self.settings() };
        let env = self.env(globals, cluster, store, Arc::new(state.checkpoint()));
        let operation = lifeboat_restore::run(&request, &env);
        let outcome = watched("restore", &env.progress, &env.cancel, operation).await?;
        state.forget();
        self.report(&outcome)
    }

    async fn preview(&self, globals: &Globals, cluster: Cluster, store: Store) -> anyhow::Result<ExitCode> {
        if self.output == Some(Output::Yaml) {
            anyhow::bail!("--dry-run prints text or, with -o json, JSON: YAML cannot be written object by object");
        }
        let request = Request { restore: self.restore(globals, &Content::new(clock()())), settings: self.settings() };
        let env = self.env(globals, cluster, store, Arc::new(NoCheckpoint));
        let mut printer = RestorePrinter::new(self.output.is_some(), self.show_secrets)?;
        let (sender, mut items) = mpsc::channel(WAITING);
        let printing = async {
            while let Some(item) = items.recv().await {
                printer.item(item)?;
            }
            anyhow::Ok(())
        };
        let operation = async { tokio::join!(lifeboat_restore::preview(&request, &env, sender), printing) };
        let (end, printed) = watched("dry run", &env.progress, &env.cancel, operation).await;
        printed?;
        printer.end(&end?)
    }

    fn env(&self, globals: &Globals, cluster: Cluster, store: Store, checkpoint: Arc<dyn CheckpointStore>) -> Env {
        let subject = format!("restore={}/{}", globals.namespace, self.name);
        Env {
            cluster,
            store,
            clock: clock(),
            journal: Journal::new(clock(), &subject),
            checkpoint,
            progress: Arc::new(Progress::default()),
            cancel: CancellationToken::new(),
            scratch: self.scratch.clone().unwrap_or_else(std::env::temp_dir),
        }
    }

    fn restore(&self, globals: &Globals, content: &Content) -> Restore {
        let mut restore = Restore::default();
        restore.metadata.name.clone_from(&self.name);
        restore.metadata.namespace.clone_from(&globals.namespace);
        restore.metadata.uid.clone_from(&content.uid);
        restore.metadata.creation_timestamp = Some(Time::new(content.started));
        self.spec.apply(&mut restore);
        restore.spec.backup_name.clone_from(&self.from_backup);
        restore
    }

    fn settings(&self) -> Settings {
        let priorities = self.spec.restore_resource_priorities.clone().unwrap_or_default();
        Settings { priorities, ..Settings::default() }
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
