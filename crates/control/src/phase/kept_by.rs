//! The rules that keep a backup lie in its record: how the backup and its record come to say the same.

use lifeboat_api::{KeptBy, ObjectMeta, well_known};
use std::collections::BTreeMap;

type Annotations = BTreeMap<String, String>;

const NAME: &str = well_known::ANNOTATION_KEPT_BY;

/// Whether a backup was released, and its record does not say so yet. Of most backups this is known without reading the JSON.
pub(crate) fn is_released_unrecorded(meta: &ObjectMeta) -> bool {
    may_be_released(meta) && matches!(KeptBy::of(meta), Some(Ok(kept)) if kept.released.is_some() && !kept.recorded)
}

fn may_be_released(meta: &ObjectMeta) -> bool {
    meta.annotations.get(NAME).is_some_and(|text| text.contains("\"released\""))
}

/// Whether somebody has released a backup.
pub(crate) fn is_released(meta: &ObjectMeta) -> bool {
    may_be_released(meta) && matches!(KeptBy::of(meta), Some(Ok(kept)) if kept.released.is_some())
}

/// Makes a backup and its record agree. Released is released, wherever that was said. Otherwise the cluster that has made the backup
/// (`is_own`) knows the rules, and others take over what the record says; what cannot be followed gives way to what can.
pub(crate) fn agree(own: &mut Annotations, record: &mut Annotations, is_own: bool) {
    let Some(agreed) = agreed(own, record, is_own) else { return };
    for annotations in [own, record] {
        annotations.insert(NAME.to_owned(), agreed.clone());
    }
}

/// Whether the record of a backup says rules that the backup does not say, so that they may keep it.
pub(crate) fn says_more(record: &Annotations, own: &Annotations, is_own: bool) -> bool {
    let agreed = agreed(own, record, is_own);
    let is_released = |text: &String| KeptBy::parse(text).is_ok_and(|kept| kept.released.is_some());
    agreed.is_some_and(|agreed| own.get(NAME) != Some(&agreed) && !is_released(&agreed))
}

/// Of a backup without a record: there is nothing to agree with.
pub(crate) fn agree_alone(own: &mut Annotations) {
    agree(own, &mut Annotations::new(), true);
}

fn agreed(own: &Annotations, record: &Annotations, is_own: bool) -> Option<String> {
    let order = if is_own { [own, record] } else { [record, own] };
    let said: Vec<&String> = order.into_iter().filter_map(|annotations| annotations.get(NAME)).collect();
    let read: Vec<KeptBy> = said.iter().filter_map(|text| KeptBy::parse(text).ok()).collect();
    let released = read.iter().find(|kept| kept.released.is_some());
    if let Some(released) = released {
        return Some(KeptBy { recorded: true, ..released.clone() }.value());
    }
    let readable = said.iter().find(|text| KeptBy::parse(text).is_ok());
    readable.or(said.first()).map(|text| (*text).clone())
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
