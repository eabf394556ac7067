//! Restores: objects that exist, are refused, are mapped, or need others.

mod additional;
mod denied;
mod dry_run;
mod exact;
mod existing;
mod leaving;
mod limits;
mod modifiers;
mod namespaces;
mod numbers;
mod owners;
mod references;
mod unchanged;
