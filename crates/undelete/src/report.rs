//! Messages about the backups of a search for an object. Pure.

use super::silence::UnansweredSources;
use lifeboat_api::Backup;
use lifeboat_object::ObjectKey;
use std::collections::BTreeSet;
use std::fmt::Display;

/// Backups that are named before the rest is only counted.
const NAMED: usize = 20;

/// The name of a backup, and when it was begun.
pub(super) fn named_with_time(backup: &Backup) -> String {
    let of = backup.status.start_timestamp.map_or_else(String::new, |time| format!(" of {time}"));
    format!("{}{of}", backup.metadata.name)
}

/// The first names, `most` of them, and how many more there are.
pub(super) fn some(names: &[String], most: usize, between: &str) -> String {
    let shown = names[..names.len().min(most)].join(between);
    if names.len() > most { format!("{shown} and {} more", names.len() - most) } else { shown }
}

/// The backups that were passed over.
pub(super) fn skipped_text(passed_over: &[String], silence: &UnansweredSources) -> String {
    // Those for which nobody was asked are many.
    let named = (!passed_over.is_empty()).then(|| some(passed_over, NAMED, "; "));
    named.into_iter().chain(silence.skipped_texts()).collect::<Vec<_>>().join("; ")
}

/// That no backup has the object.
pub(super) fn missing(what: &str, looked: &[String], skipped: &str) -> String {
    let mut text = match looked.len() {
        0 => format!("no backup that has ended could be looked through for {what}"),
        1 => format!("the backup {} does not have {what}", looked[0]),
        count => {
            format!(
                "none of {count} backups has {what}; looked through, the newest first: {}",
                some(looked, NAMED, ", ")
            )
        }
    };
    if !skipped.is_empty() {
        text.push_str(&format!("; not looked through: {skipped}"));
    }
    text
}

/// That backups were not looked through because they are of other clusters, of these UIDs; empty for none.
pub(super) fn others_text(others: &[String]) -> String {
    let known: BTreeSet<&str> = others.iter().map(String::as_str).filter(|uid| !uid.is_empty()).collect();
    let of = match (others.len(), known.len()) {
        (0, _) => return String::new(),
        (_, 0) => ", or nothing says of which".to_owned(),
        _ => format!(" ({})", known.into_iter().collect::<Vec<_>>().join(", ")),
    };
    let count = others.len();
    let backups = if count == 1 { "1 backup is".to_owned() } else { format!("{count} backups are") };
    format!("; {backups} of other clusters{of}, and not looked through: --source-cluster any looks through all")
}

/// That another cluster than this one has made the backup from which an object is taken; `None` where this one has, or nobody knows.
pub(super) fn of_another_cluster(backup: &Backup, maker: Option<&str>, this: &str) -> Option<String> {
    let maker = maker.filter(|maker| !this.is_empty() && *maker != this)?;
    Some(format!("The backup {} was made by another cluster, {maker}.", named_with_time(backup)))
}

/// That an object is not taken from a backup, because newer ones may have it.
pub(super) fn perhaps_not_the_newest(key: &ObjectKey, backup: &Backup, skipped: &str) -> String {
    format!(
        "{key} is in {}, but backups that may be newer could not be looked through: {skipped}. Nothing was restored; say by --from {} that \
         it is the one, or try again when they can be read",
        named_with_time(backup),
        backup.metadata.name
    )
}

/// That an undelete goes on that was cut off, or `has_ended` with errors.
pub(super) fn going_on(backup: &Backup, has_ended: bool) -> String {
    let how = if has_ended { "has ended with errors" } else { "was cut off" };
    format!(
        "Going on with the undelete that {how}, from the backup {}; --from takes another one.",
        named_with_time(backup)
    )
}

/// That an undelete has ended with errors, and does not go on by itself.
pub(super) fn newer(backup: &Backup) -> String {
    format!(
        "An undelete from the backup {} has ended with errors, and there are newer backups: the newest one that has the object is taken; \
         --from {} goes on with that one.",
        named_with_time(backup),
        backup.metadata.name
    )
}

/// That the backup from which an undelete was cut off is not there any more.
pub(super) fn gone(name: &str) -> String {
    format!("The backup {name}, from which an undelete was cut off, is not there any more.")
}

/// That the backup from which an undelete was cut off cannot be read.
pub(super) fn cut_off(wanted: &impl Display, name: &str, why: &str) -> String {
    format!(
        "an undelete of {wanted} from the backup {name} was cut off, and that backup cannot be read: {why}. The same command goes on when \
         it can be; --from takes another one"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_of_another_clusters_backup_is_told_to_be_one() {
        let mut backup = Backup::default();
        backup.metadata.name = "nightly-1".to_owned();
        backup.status.start_timestamp = Some(lifeboat_api::Time::new("2026-11-22T03:00:00Z".parse().unwrap()));
        let said = "The backup nightly-1 of 2026-11-22T03:00:00Z was made by another cluster, that.";
        for (maker, this, expected) in [
            (Some("that"), "this", Some(said)),
            (Some("this"), "this", None),
            (None, "this", None),
            (Some("that"), "", None),
        ] {
            assert_eq!(of_another_cluster(&backup, maker, this).as_deref(), expected, "{maker:?} {this}");
        }
    }

    #[test]
    fn skipped_backups_of_other_clusters_are_reported_with_the_flag() {
        let text = |others: &[&str]| others_text(&others.iter().map(|uid| (*uid).to_owned()).collect::<Vec<_>>());
        assert_eq!(text(&[]), "");
        assert_eq!(
            text(&[""]),
            "; 1 backup is of other clusters, or nothing says of which, and not looked through: --source-cluster any looks through all"
        );
        assert_eq!(
            text(&["b", "a", "b", ""]),
            "; 4 backups are of other clusters (a, b), and not looked through: --source-cluster any looks through all"
        );
    }

    #[test]
    fn what_was_looked_through_is_named() {
        let names = |count: usize| (0..count).map(|n| format!("b{n}")).collect::<Vec<_>>();
        let broken = "x: the index is damaged";
        for (looked, skipped, expected) in [
            (names(0), "", "no backup that has ended could be looked through for cm/a".to_owned()),
            (names(1), "", "the backup b0 does not have cm/a".to_owned()),
            (
                names(2),
                broken,
                "none of 2 backups has cm/a; looked through, the newest first: b0, b1; not looked through: x: the index is damaged"
                    .to_owned(),
            ),
            (
                names(22),
                "",
                format!(
                    "none of 22 backups has cm/a; looked through, the newest first: {} and 2 more",
                    names(20).join(", ")
                ),
            ),
        ] {
            assert_eq!(missing("cm/a", &looked, skipped), expected);
        }
    }
}
