//! Options and the report of a snapshot.

use super::attributes::LostAttributes;
use crate::Totals;
use crate::block_form::BlockForm;
use crate::restore::EntryFailure;
use lifeboat_kopia::content::writer::Written;
use lifeboat_kopia::format::snapshot::{SnapshotDocument, Source};
use lifeboat_kopia::{Clock, Random};
use std::collections::BTreeMap;
use std::time::Duration;

/// Options of a snapshot.
#[derive(Clone)]
pub struct SnapshotOptions {
    /// The source under which the snapshot is found; its path need not be that which is read.
    pub source: Source,
    /// The description.
    pub description: String,
    /// The tags, which are labels of the manifest, too.
    pub tags: BTreeMap<String, String>,
    /// The pins, which keep the snapshot from retention.
    pub pins: Vec<String>,
    /// Takes files over from earlier snapshots of the source where size, times, mode and owner are the same. Otherwise every
    /// file is read; what is in the repository is stored once all the same.
    pub incremental: bool,
    /// The ID of the snapshot that files are taken over from, instead of the latest complete one of the source. One that is not
    /// there, or was not finished, gives no files.
    pub parent: Option<String>,
    /// Saves a device, or an image of one, as blocks, in the form of Velero's uploader of blocks; `None` saves what is at the
    /// path in the form of kopia.
    pub blocks: Option<BlockForm>,
    /// The most files that are read at once; `None` takes what the policy says, or twice the processors.
    pub files_at_once: Option<usize>,
    /// The times at which what is done so far is kept.
    pub checkpoints: Checkpoints,
    /// The most entries that a list of the report names; all are counted.
    pub errors_kept: usize,
    /// The clock.
    pub clock: Clock,
    /// The source of names of files that are not finished in a checkpoint.
    pub random: Random,
}

/// The times at which what is done so far is kept in the repository, so that a later run goes on from there.
///
/// The first checkpoint comes after [`Checkpoints::first`], the next ones each after an eighth of the time that has gone, at
/// least after `first` and at most after [`Checkpoints::longest`] more: of a long snapshot little is lost, and a repository
/// does not fill with small packs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoints {
    /// The time before the first.
    pub first: Duration,
    /// The longest time between two.
    pub longest: Duration,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Self { first: Duration::from_secs(30), longest: Duration::from_secs(600) }
    }
}

impl Checkpoints {
    /// The time from one checkpoint to the next, when so much has gone since the beginning.
    pub(super) fn pause(&self, gone: Duration) -> Duration {
        (gone / 8).min(self.longest).max(self.first)
    }
}

impl SnapshotOptions {
    /// Options with the defaults for a source.
    pub fn new(source: Source, clock: Clock, random: Random) -> Self {
        Self {
            source,
            description: String::new(),
            tags: BTreeMap::new(),
            pins: Vec::new(),
            incremental: true,
            parent: None,
            blocks: None,
            files_at_once: None,
            checkpoints: Checkpoints::default(),
            errors_kept: 1000,
            clock,
            random,
        }
    }
}

/// The account of a snapshot: what was saved, and what was not.
#[derive(Debug, Clone)]
pub struct SnapshotReport {
    /// The ID of its manifest.
    pub id: String,
    /// Its document, with root and counters.
    pub document: SnapshotDocument,
    /// The counts of what was written into the repository, checkpoints included.
    pub written: Written,
    /// The counters of the transfer.
    pub totals: Totals,
    /// Entries that could not be read, and so are not in the snapshot: all are counted, the first named.
    pub failed: Named,
    /// Entries that could not be read, and that the policy passes over.
    pub passed_over: Named,
    /// Files that were changed both times while they were read: the snapshot has them as they were read last.
    pub changed: Named,
    /// Entries that were deleted, renamed or replaced after their directory was listed and before they were read: they are not in the
    /// snapshot under these names.
    pub vanished: Named,
    /// The numbers of entries with hard links, access control lists and extended attributes, which no snapshot has.
    pub lost_attributes: LostAttributes,
    /// Sockets, pipes and devices, of which a snapshot has none.
    pub special: Named,
    /// Directories that say of themselves that they are caches: they are in the snapshot without what is in them, as in those
    /// of kopia, unless the policy says otherwise.
    pub caches: Named,
    /// Files that are longer than the policy allows, and other file systems that it leaves out. What rules leave out is in
    /// the counters of the document.
    pub refused: Named,
    /// Parts of policies and of earlier snapshots that do not count, and why.
    pub warnings: Vec<String>,
    /// The number of earlier snapshots from which files or blocks were taken over.
    pub parents: usize,
    /// The number of checkpoints that were made.
    pub checkpoints: u64,
}

impl SnapshotReport {
    /// True where everything that the policy does not leave out is in the snapshot.
    pub fn is_whole(&self) -> bool {
        self.failed.count == 0 && self.document.incomplete.is_none()
    }
}

/// Entries of one sort: their number, and the first of them, each with what is to be said of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Named {
    /// The number of all.
    pub count: u64,
    /// The first.
    pub first: Vec<EntryFailure>,
}

impl Named {
    /// Adds an entry, whose name is kept when there are fewer than `most`.
    pub(super) fn add(&mut self, path: String, why: impl Into<String>, most: usize) {
        self.count += 1;
        if self.first.len() < most {
            self.first.push(EntryFailure { path, why: why.into() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_become_rarer_with_time_and_never_rarer_than_allowed() {
        let seconds = [0, 30, 240, 400, 4000, 4800, 90_000];
        let pauses = seconds.map(|gone| Checkpoints::default().pause(Duration::from_secs(gone)).as_secs());
        assert_eq!(pauses, [30, 30, 30, 50, 500, 600, 600]);
    }
}
