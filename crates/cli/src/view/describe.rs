//! Pages that describe backups, restores and schedules: values in, text or JSON out.

pub(crate) mod backup;
pub(crate) mod facts;
pub(crate) mod json;
pub(crate) mod page;
pub(crate) mod restore;
pub(crate) mod results;
pub(crate) mod schedule;
pub(crate) mod spec;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod volumes;
