//! How far an operation is that an action has begun.

use jiff::Timestamp;

/// How far an asynchronous operation is (plugin-protocol.md 3.1, 4.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationProgress {
    /// Whether it has ended, well or not.
    pub completed: bool,
    /// Why it failed; empty when it has not.
    pub error: String,
    /// How much is done, in `operation_units`.
    pub n_completed: i64,
    /// How much there is; zero when the action cannot say.
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
