//! The context of an operation: clock, journal, progress, trace, records, cancellation.

use crate::{Clock, InMemory, Journal, Progress, Records, Trace};
use std::fmt::{self, Debug, Formatter};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The context that an operation is given. Clones are of the same operation.
#[derive(Clone)]
pub struct Operation {
    /// The time.
    pub clock: Clock,
    /// The log.
    pub journal: Journal,
    /// Progress, for the command or server that runs the operation.
    pub progress: Arc<Progress>,
    /// The notes that a run again of the same operation finds.
    pub records: Arc<dyn Records>,
    /// A folder for what memory cannot hold. What lies in it need not survive the process.
    pub scratch: PathBuf,
    /// Set to stop the operation: seen between its steps, and in every wait.
    pub cancel: CancellationToken,
    /// Set when this process is told to stop, beside [`Self::cancel`]. Another process begins the operation again then, and takes up what goes
    /// on without one.
    pub shutdown: CancellationToken,
    /// Tells whether this process may still act for the operation.
    pub fence: Fence,
}

/// Returns the reason when this process may no longer act for an operation, since another one may have taken it over.
/// It is asked just before each act that cannot be taken back and that no precondition guards, such as a command in a
/// container. The cancellation alone would come too late there when the process was paused.
pub type Fence = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

impl Operation {
    /// An operation that has done nothing yet, with notes that do not survive the process. `subject` is the field that
    /// every line of its log carries, such as `backup=velero/nightly`. No other process takes it over.
    #[must_use]
    pub fn new(clock: Clock, subject: &str, scratch: PathBuf) -> Self {
        let journal = Journal::new(Arc::clone(&clock), subject, &scratch);
        Self {
            journal,
            clock,
            progress: Arc::default(),
            records: Arc::new(InMemory::default()),
            scratch,
            cancel: CancellationToken::new(),
            shutdown: CancellationToken::new(),
            fence: Arc::new(|| Ok(())),
        }
    }

    /// Spans of the operation and its stages, for users of traces. The log belongs to the span.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        self.journal.trace()
    }
}

impl Debug for Operation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation").field("journal", &self.journal).finish_non_exhaustive()
    }
}
