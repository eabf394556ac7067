//! The server's version and plugins, by a ServerStatusRequest.

use anyhow::{Context, Result, bail};
use lifeboat_api::{ServerStatusRequest, ServerStatusRequestPhase, ServerStatusRequestStatus};
use lifeboat_control::Client;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Between two looks at a request.
const LOOK: Duration = Duration::from_millis(100);

/// Asks the server what it is. The request is left to the server, which deletes it after a minute.
///
/// # Errors
/// When the cluster or the server does not answer in time.
pub(crate) async fn server_status(client: &Client, patience: Duration) -> Result<ServerStatusRequestStatus> {
    match timeout(patience, ask(client)).await {
        Ok(answer) => answer,
        Err(_) => bail!("timed out waiting for server status request to be processed"),
    }
}

async fn ask(client: &Client) -> Result<ServerStatusRequestStatus> {
    let mut request = ServerStatusRequest::default();
    request.metadata.generate_name = "velero-cli-".to_owned();
    request.metadata.namespace.clone_from(&client.namespace);
    let made = client.create("velero-cli", &request).await?.context("the made-up name of the request is taken")?;
    let name = &made.metadata.name;
    loop {
        let found: ServerStatusRequest = client.get(name).await?.context("the request is gone without an answer")?;
        if found.status.phase == Some(ServerStatusRequestPhase::Processed) {
            return Ok(found.status);
        }
        sleep(LOOK).await;
    }
}
