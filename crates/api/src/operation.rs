//! How far an asynchronous operation of an action is, as files of backups and restores have it (backup.md 4.6,
//! api-and-controllers.md 3.4).

use crate::Time;
use serde::{Deserialize, Serialize};

/// How far an operation is that an action has begun.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperationStatus {
    /// Where it stands; operations without one are new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<OperationPhase>,
    /// Why it failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// How much is done.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_completed: i64,
    /// How much there is.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_total: i64,
    /// Of what, such as `Byte`.
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
    /// Whether the operation has ended, well or not.
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
