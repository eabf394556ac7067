//! Fixtures: clusters, buckets, servers and objects that tests share.

pub(crate) mod devices;
pub(crate) mod faults;
pub(crate) mod ground;
pub(crate) mod many;
pub(crate) mod moved;
pub(crate) mod page;
pub(crate) mod random;
pub(crate) mod repository_ground;
pub(crate) mod results;
pub(crate) mod shop;
pub(crate) mod snapshot;
pub(crate) mod support;
pub(crate) mod tea;
