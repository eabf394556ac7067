//! The options of a run, and its report.

use super::plan::schedule::{Due, Mode};
use super::plan::{Plan, Step};
use crate::{KopiaError, WriteOptions};

/// The kind of maintenance that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requested {
    /// The kind that is due.
    Due,
    /// This kind, due or not.
    Now(Mode),
}

/// Options of a run.
#[derive(Debug, Clone)]
pub struct MaintenanceOptions {
    /// The kind.
    pub requested: Requested,
    /// The `user@host` that runs it: only the owner may.
    pub identity: String,
    /// Options of writing.
    pub write: WriteOptions,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceReport {
    /// The kind, and the reason; nothing was due where there is none.
    pub due: Due,
    /// The steps, as far as they were performed.
    pub steps: Vec<StepReport>,
    /// The plan; `None` where nothing was due.
    pub plan: Option<Plan>,
    /// The reason for which the storage took no new blob, so that only deletions were performed at first.
    pub put_refusal: Option<String>,
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepReport {
    /// The action.
    pub action: String,
    /// The reason.
    pub reason: String,
    /// The error; `None` where it succeeded.
    pub error: Option<String>,
}

impl StepReport {
    pub(super) fn new(step: &Step, error: Option<String>) -> Self {
        Self { action: step.action.to_string(), reason: step.reason.clone(), error }
    }
}

/// The plan of a run that is not performed.
#[derive(Debug)]
pub struct Preview {
    /// The kind, and the reason.
    pub due: Due,
    /// The plan; `None` where nothing is due.
    pub plan: Option<Plan>,
    /// The error with which the run itself would be refused.
    pub refusal: Option<KopiaError>,
}

/// The error of one step as text; one after which nothing may go on is returned.
pub(super) fn split_fatal(result: Result<(), KopiaError>) -> Result<Option<String>, KopiaError> {
    match result {
        Ok(()) => Ok(None),
        Err(
            error @ (KopiaError::NotMaintained { .. }
            | KopiaError::MaintainedByOthers { .. }
            | KopiaError::UpgradeInProgress { .. }
            | KopiaError::WrongPassword { .. }
            | KopiaError::Cancelled),
        ) => Err(error),
        Err(error) => Ok(Some(error.to_string())),
    }
}
