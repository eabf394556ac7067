//! The plugins of a directory and their processes.

use crate::error::{DiscoveryError, PluginError};
use crate::identity::{PluginIdentity, PluginName};
use crate::options::HostOptions;
use lifeboat_action::{Actions, VolumeSnapshotter};
use lifeboat_bucket::BlobStore;
use lifeboat_operation::Journal;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The plugins of a directory, and the processes that run them. Clones are the same.
///
/// One process a program runs for all operations, from the first use until [`HostOptions::idle_timeout`] after the last; a store or a
/// snapshotter has one of its own for each configuration, because a plugin knows only the last one that it was given. A process
/// that ends by itself is started anew for the next call; one whose restart fails ten times in a row is given up, and each call
/// says so.
#[derive(Clone, Debug)]
pub struct PluginHost {}

impl PluginHost {
    /// Starts each program of the directory, asks it for its plugins, and ends it, one after the other in Velero's order
    /// (plugin-protocol.md 1.1 and 1.2). Files that are no programs, shared libraries, links to folders and kinds that are not
    /// known are told and passed over.
    ///
    /// # Errors
    /// Everything that is wrong with any program, when there is something: it cannot be run, does not answer within a minute,
    /// or reports a name that is wrong or taken.
    pub async fn discover(options: HostOptions) -> Result<Self, DiscoveryError> {
        let _ = options;
        todo!()
    }

    /// The plugins that programs have, in Velero's order: by program, by kind, by name.
    #[must_use]
    pub fn plugins(&self) -> &[PluginIdentity] {
        todo!()
    }

    /// The actions of all programs for one operation, in Velero's order, those of the first version as of the second
    /// (plugin-protocol.md 3.14); where a program has a name in both versions, the second. Starts the programs, and asks each
    /// action once what it applies to. As long as any of them is there, lines that the programs log go into the journal: those of a
    /// program with calls of several operations into the journals of all of these.
    ///
    /// # Errors
    /// When a program cannot be started, or an action does not say what it applies to: no operation may go on without it.
    pub async fn actions(&self, journal: &Journal) -> Result<Actions, PluginError> {
        let _ = journal;
        todo!()
    }

    /// The object store of this name, initialised with a location's configuration (plugin-protocol.md 4.4), as a bucket. Its keys are
    /// whole: the prefix is in the configuration for the plugin's own checks alone.
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
        let _ = (name, config);
        todo!()
    }

    /// The volume snapshotter of this name, initialised with a snapshot location's configuration (plugin-protocol.md 4.4).
    ///
    /// # Errors
    /// When no program has it, its program cannot be started, or it refuses the configuration.
    pub async fn volume_snapshotter(
        &self,
        name: &PluginName,
        config: BTreeMap<String, String>,
        journal: &Journal,
    ) -> Result<Arc<dyn VolumeSnapshotter>, PluginError> {
        let _ = (name, config, journal);
        todo!()
    }

    /// Ends all processes: asks each, waits two seconds, kills it, and waits until it is gone (plugin-protocol.md 1.9). Calls that are
    /// made later fail.
    pub async fn shut_down(&self) {
        todo!()
    }
}
