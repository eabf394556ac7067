//! Backups: which objects they hold, and with how much memory.

mod budget;
mod filters;
mod filters_expected;
mod group_versions;
mod kept_out;
mod policies;
mod rights;
