//! The context that every operation is given, and the log, results and notes that it leaves behind.
//!
//! A backup, a restore and a deletion each get an [`Operation`]: its clock, its log ([`Journal`]), counters of its
//! progress ([`Progress`]), its spans ([`Trace`]), the notes that survive a crash ([`Records`]), a folder for what
//! memory cannot hold, and its cancellation. Engines take nothing of the kind from elsewhere.
//!
//! Start reading at [`Operation`].

mod clock;
pub mod conformance;
mod given;
mod journal;
mod log;
mod progress;
mod records;
mod trace;

pub use clock::Clock;
pub use given::{Fence, Operation};
pub use journal::{ClosedJournal, Journal, LOG_TARGET};
pub use log::Log;
pub use progress::Progress;
pub use records::{InMemory, Records, RecordsError, is_key};
pub use trace::{Subject, TRACE_TARGET, Trace};
