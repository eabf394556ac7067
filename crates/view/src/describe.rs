//! Pages that describe backups, restores, schedules and repositories: values in, text or JSON out.

pub mod backup;
pub mod facts;
pub mod json;
pub mod page;
pub mod repository;
pub mod restore;
mod results;
pub mod schedule;
mod spec;
#[cfg(test)]
mod tests;
pub mod volumes;
