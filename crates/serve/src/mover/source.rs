//! Facts of a resource that a transfer needs.

use std::collections::BTreeMap;

/// The most files or threads at once that a setting may ask for.
const MOST: usize = 256;

/// The snapshot that a resource asks for, and the settings of its restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreSource {
    /// The storage location.
    pub location: String,
    /// The namespace the volume was saved from, which names the repository.
    pub namespace: String,
    /// The ID of the snapshot's manifest.
    pub snapshot: String,
    /// True for a snapshot of restic, which this program cannot read.
    pub is_restic: bool,
    /// Settings of the uploader.
    pub settings: BTreeMap<String, String>,
}

/// A volume that a resource asks to be saved, as the repository knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSource {
    /// The storage location.
    pub location: String,
    /// The namespace of the volume, which names the repository.
    pub namespace: String,
    /// The path of the snapshot's source.
    pub path: String,
    /// The name of the volume where it is saved as a block device; `None` where its files are, or its device in the form of files.
    pub in_blocks: Option<String>,
    /// The tags of the snapshot.
    pub tags: BTreeMap<String, String>,
    /// The snapshot to build on: empty or `auto` for the latest, `none` for none, otherwise its ID.
    pub parent: String,
    /// Settings of the uploader.
    pub settings: BTreeMap<String, String>,
}

/// A number of the settings of the uploader; `None` where it is not set, or is no number above 0.
pub(super) fn number(settings: &BTreeMap<String, String>, key: &str) -> Option<usize> {
    settings.get(key)?.trim().parse().ok().filter(|number| *number > 0).map(|number: usize| number.min(MOST))
}

/// A flag of the settings of the uploader.
pub(super) fn flag(settings: &BTreeMap<String, String>, key: &str) -> bool {
    settings.get(key).is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_no_numbers_or_flags_do_not_count() {
        let settings = |value: &str| BTreeMap::from([("key".to_owned(), value.to_owned())]);
        let numbers = ["4", " 8 ", "0", "-1", "many", "100000"].map(|value| number(&settings(value), "key"));
        assert_eq!(numbers, [Some(4), Some(8), None, None, None, Some(MOST)]);
        assert_eq!(
            ["true", "True", "false", ""].map(|value| flag(&settings(value), "key")),
            [true, true, false, false]
        );
        assert_eq!((number(&settings("4"), "other"), flag(&settings("true"), "other")), (None, false));
    }
}
