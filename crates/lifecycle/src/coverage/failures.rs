//! Failed backups and restores by their causes: a hundred failures of one cause are one problem.

use super::state::{Attention, FailedEarlier};
use crate::phase::backup_expiry::ExpiryInput;
use crate::phase::facts::has_ended;
use crate::phase::restore;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{Backup, BackupPhase, ObjectMeta, Restore, RestorePhase, Time};
use lifeboat_object::{counted, first_names_of};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Time for which a failure is reported; after that it is only counted.
const TOLD_FOR: SignedDuration = SignedDuration::from_hours(7 * 24);
/// The most names of one cause.
const NAMED: usize = 3;

/// A backup that no schedule has made, or a restore, that has ended.
struct EndedRun<'a> {
    kind: &'static str,
    name: &'a str,
    /// The contents: namespaces, or a source. A later success with the same contents makes up for the failure.
    of: Vec<&'a str>,
    phase: &'static str,
    is_good: bool,
    why: String,
    when: Option<Timestamp>,
}

impl<'a> EndedRun<'a> {
    fn backup(backup: &'a Backup) -> Self {
        let (spec, status) = (&backup.spec, &backup.status);
        let apart = |list: &'a [String], mark| list.iter().map(String::as_str).chain(Some(mark));
        Self {
            kind: "backup",
            name: &backup.metadata.name,
            of: apart(&spec.included_namespaces, "-").chain(apart(&spec.excluded_namespaces, "")).collect(),
            phase: status.phase.map_or("New", BackupPhase::as_str),
            is_good: status.phase == Some(BackupPhase::Completed),
            why: because(&status.failure_reason, &status.validation_errors, status.errors),
            when: when(status.start_timestamp, &backup.metadata),
        }
    }

    fn restore(restore: &'a Restore) -> Self {
        let (spec, status) = (&restore.spec, &restore.status);
        // What a schedule made is told by the name of the schedule, which the server fills in.
        let of = match spec.schedule_name.as_str() {
            "" => vec!["", spec.backup_name.as_str()],
            schedule => vec![schedule],
        };
        Self {
            kind: "restore",
            name: &restore.metadata.name,
            of,
            phase: status.phase.map_or("New", RestorePhase::as_str),
            is_good: status.phase == Some(RestorePhase::Completed),
            why: because(&status.failure_reason, &status.validation_errors, status.errors),
            when: when(status.start_timestamp, &restore.metadata),
        }
    }

    /// The reason without its own parts, so that failures of one cause compare equal: names, numbers and quoted texts
    /// are left out.
    fn cause(&self) -> String {
        let mut is_quoted = false;
        let mut out = String::new();
        for part in self.why.split_inclusive('"') {
            if !is_quoted {
                for word in part.split_inclusive(char::is_whitespace) {
                    let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
                    let is_own =
                        bare == self.name || self.of.contains(&bare) || bare.contains(|c: char| c.is_ascii_digit());
                    out.push_str(if is_own { "… " } else { word });
                }
            }
            is_quoted ^= part.ends_with('"');
        }
        out
    }
}

fn when(start: Option<Time>, meta: &ObjectMeta) -> Option<Timestamp> {
    start.or(meta.creation_timestamp).map(Time::timestamp)
}

/// The failures of the last week for which no later success makes up, by their cause, the newest first, and how many there are
/// besides. The last backup of a schedule is told with the schedule. `program` is what commands begin with.
pub(super) fn failures(lists: &ExpiryInput, now: Timestamp, program: &str) -> (Vec<Attention>, FailedEarlier) {
    let own = lists.backups.iter().filter(|backup| !lists.is_of_another_cluster(backup));
    let backups = own.filter(|backup| backup.schedule_label().is_none() && has_ended(backup)).map(EndedRun::backup);
    let restores = lists.restores.iter().filter(|one| restore::has_ended(one)).map(EndedRun::restore);
    let mut ended: Vec<EndedRun<'_>> = backups.chain(restores).collect();
    ended.sort_by_key(|one| (one.kind, Reverse(one.when), one.name));
    let mut good: BTreeMap<(&str, &[&str]), Option<Timestamp>> = BTreeMap::new();
    for one in ended.iter().filter(|one| one.is_good) {
        let newest = good.entry((one.kind, &one.of)).or_default();
        *newest = (*newest).max(one.when);
    }
    let mut earlier = FailedEarlier::default();
    // In the order of the newest of each.
    let (mut causes, mut known): (Vec<Vec<&EndedRun<'_>>>, BTreeMap<_, usize>) = (Vec::new(), BTreeMap::new());
    for one in ended.iter().filter(|one| !one.is_good) {
        let is_made_up_for = good.get(&(one.kind, one.of.as_slice())).is_some_and(|good| *good > one.when);
        if is_made_up_for || one.when.is_none_or(|when| now.duration_since(when) > TOLD_FOR) {
            *(if one.kind == "backup" { &mut earlier.backups } else { &mut earlier.restores }) += 1;
            continue;
        }
        let at = *known.entry((one.kind, one.phase, one.cause())).or_insert(causes.len());
        match causes.get_mut(at) {
            Some(same) => same.push(one),
            None => causes.push(vec![one]),
        }
    }
    (causes.iter().map(|same| describe(same, program)).collect(), earlier)
}

/// Failures of one cause, the newest first.
fn describe(same: &[&EndedRun<'_>], program: &str) -> Attention {
    let Some(newest) = same.first() else { return Attention { what: String::new(), next: String::new() } };
    let EndedRun { kind, name, phase, why, .. } = newest;
    let what = match same.len() {
        1 => format!("{kind} {name} is {phase}{why}"),
        count => {
            let names: Vec<&str> = same.iter().map(|one| one.name).collect();
            format!("{count} {kind}s are {phase} ({}){why}", first_names_of(&names, NAMED))
        }
    };
    Attention { what, next: format!("`{program} {kind} describe {name}`, `{program} {kind} logs {name}`") }
}

/// The reason for which something failed, in a form to put behind its phase.
pub(super) fn because(failure: &str, validation: &[String], errors: i64) -> String {
    match (failure, validation, errors) {
        ("", [], 0) => String::new(),
        ("", [], errors) => format!(", with {}", counted(errors.unsigned_abs(), "error")),
        ("", validation, _) => format!(": {}", validation.join("; ")),
        (failure, ..) => format!(": {failure}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NOW: &str = "2026-11-22T12:00:00Z";

    fn restore(name: &str, backup: &str, start: &str, status: &Value) -> Restore {
        let mut status = status.clone();
        status["startTimestamp"] = start.into();
        let object = json!({"apiVersion": "velero.io/v1", "kind": "Restore", "metadata": {"name": name}, "spec": {"backupName": backup}, "status": status});
        serde_json::from_value(object).unwrap()
    }

    fn found(restores: Vec<Restore>) -> (Vec<String>, FailedEarlier) {
        let lists = ExpiryInput { restores, ..ExpiryInput::default() };
        let (told, earlier) = failures(&lists, NOW.parse().unwrap(), "lifeboat");
        (told.into_iter().map(|one| format!("{}; next: {}", one.what, one.next)).collect(), earlier)
    }

    #[test]
    fn fifty_restores_that_failed_of_one_cause_are_one_line() {
        let restores = (0..50).map(|n| {
            let reason =
                format!("Error retrieving backup: can't find backup velero/b{n}: backups.velero.io \"b{n}\" not found");
            let status = json!({"phase": "FailedValidation", "validationErrors": [reason]});
            restore(&format!("r{n:02}"), &format!("b{n}"), &format!("2026-11-22T10:{n:02}:00Z"), &status)
        });
        let failed = json!({"phase": "Failed", "failureReason": "the bucket is full"});
        let restores = restores.chain([restore("other", "b", "2026-11-22T09:00:00Z", &failed)]).collect();
        assert_eq!(
            found(restores),
            (
                vec![
                    "50 restores are FailedValidation (r49, r48, r47 and 47 more): Error retrieving backup: can't find backup \
                     velero/b49: backups.velero.io \"b49\" not found; next: `lifeboat restore describe r49`, `lifeboat restore \
                     logs r49`"
                        .to_owned(),
                    "restore other is Failed: the bucket is full; next: `lifeboat restore describe other`, `lifeboat restore logs \
                     other`"
                        .to_owned()
                ],
                FailedEarlier::default()
            )
        );
    }

    #[test]
    fn failures_before_a_success_of_the_same_or_before_a_week_are_a_number() {
        let (failed, completed) = (json!({"phase": "Failed"}), json!({"phase": "Completed"}));
        let restores = vec![
            restore("before", "b", "2026-11-22T09:00:00Z", &failed),
            restore("good", "b", "2026-11-22T10:00:00Z", &completed),
            restore("after", "b", "2026-11-22T11:00:00Z", &failed),
            restore("of-another-backup", "c", "2026-11-22T09:00:00Z", &failed),
            restore("long-ago", "d", "2026-11-15T11:59:59Z", &failed),
        ];
        let (told, earlier) = found(restores);
        let expected = "2 restores are Failed (after, of-another-backup); next: `lifeboat restore describe after`, `lifeboat restore \
                        logs after`";
        assert_eq!((told, earlier), (vec![expected.to_owned()], FailedEarlier { backups: 0, restores: 2 }));
    }

    #[test]
    fn a_later_backup_makes_up_for_one_of_the_same_namespaces_only() {
        let backup = |name: &str, namespace: &str, start: &str, phase: &str| -> Backup {
            serde_json::from_value(json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": name}, "spec": {"includedNamespaces": [namespace]},
                "status": {"phase": phase, "startTimestamp": start}}))
            .unwrap()
        };
        let backups = vec![
            backup("shop-1", "shop", "2026-11-22T09:00:00Z", "Failed"),
            backup("web-1", "web", "2026-11-22T09:30:00Z", "Failed"),
            backup("shop-2", "shop", "2026-11-22T10:00:00Z", "Completed"),
        ];
        let (told, earlier) =
            failures(&ExpiryInput { backups, ..ExpiryInput::default() }, NOW.parse().unwrap(), "lifeboat");
        assert_eq!(told.iter().map(|one| &*one.what).collect::<Vec<_>>(), ["backup web-1 is Failed"]);
        assert_eq!(earlier, FailedEarlier { backups: 1, restores: 0 });
    }
}
