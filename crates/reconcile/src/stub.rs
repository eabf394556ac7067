//! A cluster that answers as it is told.

use lifeboat_cluster::{Cluster, ConnectOptions};
use lifeboat_testbed::scripted_api_server;
use serde_json::Value;
use tokio::task::JoinSet;

/// A cluster whose API server answers with these codes and bodies, one after the other, and with the last one again and
/// again.
pub(crate) async fn api_server(tasks: &mut JoinSet<()>, answers: Vec<(u16, Value)>) -> Cluster {
    let answers = answers.into_iter().map(|(code, body)| (code, body.to_string())).collect();
    let kubeconfig = scripted_api_server(tasks, answers).await.unwrap();
    let options = ConnectOptions { kubeconfig: Some(kubeconfig.path().to_owned()), ..ConnectOptions::default() };
    Cluster::connect(&options).await.unwrap()
}
