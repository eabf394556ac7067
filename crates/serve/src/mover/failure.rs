//! The failure of a transfer, and its text.

use lifeboat_mover::protocol::{CANCELED, LOST_SIGHT, REPLACED, TERMINATION_LIMIT};
use serde::Serialize;

/// The reason for which a transfer did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It was asked to stop. The text says what was done until then.
    Canceled(String),
    /// It failed.
    Failed(String),
    /// Another mover was begun in its place.
    Replaced,
    /// Another one may have been begun: its resource could not be seen.
    LostSight,
}

impl Failure {
    pub(crate) fn new(attempt: &str, why: impl std::fmt::Display) -> Self {
        Self::Failed(format!("cannot {attempt}: {why}"))
    }

    /// The text for a termination message. That of a cancellation ends as node agents expect it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Failed(text) => cut(text, TERMINATION_LIMIT),
            Self::Replaced => REPLACED.to_owned(),
            Self::LostSight => LOST_SIGHT.to_owned(),
            Self::Canceled(done) => {
                let most = TERMINATION_LIMIT - CANCELED.len() - 2;
                format!("{}: {CANCELED}", cut(done, most))
            }
        }
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
    use lifeboat_mover::protocol::{PodEnd, RestoreResult, pod_end};

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
