//! A plugin with something of each kind. What it does goes by the names of objects, so that the tests of the protocol can ask for it.

mod actions;
mod files;
mod operations;
mod volumes;

use actions::{Block, Delete, Odd};
use lifeboat_plugin_sdk::{ActionError, Config, Plugin};
use operations::{Restore, Save};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

/// Refuses a configuration with keys other than these and the ones that servers add.
fn checked(config: Config, known: &[&str]) -> Result<Config, ActionError> {
    let odd: Vec<&String> = config.keys().filter(|key| !known.contains(&key.as_str())).collect();
    if odd.is_empty() { Ok(config) } else { Err(ActionError::item(format!("config has invalid keys {odd:?}"))) }
}

fn main() -> ExitCode {
    let objects = Arc::new(Mutex::default());
    Plugin::new()
        .object_store("example.io/files", move |config| {
            let objects = objects.clone();
            async move {
                let config = checked(config, &["bucket", "prefix", "caCert", "endpoint"])?;
                Ok(files::Files::new(config, objects))
            }
        })
        .volume_snapshotter("example.io/volumes", async |config| {
            Ok(volumes::Volumes { config: checked(config, &["zone"])? })
        })
        .backup_item_action(Save)
        .backup_item_action(Odd)
        .restore_item_action(Restore)
        .delete_item_action(Delete)
        .item_block_action(Block)
        .serve()
}
