//! The plugins of a program, and serving them.

use crate::catalog::{Catalog, PluginsByName};
use crate::configured_instance::{Config, ConfiguredInstance};
use crate::launch::{Launch, LaunchRefusal};
use crate::object_store::ObjectStore;
use crate::{caught, log, server};
use lifeboat_action::{
    ActionError, BackupItemAction, DeleteItemAction, ItemBlockAction, RestoreItemAction, VolumeSnapshotter,
};
use std::io::Write;
use std::os::unix::process::parent_id;
use std::process::ExitCode;
use std::sync::Arc;
use tracing::level_filters::LevelFilter;

/// The plugins that a program offers.
#[derive(Default)]
pub struct Plugin {
    backup_item: Vec<(String, Arc<dyn BackupItemAction>)>,
    restore_item: Vec<(String, Arc<dyn RestoreItemAction>)>,
    delete_item: Vec<(String, Arc<dyn DeleteItemAction>)>,
    item_block: Vec<(String, Arc<dyn ItemBlockAction>)>,
    volume_snapshotter: Vec<(String, ConfiguredInstance<dyn VolumeSnapshotter>)>,
    object_store: Vec<(String, ConfiguredInstance<dyn ObjectStore>)>,
}

impl Plugin {
    /// Offers nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Offers an action for objects that are being saved, registered by its name as one of the second version
    /// (velero: pkg/plugin/framework/common).
    #[must_use]
    pub fn backup_item_action(mut self, action: impl BackupItemAction + 'static) -> Self {
        self.backup_item.push((action.name().to_owned(), Arc::new(action)));
        self
    }

    /// Offers an action for objects that are being restored, registered by its name as one of the second version.
    #[must_use]
    pub fn restore_item_action(mut self, action: impl RestoreItemAction + 'static) -> Self {
        self.restore_item.push((action.name().to_owned(), Arc::new(action)));
        self
    }

    /// Offers an action for objects of a backup that is being deleted.
    #[must_use]
    pub fn delete_item_action(mut self, action: impl DeleteItemAction + 'static) -> Self {
        self.delete_item.push((action.name().to_owned(), Arc::new(action)));
        self
    }

    /// Offers an action that says which objects are saved together. Velero knows this kind since 1.15: an older one refuses to start with a
    /// program that offers one.
    #[must_use]
    pub fn item_block_action(mut self, action: impl ItemBlockAction + 'static) -> Self {
        self.item_block.push((action.name().to_owned(), Arc::new(action)));
        self
    }

    /// Offers a snapshotter of volumes by this name. `make` is called each time a server gives the configuration of a location; what
    /// it makes takes the place of what it made before.
    #[must_use]
    pub fn volume_snapshotter<S, F>(mut self, name: &str, make: impl Fn(Config) -> F + Send + Sync + 'static) -> Self
    where
        S: VolumeSnapshotter + 'static,
        F: Future<Output = Result<S, ActionError>> + Send + 'static,
    {
        let made = ConfiguredInstance::new(Box::new(move |config| {
            let making = make(config);
            Box::pin(async { Ok(Arc::new(making.await?) as Arc<dyn VolumeSnapshotter>) })
        }));
        self.volume_snapshotter.push((name.to_owned(), made));
        self
    }

    /// Offers an object store by this name, made as [`Self::volume_snapshotter`] says.
    #[must_use]
    pub fn object_store<S, F>(mut self, name: &str, make: impl Fn(Config) -> F + Send + Sync + 'static) -> Self
    where
        S: ObjectStore + 'static,
        F: Future<Output = Result<S, ActionError>> + Send + 'static,
    {
        let made = ConfiguredInstance::new(Box::new(move |config| {
            let making = make(config);
            Box::pin(async { Ok(Arc::new(making.await?) as Arc<dyn ObjectStore>) })
        }));
        self.object_store.push((name.to_owned(), made));
        self
    }

    /// Serves what is offered until the server that has started this program says that it is to end, or is gone. Makes a runtime of its
    /// own. Started by a person, it says what it is and fails. The process is to end with what it gives: 0 when it was told to end, 1 when
    /// it cannot serve or was started by a person, 2 for a flag that it does not know.
    #[must_use]
    pub fn serve(self) -> ExitCode {
        let parent = parent_id();
        let launch = Launch::read(|name| std::env::var_os(name), std::env::args_os());
        let (catalog, problems) = self.catalog();
        if launch == Err(LaunchRefusal::NoServer) {
            // The standard error is all there is to say it on.
            let _ = std::io::stderr().write_all(introduction(&catalog).as_bytes());
            return ExitCode::FAILURE;
        }
        let level = launch.as_ref().map_or(LevelFilter::INFO, |launch| launch.level);
        if tracing::subscriber::set_global_default(log::subscriber(level, std::io::stderr())).is_err() {
            tracing::warn!(
                "The program has a subscriber of tracing of its own: the server does not get what is logged"
            );
        }
        caught::note_panics();
        for problem in problems {
            tracing::error!("{problem}");
        }
        let served = match launch {
            Err(refusal) => {
                tracing::error!("The plugin cannot be started: {refusal}");
                // Programs of Go end so when a flag is wrong.
                return ExitCode::from(if matches!(refusal, LaunchRefusal::Flag(_)) { 2 } else { 1 });
            }
            Ok(launch) => run(catalog, &launch, parent),
        };
        match served {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                tracing::error!("The plugin cannot serve: {why}");
                ExitCode::FAILURE
            }
        }
    }

    /// Collects the plugins that can be registered, and the reasons for which the others cannot.
    fn catalog(self) -> (Catalog, Vec<String>) {
        let mut problems = Vec::new();
        let catalog = Catalog {
            backup_item: PluginsByName::new("BackupItemActionV2", self.backup_item, &mut problems),
            volume_snapshotter: PluginsByName::new("VolumeSnapshotter", self.volume_snapshotter, &mut problems),
            object_store: PluginsByName::new("ObjectStore", self.object_store, &mut problems),
            restore_item: PluginsByName::new("RestoreItemActionV2", self.restore_item, &mut problems),
            delete_item: PluginsByName::new("DeleteItemAction", self.delete_item, &mut problems),
            item_block: PluginsByName::new("ItemBlockAction", self.item_block, &mut problems),
        };
        (catalog, problems)
    }
}

/// Serves in a runtime.
fn run(catalog: Catalog, launch: &Launch, parent: u32) -> Result<(), String> {
    if tokio::runtime::Handle::try_current().is_ok() {
        return Err("it is called in a runtime, and makes one of its own: take #[tokio::main] off".to_owned());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|why| format!("its threads cannot be started: {why}"))?;
    let served = runtime.block_on(server::serve(catalog, launch, parent));
    // A call that does not return is no reason to stay.
    runtime.shutdown_background();
    served.map_err(|why| why.to_string())
}

/// Text for a person who starts the program by hand.
fn introduction(catalog: &Catalog) -> String {
    let offers: Vec<String> = catalog.identities().iter().map(|(kind, name)| format!("  {kind} {name}\n")).collect();
    format!(
        "This is a plugin for Velero and Lifeboat, whose servers start it themselves when it lies in their folder for plugins \
         (/plugins).\nIt offers:\n{}",
        offers.concat()
    )
}
