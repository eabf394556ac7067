//! State of an undelete that was cut off, or has ended with errors, so that the same command goes on with it.

use super::report::{cut_off, going_on, gone, newer};
use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{Backup, ExistingResourcePolicy};
use lifeboat_archive::tarball::entry_hash;
use lifeboat_standalone::local_operation::operation_key::OperationKey;
use lifeboat_standalone::local_operation::state::{OfBackup, OperationState, OperationStateFile};
use lifeboat_store::UsableBackups;
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt::Display;

/// The kind of state that it is.
pub(super) const KIND: &str = "undelete";

/// For how long the same command means to go on, after it was begun first: later the object was perhaps lost once more.
const GOES_ON_FOR: SignedDuration = SignedDuration::from_hours(24);

/// Where the state of an undelete lies, and the one that is kept there.
#[derive(Debug)]
pub(super) struct ResumeState {
    key: OperationKey,
    content: Option<OperationState>,
}

/// Options of an undelete: it resumes only an earlier one that had the same options.
#[derive(Clone, Copy, Debug)]
pub(super) struct UndeleteOptions<'a> {
    pub(super) policy: &'a ExistingResourcePolicy,
    pub(super) with_owned: bool,
    pub(super) with_owners: bool,
    pub(super) allow_recreate: &'a [String],
}

impl ResumeState {
    /// Looks for the state of an undelete.
    ///
    /// # Errors
    /// When there is one that cannot be read.
    pub(super) fn find(key: OperationKey, now: Timestamp) -> Result<Self> {
        let content = OperationStateFile::kept(&key).context(
            "what is remembered of this undelete is no more of use: remove the file that is named here to begin anew",
        )?;
        let content = content.filter(|content| goes_on(content, now));
        Ok(Self { key, content })
    }

    /// The backup from which it is taken.
    pub(super) fn backup(&self) -> Option<&OfBackup> {
        self.content.as_ref()?.backup.as_ref()
    }

    /// Returns true if it has come to an end with errors.
    pub(super) fn has_ended(&self) -> bool {
        self.content.as_ref().is_some_and(|content| content.has_ended)
    }

    /// Returns true if this is the backup that it was taken from.
    pub(super) fn is_of(&self, backup: &Backup) -> bool {
        self.backup().is_some_and(|kept| *kept == of(backup))
    }

    /// The state of an undelete from this backup, which goes on with what is kept of one from the same.
    ///
    /// # Errors
    /// As [`OperationStateFile::open`].
    pub(super) fn open(&self, backup: &Backup, now: Timestamp) -> Result<OperationStateFile> {
        let begin = || {
            let content = OperationState { backup: Some(of(backup)), ..OperationState::new(now) };
            OperationStateFile::open(&self.key, content)
        };
        let state = begin()?;
        if self.is_of(backup) || state.is_new {
            return Ok(state);
        }
        state.forget();
        begin()
    }
}

/// Returns the backup with which the same command goes on, when it still exists, and a message about it. An undelete
/// that was cut off goes on with its own. An undelete that `has_ended` has perhaps succeeded for the wanted object, so
/// that a newer backup is a better source.
///
/// # Errors
/// When it cannot be read.
pub(super) fn backup_of<'a>(
    kept: &OfBackup,
    has_ended: bool,
    usable: &'a UsableBackups,
    wanted: &impl Display,
) -> Result<(Option<&'a Backup>, String), String> {
    let name = &kept.name;
    if let Some((_, why)) = usable.unreadable.iter().find(|(unreadable, _)| unreadable == name) {
        return Err(cut_off(wanted, name, why));
    }
    let found = usable.oldest_first.iter().map(|(_, backup)| backup).find(|backup| of(backup) == *kept);
    Ok(match found {
        None => (None, gone(name)),
        Some(found) if has_ended && usable.oldest_first.last().is_some_and(|(_, last)| of(last) != *kept) => {
            (None, newer(found))
        }
        Some(found) => (Some(found), going_on(found, has_ended)),
    })
}

fn of(backup: &Backup) -> OfBackup {
    OfBackup { name: backup.metadata.name.clone(), uid: backup.metadata.uid.clone() }
}

fn goes_on(content: &OperationState, now: Timestamp) -> bool {
    content.backup.is_some() && now.duration_since(content.started) < GOES_ON_FOR
}

/// Returns the name of the state of an undelete, made of the object and the options that make it a different undelete.
pub(super) fn name(object: &str, manner: UndeleteOptions<'_>) -> String {
    let UndeleteOptions { policy, with_owned, with_owners, allow_recreate } = manner;
    let mut name = format!("{}-{}", hash(object), String::from(policy.clone()));
    match (with_owned, with_owners) {
        (true, _) => name.push_str("-owned"),
        (false, true) => name.push_str("-owners"),
        (false, false) => {}
    }
    let recreated: BTreeSet<&String> = allow_recreate.iter().collect();
    if !recreated.is_empty() {
        name.push_str(&format!("-recreate-{}", hash(&json!(recreated).to_string())));
    }
    name
}

fn hash(text: &str) -> String {
    hex::encode(entry_hash(text.as_bytes()))[..12].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_restore_of_the_object_has_another_state() {
        let types = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (none, one, two) = (vec![], types(&["statefulsets"]), types(&["statefulsets", "widgets"]));
        let (update, leave) = (ExistingResourcePolicy::Update, ExistingResourcePolicy::None);
        let plain = UndeleteOptions { policy: &update, with_owned: false, with_owners: false, allow_recreate: &none };
        let others = [
            plain,
            UndeleteOptions { policy: &leave, ..plain },
            UndeleteOptions { with_owned: true, ..plain },
            UndeleteOptions { with_owners: true, ..plain },
            UndeleteOptions { allow_recreate: &one, ..plain },
            UndeleteOptions { allow_recreate: &two, ..plain },
        ];
        let of = |manner: UndeleteOptions<'_>| name("configmaps/shop/a", manner);
        let names: BTreeSet<String> = others.into_iter().chain([plain]).map(of).collect();
        assert_eq!(names.len(), others.len(), "{names:?}");
        assert_ne!(of(plain), name("configmaps/shop/b", plain));
        // Owners come back with what is owned.
        assert_eq!(of(UndeleteOptions { with_owned: true, with_owners: true, ..plain }), of(others[2]));
        let same = types(&["widgets", "statefulsets", "widgets"]);
        assert_eq!(of(UndeleteOptions { allow_recreate: &same, ..plain }), of(others[5]));
    }

    #[test]
    fn the_same_command_goes_on_for_a_day() {
        let began: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let backup = Some(OfBackup { name: "b".to_owned(), uid: "u".to_owned() });
        let content = OperationState { backup, ..OperationState::new(began) };
        let after = |seconds: i64| goes_on(&content, began + SignedDuration::from_secs(seconds));
        assert_eq!((after(0), after(86_399), after(86_400)), (true, true, false));
        assert!(!goes_on(&OperationState::new(began), began));
    }

    #[test]
    fn the_backup_of_an_interrupted_undelete_is_used_or_reported_missing() {
        let backup = |name: &str, uid: &str| {
            let mut backup = Backup::default();
            backup.metadata.name = name.to_owned();
            backup.metadata.uid = uid.to_owned();
            (name.to_owned(), backup)
        };
        let usable = UsableBackups {
            oldest_first: vec![backup("a", "u"), backup("b", "u")],
            left_out: 0,
            unreadable: vec![("c".to_owned(), "it is torn".to_owned())],
        };
        let gone = |name: &str| {
            let said = format!("The backup {name}, from which an undelete was cut off, is not there any more.");
            Ok((None, said))
        };
        let going_on = "Going on with the undelete that was cut off, from the backup b; --from takes another one.";
        let unreadable = "an undelete of cm/a from the backup c was cut off, and that backup cannot be read: it is torn. The same command \
                          goes on when it can be; --from takes another one";
        let ended =
            "Going on with the undelete that has ended with errors, from the backup b; --from takes another one.";
        let newer = "An undelete from the backup a has ended with errors, and there are newer backups: the newest one that has the object is \
                     taken; --from a goes on with that one.";
        let backups = &usable.oldest_first;
        for (name, uid, has_ended, expected) in [
            ("b", "u", false, Ok((Some(&backups[1].1), going_on.to_owned()))),
            ("b", "u", true, Ok((Some(&backups[1].1), ended.to_owned()))),
            ("a", "u", false, Ok((Some(&backups[0].1), going_on.replace("backup b", "backup a")))),
            ("a", "u", true, Ok((None, newer.to_owned()))),
            // Another backup was made under its name.
            ("b", "other", false, gone("b")),
            ("d", "u", true, gone("d")),
            ("c", "u", false, Err(unreadable.to_owned())),
        ] {
            let kept = OfBackup { name: name.to_owned(), uid: uid.to_owned() };
            assert_eq!(backup_of(&kept, has_ended, &usable, &"cm/a"), expected, "{name} {uid} {has_ended}");
        }
    }
}
