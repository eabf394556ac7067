//! Backups and restores whose actions have begun asynchronous operations: they are looked after until none goes on, and ended
//! then. Nothing runs for them between.

pub(crate) mod backup;
pub(crate) mod restore;

#[cfg(test)]
mod tests;
