//! The few facts about a pod that decisions need. Pure.

use jiff::Timestamp;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A pod as it was last seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PodView {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The time of its creation.
    pub(crate) made: Option<Timestamp>,
    pub(crate) labels: BTreeMap<String, String>,
    /// The UIDs of its owners.
    pub(crate) owners: Vec<String>,
    pub(crate) node: String,
    /// The operating system that its node must have; empty for any.
    pub(crate) os: String,
    pub(crate) phase: String,
    pub(crate) is_being_deleted: bool,
    pub(crate) is_ready: bool,
    /// The time since which the cluster says that it is not ready.
    pub(crate) not_ready_since: Option<Timestamp>,
    pub(crate) scheduling: Scheduling,
    pub(crate) init_containers: Vec<ContainerView>,
    pub(crate) containers: Vec<ContainerView>,
    /// The names of its init containers, of which those that have not begun have no state.
    pub(crate) init_names: Vec<String>,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// The reason for which the cluster ends it, such as an eviction or the loss of its node; empty for none.
    pub(crate) disruption: String,
}

/// The scheduler's word about a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Scheduling {
    /// It has not said anything.
    #[default]
    Unknown,
    /// It has a node since then.
    Scheduled(Timestamp),
    /// It has none, for this reason.
    Unschedulable(String),
}

/// A container of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ContainerView {
    pub(crate) name: String,
    pub(crate) state: ContainerState,
}

/// The state of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum ContainerState {
    #[default]
    Unknown,
    Waiting {
        reason: String,
        message: String,
    },
    Running,
    Terminated {
        exit_code: i64,
        reason: String,
        message: String,
    },
}

impl PodView {
    /// Reads a pod.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn parse(body: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice::<RawPod>(body).map(Into::into)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.phase == "Running"
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Returns true if it was begun on a node of which nothing is heard: the cluster takes its readiness away, and evicts it later. Its
    /// containers may still run there.
    pub(crate) fn is_lost_with_its_node(&self) -> bool {
        let is_begun = !self.node.is_empty() && !self.has_ended();
        is_begun && (self.is_being_deleted || (self.is_running() && !self.is_ready))
    }

    /// The reason why a pod that should begin never will. An unschedulable pod is none: it may find a node.
    pub(crate) fn unrecoverable(&self) -> Option<String> {
        if matches!(self.phase.as_str(), "Failed" | "Unknown") {
            let mut why = format!("Pod is in abnormal state [{}], message [{}]", self.phase, self.ending_message());
            if !self.reason.is_empty() {
                why.push_str(&format!(", reason [{}]", self.reason));
            }
            return Some(why);
        }
        let waits = |container: &ContainerView| match &container.state {
            ContainerState::Waiting { reason, message }
                if matches!(reason.as_str(), "ImagePullBackOff" | "ErrImageNeverPull") =>
            {
                Some(format!(
                    "Container {} in Pod {}/{} is in abnormal state: {reason}: {message}",
                    container.name, self.namespace, self.name
                ))
            }
            _ => None,
        };
        self.init_containers.iter().chain(&self.containers).find_map(waits)
    }

    /// Its own message, else that of its container.
    pub(crate) fn ending_message(&self) -> String {
        if !self.message.is_empty() {
            return self.message.clone();
        }
        self.terminated().map(|(_, message)| message.to_owned()).unwrap_or_default()
    }

    /// The reason and the message of the first container that has ended.
    pub(crate) fn terminated(&self) -> Option<(&str, &str)> {
        self.containers.iter().find_map(|container| match &container.state {
            ContainerState::Terminated { reason, message, .. } => Some((reason.as_str(), message.as_str())),
            _ => None,
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPod {
    metadata: RawMeta,
    spec: RawSpec,
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawMeta {
    namespace: String,
    name: String,
    uid: String,
    labels: BTreeMap<String, String>,
    owner_references: Vec<RawOwner>,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawOwner {
    uid: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSpec {
    node_name: String,
    os: RawNamed,
    init_containers: Vec<RawNamed>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNamed {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawStatus {
    phase: String,
    reason: String,
    message: String,
    conditions: Vec<RawCondition>,
    init_container_statuses: Vec<RawContainer>,
    container_statuses: Vec<RawContainer>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawCondition {
    r#type: String,
    status: String,
    reason: String,
    message: String,
    last_transition_time: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawContainer {
    name: String,
    state: RawState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawState {
    waiting: Option<RawDetail>,
    running: Option<RawDetail>,
    terminated: Option<RawDetail>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawDetail {
    reason: String,
    message: String,
    exit_code: i64,
}

impl From<RawContainer> for ContainerView {
    fn from(raw: RawContainer) -> Self {
        let state = match raw.state {
            RawState { terminated: Some(RawDetail { reason, message, exit_code }), .. } => {
                ContainerState::Terminated { exit_code, reason, message }
            }
            RawState { running: Some(_), .. } => ContainerState::Running,
            RawState { waiting: Some(RawDetail { reason, message, .. }), .. } => {
                ContainerState::Waiting { reason, message }
            }
            _ => ContainerState::Unknown,
        };
        Self { name: raw.name, state }
    }
}

impl From<RawPod> for PodView {
    fn from(raw: RawPod) -> Self {
        let RawPod { metadata, spec, status } = raw;
        let condition = |name: &str| status.conditions.iter().find(|condition| condition.r#type == name);
        let scheduling = match condition("PodScheduled") {
            Some(scheduled) if scheduled.status == "True" => {
                Scheduling::Scheduled(scheduled.last_transition_time.unwrap_or(Timestamp::UNIX_EPOCH))
            }
            Some(scheduled) => Scheduling::Unschedulable(scheduled.message.clone()),
            None => Scheduling::Unknown,
        };
        let disrupted = condition("DisruptionTarget").filter(|disrupted| disrupted.status == "True");
        let disruption = disrupted.map(|disrupted| [disrupted.reason.as_str(), &disrupted.message].join(": "));
        Self {
            scheduling,
            disruption: disruption.unwrap_or_default(),
            is_ready: condition("Ready").is_some_and(|ready| ready.status == "True"),
            not_ready_since: condition("Ready")
                .filter(|ready| ready.status != "True")
                .and_then(|ready| ready.last_transition_time),
            namespace: metadata.namespace,
            name: metadata.name,
            uid: metadata.uid,
            made: metadata.creation_timestamp,
            labels: metadata.labels,
            owners: metadata.owner_references.into_iter().map(|owner| owner.uid).collect(),
            node: spec.node_name,
            os: spec.os.name,
            is_being_deleted: metadata.deletion_timestamp.is_some(),
            init_names: spec.init_containers.into_iter().map(|container| container.name).collect(),
            init_containers: status.init_container_statuses.into_iter().map(Into::into).collect(),
            containers: status.container_statuses.into_iter().map(Into::into).collect(),
            phase: status.phase,
            reason: status.reason,
            message: status.message,
        }
    }
}
