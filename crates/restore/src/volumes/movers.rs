//! The movers of a restore, and the image of the server, as the cluster has them.

use crate::actions::restore_wait::WaitSettings;
use crate::request::settings::MoverSettings;
use crate::state::env::Env;
use lifeboat_api::Restore;
use lifeboat_cluster::ClusterError;
use lifeboat_object::{ApiResource, ResultScope};
use lifeboat_volume::Movers;
use lifeboat_volume::fs_backup::has_node_agent;
use serde_json::Value;
use std::collections::BTreeMap;

/// Finds out which movers the restore has. A node agent that cannot be seen counts as missing, with a warning.
///
/// # Errors
/// [`ClusterError`]: the cluster did not answer.
pub(crate) async fn find(settings: &MoverSettings, restore: &Restore, env: &Env) -> Result<Movers, ClusterError> {
    let namespace = &restore.metadata.namespace;
    if settings.pods.is_some() {
        return Ok(Movers::Pods);
    }
    if !settings.may_be_used || namespace.is_empty() {
        return Ok(Movers::default());
    }
    match has_node_agent(&env.cluster, namespace).await {
        Err(e) if e.is_denied() => {
            let text = format!("whether a node agent is there is not known, so none is used: {e}");
            env.operation.journal.warn(&ResultScope::Velero, text);
            Ok(Movers::default())
        }
        found => Ok(if found? { Movers::NodeAgent } else { Movers::Missing }),
    }
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
        let resource = ApiResource::new("apps", "v1", "deployments", "Deployment");
        // Where it is not found the first pod that needs it says so.
        let found = env.cluster.get(&resource, Some(&restore.metadata.namespace), "velero").await.ok().flatten();
        let found = found.and_then(|body| serde_json::from_slice::<Value>(&body).ok()).unwrap_or_default();
        let image = found.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str);
        image.unwrap_or_default().clone_into(&mut server_image);
    }
    WaitSettings { config, server_image, server_version }
}
