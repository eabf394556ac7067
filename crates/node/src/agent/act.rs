//! Performs the steps of transfers. Each can be repeated: what it makes may be there, and what it removes gone.

use crate::agent::patch;
use crate::config::NodeAgentConfig;
use crate::exposer::error::ExposeError;
use crate::exposer::perform::Exposer;
use crate::exposer::remove::{remove_all, remove_pod};
use crate::kube::{Kube, ObjectName, is_owned_by, text, uid};
use crate::outcome::TransferResult;
use crate::rebind::{self, DeliveryStep, DeliveryView, next_step};
use crate::resources;
use crate::rules::{Ending, Step};
use crate::settings::AgentSettings;
use crate::transfer::{Delivery, Transfer, TransferRequest};
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{DataPathPhase, Time};
use lifeboat_cluster::{ClusterError, Failure, PodLogRequest};
use lifeboat_mover::protocol::{Bytes as Moved, reason};
use serde_json::Value;
use std::time::Duration;

/// The most lines of a pod's log that are copied into the log of the agent.
const MOST_LINES: u32 = 1000;
/// The longest time for copying it.
const LOG_LIMIT: Duration = Duration::from_secs(30);
/// The pause before a wait is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The pause between two steps of a delivery that waits for others.
const DELIVERY_PAUSE: Duration = Duration::from_secs(1);
/// The pause between two looks for a target that is on no node.
const TARGET_PAUSE: Duration = Duration::from_secs(60);

/// The result of a step.
#[derive(Debug)]
pub(super) enum Acted {
    /// The transfer as it is stored now.
    Stored(Box<Transfer>),
    /// There is more to do, which the next look shows.
    More,
    /// It waits for something, and is looked at again after this pause.
    Waits(String, Duration),
    /// Bytes so far.
    Moved(Moved, Option<Box<Transfer>>),
}

/// Everything with which steps are performed.
#[derive(Clone, Debug)]
pub(super) struct Actor {
    pub(super) kube: Kube,
    pub(super) settings: AgentSettings,
    pub(super) config: NodeAgentConfig,
    /// The time of the decision.
    pub(super) now: Timestamp,
}

impl Actor {
    pub(super) async fn perform(&self, transfer: &Transfer, step: Step) -> Result<Acted, ClusterError> {
        match step {
            Step::Nothing | Step::Wait { .. } => Ok(Acted::More),
            Step::AddFinalizer => self.store(transfer, patch::add_finalizer(transfer)).await,
            Step::FindTarget => self.find_target(transfer).await,
            Step::Accept => self.accept(transfer).await,
            Step::Expose => self.expose(transfer).await,
            Step::Prepare { node } => self.store(transfer, patch::prepare(transfer, &node)).await,
            Step::Begin => self.store(transfer, patch::begin(transfer, self.now)).await,
            Step::RequestCancel { message } => self.store(transfer, patch::request_cancel(transfer, &message)).await,
            Step::Cancel => self.store(transfer, patch::cancel(transfer)).await,
            Step::Note { message } => self.store(transfer, patch::note(transfer, &message)).await,
            Step::Report => self.report(transfer).await,
            Step::Deliver { total_bytes } => Box::pin(self.deliver(transfer, total_bytes)).await,
            Step::End(ending) => self.end(transfer, &ending).await,
            Step::CleanUp => {
                remove_all(&self.kube, transfer).await?;
                self.store(transfer, patch::remove_finalizer(transfer)).await
            }
        }
    }

    async fn store(&self, transfer: &Transfer, patch: Value) -> Result<Acted, ClusterError> {
        let resource = transfer.kind.resource();
        let of =
            ObjectName { resource: &resource, namespace: Some(&transfer.meta.namespace), name: &transfer.meta.name };
        match self.kube.patch(of, &patch).await {
            Ok(stored) => match Transfer::parse(transfer.kind, &stored) {
                Ok(stored) => Ok(Acted::Stored(Box::new(stored))),
                Err(e) => {
                    let failure = Failure::Invalid(e.to_string());
                    Err(ClusterError { verb: "patch", what: transfer.meta.name.clone(), failure })
                }
            },
            // Another client was faster, and the mirror shows what it did.
            Err(e) if e.is_conflict() || e.is_not_found() => {
                Ok(Acted::Waits("it has changed meanwhile".to_owned(), Duration::from_millis(500)))
            }
            Err(e) => Err(e),
        }
    }

    async fn fail(&self, transfer: &Transfer, message: String) -> Result<Acted, ClusterError> {
        let ending = Ending { phase: DataPathPhase::Failed, message, result: None, has_no_pod: false };
        self.end(transfer, &ending).await
    }

    /// Looks for the pod of a transfer that no agent takes up, and ends the transfer when it is gone.
    async fn find_target(&self, transfer: &Transfer) -> Result<Acted, ClusterError> {
        let Some((of, _)) = transfer.volume_of_pod() else { return Ok(Acted::More) };
        let (namespace, name, participle) = (&of.namespace, &of.name, transfer.kind.participle());
        let pod = self.kube.find(&resources::pods(), Some(namespace), name).await?;
        if pod.is_none_or(|pod| uid(&pod) != of.uid) {
            let why = format!("the pod {namespace}/{name}, whose volume is to be {participle}, is gone");
            return self.fail(transfer, why).await;
        }
        Ok(Acted::Waits(format!("the node agent on the node of pod {namespace}/{name}"), TARGET_PAUSE))
    }

    async fn accept(&self, transfer: &Transfer) -> Result<Acted, ClusterError> {
        if let TransferRequest::DataDownload(spec) = &transfer.request {
            let (namespace, name) = (&spec.target_volume.namespace, &spec.target_volume.pvc);
            if self.kube.find(&resources::claims(), Some(namespace), name).await?.is_none() {
                // The claim is restored after the download is made.
                let made = transfer.meta.creation_timestamp.map_or(self.now, Time::timestamp);
                let limit = SignedDuration::try_from(self.settings.prepare_timeout).unwrap_or(SignedDuration::MAX);
                return match self.now.duration_since(made) >= limit {
                    true => self.fail(transfer, format!("the target claim {namespace}/{name} does not exist")).await,
                    false => {
                        Ok(Acted::Waits(format!("the target claim {namespace}/{name} does not exist yet"), LOOK_AGAIN))
                    }
                };
            }
        }
        self.store(transfer, patch::accept(transfer, &self.settings.node, self.now)).await
    }

    async fn expose(&self, transfer: &Transfer) -> Result<Acted, ClusterError> {
        let exposer = Exposer { kube: &self.kube, settings: &self.settings, config: &self.config };
        match exposer.expose(transfer).await {
            // The mirror shows the pod.
            Ok(()) => Ok(Acted::Waits("its pod was made".to_owned(), LOOK_AGAIN)),
            Err(ExposeError::Waits(reason)) if transfer.message != reason => {
                self.store(transfer, patch::note(transfer, &reason)).await
            }
            Err(ExposeError::Waits(reason)) => Ok(Acted::Waits(reason, LOOK_AGAIN)),
            Err(ExposeError::Cluster(e)) if ExposeError::can_pass_of(&e) => Err(e),
            Err(why) => self.fail(transfer, format!("{}: {why}", transfer.kind.expose_context())).await,
        }
    }

    /// Reads how far the pod has come, from its Events, and shows it when it has moved on.
    async fn report(&self, transfer: &Transfer) -> Result<Acted, ClusterError> {
        let fields = format!("involvedObject.name={},reason={}", transfer.meta.name, reason::PROGRESS);
        let namespace = Some(transfer.meta.namespace.as_str());
        let events = self.kube.list(resources::events(), namespace, "", &fields).await?;
        let own = events.iter().filter(|event| text(event, &["involvedObject", "uid"]) == transfer.meta.uid);
        let moved = own.filter_map(|event| serde_json::from_str::<Moved>(text(event, &["message"])).ok());
        let Some(moved) = moved.max_by_key(|moved| moved.done_bytes) else {
            return Ok(Acted::Moved(Moved::default(), None));
        };
        if (moved.total_bytes, moved.done_bytes) == (transfer.progress.total_bytes, transfer.progress.bytes_done) {
            return Ok(Acted::Moved(moved, None));
        }
        let patch = patch::progress(transfer, moved.total_bytes, moved.done_bytes);
        match self.store(transfer, patch).await? {
            Acted::Stored(stored) => Ok(Acted::Moved(moved, Some(stored))),
            _ => Ok(Acted::Moved(moved, None)),
        }
    }

    async fn end(&self, transfer: &Transfer, ending: &Ending) -> Result<Acted, ClusterError> {
        let pod = self.kube.find(&resources::pods(), Some(&transfer.meta.namespace), &transfer.meta.name).await?;
        let pod = pod.filter(|pod| is_owned_by(pod, &transfer.meta.uid));
        if let Some(pod) = &pod {
            if ending.has_no_pod {
                return Ok(Acted::Waits("its pod is there after all".to_owned(), Duration::from_secs(1)));
            }
            self.copy_log(transfer, pod).await;
        }
        let (kind, name, phase) = (transfer.kind.word(), &transfer.meta.name, ending.phase.as_str());
        match ending.phase {
            DataPathPhase::Completed => {
                let bytes = ending.result.as_ref().map(|result| result.total_bytes);
                tracing::info!(kind, name, bytes, "completed");
            }
            _ => tracing::warn!(kind, name, phase, message = ending.message, "ended"),
        }
        self.store(transfer, patch::end(transfer, ending, self.now)).await
    }

    /// Copies the log of a pod, which is removed soon, into that of the agent.
    async fn copy_log(&self, transfer: &Transfer, pod: &Value) {
        let (namespace, name) = (&transfer.meta.namespace, &transfer.meta.name);
        let container = text(&pod["spec"]["containers"][0], &["name"]);
        let request = PodLogRequest { namespace, pod: name, container, previous: false, newest_lines: MOST_LINES };
        let read = async {
            let mut all = Vec::new();
            if let Some(mut log) = self.kube.0.pod_log(request).await? {
                while let Some(piece) = log.next().await? {
                    all.extend_from_slice(&piece);
                }
            }
            Ok::<_, ClusterError>(all)
        };
        match tokio::time::timeout(LOG_LIMIT, read).await {
            Ok(Ok(log)) if !log.is_empty() => {
                let log = String::from_utf8_lossy(&log);
                tracing::info!(
                    "***************************begin pod logs[{name}/{container}]***************************\n{log}\n***************************end pod logs[{name}/{container}]***************************"
                );
            }
            Ok(Ok(_)) => {}
            Ok(Err(e)) => tracing::debug!(pod = name, error = %e, "the log of the pod cannot be copied"),
            Err(_) => tracing::debug!(pod = name, "the log of the pod did not come in time"),
        }
    }

    /// Does one step of a delivery.
    async fn deliver(&self, transfer: &Transfer, total_bytes: i64) -> Result<Acted, ClusterError> {
        let TransferRequest::DataDownload(spec) = &transfer.request else { return Ok(Acted::More) };
        let target_spec = &spec.target_volume;
        let own = Some(transfer.meta.namespace.as_str());
        let claim = self.kube.find(&resources::claims(), own, &transfer.meta.name).await?;
        let claim = claim.filter(|claim| is_owned_by(claim, &transfer.meta.uid));
        let Some(delivery) = transfer.delivery() else {
            return self.begin_delivery(transfer, claim.as_ref(), total_bytes).await;
        };
        let volume = self.kube.find(&resources::volumes(), None, &delivery.volume).await?;
        let target = self.kube.find(&resources::claims(), Some(&target_spec.namespace), &target_spec.pvc).await?;
        let pod = self.kube.find(&resources::pods(), own, &transfer.meta.name).await?;
        let has_pod = pod.is_some_and(|pod| is_owned_by(&pod, &transfer.meta.uid));
        let is_attached = !has_pod && claim.is_some() && self.is_attached(&delivery.volume).await?;
        let step = next_step(&DeliveryView {
            target_spec,
            delivery: &delivery,
            volume: volume.as_ref(),
            restore_claim: claim.as_ref(),
            target: target.as_ref(),
            has_pod,
            is_attached,
        });
        match step {
            DeliveryStep::PatchVolume(patch) => {
                let resource = resources::volumes();
                let of = ObjectName { resource: &resource, namespace: None, name: &delivery.volume };
                self.patched(of, &patch).await
            }
            DeliveryStep::PatchTarget(patch) => {
                let (resource, namespace) = (resources::claims(), Some(target_spec.namespace.as_str()));
                self.patched(ObjectName { resource: &resource, namespace, name: &target_spec.pvc }, &patch).await
            }
            DeliveryStep::RemovePod => {
                if let Some(pod) = self.kube.find(&resources::pods(), own, &transfer.meta.name).await? {
                    self.copy_log(transfer, &pod).await;
                }
                remove_pod(&self.kube, transfer).await.map(|()| Acted::More)
            }
            DeliveryStep::RemoveClaim => {
                let resource = resources::claims();
                let of = ObjectName { resource: &resource, namespace: own, name: &transfer.meta.name };
                self.kube.delete(of, claim.as_ref().map_or("", uid)).await.map(|()| Acted::More)
            }
            DeliveryStep::Wait(reason) => {
                let limit = SignedDuration::try_from(self.settings.resource_timeout).unwrap_or(SignedDuration::MAX);
                match self.now.duration_since(delivery.begun.timestamp()) >= limit {
                    true => {
                        let message = format!("error rebinding the restored volume {}: {reason}", delivery.volume);
                        self.fail(transfer, message).await
                    }
                    false => Ok(Acted::Waits(reason, DELIVERY_PAUSE)),
                }
            }
            DeliveryStep::Done => {
                let (phase, message) = (DataPathPhase::Completed, String::new());
                let result = Some(TransferResult::restored(delivery.total_bytes));
                self.end(transfer, &Ending { phase, message, result, has_no_pod: false }).await
            }
            DeliveryStep::Failed(why) => {
                self.fail(transfer, format!("error rebinding the restored volume {}: {why}", delivery.volume)).await
            }
        }
    }

    async fn begin_delivery(
        &self,
        transfer: &Transfer,
        claim: Option<&Value>,
        total_bytes: i64,
    ) -> Result<Acted, ClusterError> {
        let volume = claim.map_or("", |claim| text(claim, &["spec", "volumeName"]));
        let found = match volume {
            "" => None,
            volume => self.kube.find(&resources::volumes(), None, volume).await?,
        };
        let Some(found) = found else {
            let message = format!(
                "error rebinding: the claim {} in which the volume was restored, or its volume, is gone",
                transfer.meta.name
            );
            return self.fail(transfer, message).await;
        };
        let delivery = Delivery {
            volume: volume.to_owned(),
            reclaim_policy: text(&found, &["spec", "persistentVolumeReclaimPolicy"]).to_owned(),
            total_bytes,
            begun: Time::new(self.now),
        };
        self.store(transfer, rebind::begin(transfer, &delivery)).await
    }

    async fn is_attached(&self, volume: &str) -> Result<bool, ClusterError> {
        let all = self.kube.list(resources::attachments(), None, "", "").await?;
        Ok(all.iter().any(|attachment| text(attachment, &["spec", "source", "persistentVolumeName"]) == volume))
    }

    async fn patched(&self, of: ObjectName<'_>, patch: &Value) -> Result<Acted, ClusterError> {
        match self.kube.patch(of, patch).await {
            Ok(_) => Ok(Acted::More),
            Err(e) if e.is_conflict() => Ok(Acted::Waits("it has changed meanwhile".to_owned(), DELIVERY_PAUSE)),
            Err(e) => Err(e),
        }
    }
}
