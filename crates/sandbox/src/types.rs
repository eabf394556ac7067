//! The types that a sandbox serves, and the documents that describe them.

pub(crate) mod builtin;
pub(crate) mod crd;
pub(crate) mod discovery;
pub(crate) mod known;
pub(crate) mod open_api;
pub(crate) mod open_api_v2;
pub(crate) mod served;
