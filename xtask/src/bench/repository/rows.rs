//! The rows by name, and the flags.

use crate::bench::flags::Flags;
use anyhow::{Result, bail};

/// A row, or a pair of rows that are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowName {
    SnapshotFile,
    SnapshotTree,
    RestoreFile,
    RestoreTree,
    SnapshotSparse,
    RestoreVersions,
    RestoreInPlace,
    MaintenanceFull,
    RestoreFileFar,
    RestoreTreeFar,
    SnapshotManyLong,
}

impl RowName {
    const ALL: [Self; 11] = [
        Self::SnapshotFile,
        Self::SnapshotTree,
        Self::RestoreFile,
        Self::RestoreTree,
        Self::SnapshotSparse,
        Self::RestoreVersions,
        Self::RestoreInPlace,
        Self::MaintenanceFull,
        Self::RestoreFileFar,
        Self::RestoreTreeFar,
        Self::SnapshotManyLong,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::SnapshotFile => "snapshot-file",
            Self::SnapshotTree => "snapshot-tree",
            Self::RestoreFile => "restore-file",
            Self::RestoreTree => "restore-tree",
            Self::SnapshotSparse => "snapshot-sparse",
            Self::RestoreVersions => "restore-versions",
            Self::RestoreInPlace => "restore-in-place",
            Self::MaintenanceFull => "maintenance-full",
            Self::RestoreFileFar => "far-restore-file",
            Self::RestoreTreeFar => "far-restore-tree",
            Self::SnapshotManyLong => "snapshot-many-long",
        }
    }

    /// True for a row that runs only when it is named.
    fn is_long(self) -> bool {
        self.name().ends_with("-long")
    }
}

/// The rows to run, and how.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) rows: Vec<RowName>,
    /// The number by which sizes are divided.
    pub(super) scale: u64,
    /// The number of times that each side runs; the best counts.
    pub(super) rounds: usize,
}

impl Options {
    /// Words choose rows by a part of their name; without one all but the long ones.
    pub(super) fn parse(args: &[String]) -> Result<Self> {
        let Flags { words, scale, rounds } = Flags::parse(args, 3)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let is_chosen = |row: &RowName| match words.as_slice() {
            [] => !row.is_long(),
            words => {
                words.iter().any(|word| row.name().contains(word)) && (!row.is_long() || words.contains(&row.name()))
            }
        };
        let rows: Vec<RowName> = RowName::ALL.into_iter().filter(is_chosen).collect();
        if rows.is_empty() {
            bail!("no row has such a name: {}", RowName::ALL.map(RowName::name).join(", "));
        }
        Ok(Self { rows, scale, rounds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Options> {
        Options::parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn words_choose_rows_and_a_long_one_only_by_its_whole_name() {
        let rows = |args: &[&str]| parse(args).unwrap().rows;
        assert_eq!(rows(&[]).len(), RowName::ALL.len() - 1);
        assert_eq!(
            rows(&["snapshot-file", "far"]),
            [RowName::SnapshotFile, RowName::RestoreFileFar, RowName::RestoreTreeFar]
        );
        assert!(!rows(&["snapshot"]).contains(&RowName::SnapshotManyLong));
        assert_eq!(rows(&["snapshot-many-long"]), [RowName::SnapshotManyLong]);
        assert!(parse(&["nothing"]).is_err());
    }

    #[test]
    fn sizes_and_rounds_are_flags() {
        let of = |args: &[&str]| parse(args).map(|options| (options.scale, options.rounds));
        assert_eq!(of(&[]).unwrap(), (1, 3));
        assert_eq!(of(&["--small", "sparse"]).unwrap(), (100, 1));
        assert_eq!(of(&["--scale", "8", "--rounds", "2"]).unwrap(), (8, 2));
    }
}
