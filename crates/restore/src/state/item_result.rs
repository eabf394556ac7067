//! The outcome of a restore for a single object.

/// Outcome for an object, in the words of the resource list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ItemResult {
    /// It was made.
    Created,
    /// It was there and was changed.
    Updated,
    /// It was there, was deleted and was made anew.
    Recreated,
    /// The backup lacks it, and it was deleted.
    Removed,
    /// It was there as in the backup, or is not restored.
    Skipped,
    /// It was there, differs, and was left as it is.
    Differs,
    /// It could not be restored.
    Failed,
}

impl ItemResult {
    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Recreated => "recreated",
            Self::Removed => "removed",
            Self::Skipped => "skipped",
            // As with Velero: it is not as in the backup.
            Self::Differs | Self::Failed => "failed",
        }
    }
}

/// The outcome of the restore for one object of the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandledItem {
    /// Its number among the archive's rows.
    pub(crate) row: usize,
    pub(crate) action: ItemResult,
}
