//! Requests that large backups and restores make.

mod calls;
mod large;
