//! The progress of an operation as the resource of a data mover shows it. Pure.

use jiff::Timestamp;
use lifeboat_action::OperationProgress;
use lifeboat_api::well_known::{ANNOTATION_MOVED_AT, ANNOTATION_OTHERS_MOVED_AT};
use lifeboat_api::{DataMoveProgress, DataPathPhase, Time};
use std::collections::BTreeMap;

/// The state of a resource that a data mover works on.
#[derive(Clone, Copy, Debug)]
pub(super) struct MoverState<'a> {
    /// The kind of the resource.
    pub(super) kind: &'static str,
    pub(super) phase: Option<DataPathPhase>,
    pub(super) message: &'a str,
    pub(super) progress: &'a DataMoveProgress,
    pub(super) started: Option<Time>,
    pub(super) ended: Option<Time>,
    /// The annotations, in which the node agent notes when bytes were last moved.
    pub(super) annotations: &'a BTreeMap<String, String>,
}

impl MoverState<'_> {
    /// The progress of the operation that the resource stands for.
    pub(super) fn progress(self) -> OperationProgress {
        let Self { kind, message, .. } = self;
        let noted = |name: &str| self.annotations.get(name).and_then(|text| text.parse::<Timestamp>().ok());
        // One that waits goes on as long as those go on that it waits for.
        let others = noted(ANNOTATION_OTHERS_MOVED_AT);
        let Some(phase) = self.phase.filter(|phase| *phase != DataPathPhase::New) else {
            let description = if message.is_empty() { String::new() } else { format!("New: {message}") };
            return OperationProgress { updated: others, description, ..OperationProgress::default() };
        };
        let error = match phase {
            DataPathPhase::Canceled if message.is_empty() => format!("{kind} is canceled"),
            DataPathPhase::Canceled => format!("{kind} is canceled: {message}"),
            DataPathPhase::Failed if message.is_empty() => format!("{kind} has failed without a reason"),
            DataPathPhase::Failed => message.to_owned(),
            _ => String::new(),
        };
        // Also between two attempts, when no mover is at work.
        let moved = noted(ANNOTATION_MOVED_AT).max(others);
        let waits = matches!(phase, DataPathPhase::Accepted | DataPathPhase::Prepared) && !message.is_empty();
        OperationProgress {
            completed: matches!(phase, DataPathPhase::Completed | DataPathPhase::Canceled | DataPathPhase::Failed),
            error,
            n_completed: self.progress.bytes_done,
            n_total: self.progress.total_bytes,
            operation_units: "Bytes".to_owned(),
            description: if waits { format!("{}: {message}", phase.as_str()) } else { phase.as_str().to_owned() },
            started: self.started.map(Time::timestamp),
            updated: self.ended.map(Time::timestamp).or(moved),
        }
    }
}
