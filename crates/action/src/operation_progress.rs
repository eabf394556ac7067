//! The progress of an operation that an action has begun.

use jiff::Timestamp;

/// The progress of an asynchronous operation (velero: pkg/plugin/proto).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationProgress {
    /// True when it has ended, well or not.
    pub completed: bool,
    /// The error, when it failed; empty otherwise.
    pub error: String,
    /// Amount done, in `operation_units`.
    pub n_completed: i64,
    /// Total amount; zero when the action does not know it.
    pub n_total: i64,
    /// Of what, such as `Bytes`.
    pub operation_units: String,
    /// For people.
    pub description: String,
    /// When it began, as far as the action knows.
    pub started: Option<Timestamp>,
    /// When this was true.
    pub updated: Option<Timestamp>,
}
