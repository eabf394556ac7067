//! A backup of a schedule among the others of it: is it one that rules count?

use super::facts::{is_good, is_good_or_with_errors};
use lifeboat_api::Backup;

/// A backup of a schedule, and what of the rest decides whether rules keep it.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleMember<'b> {
    /// The backup.
    pub backup: &'b Backup,
    /// Tells that there is a request to delete it which is not withdrawn when rules keep it.
    pub deletion_is_asked: bool,
    /// Tells that its location can be read: otherwise nobody knows that it is there still.
    pub is_readable: bool,
    /// Tells that this cluster has made it, as far as is known.
    pub is_own: bool,
}

impl ScheduleMember<'_> {
    /// Tells whether it could be restored, and will be there.
    pub fn is_good(&self) -> bool {
        self.is_readable && is_good(self.backup, self.deletion_is_asked)
    }

    /// As [`Self::is_good`], also of one that ended with errors.
    pub fn is_good_or_with_errors(&self) -> bool {
        self.is_readable && is_good_or_with_errors(self.backup, self.deletion_is_asked)
    }
}
