//! The movers of a restore, and the image of the server, as the cluster has them.

use crate::actions::restore_wait::WaitSettings;
use crate::request::settings::MoverSettings;
use crate::state::env::Env;
use lifeboat_api::Restore;
use lifeboat_cluster::ClusterError;
use lifeboat_object::ResultScope;
use lifeboat_volume::Movers;
use lifeboat_volume::fs_backup::{NodeAgents, find_server_image, node_agents, unready_node_agents, unseen_node_agent};
use std::collections::BTreeMap;

/// The movers of a restore with these settings, where these node agents are.
pub(crate) fn movers_of(settings: &MoverSettings, agents: NodeAgents) -> Movers {
    match agents.are_there {
        _ if settings.pods.is_some() => Movers::Pods,
        true => Movers::NodeAgent,
        false => Movers::Missing,
    }
}

/// Looks for a node agent. One that cannot be seen counts as missing, with a warning. Where the restore starts movers itself, none is
/// looked for.
///
/// # Errors
/// [`ClusterError`]: the cluster did not answer.
pub(crate) async fn find(settings: &MoverSettings, restore: &Restore, env: &Env) -> Result<NodeAgents, ClusterError> {
    let namespace = &restore.metadata.namespace;
    if settings.pods.is_some() || !settings.may_be_used || namespace.is_empty() {
        return Ok(NodeAgents::default());
    }
    match node_agents(&env.cluster, namespace).await {
        Err(e) if e.is_denied() => {
            let text = unseen_node_agent(namespace, &e);
            env.operation.journal.warn(&ResultScope::Velero, text);
            Ok(NodeAgents::default())
        }
        found => found,
    }
}

/// Warns that data from repositories waits for a node agent that is ready on no node.
pub(crate) fn tell_waiting(restore: &Restore, env: &Env) {
    let text = unready_node_agents(&restore.metadata.namespace, "the data of volumes in repositories");
    env.operation.journal.warn(&ResultScope::Velero, text);
}

/// The settings of the init container in which pods wait: this configuration, and the image of the server.
pub(crate) async fn wait_settings(
    settings: &MoverSettings,
    config: BTreeMap<String, String>,
    restore: &Restore,
    env: &Env,
) -> WaitSettings {
    let server_version = settings.version.clone();
    let mut server_image = settings.image.clone();
    if server_image.is_empty() && settings.may_be_used {
        // Where it is not found the first pod that needs it says so.
        server_image = find_server_image(&env.cluster, &restore.metadata.namespace).await;
    }
    WaitSettings { config, server_image, server_version }
}
