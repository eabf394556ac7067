//! The request of a restore and the documents that it names.

pub(crate) mod existing_policies;
pub(crate) mod load;
pub(crate) mod modifier;
pub(crate) mod priorities;
pub(crate) mod settings;
