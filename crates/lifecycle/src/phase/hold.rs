//! Holds: a backup that is held is not deleted, neither by a request nor when its time is over; an addition of Lifeboat.
//!
//! A hold is an annotation of the Backup and of its record in the bucket, so that every server on the bucket knows of it. What
//! both were seen to agree on last is noted in a second annotation of the Backup: by that a hold that was set or released here
//! is told from one that was set or released in another cluster.

use jiff::Timestamp;
use lifeboat_api::{BackupPhase, ObjectMeta, well_known};
use std::collections::BTreeMap;
use std::fmt;

/// Until when a backup is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Until it is released.
    Forever,
    /// Until this time.
    Until(Timestamp),
    /// It says something else; it is held until somebody mends that.
    Unreadable(String),
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forever => f.write_str("held until it is released"),
            Self::Until(end) => write!(f, "held until {end}"),
            Self::Unreadable(text) => write!(
                f,
                "held, because its annotation {} is {text:?}, which is neither a time (RFC 3339) nor {}",
                well_known::ANNOTATION_HOLD,
                well_known::HOLD_FOREVER
            ),
        }
    }
}

impl Hold {
    /// Reads the annotation of a backup, or of its record; `None` when there is no hold.
    #[must_use]
    pub fn of(meta: &ObjectMeta) -> Option<Self> {
        match meta.annotations.get(well_known::ANNOTATION_HOLD)?.trim() {
            "" | well_known::HOLD_RELEASED => None,
            well_known::HOLD_FOREVER => Some(Self::Forever),
            text => Some(text.parse().map_or_else(|_| Self::Unreadable(text.to_owned()), Self::Until)),
        }
    }

    /// The hold of a backup that holds at this time.
    #[must_use]
    pub fn at(meta: &ObjectMeta, now: Timestamp) -> Option<Self> {
        Self::of(meta).filter(|hold| !matches!(hold, Self::Until(end) if *end <= now))
    }

    /// The value of the annotation.
    #[must_use]
    pub fn value(&self) -> String {
        match self {
            Self::Forever => well_known::HOLD_FOREVER.to_owned(),
            Self::Until(end) => end.to_string(),
            Self::Unreadable(text) => text.clone(),
        }
    }

    /// The message that refuses a deletion; `name` is that of the backup.
    #[must_use]
    pub fn refusal(&self, name: &str) -> String {
        format!("backup {name} is {self}; `backup release {name}` releases it, then delete it again")
    }
}

type Annotations = BTreeMap<String, String>;

/// The value of the annotation; `None` where there is none, or the hold was released.
fn noted_in(annotations: &Annotations) -> Option<&String> {
    let said = annotations.get(well_known::ANNOTATION_HOLD);
    said.filter(|text| !text.is_empty() && *text != well_known::HOLD_RELEASED)
}

/// Returns true if the hold of a backup was set, changed or released, and its record does not say so yet. Only a backup
/// that has ended has a record.
pub fn is_to_be_recorded(meta: &ObjectMeta, phase: Option<BackupPhase>) -> bool {
    has_record(phase) && was_changed_here(meta)
}

/// Returns true if a backup in this phase has ended, and has its record.
pub fn has_record(phase: Option<BackupPhase>) -> bool {
    use BackupPhase as P;
    matches!(phase, Some(P::Completed | P::PartiallyFailed | P::Failed))
}

fn was_changed_here(meta: &ObjectMeta) -> bool {
    noted_in(&meta.annotations) != meta.annotations.get(well_known::ANNOTATION_HOLD_RECORDED)
}

/// The hold that the record of a backup has and the backup has not, because it was set in another cluster.
pub fn set_elsewhere(own: &ObjectMeta, record: &ObjectMeta, now: Timestamp) -> Option<Hold> {
    let hold = Hold::at(record, now)?;
    (!was_changed_here(own) && noted_in(&own.annotations) != noted_in(&record.annotations)).then_some(hold)
}

/// Makes a backup and its record agree: what was changed here goes into the record, and what was changed there comes here. A
/// record without the annotation has lost it to a server that wrote at the same time: only one that says that the backup was
/// released takes a hold away.
pub fn agree(own: &mut Annotations, record: &mut Annotations) {
    let (here, there) = (noted_in(own).cloned(), noted_in(record).cloned());
    let is_new = here.as_ref() != own.get(well_known::ANNOTATION_HOLD_RECORDED);
    let was_released = record.get(well_known::ANNOTATION_HOLD).is_some_and(|text| text == well_known::HOLD_RELEASED);
    let agreed = if is_new || there.is_none() && !was_released { here } else { there.clone() };
    if agreed != there {
        let value = agreed.clone().unwrap_or_else(|| well_known::HOLD_RELEASED.to_owned());
        record.insert(well_known::ANNOTATION_HOLD.to_owned(), value);
    }
    note(own, agreed);
}

/// Notes in the annotations of a backup which hold its record has.
fn note(own: &mut Annotations, hold: Option<String>) {
    for name in [well_known::ANNOTATION_HOLD, well_known::ANNOTATION_HOLD_RECORDED] {
        match &hold {
            Some(hold) => own.insert(name.to_owned(), hold.clone()),
            None => own.remove(name),
        };
    }
}

/// Of a backup that is taken over from its record, or that has none: there is nothing to agree with.
pub fn agree_alone(own: &mut Annotations) {
    let hold = noted_in(own).cloned();
    note(own, hold);
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: &str = well_known::ANNOTATION_HOLD;
    const RECORDED: &str = well_known::ANNOTATION_HOLD_RECORDED;

    fn annotations(pairs: &[(&str, &str)]) -> Annotations {
        let set = pairs.iter().filter(|(_, value)| !value.is_empty());
        set.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_hold_is_forever_until_a_time_or_until_it_is_mended() {
        let now: Timestamp = "2026-11-22T00:00:00Z".parse().unwrap();
        let until = |text: &str| Some(Hold::Until(text.parse().unwrap()));
        for (text, of, holds) in [
            ("forever", Some(Hold::Forever), true),
            ("2026-11-22T00:00:01Z", until("2026-11-22T00:00:01Z"), true),
            (" 2026-11-22T02:00:00+02:00 ", until("2026-11-22T00:00:00Z"), false),
            ("2025-01-01T00:00:00Z", until("2025-01-01T00:00:00Z"), false),
            ("next week", Some(Hold::Unreadable("next week".into())), true),
            ("released", None, false),
            ("", None, false),
        ] {
            let meta = ObjectMeta { annotations: [(HOLD.to_owned(), text.to_owned())].into(), ..ObjectMeta::default() };
            assert_eq!((Hold::of(&meta), Hold::at(&meta, now).is_some()), (of, holds), "{text}");
        }
        assert_eq!(Hold::of(&ObjectMeta::default()), None);
    }

    #[test]
    fn a_hold_that_changed_here_goes_to_the_record_and_one_there_comes_here() {
        let (a, b, none) = ("forever", "2027-01-01T00:00:00Z", "");
        for (what, own, noted, record, agreed, recorded) in [
            ("nothing is held", none, none, none, none, none),
            ("held here", a, none, none, a, a),
            ("held here, and there in another way", a, none, b, a, a),
            ("changed here", b, a, a, b, b),
            ("released here", none, a, a, none, "released"),
            ("released here, where the record has lost it", none, a, none, none, none),
            ("held there", none, none, a, a, a),
            ("changed there", a, a, b, b, b),
            ("released there", a, a, "released", none, "released"),
            ("released there long ago", none, none, "released", none, "released"),
            ("held again after that", a, none, "released", a, a),
            ("lost by the record", a, a, none, a, a),
            ("all agree", a, a, a, a, a),
        ] {
            let mut here = annotations(&[("x", "1"), (HOLD, own), (RECORDED, noted)]);
            let mut there = annotations(&[("y", "2"), (HOLD, record)]);
            let meta = ObjectMeta { annotations: here.clone(), ..ObjectMeta::default() };
            assert_eq!(is_to_be_recorded(&meta, Some(BackupPhase::Completed)), own != noted, "{what}");
            assert!(!is_to_be_recorded(&meta, Some(BackupPhase::InProgress)), "{what}");
            agree(&mut here, &mut there);
            let expected = annotations(&[("x", "1"), (HOLD, agreed), (RECORDED, agreed)]);
            assert_eq!(here, expected, "{what}");
            assert_eq!(there, annotations(&[("y", "2"), (HOLD, recorded)]), "{what}");
            // Once they agree, nothing more is to be done.
            let (before, known) = ((here.clone(), there.clone()), here.clone());
            agree(&mut here, &mut there);
            assert_eq!((here, there), before, "{what}");
            let meta = ObjectMeta { annotations: known, ..ObjectMeta::default() };
            assert!(!is_to_be_recorded(&meta, Some(BackupPhase::Completed)), "{what}");
        }
    }

    #[test]
    fn a_hold_of_another_cluster_is_seen() {
        let now: Timestamp = "2026-11-22T00:00:00Z".parse().unwrap();
        let seen = |own: &str, noted: &str, record: &str| {
            let meta = |pairs| ObjectMeta { annotations: annotations(pairs), ..ObjectMeta::default() };
            set_elsewhere(&meta(&[(HOLD, own), (RECORDED, noted)]), &meta(&[(HOLD, record)]), now)
        };
        assert_eq!(seen("", "", "forever"), Some(Hold::Forever));
        assert_eq!(seen("", "", "2026-11-21T00:00:00Z"), None, "its end has come");
        assert_eq!(seen("", "forever", "forever"), None, "it was released here");
        assert_eq!(seen("forever", "forever", "forever"), None);
        assert_eq!(seen("", "", "released"), None);
    }

    #[test]
    fn a_backup_that_is_taken_over_has_the_hold_of_its_record() {
        for (record, expected) in [("", ""), ("forever", "forever"), ("released", "")] {
            let mut own = annotations(&[(HOLD, record)]);
            agree_alone(&mut own);
            assert_eq!(own, annotations(&[(HOLD, expected), (RECORDED, expected)]), "{record}");
        }
    }
}
