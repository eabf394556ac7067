//! `lifeboat node-agent server`: moves the bytes of volumes on one node.

use crate::listen::listen;
use crate::logrus::{self, LogFormat, LogLevel};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use lifeboat_api::Duration;
use lifeboat_api::well_known::HOST_PODS;
use lifeboat_node::{AgentSettings, Names, NodeAgentConfig, prepare, run, serve};
use lifeboat_terminal::flags;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::process::clock::clock;
use lifeboat_terminal::process::signals::terminated;
use lifeboat_terminal::process::traces::Traces;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Reads the data of the ConfigMap of this name as a node agent does when it starts. Gives the warnings.
///
/// # Errors
/// The reason for which a node agent does not start with it.
pub fn read_config(name: &str, data: &BTreeMap<String, String>) -> Result<Vec<String>, String> {
    NodeAgentConfig::parse(name, data).map(|parsed| parsed.warnings).map_err(|e| e.to_string())
}

/// Commands of the node agent.
#[derive(Debug, Subcommand)]
pub enum NodeAgentCommand {
    /// Run the node agent of a node: start a pod for each volume to be saved or restored, and follow it to its end
    Server(NodeAgentArgs),
}

/// Every flag of `velero node-agent server`, and what tests need.
#[derive(Debug, Args)]
pub struct NodeAgentArgs {
    /// The least important log lines to write
    #[arg(long, value_enum, default_value_t = LogLevel::Info)]
    log_level: LogLevel,
    /// Form of the log
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Longest wait for a single resource
    #[arg(long, value_parser = flags::positive_duration, default_value = "10m", value_name = "DURATION")]
    resource_timeout: Duration,
    /// Longest time for preparing a transfer, less the wait for a node that has room for its pod
    #[arg(long, value_parser = flags::positive_duration, default_value = "30m", value_name = "DURATION")]
    data_mover_prepare_timeout: Duration,
    /// Where to serve metrics (/metrics) and health (/healthz); empty for nowhere
    #[arg(long, default_value = ":8085", value_name = "ADDRESS")]
    metrics_address: String,
    /// A ConfigMap with the configuration of the node agent, in its namespace; it is read once
    #[arg(long, default_value = "", value_name = "NAME")]
    node_agent_configmap: String,
    /// A ConfigMap with settings of repositories, of which the size of the cache counts here
    #[arg(long, default_value = "", value_name = "NAME")]
    backup_repository_configmap: String,
    /// The name of the node
    #[arg(long, env = "NODE_NAME", hide = true, value_name = "NAME")]
    node_name: Option<String>,
    /// The directory with the pods' directories of the node
    #[arg(long, hide = true, default_value = HOST_PODS, value_name = "DIRECTORY")]
    host_pods: PathBuf,
}

impl NodeAgentCommand {
    /// Runs the node agent until it is told to stop.
    ///
    /// # Errors
    /// Flags and ConfigMaps that are wrong, a cluster that cannot be reached.
    pub async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let Self::Server(args) = self;
        let (traces, warning) = Traces::prepare(&globals.program.traces, None, true);
        logrus::start(args.log_level, args.log_format, &traces);
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        let ended = Box::pin(args.serve(globals)).await;
        tokio::task::block_in_place(|| traces.end());
        ended
    }
}

impl NodeAgentArgs {
    async fn serve(self, globals: &Globals) -> Result<ExitCode> {
        let Some(node) = self.node_name.filter(|name| !name.is_empty()) else {
            bail!("the name of the node is not known: set NODE_NAME, as the DaemonSet does from spec.nodeName");
        };
        let terminate = terminated()?;
        let listener = listen("--metrics-address", &self.metrics_address).await?;
        let settings = AgentSettings {
            node,
            namespace: globals.namespace.clone(),
            resource_timeout: self.resource_timeout.to_std(),
            prepare_timeout: self.data_mover_prepare_timeout.to_std(),
            host_root: self.host_pods,
            cache_limit_mb: 0,
        };
        let names = Names { config: self.node_agent_configmap, repository_config: self.backup_repository_configmap };
        let cluster = globals.connect().await?;
        let agent = prepare(cluster, settings, &names, clock()).await.context("start the node agent")?;
        let mut sites = JoinSet::new();
        if let Some(listener) = listener {
            sites.spawn(serve(listener, Arc::clone(&agent.health)));
        }
        let stop = CancellationToken::new();
        let running = run(agent, stop.clone());
        let mut running = std::pin::pin!(running);
        let ended = tokio::select! {
            ended = &mut running => ended,
            () = terminate => {
                tracing::info!("told to stop: transfers go on in their pods, and the next node agent takes them up");
                stop.cancel();
                running.await
            }
        };
        ended?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_map_with_which_no_agent_starts_is_told_from_one_with_warnings() {
        let read = |text: &str| read_config("c", &BTreeMap::from([("config".to_owned(), text.to_owned())]));
        let why =
            r#"error to unmarshall configs from c: movers.podSecurity "strict" is neither default nor restricted"#;
        assert_eq!(read(r#"{"movers": {"podSecurity": "strict"}}"#), Err(why.to_owned()));
        let warning = "the key movers.podSecurityMode is not known and has no effect";
        assert_eq!(read(r#"{"movers": {"podSecurityMode": "restricted"}}"#), Ok(vec![warning.to_owned()]));
        assert_eq!(read(r#"{"movers": {"podSecurity": "restricted"}}"#), Ok(Vec::new()));
    }
}
