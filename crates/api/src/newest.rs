//! The newest backup of a schedule, which a restore from that schedule takes. Pure.

use crate::backup::{Backup, BackupPhase};
use crate::label::label_value;
use crate::origin::{is_of_another_cluster, source_cluster};
use crate::restore::Restore;
use crate::well_known::ANNOTATION_SOURCE_CLUSTER;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The clusters whose backups a restore from a schedule may take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SourceCluster {
    /// This one alone.
    #[default]
    This,
    /// All that have backups there.
    Any,
    /// The one of this UID.
    Uid(String),
}

impl SourceCluster {
    /// Reads the value of an annotation or a flag: a UID or `any`; empty for this cluster.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "" => Self::This,
            "any" => Self::Any,
            uid => Self::Uid(uid.to_owned()),
        }
    }

    /// Reads the annotation of a Restore from a schedule.
    #[must_use]
    pub fn of(restore: &Restore) -> Self {
        Self::parse(restore.metadata.annotations.get(ANNOTATION_SOURCE_CLUSTER).map_or("", String::as_str))
    }

    /// Tells whether it has made this backup, as its Backup in this cluster says; `this` is the UID of this cluster, empty when unknown.
    #[must_use]
    pub fn admits(&self, backup: &Backup, this: &str) -> bool {
        match self {
            Self::This => !is_of_another_cluster(backup, this),
            Self::Any => true,
            Self::Uid(uid) => source_cluster(backup) == Some(uid),
        }
    }

    /// Returns true if it has made a backup whose claim names this cluster; `this` is the UID of the cluster that asks,
    /// empty when unknown. A backup that names no cluster is not taken for another cluster's.
    #[must_use]
    pub fn admits_claim(&self, claimed: Option<&str>, this: &str) -> bool {
        let claimed = claimed.filter(|uid| !uid.is_empty());
        match self {
            Self::This => this.is_empty() || claimed.is_none_or(|uid| uid == this),
            Self::Any => true,
            Self::Uid(uid) => claimed == Some(uid),
        }
    }
}

/// The message for people that all backups of a schedule are of other clusters, and how to take one of them. `clusters`
/// are their UIDs, as far as they are known.
#[must_use]
pub fn only_of_others<'a>(schedule: &str, clusters: impl IntoIterator<Item = Option<&'a str>>) -> String {
    let known: BTreeSet<&str> = clusters.into_iter().flatten().collect();
    let named = known.iter().map(|uid| format!("--source-cluster {uid}")).collect::<Vec<_>>().join(" or ");
    let named = if named.is_empty() { String::new() } else { format!("; {named} takes one of those alone") };
    format!(
        "all backups of the schedule {schedule} are of other clusters, or nothing says of which: --source-cluster any (the annotation \
         {ANNOTATION_SOURCE_CLUSTER}: any of the restore) takes the newest of them{named}"
    )
}

/// The cluster that has made a backup, for those who ask in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupMaker<'a> {
    /// This one.
    This,
    /// The one of this UID.
    Other(&'a str),
    /// Nothing says which.
    Unknown,
}

impl<'a> BackupMaker<'a> {
    /// The maker of a backup, as its Backup in this cluster says; `this` is the UID of this cluster, empty when unknown.
    #[must_use]
    pub fn of(backup: &'a Backup, this: &str) -> Self {
        match source_cluster(backup) {
            _ if !is_of_another_cluster(backup, this) => Self::This,
            Some(uid) => Self::Other(uid),
            None => Self::Unknown,
        }
    }

    /// The maker of a backup, as its claim says.
    #[must_use]
    pub fn claimed(claimed: Option<&'a str>, this: &str) -> Self {
        match claimed {
            Some(uid) if uid == this => Self::This,
            Some(uid) => Self::Other(uid),
            None => Self::Unknown,
        }
    }
}

/// The message for people about which backup of a schedule is taken, when that began, and which other cluster has made it.
#[must_use]
pub fn newest_of_schedule(schedule: &str, backup: &Backup, maker: BackupMaker<'_>) -> String {
    let by = match maker {
        BackupMaker::This => String::new(),
        BackupMaker::Other(uid) => format!(", made by the cluster {uid}"),
        BackupMaker::Unknown => ", of which nothing says which cluster has made it".to_owned(),
    };
    let of = backup.status.start_timestamp.map_or_else(String::new, |time| format!(" of {time}"));
    format!("The newest backup of the schedule {schedule} is {}{of}{by}.", backup.metadata.name)
}

/// A schedule without a backup that may be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoneOfSchedule {
    /// None of its backups can be restored.
    Usable,
    /// All backups that can be restored are of other clusters. The text says so, and how to take one of them.
    Admitted(String),
}

/// The newest backup of a schedule that can be restored and is admitted, by the time at which it began; with `partly` also one that has
/// partially failed.
///
/// # Errors
/// When there is none.
pub fn choose_of_schedule<'a>(
    backups: impl IntoIterator<Item = &'a Backup>,
    schedule: &str,
    partly: bool,
    admits: impl Fn(&Backup) -> bool,
) -> Result<&'a Backup, NoneOfSchedule> {
    let usable = usable_of_schedule(backups, schedule, partly);
    match usable.iter().find(|backup| admits(backup)) {
        Some(newest) => Ok(newest),
        None if usable.is_empty() => Err(NoneOfSchedule::Usable),
        None => Err(NoneOfSchedule::Admitted(only_of_others(schedule, usable.into_iter().map(source_cluster)))),
    }
}

/// All backups of a schedule that can be restored, the newest first, of whichever cluster.
pub fn usable_of_schedule<'a>(
    backups: impl IntoIterator<Item = &'a Backup>,
    schedule: &str,
    partly: bool,
) -> Vec<&'a Backup> {
    // A label has room for 63 characters, a name for 253.
    let label = label_value(schedule);
    let is_of_schedule = |backup: &&Backup| backup.schedule_label() == Some(&*label);
    let is_usable = |backup: &&Backup| {
        let phase = backup.status.phase.filter(|phase| phase.has_contents());
        phase.is_some_and(|phase| partly || phase == BackupPhase::Completed)
    };
    let mut usable: Vec<&Backup> = backups.into_iter().filter(is_of_schedule).filter(is_usable).collect();
    // Of those that began at one time, the last one.
    usable.reverse();
    usable.sort_by_key(|backup| Reverse(backup.status.start_timestamp));
    usable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_restores_from_a_schedule_is_told_which_backup_is_taken() {
        fn said(backup: &Backup, maker: BackupMaker<'_>) -> String {
            newest_of_schedule("nightly", backup, maker)
        }
        let mut backup = Backup::default();
        backup.metadata.name = "nightly-1".to_owned();
        assert_eq!(
            said(&backup, BackupMaker::of(&backup, "c")),
            "The newest backup of the schedule nightly is nightly-1."
        );
        backup.status.start_timestamp = Some(Time::new("2026-11-22T03:00:00Z".parse().unwrap()));
        backup.metadata.annotations.insert(ANNOTATION_SOURCE_CLUSTER.to_owned(), "that".to_owned());
        let of_another =
            "The newest backup of the schedule nightly is nightly-1 of 2026-11-22T03:00:00Z, made by the cluster that.";
        assert_eq!(said(&backup, BackupMaker::of(&backup, "c")), of_another);
        assert_eq!(said(&backup, BackupMaker::claimed(Some("that"), "c")), of_another);
        assert_eq!(BackupMaker::of(&backup, "that"), BackupMaker::This);
        assert_eq!(BackupMaker::claimed(Some("c"), "c"), BackupMaker::This);
        let unknown = "The newest backup of the schedule nightly is nightly-1 of 2026-11-22T03:00:00Z, of which nothing says which cluster has \
                       made it.";
        assert_eq!(said(&backup, BackupMaker::claimed(None, "c")), unknown);
    }
    use crate::time::Time;
    use crate::well_known;

    fn backup(name: &str, schedule: &str, phase: Option<BackupPhase>, second: i64) -> Backup {
        let mut backup = Backup::default();
        backup.metadata.name = name.to_owned();
        backup.metadata.labels.insert(well_known::LABEL_SCHEDULE_NAME.to_owned(), label_value(schedule));
        backup.status.phase = phase;
        backup.status.start_timestamp = jiff::Timestamp::from_second(second).ok().map(Time::new);
        backup
    }

    #[test]
    fn a_backup_of_another_cluster_is_chosen_only_when_that_is_asked_for() {
        let of = |taken_over: Option<&str>, source: Option<&str>| {
            let mut backup = backup("b", "nightly", Some(BackupPhase::Completed), 1);
            let mut note = |key: &str, value: Option<&str>| {
                backup.metadata.annotations.extend(value.map(|value| (key.to_owned(), value.to_owned())));
            };
            note(well_known::ANNOTATION_TAKEN_OVER, taken_over);
            note(ANNOTATION_SOURCE_CLUSTER, source);
            backup
        };
        let (own, other) = (Some(well_known::TAKEN_OVER_OWN), Some(well_known::TAKEN_OVER_OTHER));
        for (backup, claimed, [this, any, that]) in [
            (of(None, Some("this")), Some("this"), [true, true, false]),
            (of(own, Some("this")), Some("this"), [true, true, false]),
            (of(other, Some("that")), Some("that"), [false, true, true]),
            (of(other, Some("third")), Some("third"), [false, true, false]),
        ] {
            let asked = ["", "any", "that"].map(SourceCluster::parse);
            let by_object = asked.each_ref().map(|one| one.admits(&backup, "this"));
            let by_claim = asked.each_ref().map(|one| one.admits_claim(claimed, "this"));
            assert_eq!((by_object, by_claim), ([this, any, that], [this, any, that]), "{claimed:?}");
        }
        // Velero's: a server has taken it over, and a bucket says nothing of whose it is.
        assert!(
            !SourceCluster::This.admits(&of(other, None), "this") && SourceCluster::This.admits_claim(None, "this")
        );
        assert!(SourceCluster::This.admits_claim(Some("that"), ""), "which cluster this is cannot be read");
        let mut restore = Restore::default();
        assert_eq!(SourceCluster::of(&restore), SourceCluster::This);
        restore.metadata.annotations.insert(ANNOTATION_SOURCE_CLUSTER.to_owned(), "any".to_owned());
        assert_eq!(SourceCluster::of(&restore), SourceCluster::Any);
        assert_eq!(
            only_of_others("nightly", [Some("b"), None, Some("a"), Some("b")]),
            "all backups of the schedule nightly are of other clusters, or nothing says of which: --source-cluster any (the annotation \
             lifeboat.io/source-cluster: any of the restore) takes the newest of them; --source-cluster a or --source-cluster b takes one of those alone"
        );
    }

    #[test]
    fn it_is_the_newest_one_of_the_schedule_that_can_be_restored() {
        let long = "nightly-of-a-team-".repeat(8);
        let backups = [
            backup("old", "nightly", Some(BackupPhase::Completed), 1),
            backup("whole", "nightly", Some(BackupPhase::Completed), 2),
            backup("partial", "nightly", Some(BackupPhase::PartiallyFailed), 3),
            backup("failed", "nightly", Some(BackupPhase::Failed), 4),
            backup("new", "nightly", None, 5),
            backup("other", "weekly", Some(BackupPhase::Completed), 6),
            backup("long", &long, Some(BackupPhase::Completed), 7),
        ];
        for (schedule, partly, expected) in [
            ("nightly", false, Some("whole")),
            ("nightly", true, Some("partial")),
            (&*long, false, Some("long")),
            ("none", true, None),
        ] {
            let found = choose_of_schedule(&backups, schedule, partly, |_| true);
            let expected = expected.ok_or(NoneOfSchedule::Usable);
            assert_eq!(found.map(|backup| &*backup.metadata.name), expected, "{schedule} {partly}");
        }
        let is_old = |backup: &Backup| backup.metadata.name == "old";
        assert_eq!(choose_of_schedule(&backups, "nightly", true, is_old).unwrap().metadata.name, "old");
        let none = choose_of_schedule(&backups, "nightly", true, |_| false).unwrap_err();
        assert_eq!(none, NoneOfSchedule::Admitted(only_of_others("nightly", [None])));
    }
}
