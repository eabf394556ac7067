//! Progress of an asynchronous operation of an action, as it is stored in the files of backups and restores
//! (velero: pkg/itemoperation, pkg/controller/backup_operations_controller.go).

use crate::Time;
use serde::{Deserialize, Serialize};

/// Progress and outcome of an operation that an action has begun.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperationStatus {
    /// Where it stands; operations without one are new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<OperationPhase>,
    /// Error message; empty when the operation has not failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Amount that is done.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_completed: i64,
    /// Total amount.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_total: i64,
    /// The unit of the amounts, such as `Byte`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operation_units: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// When the action was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Time>,
    /// When it began, by the action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// When this was true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<Time>,
}

impl OperationStatus {
    /// Returns true if the operation has ended, well or not.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Some(OperationPhase::Completed | OperationPhase::Failed))
    }
}

/// Where an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationPhase {
    /// Nothing is known of its beginning.
    New,
    /// It has begun.
    InProgress,
    /// It has ended well.
    Completed,
    /// It has failed, was cancelled, or took too long.
    Failed,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}
