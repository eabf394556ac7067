//! The backup engine.
//!
//! One door: [`run`] takes a [`Request`] and an [`Env`], makes the backup, and says what came of it. Inside, the
//! modules are the stages of the walk in its order: `request`, `scope`, `plan`, `collect` (with `spool` beneath it), `process` (with `relate`,
//! `related` and `volumes` beneath it), `write`, `finalize`; a stage is a function from stream to stream, and stages share no locked state.
//! Each stream says its end, and `tally` counts that nothing was lost between them.
//!
//! The engine never writes custom resources. Start reading at [`run`].

mod collect;
mod env;
mod error;
mod failure;
mod finalize;
mod parse;
mod plan;
mod preview;
mod process;
mod relate;
mod related;
mod request;
mod run;
mod scope;
mod spool;
mod stopped;
mod tally;
mod volumes;
mod write;

pub use env::Env;
pub use error::BackupError;
pub use failure::record_failure;
pub use plan::{Excluded, Plan, PlannedList};
pub use preview::{Preview, PreviewedType, preview};
pub use request::{MEMORY_BUDGET_MIB, Request, Settings, ValidationErrors, prepared};
pub use run::{Outcome, run};
