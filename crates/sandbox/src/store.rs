//! The store that a sandbox serves, and what is done to the objects in it.

pub(crate) mod janitor;
pub(crate) mod managed;
pub(crate) mod memory;
pub(crate) mod object_store;
pub(crate) mod shape;
pub(crate) mod stored;
