//! Facts of a resource that a transfer needs.

use super::failure::cut;
use std::collections::BTreeMap;

/// The most files or threads at once that a setting may ask for.
const MOST: usize = 256;
/// The most bytes of a name or value in a message.
const LONGEST_SHOWN: usize = 60;

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
    /// The name of the device, where the volume is saved as blocks.
    pub device_name: Option<String>,
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

/// The value that a setting of the uploader takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum SettingType {
    /// A number above 0.
    Number,
    /// True or false.
    Flag,
    /// False; true is for what this program does not do.
    Off,
}

/// A setting of the uploader that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    name: &'static str,
    value: SettingType,
}

/// The settings of a backup.
pub(super) const BACKUP_SETTINGS: [Setting; 1] = [Setting { name: "ParallelFilesUpload", value: SettingType::Number }];

/// The settings of a restore.
pub(super) const RESTORE_SETTINGS: [Setting; 3] = [
    Setting { name: "ParallelFilesDownload", value: SettingType::Number },
    Setting { name: "WriteSparseFiles", value: SettingType::Flag },
    Setting { name: "DeleteExtraFiles", value: SettingType::Off },
];

/// The settings that do not take effect as they are, each with the reason.
pub(super) fn without_effect(settings: &BTreeMap<String, String>, known: &[Setting]) -> Vec<String> {
    let why = |(key, value): (&String, &String)| {
        let shown = cut(value, LONGEST_SHOWN);
        let Some(Setting { value: expected, .. }) = known.iter().find(|setting| setting.name == key) else {
            return Some(format!("the setting {} is not known and has no effect", cut(key, LONGEST_SHOWN)));
        };
        let value = value.trim();
        let is = |word: &str| value.eq_ignore_ascii_case(word);
        match expected {
            _ if value.is_empty() => None,
            SettingType::Number => match value.parse::<usize>() {
                Ok(number) if number > MOST => Some(format!("the setting {key} is {shown}: {MOST} are taken")),
                Ok(1..) => None,
                _ => Some(format!("the setting {key} has no effect: {shown:?} is no number above 0")),
            },
            SettingType::Flag | SettingType::Off if is("false") => None,
            SettingType::Flag if is("true") => None,
            SettingType::Off if is("true") => {
                Some(format!("the setting {key} is true and has no effect: this version does not know it"))
            }
            SettingType::Flag | SettingType::Off => {
                Some(format!("the setting {key} has no effect: {shown:?} is neither true nor false"))
            }
        }
    };
    settings.iter().filter_map(why).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_without_effect_are_told_with_the_reason() {
        let of = |key: &str, value: &str| {
            let settings = BTreeMap::from([(key.to_owned(), value.to_owned())]);
            [without_effect(&settings, &BACKUP_SETTINGS), without_effect(&settings, &RESTORE_SETTINGS)]
                .map(|all| all.join("; "))
        };
        let none = String::new;
        let unknown = |key: &str| format!("the setting {key} is not known and has no effect");
        let upload = |text: &str| [text.to_owned(), unknown("ParallelFilesUpload")];
        assert_eq!(of("ParallelFilesUpload", " 8 "), upload(""));
        assert_eq!(of("ParallelFilesUpload", ""), upload(""));
        for value in ["many", "0", "-1"] {
            let text = format!("the setting ParallelFilesUpload has no effect: {value:?} is no number above 0");
            assert_eq!(of("ParallelFilesUpload", value), upload(&text));
        }
        assert_eq!(of("ParallelFilesUpload", "1000"), upload("the setting ParallelFilesUpload is 1000: 256 are taken"));
        let sparse = |text: &str| [unknown("WriteSparseFiles"), text.to_owned()];
        assert_eq!(of("WriteSparseFiles", "True"), sparse(""));
        let neither = "the setting WriteSparseFiles has no effect: \"yes\" is neither true nor false";
        assert_eq!(of("WriteSparseFiles", "yes"), sparse(neither));
        assert_eq!(of("DeleteExtraFiles", "false"), [unknown("DeleteExtraFiles"), none()]);
        let later = "the setting DeleteExtraFiles is true and has no effect: this version does not know it";
        assert_eq!(of("DeleteExtraFiles", "true")[1], later);
        assert_eq!(of("Speed", "fast"), [unknown("Speed"), unknown("Speed")]);
    }

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
