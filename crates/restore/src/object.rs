//! The restore of one object: what it is to become, its namespace and additional items, and how it is written.

pub(crate) mod additional;
pub(crate) mod answer_cache;
pub(crate) mod apply;
pub(crate) mod best_effort;
pub(crate) mod create;
pub(crate) mod decision;
pub(crate) mod definitions;
pub(crate) mod desired;
pub(crate) mod existing;
pub(crate) mod identity_fields;
pub(crate) mod item;
pub(crate) mod item_failure;
pub(crate) mod item_volumes;
pub(crate) mod job_pods;
pub(crate) mod managed_fields;
pub(crate) mod namespaces;
pub(crate) mod owner_references;
pub(crate) mod ready;
pub(crate) mod recreate;
pub(crate) mod references;
pub(crate) mod refused;
pub(crate) mod repository_data;
pub(crate) mod required_namespaces;
pub(crate) mod service_accounts;
pub(crate) mod update;
pub(crate) mod write;
