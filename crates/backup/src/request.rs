//! The request of a backup, the documents that it names, and what the stages share of it.

pub(crate) mod lane;
pub(crate) mod load;
pub(crate) mod ordered_resources;
pub(crate) mod scope;
pub(crate) mod settings;
