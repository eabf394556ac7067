//! Stores for tests that fail where a test wants them to.

mod deadly;
mod decorator;
#[cfg(test)]
mod troubled;
mod unconditional;

pub use deadly::Deadly;
pub use decorator::StoreDecorator;
#[cfg(test)]
pub(crate) use troubled::{PlannedOutcome, Troubled};
pub use unconditional::{PutCondition, Unconditional};
