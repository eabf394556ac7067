//! How long requests that belong together are tried again.

use crate::Failure;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// Since when requests that belong together fail, with none that went well all the same.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Mutex<Since>);

#[derive(Debug, Default)]
struct Since {
    /// Since when the server answers with errors.
    refused: Option<Instant>,
    /// Since when it does not answer.
    silent: Option<Instant>,
}

impl Trouble {
    /// Since when requests fail like this one does now.
    pub(crate) fn since(&self, failure: &Failure) -> Instant {
        let mut since = self.lock();
        let since = match failure {
            Failure::Api(_) => {
                since.silent = None;
                &mut since.refused
            }
            _ => &mut since.silent,
        };
        *since.get_or_insert_with(Instant::now)
    }

    /// Notes that one went well, after this failure.
    pub(crate) fn passed(&self, before: Option<&Failure>) {
        let mut since = self.lock();
        since.silent = None;
        if matches!(before, Some(Failure::Api(_))) {
            since.refused = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Since> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
