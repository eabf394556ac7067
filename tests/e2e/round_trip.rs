//! Objects that are backed up, lost and restored: every field is compared.

mod everything;
mod existing;
mod filtered;
mod mapped;
mod sandbox;
mod whole_cluster;
