//! The server's version and plugins, by a ServerStatusRequest.

use anyhow::{Context, Result, bail};
use lifeboat_api::{ServerStatusRequest, ServerStatusRequestPhase, ServerStatusRequestStatus};
use lifeboat_client::{Client, FollowedObject};
use lifeboat_cluster::{ClusterError, Failure};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Asks the server what it is. The request is left to the server, which deletes it after a minute. No request of the
/// client should have more time than the answer: which of them was not answered is only known when it gives up itself.
///
/// # Errors
/// When the cluster or the server does not answer in time.
pub async fn server_status(client: &Client, patience: Duration) -> Result<ServerStatusRequestStatus> {
    server_answer(client, patience, |_| ()).await.map(|answered| answered.status)
}

/// The same with a request that may ask for more, and the whole answer.
///
/// # Errors
/// As [`server_status`].
pub async fn server_answer(
    client: &Client,
    patience: Duration,
    ask: impl FnOnce(&mut ServerStatusRequest),
) -> Result<ServerStatusRequest> {
    let end = Instant::now() + patience;
    let mut request = ServerStatusRequest::default();
    ask(&mut request);
    request.metadata.generate_name = "velero-cli-".to_owned();
    request.metadata.namespace.clone_from(&client.namespace);
    let made = client.create("velero-cli", &request).await.map_err(|e| with_place(e, client))?;
    let made = made.context("the made-up name of the request is taken")?;
    match timeout_at(end, answer(client, &made.metadata.name)).await {
        Ok(answer) => answer,
        Err(_) => bail!("timed out waiting for server status request to be processed"),
    }
}

/// A silent server is the one failure of a request that does not name its address.
fn with_place(error: ClusterError, client: &Client) -> anyhow::Error {
    match error.failure {
        Failure::Timeout(_) => anyhow::anyhow!("{error} ({})", client.cluster.url()),
        _ => error.into(),
    }
}

async fn answer(client: &Client, name: &str) -> Result<ServerStatusRequest> {
    let mut follow = client.follow::<ServerStatusRequest>(name);
    loop {
        match follow.next().await? {
            FollowedObject::Gone => bail!("the request is gone without an answer"),
            FollowedObject::Is(answered) if answered.status.phase == Some(ServerStatusRequestPhase::Processed) => {
                return Ok(answered);
            }
            FollowedObject::Is(_) => {}
        }
    }
}
