//! Repositories that kopia wrote, read structure by structure without an engine.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod contents;
mod damage;
mod documents;
mod go_types;
mod matrix;
mod packs;
mod splits;
mod states;
