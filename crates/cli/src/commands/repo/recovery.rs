//! `--recover-indexes`, for repositories whose index blobs are lost or damaged.

use clap::Args;
use lifeboat_kopia::content::IndexSource;
use lifeboat_kopia::{KopiaError, Repository};
use lifeboat_terminal::output::errors::warn;

/// The next step where indexes are lost or damaged.
const NEXT_STEP: &str = "nothing is written into a repository without its indexes; the commands that read take them from the packs \
                         with --recover-indexes, and where they cannot be brought back `kopia index recover --commit` writes them \
                         anew";

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
pub(crate) fn advised(error: KopiaError) -> anyhow::Error {
    match error {
        KopiaError::LostIndexes { .. } | KopiaError::DamagedIndex { .. } => {
            anyhow::Error::new(error).context(NEXT_STEP)
        }
        error => error.into(),
    }
}

/// Tells what a repository lacks whose indexes come from its packs.
pub(crate) fn tell_limits(repository: &Repository) {
    warn(Some(
        "note: the indexes come from the packs: snapshots and files that were deleted may be there again until maintenance \
         has deleted their packs",
    ));
    let damaged = repository.contents().index_set().damaged_entries();
    if damaged > 0 {
        let text = format!("warning: {damaged} packs have no index that can be read: what only they have is missing");
        warn(Some(&text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_lost_the_indexes_is_told_how_to_read_without_them() {
        let lost = KopiaError::LostIndexes { location: "/srv".to_owned(), pack: "p1".to_owned() };
        let damaged = KopiaError::DamagedIndex { what: "blob xn0".to_owned(), why: "it is cut off".to_owned() };
        for (error, advises) in [(lost, true), (damaged, true), (KopiaError::Cancelled, false)] {
            let text = format!("{:#}", advised(error));
            assert_eq!(text.contains("--recover-indexes"), advises, "{text}");
        }
    }
}
