//! Data of the status, read once.

use super::node_agents::{daemon_set, daemon_sets, is_node_agent};
use crate::resource::expiry::lists;
use crate::resource::moving::TransfersOf;
use anyhow::{Context, Result};
use lifeboat_api::ObjectMeta;
use lifeboat_client::Client;
use lifeboat_cluster::{ClusterError, ListRequest};
use lifeboat_lifecycle::coverage::{Inventory, MoverInventory, NamespaceInventory, namespace_to_protect};
use lifeboat_lifecycle::next_backups::NextBackups;
use lifeboat_lifecycle::phase::facts::is_running;
use lifeboat_lifecycle::phase::restore::has_ended;
use lifeboat_object::ApiResource;
use lifeboat_requests::status::{server_answer, server_status};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_view::transfer::{VolumeTransfer, sort_transfers};
use std::collections::BTreeMap;
use std::time::Duration;

/// Reason why nothing is shown when namespaces cannot be read.
pub(super) const WITHOUT_NAMESPACES: &str = "without the namespaces of the cluster nobody knows what is not protected";
/// The same of claims.
pub(super) const WITHOUT_CLAIMS: &str =
    "without the claims of the cluster nobody knows which volumes are not protected";

/// The same of repositories.
pub(super) const WITHOUT_REPOSITORIES: &str =
    "without the repositories of volume data nobody knows whether they are maintained";
/// The same of DaemonSets.
pub(super) const WITHOUT_NODE_AGENTS: &str =
    "without the DaemonSets of the server's namespace nobody knows whether a node agent works";

/// The same of the transfers of volumes.
pub(super) const WITHOUT_TRANSFERS: &str = "without the transfers of volumes nobody knows how far they are";

/// Asks the server what it is and what the next backups would do.
pub(super) struct ServerQuery {
    client: Client,
    patience: Duration,
    /// For the question that takes longer.
    patient: Client,
}

/// The answers of the server about itself and about the next backups.
#[derive(Clone)]
pub(super) struct ServerReport {
    /// Its version, or why that is not known.
    pub(super) version: Result<String, String>,
    /// `None` when no server answers, or it does not know the question.
    pub(super) next_backups: Option<NextBackups>,
}

impl ServerQuery {
    /// Asks for the version with this patience. Which request was not answered is only known when it gives up before the answer
    /// is due.
    pub(super) async fn new(globals: &Globals, patience: lifeboat_api::Duration) -> Result<Self> {
        Ok(Self {
            client: globals.with_requests_within(patience).client().await?,
            patience: patience.to_std(),
            patient: globals.with_requests_within(LOOKING).client().await?,
        })
    }

    /// Asks for both.
    pub(super) async fn ask(&self) -> ServerReport {
        let version = self.version().await;
        // A server that is not there is not waited for once more.
        let next_backups = if version.is_ok() { self.next_backups().await } else { None };
        ServerReport { version, next_backups }
    }

    /// Asks for the version, and also for the next backups where the last report does not say them or is not taken as it is.
    pub(super) async fn ask_again(&self, last: &ServerReport, is_looked_at_again: bool) -> ServerReport {
        if is_looked_at_again || last.version.is_err() {
            return self.ask().await;
        }
        match self.version().await {
            Err(why) => ServerReport { version: Err(why), next_backups: None },
            version => ServerReport { version, next_backups: last.next_backups.clone() },
        }
    }

    async fn version(&self) -> Result<String, String> {
        let answer = server_status(&self.client, self.patience).await;
        answer.map(|answer| answer.server_version).map_err(|e| format!("{e:#}"))
    }

    /// Asks for the effects of the next backups on volumes; `None` when the server does not know the question.
    async fn next_backups(&self) -> Option<NextBackups> {
        match server_answer(&self.patient, LOOKING.to_std(), NextBackups::ask).await {
            Ok(answered) => NextBackups::of(&answered),
            Err(e) => Some(NextBackups { unknown: format!("{e:#}"), ..NextBackups::default() }),
        }
    }
}

/// Longest time that the server may take to look at what the next backups would do with volumes: longer than it does by
/// itself.
const LOOKING: lifeboat_api::Duration = lifeboat_api::Duration::from_secs(30);

/// Reads all data that the status shows of the cluster.
pub(super) async fn inventory(client: &Client) -> Result<Inventory> {
    let mut claims = BTreeMap::<String, u64>::new();
    let (lists, movers, mut namespaces, counted) = tokio::try_join!(
        lists(client),
        movers(client),
        async { unless_forbidden(namespaces_to_protect(client).await, WITHOUT_NAMESPACES) },
        async {
            let take = |meta: ObjectMeta| *claims.entry(meta.namespace).or_default() += 1;
            unless_forbidden(
                client.cluster.each_metadata(&ApiResource::persistent_volume_claims(), None, "", take).await,
                WITHOUT_CLAIMS,
            )
        },
    )?;
    if counted.is_some() {
        for one in namespaces.iter_mut().flatten() {
            one.claims = Some(claims.get(&one.facts.name).copied().unwrap_or_default());
        }
    }
    Ok(Inventory { lists, namespaces, next_backups: None, movers })
}

/// The transfers of volumes of backups and restores that run, in the order in which they are shown.
pub(super) async fn transfers(client: &Client, inventory: &Inventory) -> Result<Vec<VolumeTransfer>> {
    let lists = &inventory.lists;
    let backups = lists.backups.iter().filter(|backup| is_running(backup));
    let backups: Vec<&str> = backups.map(|backup| backup.metadata.name.as_str()).collect();
    let restores = lists.restores.iter().filter(|restore| !has_ended(restore));
    let restores: Vec<&str> = restores.map(|restore| restore.metadata.name.as_str()).collect();
    let mut found = TransfersOf::Backups.list(client, &backups).await.context(WITHOUT_TRANSFERS)?;
    found.extend(TransfersOf::Restores.list(client, &restores).await.context(WITHOUT_TRANSFERS)?);
    found.retain(|transfer| !transfer.has_ended());
    sort_transfers(&mut found);
    Ok(found)
}

/// The movers of the data of volumes.
async fn movers(client: &Client) -> Result<MoverInventory> {
    let repositories = unless_forbidden(client.list("").await, WITHOUT_REPOSITORIES)?;
    let request = ListRequest::all(daemon_sets()).in_namespace(client.namespace.clone());
    let listed = async {
        let (mut list, mut found) = (client.cluster.list(request), Vec::new());
        while let Some(bodies) = list.next().await? {
            found.extend(bodies.iter().filter_map(|body| daemon_set(body).ok()).filter(is_node_agent));
        }
        Ok(found)
    };
    let node_agents = unless_forbidden(listed.await, WITHOUT_NODE_AGENTS)?;
    let (repositories, node_agents) = (repositories.unwrap_or_default(), node_agents.unwrap_or_default());
    Ok(MoverInventory { repositories, node_agents })
}

/// `None` for objects that the user may not list.
fn unless_forbidden<T>(listed: Result<T, ClusterError>, without: &'static str) -> Result<Option<T>> {
    match listed {
        Err(e) if e.is_forbidden() => Ok(None),
        listed => listed.map(Some).context(without),
    }
}

/// The namespaces that need protection: all but those that the rules leave out.
async fn namespaces_to_protect(client: &Client) -> Result<Vec<NamespaceInventory>, ClusterError> {
    let mut found = Vec::new();
    let take = |meta: ObjectMeta| found.extend(namespace_to_protect(meta, &client.namespace));
    client.cluster.each_metadata(&ApiResource::namespaces(), None, "", take).await?;
    Ok(found)
}
