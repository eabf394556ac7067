//! Decides which objects are in scope of a backup or restore. Pure.
//!
//! The engines ask [`BackupFilter`] and [`RestoreFilter`] about types, namespaces and objects. Both are made of globs with
//! Velero's semantics, label selectors, and include and exclude lists. Start reading at [`BackupFilter`].

mod backup;
mod backup_scope;
mod backup_spec;
mod glob;
mod includes;
mod kept_out;
mod namespace;
mod object_scope;
mod policy;
mod restore;
mod rules_text;
mod saved;
mod selector;
mod types;

pub use backup::{BackupFilter, ObjectFacts};
pub use backup_scope::{BackupScope, Doubt};
pub use glob::{Globs, TypeGlob, has_wildcard};
pub use includes::{IncludesExcludes, validate_lists};
pub use kept_out::is_kept_out;
pub use namespace::{NamespaceFacts, NamespaceFilter, NamespaceScope};
pub use object_scope::{ObjectScope, ScopeText};
pub use policy::{
    PolicyError, PolicyUse, ResourcePolicies, SnapshotBy, VolumeAction, VolumeFacts, VolumeRule, label_selector,
    volume_type,
};
pub use restore::{RestoreFilter, RestoredFacts};
pub use rules_text::RulesText;
pub use saved::{can_be_saved, cohabiting_name};
pub use selector::{Selector, SelectorError, matches_any, parse_selector};

#[cfg(test)]
fn list(items: &[&str]) -> Vec<String> {
    items.iter().map(|i| (*i).to_owned()).collect()
}
