//! Plans and previews: the changes that a restore would make, as lines and as files, and restores that are held to a plan.

pub(crate) mod cluster_only;
pub(crate) mod companions;
pub(crate) mod confirmed;
pub(crate) mod file;
pub(crate) mod guard;
pub(crate) mod line;
pub(crate) mod owned_claims;
pub(crate) mod planned;
pub(crate) mod preview;
pub(crate) mod preview_json;
pub(crate) mod required_objects;
pub(crate) mod target_namespaces;
pub(crate) mod word;
