//! Errors in the text of a schedule.

use lifeboat_api::ParseDurationError;

/// The error in a text that is no schedule. Messages are those of the cron library of Velero's releases, where it has
/// one for the error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CronError {
    #[error("empty spec string")]
    Empty,
    #[error("missing fields after timezone in spec {0:?}")]
    OnlyZone(String),
    #[error("provided bad location {0}: unknown time zone {0}")]
    UnknownZone(String),
    #[error("unrecognized descriptor: {0}")]
    UnknownWord(String),
    #[error("failed to parse duration {text}: {why}")]
    Duration { text: String, why: ParseDurationError },
    #[error("expected exactly 5 fields, found {count}: [{fields}]")]
    Count { count: usize, fields: String },
    #[error("too many hyphens: {0}")]
    Hyphens(String),
    #[error("too many slashes: {0}")]
    Slashes(String),
    #[error("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}")]
    Number { text: String, why: &'static str },
    #[error("negative number ({number}) not allowed: {text}")]
    Negative { number: i64, text: String },
    #[error("beginning of range ({start}) below minimum ({least}): {text}")]
    TooLow { start: u64, least: u64, text: String },
    #[error("end of range ({end}) above maximum ({most}): {text}")]
    TooHigh { end: u64, most: u64, text: String },
    #[error("beginning of range ({start}) beyond end of range ({end}): {text}")]
    Backward { start: u64, end: u64, text: String },
    #[error("step of range should be a positive number: {0}")]
    NoStep(String),
    /// Velero would make a backup of it at every look.
    #[error("no time ever matches {0:?}")]
    Never(String),
}
