//! The restore engine.
//!
//! One door: [`run`] takes a [`Request`] and an [`Env`], brings a backup back, and says what came of it. Inside, the
//! modules are the stages of the walk in its order: `request`, `versions` and `read`, `plan`, `check` (with `ahead`),
//! `execute` (with `running`, `item`, `apply`, `operations`, `additional`, `ready`, `existing`, `update`, `hold_back`,
//! `deferred`, `retry`, `wait`, `stop` and `checkpoint` beneath it), `finalize`.
//!
//! The engine never writes custom resources. Start reading at [`run`].

mod action;
mod actions;
mod additional;
mod ahead;
mod apply;
mod aside;
mod check;
mod checkpoint;
mod deferred;
mod desired;
mod ensure;
mod env;
mod execute;
mod existing;
mod finalize;
mod hold_back;
mod item;
mod kept;
mod leaving;
mod listed;
mod lock;
mod managed_fields;
mod namespaces;
mod needed;
mod notes;
mod operations;
mod outcome;
mod plan;
mod planned;
mod preview;
mod priorities;
mod read;
mod ready;
mod request;
mod retry;
mod run;
mod running;
mod stop;
#[cfg(test)]
mod stub;
mod update;
mod versions;
mod volumes;
mod wait;
mod walk;
mod write;

pub use action::Action;
pub use actions::{ActionConfig, built_in_actions};
pub use env::Env;
pub use finalize::record_failure;
pub use outcome::{Outcome, RestoreError};
pub use planned::{Planned, PreviewItem};
pub use preview::{PreviewEnd, preview};
pub use priorities::{ParsePrioritiesError, Priorities};
pub use request::{Request, Settings, ValidationErrors, check_source, prepared};
pub use run::run;
pub use stop::BrokenOff;
