//! The rules that keep a backup lie in its record: how the backup and its record come to say the same.

use lifeboat_api::{Backup, KeptBy, ObjectMeta, label_value, well_known};
use std::borrow::Cow;
use std::collections::BTreeMap;

type Annotations = BTreeMap<String, String>;

const NAME: &str = well_known::ANNOTATION_KEPT_BY;

/// Returns true if a backup was released, and its record does not say so yet. For most backups this is known without
/// parsing the JSON.
pub fn is_released_unrecorded(meta: &ObjectMeta) -> bool {
    may_be_released(meta) && matches!(KeptBy::of(meta), Some(Ok(kept)) if kept.released.is_some() && !kept.recorded)
}

fn may_be_released(meta: &ObjectMeta) -> bool {
    meta.annotations.get(NAME).is_some_and(|text| text.contains("\"released\""))
}

/// Returns true if somebody has released a backup.
pub fn is_released(meta: &ObjectMeta) -> bool {
    may_be_released(meta) && matches!(KeptBy::of(meta), Some(Ok(kept)) if kept.released.is_some())
}

/// The label of the schedule of a backup. One that has lost it is of the schedule whose rules it says; of most backups this is known without
/// reading the JSON.
#[must_use]
pub fn schedule_label(backup: &Backup) -> Option<Cow<'_, str>> {
    if let Some(label) = backup.schedule_label() {
        return Some(Cow::Borrowed(label));
    }
    let said = KeptBy::of(&backup.metadata)?.ok()?;
    Some(said.schedule).filter(|schedule| !schedule.is_empty()).map(|schedule| Cow::Owned(label_value(&schedule)))
}

/// Makes a backup and its record agree. Released is released, wherever that was said. Otherwise the cluster that has made the backup
/// (`is_own`) knows the rules, and others take over what the record says; what cannot be followed gives way to what can. Where the
/// schedule may stand here, [`agree_beside`] is asked.
pub fn agree(own: &mut Annotations, record: &mut Annotations, is_own: bool) {
    let Some(agreed) = agreed(own, record, is_own) else { return };
    for annotations in [own, record] {
        annotations.insert(NAME.to_owned(), agreed.clone());
    }
}

/// Tells whether the rules of its schedule keep a backup here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InForce {
    /// They do.
    Yes,
    /// They do not.
    No,
    /// Nobody has looked.
    Unknown,
}

/// [`agree`], but for a release that the record alone says, because another cluster has written it: where the schedule stands in the
/// cluster that has made the backup (`is_own`), and its rules keep it, they go on to, and the record says so again.
pub fn agree_beside(own: &mut Annotations, record: &mut Annotations, is_own: bool, in_force: InForce) {
    let says = |annotations: &Annotations| KeptBy::parse(annotations.get(NAME)?).ok();
    let is_kept = says(own).is_some_and(|kept| kept.released.is_none());
    let is_released_there = says(record).is_some_and(|kept| kept.released.is_some());
    if !(is_own && is_kept && is_released_there) {
        return agree(own, record, is_own);
    }
    match in_force {
        InForce::Yes => record.extend(own.get_key_value(NAME).map(|(name, text)| (name.clone(), text.clone()))),
        InForce::No => agree(own, record, is_own),
        InForce::Unknown => {}
    }
}

/// Returns true if the record of a backup says rules that the backup does not say, so that they may keep it.
pub fn says_more(record: &Annotations, own: &Annotations, is_own: bool) -> bool {
    let agreed = agreed(own, record, is_own);
    let is_released = |text: &String| KeptBy::parse(text).is_ok_and(|kept| kept.released.is_some());
    agreed.is_some_and(|agreed| own.get(NAME) != Some(&agreed) && !is_released(&agreed))
}

/// Of a backup without a record: there is nothing to agree with.
pub fn agree_alone(own: &mut Annotations) {
    agree(own, &mut Annotations::new(), true);
}

fn agreed(own: &Annotations, record: &Annotations, is_own: bool) -> Option<String> {
    let order = if is_own { [own, record] } else { [record, own] };
    let mut said: Vec<&String> = order.into_iter().filter_map(|annotations| annotations.get(NAME)).collect();
    said.dedup();
    let first = (*said.first()?).clone();
    let read: Vec<(&String, KeptBy)> =
        said.into_iter().filter_map(|text| Some((text, KeptBy::parse(text).ok()?))).collect();
    if let Some((_, released)) = read.iter().find(|(_, kept)| kept.released.is_some()) {
        return Some(KeptBy { recorded: true, ..released.clone() }.value());
    }
    Some(read.first().map_or(first, |(text, _)| (*text).clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_and_its_record_come_to_say_the_same_rules() {
        let (a, b) = (r#"{"schedule":"a"}"#, r#"{"schedule":"b"}"#);
        let released = r#"{"schedule":"a","released":"2026-11-22T00:00:00Z"}"#;
        let recorded = r#"{"schedule":"a","released":"2026-11-22T00:00:00Z","recorded":true}"#;
        for (what, own, record, expected_of_own, expected_of_other) in [
            ("nobody says any", "", "", "", ""),
            ("noted here", a, "", a, a),
            ("noted there, and lost here", "", a, a, a),
            ("changed here, or there by its cluster", a, b, a, b),
            ("released here", released, a, recorded, recorded),
            ("released there", a, recorded, recorded, recorded),
            ("released here, where nothing was said", released, "", recorded, recorded),
            ("not to be followed here", "7", a, a, a),
            ("not to be followed there", a, "7", a, a),
            ("not to be followed", "7", "", "7", "7"),
        ] {
            for (is_own, expected) in [(true, expected_of_own), (false, expected_of_other)] {
                let annotations = |text: &str| {
                    let said = (!text.is_empty()).then(|| (NAME.to_owned(), text.to_owned()));
                    said.into_iter().chain([("x".to_owned(), "1".to_owned())]).collect::<Annotations>()
                };
                let (mut here, mut there) = (annotations(own), annotations(record));
                let says_more = says_more(&there, &here, is_own);
                assert_eq!(says_more, expected != own && expected != recorded, "{what}, own: {is_own}");
                agree(&mut here, &mut there, is_own);
                assert_eq!((&here, &there), (&annotations(expected), &annotations(expected)), "{what}, own: {is_own}");
                let before = here.clone();
                agree(&mut here, &mut there, is_own);
                assert_eq!(here, before, "{what}: once they agree, nothing more is to be done");
            }
        }
    }

    #[test]
    fn another_cluster_does_not_release_what_the_schedule_keeps_in_its_own() {
        let (a, b) = (r#"{"schedule":"a"}"#, r#"{"schedule":"b"}"#);
        let released = r#"{"schedule":"a","released":"2026-11-22T00:00:00Z","recorded":true}"#;
        for (what, own, record, is_own, in_force, expected) in [
            ("its rules keep it", a, released, true, InForce::Yes, [a, a]),
            ("the schedule is gone", a, released, true, InForce::No, [released, released]),
            ("that is not known here", a, released, true, InForce::Unknown, [a, released]),
            ("it is another cluster's", a, released, false, InForce::Yes, [released, released]),
            ("nothing is said here", "", released, true, InForce::Yes, [released, released]),
            ("it was released here", released, a, true, InForce::Yes, [released, released]),
            ("nobody has released it", a, b, true, InForce::Unknown, [a, a]),
        ] {
            let annotations = |text: &str| {
                (!text.is_empty()).then(|| (NAME.to_owned(), text.to_owned())).into_iter().collect::<Annotations>()
            };
            let (mut here, mut there) = (annotations(own), annotations(record));
            agree_beside(&mut here, &mut there, is_own, in_force);
            assert_eq!([here, there], expected.map(annotations), "{what}");
        }
    }

    #[test]
    fn a_backup_without_the_schedule_label_is_of_the_schedule_of_its_rules() {
        for (label, text, expected) in [
            (Some("a"), r#"{"schedule":"b"}"#, Some("a")),
            (None, r#"{"schedule":"b"}"#, Some("b")),
            (None, r#"{"schedule":""}"#, None),
            (None, "7", None),
            (None, "", None),
        ] {
            let mut backup = Backup::default();
            let label = label.map(|label| (well_known::LABEL_SCHEDULE_NAME.to_owned(), label.to_owned()));
            backup.metadata.labels.extend(label);
            backup.metadata.annotations.extend((!text.is_empty()).then(|| (NAME.to_owned(), text.to_owned())));
            assert_eq!(schedule_label(&backup).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_release_is_recorded_once() {
        for (text, released, unrecorded) in [
            ("", false, false),
            (r#"{"schedule":"a"}"#, false, false),
            (r#"{"schedule":"released"}"#, false, false),
            (r#"{"schedule":"a","released":"2026-11-22T00:00:00Z"}"#, true, true),
            (r#"{"schedule":"a","released":"2026-11-22T00:00:00Z","recorded":true}"#, true, false),
        ] {
            let meta = ObjectMeta { annotations: [(NAME.to_owned(), text.to_owned())].into(), ..ObjectMeta::default() };
            assert_eq!((is_released(&meta), is_released_unrecorded(&meta)), (released, unrecorded), "{text}");
        }
        assert!(!is_released(&ObjectMeta::default()) && !is_released_unrecorded(&ObjectMeta::default()));
    }
}
