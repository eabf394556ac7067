//! Asynchronous operations that a server of Velero has left (api-and-controllers.md 3.4 and 3.11).
//!
//! No action of this server has any, and those of plugins and of volumes are not there yet; so nothing can be asked for
//! its progress. What the other server had noted as ended counts; the rest has until its time is over.

use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{Backup, BackupPhase, Restore, RestorePhase};
use serde_json::{Value, json};

/// What the operations of a backup or restore come to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) completed: i64,
    pub(crate) failed: i64,
    /// Those whose time is not over.
    pub(crate) waiting: i64,
    /// Those that have failed now.
    pub(crate) overdue: i64,
    /// Those that have ended well and would have objects of the archive brought up to date.
    pub(crate) unfinished: i64,
}

/// When operations end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// When they have taken so long.
    After(SignedDuration),
    /// Now: they were cancelled.
    Now,
}

/// Ends operations whose time is over, in the file, and counts.
pub(crate) fn tally(operations: &mut [Value], end: End, names_plugin: bool, now: Timestamp) -> Tally {
    let mut out = Tally::default();
    for operation in operations {
        match operation["status"]["phase"].as_str() {
            Some("Completed") => {
                out.completed += 1;
                let items = operation["spec"]["postOperationItems"].as_array();
                out.unfinished += i64::from(items.is_some_and(|items| !items.is_empty()));
            }
            Some("Failed") => out.failed += 1,
            _ => {
                let created = operation["status"]["created"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
                let why = match end {
                    End::After(timeout) => {
                        let end = created.and_then(|created| created.checked_add(timeout).ok());
                        if end.is_some_and(|end| end >= now) {
                            out.waiting += 1;
                            continue;
                        }
                        "Asynchronous action timed out"
                    }
                    End::Now => "cancelled on request",
                };
                let plugin = operation["spec"]["backupItemAction"].as_str().unwrap_or("unknown");
                let suffix = if names_plugin { format!(", plugin: {plugin}") } else { String::new() };
                operation["status"]["phase"] = json!("Failed");
                operation["status"]["error"] = json!(format!("{why}{suffix}"));
                operation["status"]["updated"] = json!(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
                out.failed += 1;
                out.overdue += 1;
            }
        }
    }
    out
}

/// Brings the counts into the status of a backup; false when nothing is changed.
pub(crate) fn settle_backup(backup: &mut Backup, tally: &Tally) -> bool {
    use BackupPhase as P;
    let before = backup.status.clone();
    let status = &mut backup.status;
    status.backup_item_operations_completed = tally.completed;
    status.backup_item_operations_failed = tally.failed;
    status.errors += tally.overdue;
    let is_good = status.phase == Some(P::WaitingForPluginOperations) && tally.failed == 0;
    status.phase = Some(match (tally.waiting, is_good) {
        (0, true) if tally.unfinished == 0 => P::Finalizing,
        (0, _) => {
            // To call it complete would hide that the archive holds objects of the middle of an operation.
            status.errors += i64::from(tally.unfinished > 0);
            P::FinalizingPartiallyFailed
        }
        (_, true) => P::WaitingForPluginOperations,
        (_, false) => P::WaitingForPluginOperationsPartiallyFailed,
    });
    *status != before
}

/// The same for a restore, of which nothing is brought up to date.
pub(crate) fn settle_restore(restore: &mut Restore, tally: &Tally) -> bool {
    use RestorePhase as P;
    let before = restore.status.clone();
    let status = &mut restore.status;
    status.restore_item_operations_completed = tally.completed;
    status.restore_item_operations_failed = tally.failed;
    status.errors += tally.overdue;
    let is_good = status.phase == Some(P::WaitingForPluginOperations) && tally.failed == 0;
    status.phase = Some(match (tally.waiting, is_good) {
        (0, true) => P::Finalizing,
        (0, false) => P::FinalizingPartiallyFailed,
        (_, true) => P::WaitingForPluginOperations,
        (_, false) => P::WaitingForPluginOperationsPartiallyFailed,
    });
    *status != before
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(phase: &str, created: &str, items: Value) -> Value {
        json!({"spec": {"backupItemAction": "example.com/x", "postOperationItems": items},
            "status": {"phase": phase, "created": created}})
    }

    #[test]
    fn operations_end_when_their_time_is_over() {
        let now: Timestamp = "2026-11-22T12:00:00Z".parse().unwrap();
        let (early, late) = ("2026-11-22T07:59:59Z", "2026-11-22T08:00:00Z");
        let mut operations = [
            operation("Completed", early, Value::Null),
            operation("Completed", early, json!([{"name": "a"}])),
            operation("Failed", early, Value::Null),
            operation("InProgress", early, Value::Null),
            operation("New", "", Value::Null),
            operation("InProgress", late, Value::Null),
        ];
        let got = tally(&mut operations, End::After(SignedDuration::from_hours(4)), true, now);
        assert_eq!(got, Tally { completed: 2, failed: 3, waiting: 1, overdue: 2, unfinished: 1 });
        let ended = json!({"phase": "Failed", "created": early, "updated": "2026-11-22T12:00:00Z",
            "error": "Asynchronous action timed out, plugin: example.com/x"});
        assert_eq!(operations[3]["status"], ended);
        assert_eq!(operations[5], operation("InProgress", late, Value::Null));
        let mut of_restore = [operation("InProgress", early, Value::Null)];
        tally(&mut of_restore, End::After(SignedDuration::from_hours(4)), false, now);
        assert_eq!(of_restore[0]["status"]["error"], "Asynchronous action timed out");
        let mut cancelled = [operation("InProgress", late, Value::Null), operation("Completed", early, Value::Null)];
        let got = tally(&mut cancelled, End::Now, true, now);
        assert_eq!(got, Tally { completed: 1, failed: 1, waiting: 0, overdue: 1, unfinished: 0 });
        assert_eq!(cancelled[0]["status"]["error"], "cancelled on request, plugin: example.com/x");
    }

    #[test]
    fn the_rows_of_the_state_machine() {
        use BackupPhase as P;
        let (good, bad) = (P::WaitingForPluginOperations, P::WaitingForPluginOperationsPartiallyFailed);
        let all =
            |completed, failed, waiting, overdue, unfinished| Tally { completed, failed, waiting, overdue, unfinished };
        for (from, tally, expected, errors) in [
            (good, all(0, 0, 1, 0, 0), good, 0),
            (good, all(1, 0, 1, 0, 0), good, 0),
            (good, all(1, 1, 1, 1, 0), bad, 1),
            (bad, all(1, 0, 1, 0, 0), bad, 0),
            (good, all(2, 0, 0, 0, 0), P::Finalizing, 0),
            (good, all(0, 0, 0, 0, 0), P::Finalizing, 0),
            (good, all(2, 0, 0, 0, 2), P::FinalizingPartiallyFailed, 1),
            (good, all(1, 1, 0, 0, 0), P::FinalizingPartiallyFailed, 0),
            (bad, all(2, 0, 0, 0, 0), P::FinalizingPartiallyFailed, 0),
            (good, all(0, 2, 0, 2, 0), P::FinalizingPartiallyFailed, 2),
        ] {
            let mut backup = Backup::default();
            backup.status.phase = Some(from);
            let changed = settle_backup(&mut backup, &tally);
            assert_eq!((backup.status.phase, backup.status.errors), (Some(expected), errors), "{from:?} {tally:?}");
            assert!(!settle_backup(&mut backup.clone(), &Tally { overdue: 0, ..tally }) || tally.waiting == 0);
            assert_eq!(changed, expected != from || tally.completed > 0, "{from:?} {tally:?}");
            let word = |text: &str| RestorePhase::deserialize_word(text);
            let mut restore = Restore::default();
            restore.status.phase = word(from.as_str());
            settle_restore(&mut restore, &tally);
            if tally.unfinished == 0 {
                assert_eq!(restore.status.phase, word(expected.as_str()), "{from:?} {tally:?}");
                assert_eq!(restore.status.errors, errors);
            }
        }
    }

    trait Word: Sized {
        fn deserialize_word(text: &str) -> Option<Self>;
    }

    impl Word for RestorePhase {
        fn deserialize_word(text: &str) -> Option<Self> {
            serde_json::from_value(json!(text)).ok()
        }
    }
}
