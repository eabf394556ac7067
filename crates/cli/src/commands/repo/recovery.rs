//! `--recover-indexes`, for repositories whose index blobs are lost or damaged.

use anyhow::anyhow;
use clap::Args;
use lifeboat_kopia::content::IndexSource;
use lifeboat_kopia::{KopiaError, Repository};
use lifeboat_terminal::output::errors::warn;

/// The next step where indexes are lost or damaged.
const NEXT_STEP: &str = "nothing was written. Read the repository with --recover-indexes (the repo and volume commands that read have \
                         it); if the index blobs cannot be restored, kopia index recover --commit writes them anew";

/// The indexes by which a repository is read.
#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    /// Take the indexes from the ends of all packs, where index blobs are lost or damaged; data that was deleted may be there
    /// again, and nothing can be written
    #[arg(long)]
    recover_indexes: bool,
}

impl IndexArgs {
    /// True where they come from the packs.
    pub(crate) fn are_recovered(&self) -> bool {
        self.recover_indexes
    }

    pub(crate) fn source(&self) -> IndexSource {
        if self.recover_indexes { IndexSource::Packs } else { IndexSource::IndexBlobs }
    }
}

/// An error of opening a repository, with the next step where its indexes cannot be used.
pub(crate) fn with_advice(error: KopiaError) -> anyhow::Error {
    match error {
        KopiaError::LostIndexes { .. } | KopiaError::DamagedIndex { .. } => anyhow!("{error}; {NEXT_STEP}"),
        error => error.into(),
    }
}

/// Counts entries of indexes, and packs, that cannot be read, for people; `None` where there are none.
pub(crate) fn damaged_indexes(entries: u64, packs: u64) -> Option<String> {
    let of_entries = (entries > 0).then(|| format!("{entries} entries of indexes"));
    let of_packs = (packs > 0).then(|| format!("the indexes of {packs} packs"));
    let damaged: Vec<String> = of_entries.into_iter().chain(of_packs).collect();
    (!damaged.is_empty()).then(|| format!("{} cannot be read: what only they have is missing", damaged.join(" and ")))
}

/// Warns of what a repository may lack, or have again, whose indexes come from its packs.
pub(crate) fn warn_of_recovery(repository: &Repository) {
    warn(Some(
        "note: the indexes come from the packs: snapshots and files that were deleted may be there again until maintenance \
         has deleted their packs",
    ));
    let set = repository.contents().index_set();
    if let Some(damaged) = damaged_indexes(set.damaged_entries(), set.damaged_packs()) {
        warn(Some(&format!("warning: {damaged}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_packs_that_cannot_be_read_are_counted_apart() {
        let counted = [(0, 0), (2, 0), (0, 3), (2, 3)].map(|(entries, packs)| damaged_indexes(entries, packs));
        let text = |what: &str| Some(format!("{what} cannot be read: what only they have is missing"));
        let both = "2 entries of indexes and the indexes of 3 packs";
        assert_eq!(counted, [None, text("2 entries of indexes"), text("the indexes of 3 packs"), text(both)]);
    }

    #[test]
    fn who_has_lost_the_indexes_is_told_how_to_read_without_them() {
        let lost = KopiaError::LostIndexes { location: "/srv".to_owned(), pack: "p1".to_owned() };
        let damaged = KopiaError::DamagedIndex { what: "blob xn0".to_owned(), why: "it is cut off".to_owned() };
        for (error, advises) in [(lost, true), (damaged, true), (KopiaError::Cancelled, false)] {
            let cause = error.to_string();
            let text = format!("{:#}", with_advice(error));
            assert!(text.starts_with(&cause), "{text}");
            assert_eq!(text.contains("--recover-indexes"), advises, "{text}");
        }
    }
}
