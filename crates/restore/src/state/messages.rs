//! Warnings and errors per object, and the objects that a resumed restore must revisit because of them.

use crate::state::lock::lock;
use lifeboat_object::{ObjectKey, ResultScope};
use lifeboat_operation::Journal;
use std::collections::HashSet;
use std::sync::Mutex;

/// Writes messages about objects into the journal, and remembers about which.
#[derive(Debug)]
pub(crate) struct Messages {
    journal: Journal,
    /// Objects (target keys) that a run again comes back to.
    open: Mutex<HashSet<[u8; 16]>>,
}

impl Messages {
    pub(crate) fn new(journal: &Journal) -> Self {
        Self { journal: journal.clone(), open: Mutex::default() }
    }

    pub(crate) fn error(&self, target: &ObjectKey, message: &str) {
        self.leave_open(target);
        self.journal.error(&ResultScope::of(target.namespace.as_deref()), message);
    }

    pub(crate) fn warning(&self, target: &ObjectKey, message: &str) {
        self.leave_open(target);
        self.journal.warn(&ResultScope::of(target.namespace.as_deref()), message);
    }

    /// Tells of an object that is there and could not be brought in line, as an error or a warning.
    pub(crate) fn unequal(&self, target: &ObjectKey, message: &str, is_error: bool) {
        if is_error { self.error(target, message) } else { self.warning(target, message) }
    }

    /// Writes into the log that an object is not restored, and why. That is no warning: it is as it should be.
    pub(crate) fn left_out(&self, target: &ObjectKey, reason: &str) {
        self.journal.info("Left an object out", &[("object", &target.to_string()), ("reason", reason)]);
    }

    /// Writes into the log that an object is in the cluster as the backup has it.
    pub(crate) fn unchanged(&self, target: &ObjectKey) {
        let reason = "it already exists in the cluster and is the same as the backed up version";
        self.journal.detail("Skipped an object", &[("object", &target.to_string()), ("reason", reason)]);
    }

    /// Lets a run again come back to an object.
    pub(crate) fn leave_open(&self, target: &ObjectKey) {
        lock(&self.open).insert(target.digest());
    }

    /// Returns true if a resumed restore must revisit an object: a message was about it, or it was left open.
    pub(crate) fn is_open(&self, target: &ObjectKey) -> bool {
        lock(&self.open).contains(&target.digest())
    }
}
