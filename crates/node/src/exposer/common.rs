//! The steps that the exposers of all kinds have in common.

use crate::config::NodeAgentConfig;
use crate::exposer::claim::{cache_claim, cache_name};
use crate::exposer::copies::{UnfinishedUids, copy};
use crate::exposer::error::ExposeError;
use crate::exposer::make::ensure;
use crate::exposer::placement::{AllowedNodes, Placement};
use crate::exposer::pod::{MoverVolume, PodParts, mover_pod};
use crate::fairness::BusyNode;
use crate::kube::Kube;
use crate::resources;
use crate::settings::AgentSettings;
use crate::template::Template;
use crate::transfer::Transfer;
use lifeboat_api::well_known::{NODE_AGENT, NODE_AGENT_WINDOWS};
use lifeboat_api::{Duration, NamespacedName, NodeOs};

/// Everything with which transfers are prepared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exposer<'a> {
    pub(crate) kube: &'a Kube,
    pub(crate) settings: &'a AgentSettings,
    pub(crate) config: &'a NodeAgentConfig,
    /// The UIDs of transfers that are known to go on.
    pub(crate) unfinished: &'a UnfinishedUids,
    /// The nodes with bytes to move.
    pub(crate) busy: &'a [BusyNode],
}

impl Exposer<'_> {
    /// Copies Secrets and ConfigMaps, by their names, that drivers want in the namespace of a claim.
    pub(super) async fn copy_for_driver(
        &self,
        transfer: &Transfer,
        from: &str,
        [secrets, config_maps]: [&[String]; 2],
    ) -> Result<(), ExposeError> {
        for (resource, names) in [(resources::secrets(), secrets), (resources::config_maps(), config_maps)] {
            for name in names {
                copy(self.kube, &resource, &NamespacedName::new(from, name), transfer, self.unfinished).await?;
            }
        }
        Ok(())
    }

    /// Makes the claim of the cache, where there is to be one, and gives its name.
    pub(super) async fn cache(&self, transfer: &Transfer, node: Option<&str>) -> Result<Option<String>, ExposeError> {
        let Some(cache) = &self.config.cache else { return Ok(None) };
        let Some(claim) = cache_claim(transfer, cache, self.settings.cache_limit_mb, node) else { return Ok(None) };
        ensure(self.kube, &resources::claims(), &claim).await?;
        Ok(Some(cache_name(transfer)))
    }

    /// The parts of a pod that have its claim and may run anywhere.
    pub(super) fn parts<'a>(&'a self, transfer: &'a Transfer, template: &'a Template) -> PodParts<'a> {
        let timeout = self.settings.resource_timeout.as_secs().try_into().unwrap_or(i64::MAX);
        PodParts {
            transfer,
            template,
            config: self.config,
            os: transfer.node_os(),
            volume: MoverVolume::claim(&transfer.meta.name, false),
            placement: Placement::Any(AllowedNodes::default()),
            cache: None,
            user: None,
            resource_timeout: Duration::from_secs(timeout),
        }
    }

    pub(super) async fn start(&self, parts: PodParts<'_>) -> Result<(), ExposeError> {
        ensure(self.kube, &resources::pods(), &mover_pod(&parts)).await.map(drop)
    }

    /// The template of the DaemonSet for nodes of this operating system.
    pub(super) async fn template(&self, os: NodeOs) -> Result<Template, ExposeError> {
        let name = if os == NodeOs::Windows { NODE_AGENT_WINDOWS } else { NODE_AGENT };
        let found = self.kube.find(&resources::daemon_sets(), Some(&self.settings.namespace), name).await?;
        let found = found.ok_or_else(|| {
            ExposeError::Refused(format!(
                "the DaemonSet {}/{name}, from which the pods of movers inherit, does not exist",
                self.settings.namespace
            ))
        })?;
        Ok(Template::of(&found)?)
    }
}
