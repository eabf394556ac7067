//! The plugins of a directory and their processes.

use crate::audience::Audience;
use crate::backup_item::RemoteBackupItemAction;
use crate::caller::PluginCaller;
use crate::client;
use crate::delete_item::RemoteDeleteItemAction;
use crate::error::{DiscoveryError, PluginError};
use crate::failure::CallFailure;
use crate::first::FirstCall;
use crate::identity::{PluginIdentity, PluginKind, PluginName};
use crate::item_block::RemoteItemBlockAction;
use crate::keeper::{KeeperSettings, ProcessSpec};
use crate::launch::Launch;
use crate::object_store::RemoteObjectStore;
use crate::options::HostOptions;
use crate::process::Process;
use crate::processes::Processes;
use crate::program;
use crate::registry::{ProgramActions, Registry};
use crate::restore_item::RemoteRestoreItemAction;
use crate::volume_snapshotter::RemoteVolumeSnapshotter;
use lifeboat_action::{ActionScope, Actions, VolumeSnapshotter};
use lifeboat_bucket::BlobStore;
use lifeboat_operation::Journal;
use lifeboat_plugin_proto::generated::PluginIdentifier;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Time limit for a program to report its plugins.
const LISTING: Duration = Duration::from_secs(60);

/// The plugins of a directory, and the processes that run them. Clones are the same.
///
/// All operations share one process of a program, from its first use until [`HostOptions::idle_timeout`] after its
/// last. A store or a snapshotter has a process of its own for each configuration, because a plugin knows only the last
/// one that it was given. A process that ends by itself is started anew for the next call. After ten failed restarts in
/// a row it is given up, and each call fails with that reason, until a new user begins to use it.
///
/// Dropping all clones, with all actions and stores that came out of them, kills the processes; [`Self::shut_down`] ends them.
#[derive(Clone, Debug)]
pub struct PluginHost {
    registry: Arc<Registry>,
    processes: Arc<Processes>,
}

impl PluginHost {
    /// Starts each program of the directory, asks it for its plugins, and ends it, one after the other in Velero's
    /// order (velero: pkg/plugin/clientmgmt/process/registry.go). Files that are no programs, shared libraries, links
    /// to folders and kinds that are not known are told and passed over.
    ///
    /// # Errors
    /// Everything that is wrong with any program, when there is something: it cannot be run, does not answer within a minute,
    /// or reports a name that is wrong or taken.
    pub async fn discover(options: HostOptions) -> Result<Self, DiscoveryError> {
        let found = program::find(&options.directory);
        for (file, why) in &found.skipped {
            tracing::warn!(file = %file.display(), why, "a file in the plugin directory is passed over");
        }
        let (mut registry, mut problems) = (Registry::default(), found.problems);
        let launch = Launch::of(&options);
        for program in &found.programs {
            match plugins_of(&launch, program).await {
                Ok(reported) => registry.add(program, reported, &options, &mut problems),
                Err(e) => problems.push(e.to_string()),
            }
        }
        if !problems.is_empty() {
            return Err(DiscoveryError { directory: options.directory, problems });
        }
        let HostOptions { call_timeout, idle_timeout, .. } = options;
        let processes = Processes::new(KeeperSettings { launch, call_timeout, idle_timeout });
        Ok(Self { registry: Arc::new(registry), processes: Arc::new(processes) })
    }

    /// The plugins that programs have, in Velero's order: by program, by kind, by name.
    #[must_use]
    pub fn plugins(&self) -> &[PluginIdentity] {
        self.registry.plugins()
    }

    /// The actions of all programs for one operation, in Velero's order, those of the first version as of the second
    /// (velero: pkg/plugin/clientmgmt); where a program has a name in both versions, the second. Starts the programs,
    /// and asks each action once what it applies to. As long as any of them is there, lines that the programs log go
    /// into the journal: those of a program with calls of several operations into the journals of all of these.
    ///
    /// # Errors
    /// When a program cannot be started, or an action does not say what it applies to: no operation may go on without it.
    pub async fn actions(&self, journal: &Journal) -> Result<Actions, PluginError> {
        let mut out = Actions::default();
        for program in self.registry.actions() {
            self.add_actions(&program, journal, &mut out).await?;
        }
        Ok(out)
    }

    /// The object store of this name, initialised with a location's configuration
    /// (velero: internal/credentials/file_store.go), as a bucket. Its keys are whole: the prefix is in the
    /// configuration for the plugin's own checks alone.
    ///
    /// A bucket by plugin has no conditional put: [`lifeboat_bucket::PutOptions::if_absent`] looks first, and another writer may
    /// come in between. It cannot say how large an object is: [`BlobStore::head`] reads it.
    ///
    /// # Errors
    /// When no program has it, its program cannot be started, or it refuses the configuration.
    pub async fn object_store(
        &self,
        name: &PluginName,
        config: BTreeMap<String, String>,
    ) -> Result<Arc<dyn BlobStore>, PluginError> {
        let unknown = || PluginError::Unknown(format!("unable to locate ObjectStore plugin named {name}"));
        let bucket = config.get("bucket").cloned().unwrap_or_default();
        let caller = self.configured(PluginKind::ObjectStore, name, config, None).await?.ok_or_else(unknown)?;
        Ok(Arc::new(RemoteObjectStore::new(caller, name.clone(), &bucket)))
    }

    /// The volume snapshotter of this name, initialised with a snapshot location's configuration
    /// (velero: internal/credentials/file_store.go).
    ///
    /// # Errors
    /// When no program has it, its program cannot be started, or it refuses the configuration.
    pub async fn volume_snapshotter(
        &self,
        name: &PluginName,
        config: BTreeMap<String, String>,
        journal: &Journal,
    ) -> Result<Arc<dyn VolumeSnapshotter>, PluginError> {
        let unknown = || PluginError::Unknown(format!("unable to get valid VolumeSnapshotter for \"{name}\""));
        let caller = self.configured(PluginKind::VolumeSnapshotter, name, config, Some(journal)).await?;
        let caller = Arc::new(caller.ok_or_else(unknown)?);
        Ok(Arc::new(RemoteVolumeSnapshotter { caller, name: name.clone() }))
    }

    /// Ends all processes: asks each, waits two seconds, kills it, and waits until it is gone (hashicorp/go-plugin).
    /// Calls that are made later fail.
    pub async fn shut_down(&self) {
        self.processes.shut_down().await;
    }

    /// A caller of a plugin that has this configuration; `None` when no program has it.
    async fn configured(
        &self,
        kind: PluginKind,
        name: &PluginName,
        config: BTreeMap<String, String>,
        journal: Option<&Journal>,
    ) -> Result<Option<PluginCaller>, PluginError> {
        let Some(program) = self.registry.program_of(kind, name) else { return Ok(None) };
        let firsts = vec![FirstCall::Init(kind, name.clone(), config)];
        let caller =
            PluginCaller::new(self.processes.using(ProcessSpec { program: program.to_owned(), firsts })?, journal);
        caller.begin().await?;
        Ok(Some(caller))
    }

    /// Adds the actions of one program for one operation.
    async fn add_actions(
        &self,
        program: &ProgramActions<'_>,
        journal: &Journal,
        out: &mut Actions,
    ) -> Result<(), PluginError> {
        let first = |action: &&PluginIdentity| FirstCall::AppliesTo(action.kind, action.name.clone());
        let firsts = program.actions.iter().map(first).collect();
        let used = self.processes.using(ProcessSpec { program: program.program.to_owned(), firsts })?;
        let caller = Arc::new(PluginCaller::new(used, Some(journal)));
        let scopes = caller.begin().await?;
        for (action, scope) in program.actions.iter().zip(scopes) {
            add(action, Arc::clone(&caller), scope, out);
        }
        Ok(())
    }
}

/// Adds an action.
fn add(action: &PluginIdentity, caller: Arc<PluginCaller>, scope: ActionScope, out: &mut Actions) {
    let name = action.name.clone();
    match action.kind {
        PluginKind::BackupItemAction | PluginKind::BackupItemActionV2 => {
            let is_v2 = action.kind == PluginKind::BackupItemActionV2;
            out.backup_item.push(Arc::new(RemoteBackupItemAction { caller, name, scope, is_v2 }));
        }
        PluginKind::RestoreItemAction | PluginKind::RestoreItemActionV2 => {
            let is_v2 = action.kind == PluginKind::RestoreItemActionV2;
            out.restore_item.push(Arc::new(RemoteRestoreItemAction { caller, name, scope, is_v2 }));
        }
        PluginKind::DeleteItemAction => out.delete_item.push(Arc::new(RemoteDeleteItemAction { caller, name, scope })),
        PluginKind::ItemBlockAction => out.item_block.push(Arc::new(RemoteItemBlockAction { caller, name, scope })),
        PluginKind::ObjectStore | PluginKind::VolumeSnapshotter => {}
    }
}

/// Asks a program for its plugins.
async fn plugins_of(launch: &Launch, program: &Path) -> Result<Vec<PluginIdentifier>, PluginError> {
    let process = Process::start(launch, program, &Arc::new(Audience::of(program))).await?;
    let listed = timeout(LISTING, client::list(process.connection().channel.clone())).await;
    process.stop().await;
    let why = match listed {
        Ok(Ok(plugins)) => return Ok(plugins),
        Ok(Err(status)) => CallFailure::said(&status).text,
        Err(_) => {
            CallFailure::late(&format!("it has not answered within {} s; look at its log", LISTING.as_secs())).text
        }
    };
    let why = format!("it does not say which plugins it has: {why}");
    Err(PluginError::Start { program: program.to_owned(), why })
}
