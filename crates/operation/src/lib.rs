//! What every operation is given, and what it leaves behind.
//!
//! A backup, a restore, a deletion: each is given an [`Operation`], with its clock, its log ([`Journal`]), what shows how
//! far it is ([`Progress`]) and what it is at ([`Trace`]), the notes that survive a crash ([`Records`]), a folder for what memory cannot hold, and what
//! stops it. Engines take nothing of the kind from elsewhere.
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
pub use journal::{Closed, Journal, LOG_TARGET};
pub use log::Log;
pub use progress::Progress;
pub use records::{InMemory, Records, RecordsError, is_key};
pub use trace::{Subject, TRACE_TARGET, Trace};
