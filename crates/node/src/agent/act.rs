//! Performs the steps of transfers. Each can be repeated: what it makes may be there, and what it removes gone.

use crate::agent::patch;
use crate::agent::world::OtherTransfers;
use crate::attachments::{WAITS_FOR_ATTACHMENT, full_nodes};
use crate::attempts::KilledMover;
use crate::config::NodeAgentConfig;
use crate::exposer::common::Exposer;
use crate::exposer::copies::{is_about_copy, waits_for_copy};
use crate::exposer::diagnose::diagnose;
use crate::exposer::error::ExposeError;
use crate::exposer::remove::{Removal, remove_all, remove_pod};
use crate::kube::{Kube, ObjectName, is_owned_by, text, uid};
use crate::resources;
use crate::rules::{Ending, Step};
use crate::settings::AgentSettings;
use crate::transfer::{Transfer, TransferRequest};
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{DataPathPhase, Time};
use lifeboat_cluster::{ClusterError, Failure, PodLogRequest};
use lifeboat_mover::protocol::{MovedData, reason};
use serde_json::Value;
use std::time::Duration;

/// The most lines of a pod's log that are copied into the log of the agent.
const MOST_LINES: u32 = 1000;
/// The longest time for copying it.
const LOG_LIMIT: Duration = Duration::from_secs(30);
/// The pause before a wait is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The pause before a look at something that the cluster is about to do.
const SOON: Duration = Duration::from_secs(1);
/// The pause between two looks for a pod that is on no node.
const USER_POD_PAUSE: Duration = Duration::from_secs(60);

/// The result of a step.
#[derive(Debug)]
pub(super) enum Acted {
    /// The transfer as it is stored now.
    Stored(Box<Transfer>),
    /// There is more to do, which the next look shows.
    More,
    /// It waits for something, and is looked at again after this pause.
    Waits(String, Duration),
    /// Bytes and files so far.
    Moved(MovedData, Option<Box<Transfer>>),
}

/// Everything with which steps are performed.
#[derive(Clone, Debug)]
pub(super) struct Actor {
    pub(super) kube: Kube,
    pub(super) settings: AgentSettings,
    pub(super) config: NodeAgentConfig,
    pub(super) others: OtherTransfers,
    /// The time of the decision.
    pub(super) now: Timestamp,
}

impl Actor {
    pub(super) async fn perform(&self, transfer: &Transfer, step: Step) -> Result<Acted, ClusterError> {
        match step {
            Step::Nothing | Step::Wait { .. } => Ok(Acted::More),
            Step::AddFinalizer => self.store(transfer, patch::add_finalizer(transfer)).await,
            Step::FindUserPod => self.find_user_pod(transfer).await,
            Step::Accept => self.accept(transfer).await,
            Step::Expose => self.expose(transfer).await,
            Step::Prepare { node, os } => self.store(transfer, patch::prepare(transfer, &node, os)).await,
            Step::Begin => self.store(transfer, patch::begin(transfer, self.now)).await,
            Step::RequestCancel { message } => self.store(transfer, patch::request_cancel(transfer, &message)).await,
            Step::ShowCanceling => self.store(transfer, patch::show_canceling(transfer)).await,
            Step::Note { message } => {
                let message = self.with_full_nodes(message).await;
                self.store(transfer, patch::note(transfer, &message)).await
            }
            Step::NoteOthers { moved } => self.store(transfer, patch::note_others(transfer, moved)).await,
            Step::Report => self.report(transfer).await,
            Step::Deliver { result, since } => Box::pin(self.deliver(transfer, &result, since)).await,
            Step::Again { killed } => self.begin_again(transfer, &killed).await,
            Step::RemoveKilledPod => {
                remove_pod(&self.kube, transfer).await?;
                Ok(Acted::Waits("the pod of a mover that was killed goes".to_owned(), SOON))
            }
            Step::End(ending) => self.end(transfer, &ending).await,
            Step::CleanUp => self.clean_up(transfer).await,
        }
    }

    pub(super) async fn store(&self, transfer: &Transfer, patch: Value) -> Result<Acted, ClusterError> {
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

    /// Returns true if a transfer has not ended by now: another agent may have given it up.
    pub(super) async fn goes_on(&self, transfer: &Transfer) -> Result<bool, ClusterError> {
        let (resource, meta) = (transfer.kind.resource(), &transfer.meta);
        let stored = self.kube.0.get(&resource, Some(&meta.namespace), &meta.name).await?;
        let stored = stored.and_then(|stored| Transfer::parse(transfer.kind, &stored).ok());
        Ok(stored.is_some_and(|stored| stored.meta.uid == meta.uid && !stored.has_ended()))
    }

    pub(super) async fn fail(&self, transfer: &Transfer, message: String) -> Result<Acted, ClusterError> {
        let ending = Ending { phase: DataPathPhase::Failed, message, result: None, has_no_pod: false };
        self.end(transfer, &ending).await
    }

    async fn clean_up(&self, transfer: &Transfer) -> Result<Acted, ClusterError> {
        let limit = SignedDuration::try_from(self.settings.resource_timeout).unwrap_or(SignedDuration::MAX);
        let may_wait = transfer.completed.is_some_and(|at| self.now.duration_since(at.timestamp()) < limit);
        match remove_all(&self.kube, transfer, may_wait, &self.others.unfinished).await {
            Ok(Removal::Done { left }) => self.store(transfer, patch::remove_finalizer(transfer, &left)).await,
            Ok(Removal::Waits(reason)) => Ok(Acted::Waits(reason, SOON)),
            Ok(Removal::Keeps(told)) => {
                self.store(transfer, patch::note(transfer, &patch::joined(&transfer.message, &told))).await
            }
            Ok(Removal::Left { left, reason }) => match patch::note_left(transfer, &left) {
                Some(patch) => self.store(transfer, patch).await,
                None => Ok(Acted::Waits(reason, SOON)),
            },
            Err(e) if e.is_conflict() => Ok(Acted::Waits("it has changed meanwhile".to_owned(), SOON)),
            Err(e) => Err(e),
        }
    }

    /// Adds the nodes that are full to the reason of a wait for an attachment. Who may not see them is told the reason alone.
    async fn with_full_nodes(&self, message: String) -> String {
        if !message.starts_with(WAITS_FOR_ATTACHMENT) {
            return message;
        }
        let nodes = self.kube.list(resources::csi_nodes(), None, "", "").await;
        let attached = self.kube.list(resources::attachments(), None, "", "").await;
        match (nodes, attached) {
            (Ok(nodes), Ok(attached)) => match full_nodes(&nodes, &attached) {
                Some(full) => format!("{message}; {full}"),
                None => message,
            },
            _ => message,
        }
    }

    /// Goes back to where a pod is made, after the last one was killed.
    async fn begin_again(&self, transfer: &Transfer, killed: &[KilledMover]) -> Result<Acted, ClusterError> {
        let (kind, name) = (transfer.kind.word(), &transfer.meta.name);
        let Some(last) = killed.last() else { return Ok(Acted::More) };
        match self.own_pod(transfer).await? {
            Some(_) if last.pod.is_empty() => {
                return Ok(Acted::Waits("its pod is there after all".to_owned(), SOON));
            }
            Some(pod) => self.copy_log(transfer, &pod).await,
            None => {}
        }
        let attempt = killed.len() + 1;
        tracing::warn!(kind, name, attempt, reason = last.reason, "its mover was killed, and another one goes on");
        self.store(transfer, patch::again(transfer, killed, &self.settings.node, self.now)).await
    }

    /// The pod of a transfer.
    async fn own_pod(&self, transfer: &Transfer) -> Result<Option<Value>, ClusterError> {
        let pod = self.kube.find(&resources::pods(), Some(&transfer.meta.namespace), &transfer.meta.name).await?;
        Ok(pod.filter(|pod| is_owned_by(pod, &transfer.meta.uid)))
    }

    /// Looks for the pod of a transfer that no agent takes up, and ends the transfer when it is gone.
    async fn find_user_pod(&self, transfer: &Transfer) -> Result<Acted, ClusterError> {
        let Some((of, _)) = transfer.volume_of_pod() else { return Ok(Acted::More) };
        let (namespace, name, participle) = (&of.namespace, &of.name, transfer.kind.participle());
        let pod = self.kube.find(&resources::pods(), Some(namespace), name).await?;
        if pod.is_none_or(|pod| uid(&pod) != of.uid) {
            let why = format!("the pod {namespace}/{name}, whose volume is to be {participle}, is gone");
            return self.fail(transfer, why).await;
        }
        Ok(Acted::Waits(format!("the node agent on the node of pod {namespace}/{name}"), USER_POD_PAUSE))
    }

    async fn accept(&self, transfer: &Transfer) -> Result<Acted, ClusterError> {
        if let TransferRequest::DataDownload(spec) = &transfer.request {
            let (namespace, name) = (&spec.target_volume.namespace, &spec.target_volume.pvc);
            if self.kube.find(&resources::claims(), Some(namespace), name).await?.is_none() {
                // The claim is restored after the download is made.
                let made = transfer.meta.creation_timestamp.map_or(self.now, Time::timestamp);
                let limit = transfer.at_least_operation_timeout(self.settings.prepare_timeout);
                if self.now.duration_since(made) >= limit {
                    return self.fail(transfer, format!("the target claim {namespace}/{name} does not exist")).await;
                }
                let reason = format!("the target claim {namespace}/{name} does not exist yet");
                return match transfer.message == reason {
                    true => Ok(Acted::Waits(reason, LOOK_AGAIN)),
                    false => self.store(transfer, patch::note(transfer, &reason)).await,
                };
            }
        }
        self.store(transfer, patch::accept(transfer, &self.settings.node, self.now)).await
    }

    async fn expose(&self, transfer: &Transfer) -> Result<Acted, ClusterError> {
        let (kube, settings, config) = (&self.kube, &self.settings, &self.config);
        let OtherTransfers { unfinished, busy } = &self.others;
        let exposer = Exposer { kube, settings, config, unfinished, busy };
        match exposer.expose(transfer).await {
            // The mirror shows the pod.
            Ok(()) => Ok(Acted::Waits("its pod was made".to_owned(), LOOK_AGAIN)),
            // The time for all else begins when others have left the copy that it needs.
            Err(ExposeError::Waits(reason)) if waits_for_copy(transfer) && !is_about_copy(&reason) => {
                self.store(transfer, patch::note_anew(transfer, &reason, self.now)).await
            }
            Err(ExposeError::Waits(reason)) if transfer.message != reason => {
                self.store(transfer, patch::note(transfer, &reason)).await
            }
            Err(ExposeError::Waits(reason)) => Ok(Acted::Waits(reason, LOOK_AGAIN)),
            Err(ExposeError::Soon(reason)) => Ok(Acted::Waits(reason, SOON)),
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
        let moved = own.filter_map(|event| serde_json::from_str::<MovedData>(text(event, &["message"])).ok());
        let Some(moved) = moved.max_by_key(|moved| (moved.done_bytes, moved.done_files)) else {
            return Ok(Acted::Moved(MovedData::default(), None));
        };
        let shown = (transfer.progress.total_bytes, transfer.progress.bytes_done, transfer.files());
        if (moved.total_bytes, moved.done_bytes, patch::files_of(moved)) == shown {
            return Ok(Acted::Moved(moved, None));
        }
        let patch = patch::progress(transfer, moved, self.now);
        match self.store(transfer, patch).await? {
            Acted::Stored(stored) => Ok(Acted::Moved(moved, Some(stored))),
            _ => Ok(Acted::Moved(moved, None)),
        }
    }

    pub(super) async fn end(&self, transfer: &Transfer, ending: &Ending) -> Result<Acted, ClusterError> {
        if let Some(pod) = &self.own_pod(transfer).await? {
            if ending.has_no_pod {
                return Ok(Acted::Waits("its pod is there after all".to_owned(), SOON));
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
        let has_not_begun = transfer.phase == DataPathPhase::Accepted && !transfer.cancel;
        if !has_not_begun || transfer.is_being_deleted() {
            return self.store(transfer, patch::end(transfer, ending, self.now)).await;
        }
        let diagnosis = diagnose(&self.kube, transfer).await;
        let (exposer, lines) = (transfer.kind.exposer(), diagnosis.lines.join("\n"));
        tracing::warn!("begin diagnose {exposer} of {kind} {name}\n{lines}\nend diagnose {exposer}");
        let ending = Ending { message: diagnosis.added_to(&ending.message), ..ending.clone() };
        self.store(transfer, patch::end(transfer, &ending, self.now)).await
    }

    /// Copies the log of a pod, which is removed soon, into that of the agent.
    pub(super) async fn copy_log(&self, transfer: &Transfer, pod: &Value) {
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
}
