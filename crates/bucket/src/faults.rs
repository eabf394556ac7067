//! Stores for tests that fail where a test wants them to.

mod deadly;
#[cfg(test)]
mod troubled;
mod unconditional;
mod wrapper;

pub use deadly::Deadly;
#[cfg(test)]
pub(crate) use troubled::{PlannedOutcome, Troubled};
pub use unconditional::Unconditional;
pub use wrapper::StoreWrapper;
