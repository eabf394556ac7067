//! Data of CSI snapshots in repositories, carried by data movers.

pub mod restore;
