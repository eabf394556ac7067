//! Hooks: commands that run in containers of pods around their backup and after their restore.
//!
//! The hooks of a pod are decided from its annotations and from the Backup or Restore that is processed:
//! [`BackupHooks::of`] around a backup, [`RestoreHooks::commands`] and [`RestoreHooks::init_containers`] after a
//! restore; all are pure. [`run`] runs a hook by the exec subresource, within its deadline, and writes its output into
//! the log. [`Owed`] keeps applications from staying frozen: before the first command of a pod that has post hooks,
//! these are written among the operation's records, and a later attempt runs them first.

mod annotation;
mod backup;
mod command;
mod hook;
mod matcher;
mod owed;
mod pod;
mod restore;
mod run;
mod tally;

pub use backup::{BackupHooks, PodHooks};
pub use hook::{DEFAULT_TIMEOUT, Hook, HookSource, Moment};
pub use owed::{Owed, OwedHooks};
pub use pod::HookPod;
pub use restore::{RestoreHook, RestoreHooks};
pub use run::{HookError, run};
pub use tally::HookTally;
