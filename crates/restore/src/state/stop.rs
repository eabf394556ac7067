//! Early end of a restore: a cancellation, or an error after which it cannot go on.

use crate::state::lock::lock;
use lifeboat_object::ObjectKey;
use lifeboat_store::StoreError;
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// The reason why a restore broke off.
#[derive(Debug, thiserror::Error)]
pub enum BrokenOff {
    /// The archive of its backup could not be read to its end.
    #[error(transparent)]
    Archive(#[from] StoreError),
    /// An action said that none of its calls can succeed.
    #[error("the action {action} says that none of its calls can succeed, asked about {object}: {why}")]
    Action {
        /// Its name.
        action: String,
        /// The object in the cluster that it was asked about.
        object: ObjectKey,
        /// Error message of the action.
        why: String,
    },
}

impl BrokenOff {
    /// Returns true if the same restore can succeed a little later, with nothing else changed.
    #[must_use]
    pub fn can_pass(&self) -> bool {
        match self {
            Self::Archive(e) => e.can_pass(),
            Self::Action { .. } => false,
        }
    }
}

/// The end of a restore before its end: the user cancels it, its archive cannot be read any further, or an action says that
/// it cannot go on. Nothing more is begun then; what is in flight is awaited.
#[derive(Debug)]
pub(crate) struct Stop {
    token: CancellationToken,
    broken: Mutex<Broken>,
}

#[derive(Debug, Default)]
struct Broken {
    /// The reason why nothing more is begun, for people.
    said: Option<&'static str>,
    why: Option<BrokenOff>,
}

impl Stop {
    /// Comes with this cancellation at the latest.
    pub(crate) fn with(cancel: &CancellationToken) -> Self {
        Self { token: cancel.child_token(), broken: Mutex::default() }
    }

    /// Breaks the restore off for this reason; the first one counts.
    pub(crate) fn break_off(&self, why: impl Into<BrokenOff>) {
        let why = why.into();
        let mut broken = lock(&self.broken);
        if broken.said.is_none() {
            let said = match why {
                BrokenOff::Archive(_) => "the archive could not be read any further",
                BrokenOff::Action { .. } => "an action has ended the restore",
            };
            *broken = Broken { said: Some(said), why: Some(why) };
        }
        self.token.cancel();
    }

    /// Returns true if nothing more is to be begun.
    pub(crate) fn has_come(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits until nothing more is to be begun.
    pub(crate) async fn wait(&self) {
        self.token.cancelled().await;
    }

    /// The token that is cancelled when nothing more is to be begun.
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Takes the reason why the restore broke off; `None` when it did not.
    pub(crate) fn take_reason(&self) -> Option<BrokenOff> {
        lock(&self.broken).why.take()
    }

    /// Returns the reason why nothing more is begun, for people.
    pub(crate) fn why_nothing_is_begun(&self) -> &'static str {
        lock(&self.broken).said.unwrap_or("the restore was cancelled")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_restore_that_breaks_off_is_not_cancelled() {
        let cancel = CancellationToken::new();
        let stop = Stop::with(&cancel);
        assert!(!stop.has_come());
        stop.break_off(StoreError::Worker("the first"));
        stop.break_off(StoreError::Worker("the second"));
        stop.wait().await;
        assert!(stop.has_come() && !cancel.is_cancelled());
        assert_eq!(stop.why_nothing_is_begun(), "the archive could not be read any further");
        let why = stop.take_reason().map(|why| why.to_string());
        assert_eq!(why.as_deref(), Some("a worker thread died while the first"));
        assert_eq!(stop.why_nothing_is_begun(), "the archive could not be read any further");

        let stop = Stop::with(&cancel);
        cancel.cancel();
        stop.wait().await;
        assert_eq!((stop.has_come(), stop.why_nothing_is_begun()), (true, "the restore was cancelled"));
        assert!(stop.take_reason().is_none());
    }
}
