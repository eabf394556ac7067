//! What an operation is given.

use crate::{Clock, InMemory, Journal, Progress, Records};
use std::fmt::{self, Debug, Formatter};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What one operation is given. Clones are of the same operation.
#[derive(Clone)]
pub struct Operation {
    /// The time.
    pub clock: Clock,
    /// The log.
    pub journal: Journal,
    /// How far it is, for the command or server that runs it.
    pub progress: Arc<Progress>,
    /// The notes that a run again of the same operation finds.
    pub records: Arc<dyn Records>,
    /// A folder for what memory cannot hold. What lies in it need not survive the process.
    pub scratch: PathBuf,
    /// Set to stop the operation: seen between its steps, and in every wait.
    pub cancel: CancellationToken,
}

impl Operation {
    /// An operation that has done nothing yet, with notes that do not survive the process. `subject` is the field that
    /// every line of its log carries, such as `backup=velero/nightly`.
    #[must_use]
    pub fn new(clock: Clock, subject: &str, scratch: PathBuf) -> Self {
        Self {
            journal: Journal::new(Arc::clone(&clock), subject, &scratch),
            clock,
            progress: Arc::default(),
            records: Arc::new(InMemory::default()),
            scratch,
            cancel: CancellationToken::new(),
        }
    }
}

impl Debug for Operation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation").field("journal", &self.journal).finish_non_exhaustive()
    }
}
