//! What an operation is given.

use crate::{Clock, InMemory, Journal, Progress, Records, Trace};
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
    /// What it is at, for who follows it by traces. The log belongs to it.
    pub trace: Trace,
    /// The notes that a run again of the same operation finds.
    pub records: Arc<dyn Records>,
    /// A folder for what memory cannot hold. What lies in it need not survive the process.
    pub scratch: PathBuf,
    /// Set to stop the operation: seen between its steps, and in every wait.
    pub cancel: CancellationToken,
    /// Whether this process may still act for the operation.
    pub fence: Fence,
}

/// Whether this process may still act for an operation, or another one may have taken it over meanwhile. It is asked just
/// before each act that cannot be taken back and that no precondition guards, such as a command in a container: a cancellation
/// comes later, when the process was paused.
pub type Fence = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

impl Operation {
    /// An operation that has done nothing yet, with notes that do not survive the process. `subject` is the field that
    /// every line of its log carries, such as `backup=velero/nightly`. No other process takes it over.
    #[must_use]
    pub fn new(clock: Clock, subject: &str, scratch: PathBuf) -> Self {
        let journal = Journal::new(Arc::clone(&clock), subject, &scratch);
        Self {
            trace: journal.trace().clone(),
            journal,
            clock,
            progress: Arc::default(),
            records: Arc::new(InMemory::default()),
            scratch,
            cancel: CancellationToken::new(),
            fence: Arc::new(|| Ok(())),
        }
    }
}

impl Debug for Operation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation").field("journal", &self.journal).finish_non_exhaustive()
    }
}
