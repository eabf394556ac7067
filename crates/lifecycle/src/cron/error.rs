//! Errors in the text of a schedule.

use lifeboat_api::ParseDurationError;

/// The error in a text that is no schedule. Messages are those of the cron library of Velero's releases, where it has
/// one for the error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// No text.
    #[error("empty spec string")]
    Empty,
    /// A time zone and no fields.
    #[error("missing fields after timezone in spec {0:?}")]
    OnlyZone(String),
    /// A time zone that is not known.
    #[error("provided bad location {0}: unknown time zone {0}")]
    UnknownZone(String),
    /// A word after `@` that is not known.
    #[error("unrecognized descriptor: {0}")]
    UnknownWord(String),
    /// An interval after `@every` that is none.
    #[error("failed to parse duration {text}: {why}")]
    Duration {
        /// The part of the text.
        text: String,
        /// The error in it.
        why: ParseDurationError,
    },
    /// Another number of fields than five.
    #[error("expected exactly 5 fields, found {count}: [{fields}]")]
    Count {
        /// The number of fields.
        count: usize,
        /// The fields.
        fields: String,
    },
    /// More than one hyphen in a range.
    #[error("too many hyphens: {0}")]
    Hyphens(String),
    /// More than one slash in a range.
    #[error("too many slashes: {0}")]
    Slashes(String),
    /// A part that is no number.
    #[error("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}")]
    Number {
        /// The part of the text.
        text: String,
        /// The error in it.
        why: &'static str,
    },
    /// A number below zero.
    #[error("negative number ({number}) not allowed: {text}")]
    Negative {
        /// The number.
        number: i64,
        /// The part of the text.
        text: String,
    },
    /// A number below the least of its field.
    #[error("beginning of range ({start}) below minimum ({least}): {text}")]
    TooLow {
        /// The beginning.
        start: u64,
        /// The least that is allowed.
        least: u64,
        /// The part of the text.
        text: String,
    },
    /// A number above the most of its field.
    #[error("end of range ({end}) above maximum ({most}): {text}")]
    TooHigh {
        /// The end.
        end: u64,
        /// The most that is allowed.
        most: u64,
        /// The part of the text.
        text: String,
    },
    /// A range that ends before it begins.
    #[error("beginning of range ({start}) beyond end of range ({end}): {text}")]
    Backward {
        /// The beginning.
        start: u64,
        /// The end.
        end: u64,
        /// The part of the text.
        text: String,
    },
    /// A step of zero.
    #[error("step of range should be a positive number: {0}")]
    NoStep(String),
    /// Velero would make a backup of it at every look.
    #[error("no time ever matches {0:?}")]
    Never(String),
}
