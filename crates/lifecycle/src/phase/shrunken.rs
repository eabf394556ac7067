//! Backups that have lost objects: a schedule of namespaces that are gone makes `Completed` backups of nothing, and these must push out
//! no real one.

use super::facts::stands_for;
use super::kept_by::{is_released, schedule_label};
use super::member::ScheduleMember;
use lifeboat_api::{Backup, DEFAULT_SHRINK_THRESHOLD, Schedule, well_known};
use lifeboat_object::counted;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// The loss of objects of a backup against the good one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The name of the one before.
    pub before: String,
    /// Number of namespaced objects in the one before.
    pub had: u64,
    /// Number of namespaced objects in this one.
    pub has: u64,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, had, has } = self;
        write!(f, "has {} of namespaces, and {before} before it has {had}", counted(*has, "object"))
    }
}

/// The number of namespaced objects in a backup; `None` where it is not recorded, as in older backups and those of
/// Velero.
fn items(backup: &Backup) -> Option<u64> {
    backup.metadata.annotations.get(well_known::ANNOTATION_NAMESPACED_ITEMS)?.parse().ok()
}

/// Which of these have lost objects, by their names: all, or so many that less than so many percent are left. Each is compared with the
/// last one before it that has not.
pub fn losses<'b>(oldest_first: impl Iterator<Item = &'b Backup>, threshold: u8) -> BTreeMap<&'b str, Loss> {
    let mut losses = BTreeMap::new();
    let mut full: Option<(&str, u64)> = None;
    for backup in oldest_first {
        let (name, Some(has)) = (backup.metadata.name.as_str(), items(backup)) else { continue };
        match full {
            Some((before, had)) if is_lost(had, has, threshold) => {
                losses.insert(name, Loss { before: before.to_owned(), had, has });
            }
            _ => full = Some((name, has)),
        }
    }
    losses
}

fn is_lost(had: u64, has: u64, threshold: u8) -> bool {
    let share = u128::from(had) * u128::from(threshold);
    threshold > 0 && had > 0 && (has == 0 || u128::from(has) * 100 < share)
}

/// The newest good backup of a schedule, which has lost objects.
#[derive(Clone, Debug)]
pub struct LossOfNewest<'b> {
    /// The schedule.
    pub schedule: &'b Schedule,
    /// The name of the backup.
    pub backup: &'b str,
    /// The objects that it has lost.
    pub loss: Loss,
}

/// The losses of the newest good backups of these schedules, by the label of the schedule. Good is what is good for the rules.
pub fn losses_of_newest<'b>(
    schedules: impl Iterator<Item = &'b Schedule>,
    backups: impl Iterator<Item = &'b Backup>,
    member: impl Fn(&'b Backup) -> ScheduleMember<'b>,
) -> BTreeMap<String, LossOfNewest<'b>> {
    let mut of_label: BTreeMap<Cow<'_, str>, Vec<&Backup>> = BTreeMap::new();
    for backup in backups.filter(|b| items(b).is_some() && !is_released(&b.metadata)) {
        let (Some(label), member) = (schedule_label(backup), member(backup)) else { continue };
        if member.is_own && member.is_good() {
            of_label.entry(label).or_default().push(backup);
        }
    }
    let of_schedule = |schedule: &'b Schedule| {
        let label = schedule.label();
        let mut good = of_label.get(label.as_str())?.clone();
        good.sort_by_key(|backup| (stands_for(&schedule.metadata.name, backup), &backup.metadata.name));
        let backup = good.last()?.metadata.name.as_str();
        let threshold = schedule.shrink_threshold().unwrap_or(DEFAULT_SHRINK_THRESHOLD);
        let loss = losses(good.into_iter(), threshold).remove(backup)?;
        Some((label, LossOfNewest { schedule, backup, loss }))
    };
    schedules.filter_map(of_schedule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::BackupPhase;

    fn backup(name: &str, items: Option<u64>) -> Backup {
        let mut backup = Backup::default();
        backup.metadata.name = name.into();
        backup.status.phase = Some(BackupPhase::Completed);
        let noted = items.map(|items| (well_known::ANNOTATION_NAMESPACED_ITEMS.to_owned(), items.to_string()));
        backup.metadata.annotations = noted.into_iter().collect();
        backup
    }

    #[test]
    fn a_backup_that_lost_all_or_most_objects_is_told_from_one_that_has_them() {
        let lost = |items: &[Option<u64>], threshold| {
            let all: Vec<Backup> = items.iter().enumerate().map(|(n, items)| backup(&n.to_string(), *items)).collect();
            let losses = losses(all.iter(), threshold);
            losses.into_iter().map(|(name, loss)| format!("{name} {loss}")).collect::<Vec<_>>()
        };
        let none = Vec::<String>::new();
        for (what, items, threshold, expected) in [
            ("nothing is known", vec![None, None, Some(0), None], 50, none.clone()),
            ("half is enough", vec![Some(100), Some(50), Some(25)], 50, none.clone()),
            (
                "less than half, and what follows is compared with the one before",
                vec![Some(100), Some(49), None, Some(48), Some(50)],
                50,
                vec![
                    "1 has 49 objects of namespaces, and 0 before it has 100".to_owned(),
                    "3 has 48 objects of namespaces, and 0 before it has 100".to_owned(),
                ],
            ),
            (
                "nothing is left, by any share",
                vec![Some(9), Some(0)],
                1,
                vec!["1 has 0 objects of namespaces, and 0 before it has 9".to_owned()],
            ),
            ("it never had any", vec![Some(0), Some(0)], 50, none.clone()),
            ("the user says that all counts", vec![Some(9), Some(0)], 0, none),
        ] {
            assert_eq!(lost(&items, threshold), expected, "{what}");
        }
    }

    #[test]
    fn only_the_newest_good_backup_of_this_cluster_is_told_of() {
        let mut schedule = Schedule::default();
        schedule.metadata.name = "s".into();
        let mut all = [backup("s-20261120030000", Some(9)), backup("s-20261121030000", Some(1))];
        for backup in &mut all {
            backup.metadata.labels.insert(well_known::LABEL_SCHEDULE_NAME.into(), "s".into());
        }
        let found = |schedule: &Schedule, all: &[Backup]| {
            let member = |backup| ScheduleMember { backup, deletion_is_asked: false, is_readable: true, is_own: true };
            let mut found = losses_of_newest(std::iter::once(schedule), all.iter(), member);
            found.remove("s").map(|lost| (lost.backup.to_owned(), lost.loss))
        };
        let loss = Loss { before: "s-20261120030000".into(), had: 9, has: 1 };
        assert_eq!(found(&schedule, &all), Some(("s-20261121030000".into(), loss)));
        all[1].status.phase = Some(BackupPhase::PartiallyFailed);
        assert_eq!(found(&schedule, &all), None);
        all[1].status.phase = Some(BackupPhase::Completed);
        schedule.metadata.annotations.insert(well_known::ANNOTATION_SHRINK_THRESHOLD.into(), "10".into());
        assert_eq!(found(&schedule, &all), None);
        assert_eq!(found(&schedule, &[]), None);
    }

    #[test]
    fn no_loss_is_told_of_a_backup_that_the_rules_do_not_count() {
        let mut schedule = Schedule::default();
        schedule.metadata.name = "s".into();
        let mut all = [backup("s-20261120030000", Some(9)), backup("s-20261121030000", Some(1))];
        for backup in &mut all {
            backup.metadata.labels.insert(well_known::LABEL_SCHEDULE_NAME.into(), "s".into());
        }
        let is_told = |all: &[Backup], change: fn(&mut ScheduleMember<'_>)| {
            let member = |backup| {
                let mut member = ScheduleMember { backup, deletion_is_asked: false, is_readable: true, is_own: true };
                if backup.metadata.name == "s-20261121030000" {
                    change(&mut member);
                }
                member
            };
            !losses_of_newest(std::iter::once(&schedule), all.iter(), member).is_empty()
        };
        assert!(is_told(&all, |_| {}));
        assert!(!is_told(&all, |member| member.deletion_is_asked = true));
        assert!(!is_told(&all, |member| member.is_readable = false));
        assert!(!is_told(&all, |member| member.is_own = false));
        let said = lifeboat_api::KeptBy {
            released: "2026-11-22T00:00:00Z".parse().ok().map(lifeboat_api::Time::new),
            ..Default::default()
        };
        all[1].metadata.annotations.insert(well_known::ANNOTATION_KEPT_BY.into(), said.value());
        assert!(!is_told(&all, |_| {}));
    }
}
