//! The clients of a plugin's services, and the calls that come first.

use crate::connection::LARGEST_ANSWER;
use crate::identity::{PluginKind, PluginName};
use crate::wire;
use lifeboat_action::ActionScope;
use lifeboat_plugin_proto::generated::backup_item_action_client::BackupItemActionClient;
use lifeboat_plugin_proto::generated::delete_item_action_client::DeleteItemActionClient;
use lifeboat_plugin_proto::generated::object_store_client::ObjectStoreClient;
use lifeboat_plugin_proto::generated::plugin_lister_client::PluginListerClient;
use lifeboat_plugin_proto::generated::restore_item_action_client::RestoreItemActionClient;
use lifeboat_plugin_proto::generated::volume_snapshotter_client::VolumeSnapshotterClient;
use lifeboat_plugin_proto::v1::item_block_action_client::ItemBlockActionClient;
use lifeboat_plugin_proto::v2::backup_item_action_client::BackupItemActionClient as BackupItemActionV2Client;
use lifeboat_plugin_proto::v2::restore_item_action_client::RestoreItemActionClient as RestoreItemActionV2Client;
use lifeboat_plugin_proto::{generated, v1, v2};
use std::collections::BTreeMap;
use tonic::Status;
use tonic::transport::Channel;

/// Makes a function that gives the client of a service.
macro_rules! client {
    ($name:ident, $client:ident) => {
        pub(crate) fn $name(channel: Channel) -> $client<Channel> {
            $client::new(channel).max_decoding_message_size(LARGEST_ANSWER)
        }
    };
}

client!(lister, PluginListerClient);
client!(backup_item, BackupItemActionClient);
client!(backup_item_v2, BackupItemActionV2Client);
client!(restore_item, RestoreItemActionClient);
client!(restore_item_v2, RestoreItemActionV2Client);
client!(delete_item, DeleteItemActionClient);
client!(item_block, ItemBlockActionClient);
client!(volume_snapshotter, VolumeSnapshotterClient);
client!(object_store, ObjectStoreClient);

/// Asks a program for its plugins.
pub(crate) async fn list(channel: Channel) -> Result<Vec<generated::PluginIdentifier>, Status> {
    Ok(lister(channel).list_plugins(generated::Empty {}).await?.into_inner().plugins)
}

/// Asks an action what it applies to. Other kinds of plugins apply to nothing that could be asked.
pub(crate) async fn applies_to(channel: Channel, kind: PluginKind, name: &PluginName) -> Result<ActionScope, Status> {
    let plugin = name.as_str().to_owned();
    let selector = match kind {
        PluginKind::BackupItemAction => {
            let asked = generated::BackupItemActionAppliesToRequest { plugin };
            backup_item(channel).applies_to(asked).await?.into_inner().resource_selector
        }
        PluginKind::BackupItemActionV2 => {
            let asked = v2::BackupItemActionAppliesToRequest { plugin };
            backup_item_v2(channel).applies_to(asked).await?.into_inner().resource_selector
        }
        PluginKind::RestoreItemAction => {
            let asked = generated::RestoreItemActionAppliesToRequest { plugin };
            restore_item(channel).applies_to(asked).await?.into_inner().resource_selector
        }
        PluginKind::RestoreItemActionV2 => {
            let asked = v2::RestoreItemActionAppliesToRequest { plugin };
            restore_item_v2(channel).applies_to(asked).await?.into_inner().resource_selector
        }
        PluginKind::DeleteItemAction => {
            let asked = generated::DeleteItemActionAppliesToRequest { plugin };
            delete_item(channel).applies_to(asked).await?.into_inner().resource_selector
        }
        PluginKind::ItemBlockAction => {
            let asked = v1::ItemBlockActionAppliesToRequest { plugin };
            item_block(channel).applies_to(asked).await?.into_inner().resource_selector
        }
        PluginKind::ObjectStore | PluginKind::VolumeSnapshotter => None,
    };
    Ok(wire::scope(selector))
}

/// Gives a store or a snapshotter its configuration. Other kinds of plugins have none.
pub(crate) async fn init(
    channel: Channel,
    kind: PluginKind,
    name: &PluginName,
    config: &BTreeMap<String, String>,
) -> Result<(), Status> {
    let plugin = name.as_str().to_owned();
    let config = config.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    match kind {
        PluginKind::ObjectStore => {
            object_store(channel).init(generated::ObjectStoreInitRequest { plugin, config }).await?;
        }
        PluginKind::VolumeSnapshotter => {
            volume_snapshotter(channel).init(generated::VolumeSnapshotterInitRequest { plugin, config }).await?;
        }
        _ => {}
    }
    Ok(())
}
