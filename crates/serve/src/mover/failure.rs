//! The failure of a transfer, and its text.

use lifeboat_bucket::BucketError;
use lifeboat_kopia::KopiaError;
use lifeboat_mover::MoverError;
use lifeboat_mover::protocol::{
    BUCKET_UNAVAILABLE, CANCELED, LOST_SIGHT, LOST_TURN, REPLACED, TERMINATION_LIMIT, TURN_STALLED,
};
use lifeboat_repository::RepositoryError;
use serde::Serialize;
use std::fmt::Display;

/// The end of the text of a transfer that has one attempt only, and whose bucket did not answer.
const RUN_AGAIN: &str = "the bucket did not answer for too long; run the restore again";

/// The reason for which a transfer did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It was asked to stop. The text says what was done until then.
    Canceled(String),
    /// It failed.
    Failed(String),
    /// The bucket did not answer for longer than it is waited for: another attempt may continue.
    BucketUnavailable(String),
    /// Another mover was begun in its place.
    Replaced,
    /// Another one may have been begun: its resource could not be seen.
    LostSight,
    /// Its resource could not be seen while it waited for its turn.
    LostTurn,
    /// Nothing moved before it while it waited for its turn.
    NoTurn,
}

impl Failure {
    pub(crate) fn new(attempt: &str, why: impl Display) -> Self {
        Self::Failed(format!("cannot {attempt}: {why}"))
    }

    /// As [`Failure::new`], for errors that may be those of a bucket.
    pub(crate) fn from_storage(attempt: &str, why: &impl StorageError) -> Self {
        match why.is_bucket_unavailable() {
            true => Self::BucketUnavailable(format!("cannot {attempt}: {why}")),
            false => Self::new(attempt, why),
        }
    }

    /// The text for a termination message. Those of a cancellation and of a bucket that is unavailable end as node agents expect it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Failed(text) => cut(text, TERMINATION_LIMIT),
            Self::Replaced => REPLACED.to_owned(),
            Self::LostSight => LOST_SIGHT.to_owned(),
            Self::LostTurn => LOST_TURN.to_owned(),
            Self::NoTurn => TURN_STALLED.to_owned(),
            Self::Canceled(done) => ending(done, CANCELED),
            Self::BucketUnavailable(text) => ending(text, BUCKET_UNAVAILABLE),
        }
    }

    /// As [`Failure::text`], for a transfer that nobody attempts again.
    pub(crate) fn text_of_only_attempt(&self) -> String {
        match self {
            Self::BucketUnavailable(text) => ending(text, RUN_AGAIN),
            _ => self.text(),
        }
    }
}

/// A text that is cut so far that its end has room.
fn ending(text: &str, end: &str) -> String {
    format!("{}: {end}", cut(text, TERMINATION_LIMIT.saturating_sub(end.len() + 2)))
}

/// An error that may be that of a bucket.
pub(crate) trait StorageError: Display {
    /// Returns true where the bucket did not answer for as long as it was tried.
    fn is_bucket_unavailable(&self) -> bool;
}

impl StorageError for BucketError {
    fn is_bucket_unavailable(&self) -> bool {
        self.is_retryable()
    }
}

impl StorageError for KopiaError {
    fn is_bucket_unavailable(&self) -> bool {
        Self::is_bucket_unavailable(self)
    }
}

impl StorageError for MoverError {
    fn is_bucket_unavailable(&self) -> bool {
        Self::is_bucket_unavailable(self)
    }
}

impl StorageError for RepositoryError {
    fn is_bucket_unavailable(&self) -> bool {
        Self::is_bucket_unavailable(self)
    }
}

/// The most bytes of the message in a result.
const MESSAGE: usize = 1024;

/// The JSON of a result with as much of its message as a termination message has room for.
pub(crate) fn with_message<R: Serialize>(message: &str, result: impl Fn(String) -> R) -> Result<String, Failure> {
    let mut most = MESSAGE;
    loop {
        let text =
            serde_json::to_string(&result(cut(message, most))).map_err(|e| Failure::new("write the result", e))?;
        if text.len() <= TERMINATION_LIMIT || most == 0 {
            return Ok(text);
        }
        // Some characters take six bytes in JSON.
        most /= 2;
    }
}

/// The beginning of a text, with at most so many bytes.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most.saturating_sub('…'.len_utf8())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_bucket::ErrorKind;
    use lifeboat_mover::protocol::{PodEnd, RestoreResult, is_ended_from_outside, pod_end};

    #[test]
    fn an_unavailable_bucket_is_told_from_one_that_refuses() {
        let error = |kind| BucketError {
            kind,
            operation: "put",
            key: "q1".to_owned(),
            store: "s3://b".to_owned(),
            message: "é".repeat(TERMINATION_LIMIT),
            source: None,
        };
        let failure_of = |kind| Failure::from_storage("save it", &MoverError::from(KopiaError::from(error(kind))));
        for (kind, is_unavailable) in [
            (ErrorKind::Transient, true),
            (ErrorKind::Throttled, true),
            (ErrorKind::Denied, false),
            (ErrorKind::NotFound, false),
            (ErrorKind::Other, false),
        ] {
            let failure = failure_of(kind);
            let (text, only) = (failure.text(), failure.text_of_only_attempt());
            assert_eq!(
                (is_ended_from_outside(&text), text.len() <= TERMINATION_LIMIT),
                (is_unavailable, true),
                "{kind:?}"
            );
            assert_eq!(
                (only.ends_with(RUN_AGAIN), only.len() <= TERMINATION_LIMIT),
                (is_unavailable, true),
                "{kind:?}"
            );
            assert!(text.starts_with("cannot save it: cannot put \"q1\" in s3://b: "), "{text}");
        }
        let other = Failure::from_storage("open it", &RepositoryError::from(KopiaError::Cancelled));
        assert_eq!(other, Failure::new("open it", KopiaError::Cancelled));
    }

    #[test]
    fn a_long_text_is_cut_and_a_cancellation_still_ends_as_one() {
        let long = "é".repeat(TERMINATION_LIMIT);
        let failed = Failure::Failed(long.clone()).text();
        assert!(failed.len() <= TERMINATION_LIMIT && failed.ends_with('…'));
        let canceled = Failure::Canceled(long).text();
        assert!(canceled.len() <= TERMINATION_LIMIT);
        assert_eq!(pod_end::<RestoreResult>(false, &canceled), PodEnd::Canceled(canceled));
        assert_eq!(Failure::Canceled("3 bytes".into()).text(), "3 bytes: data path is canceled");
        let result = |message: String| RestoreResult { message, ..RestoreResult::default() };
        for long in ["\u{1}".repeat(5000), "é".repeat(5000)] {
            let text = with_message(&long, result).unwrap();
            assert!(text.len() <= TERMINATION_LIMIT, "{}", text.len());
            let PodEnd::Completed(read) = pod_end::<RestoreResult>(true, &text) else { panic!("{text}") };
            assert!(read.message.len() > 100 && read.message.ends_with('…'), "{}", read.message);
        }
        assert_eq!(with_message("a", result).unwrap(), serde_json::to_string(&result("a".into())).unwrap());
        assert_eq!((cut("abc", 3), cut("abcd", 3)), ("abc".to_owned(), "…".to_owned()));
    }
}
