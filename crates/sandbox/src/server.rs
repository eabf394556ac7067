//! The server: its options, connections and identity.

pub(crate) mod identity;
pub(crate) mod options;
pub(crate) mod respond;
pub(crate) mod sandbox;
pub(crate) mod serve;
pub(crate) mod shared;
