//! Whatever happens, each object that has something to do has a step, or waits for something that will come.

use super::*;
use crate::server::codes::of_wait;
use crate::server::key::{Key, Subject};
use crate::server::plan::ServerPlan;
use crate::server::wait::Reason;
use lifeboat_api::NamespacedName;
use lifeboat_lifecycle::phase::queue::Blocked;
use lifeboat_lifecycle::phase::request::tell_of_claims;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn a_deletion_names_the_restore_that_it_waits_for_and_not_claims() {
    let mut request = DeleteBackupRequest::default();
    request.metadata.name = "d".into();
    request.spec.backup_name = "b".into();
    let wait = (well_known::ANNOTATION_WAIT_FOR_RESTORES.to_owned(), "true".to_owned());
    request.metadata.annotations = [wait].into();
    let mut restore = Restore::default();
    restore.metadata.name = "r".into();
    restore.spec.backup_name = "b".into();
    let mut backup = Backup::default();
    backup.metadata.name = "b".into();
    backup.status.phase = Some(BackupPhase::Completed);
    let (options, now) = (options(1), (Timestamp::UNIX_EPOCH, Instant::now()));
    let key = || Key::Deletion { backup: named("b"), request: named("d") };
    // What it waits for by the plan, and whether a step begins: at once, and a moment after it has looked at claims.
    let mut planned = |is_told: bool, is_read: bool| {
        let mut world = World::default();
        let mut request = request.clone();
        if is_told {
            tell_of_claims(&mut request, "n/c", now.0);
        }
        restore.status.phase = Some(if is_read { RestorePhase::InProgress } else { RestorePhase::Completed });
        world.put(request.into());
        world.put(restore.clone().into());
        world.put(backup.clone().into());
        let mut memory = Memory::default();
        [false, true].map(|has_looked| {
            if has_looked {
                memory.failed(key(), &StepError::NotYet(Duration::from_secs(60)), now.1);
            }
            let view = PlanInput { world: &world, options: &options, memory: &memory, now, explain: true };
            let plan = plan(view, std::iter::empty());
            let waits = plan.waits.iter().find(|wait| wait.subject == Subject::DeleteRequest(named("d")));
            let begins = plan.work.iter().any(|work| work.key == key());
            (waits.map(|wait| of_wait(&wait.why)), begins)
        })
    };
    let (begins, reader, claims) = ((None, true), Some("ReadByRestore"), Some("NeededByClaims"));
    assert_eq!(planned(false, false), [begins, (Some("Paused"), false)]);
    assert_eq!(planned(false, true), [(reader, false), (Some("Paused"), false)]);
    assert_eq!(planned(true, false), [begins, (claims, false)]);
    assert_eq!(planned(true, true), [begins, (reader, false)], "what it says of claims is taken back");
}

impl Play {
    /// Asserts that each object that is not over has a reason, and that no chain of reasons leads to itself or to
    /// nothing.
    pub(super) fn check_reasons(&self, plan: &ServerPlan) {
        let waits: BTreeMap<Subject, &Reason> = plan.waits.iter().map(|w| (w.subject.clone(), &w.why)).collect();
        assert_eq!(waits.len(), plan.waits.len(), "two reasons of one object");
        let keys: Vec<&Key> =
            self.tasks.iter().map(|task| &task.work.key).chain(plan.work.iter().map(|work| &work.key)).collect();
        let moving: BTreeSet<Subject> = keys.iter().map(|key| key.object()).collect();
        let begun: BTreeSet<Subject> = plan.work.iter().map(|work| work.key.object()).collect();
        assert!(waits.keys().all(|subject| !begun.contains(subject)), "waits, and begins");
        for Object(kind, name) in self.not_over() {
            let has_reason = waits.keys().chain(&begun).any(|subject| subject.object() == (kind, &named(&name)));
            assert!(has_reason, "nothing is said of {kind:?} {name}");
        }
        for (subject, why) in &waits {
            self.check_moment(subject, why, &keys);
            let (mut seen, mut open) = (BTreeSet::new(), vec![subject.clone()]);
            while let Some(next) = open.pop() {
                let Some(why) = waits.get(&next) else {
                    assert!(moving.contains(&next), "{subject:?} waits for {next:?}, with which nothing happens");
                    continue;
                };
                for awaited in others(&next, why) {
                    assert_ne!(&awaited, subject, "waits for itself");
                    if seen.insert(awaited.clone()) {
                        open.push(awaited);
                    }
                }
            }
        }
    }

    /// A moment is to come, and work is done or will be.
    fn check_moment(&self, subject: &Subject, why: &Reason, keys: &[&Key]) {
        let (time, instant) = self.now();
        let holds = match why {
            Reason::Runs(key) => self.tasks.iter().any(|task| task.work.key == *key),
            Reason::Excluded(key) => keys.contains(&key),
            Reason::Failed { until, .. } | Reason::Paused(until) | Reason::FirstSync { until, .. } => *until > instant,
            Reason::Due(at) => *at > time,
            Reason::NoPlace { run, most } => run >= most && *most > 0,
            Reason::Queued { why, .. } | Reason::NoSlot(why) => match why {
                Blocked::Full { by, places } => by.len() >= *places,
                Blocked::Overlaps(_) => true,
            },
            Reason::Unvalidated(_) => true,
            Reason::Deleted { .. } => {
                let (kind, key) = subject.object();
                self.world.deleted().any(|(other, meta)| other == kind && meta.name == key.name)
            }
            Reason::EarlierRun { since, .. } => *since <= time,
            Reason::ReadBy(restore) | Reason::Restored(restore) => {
                self.world.restores.get(restore).is_some_and(|restore| !phase::restore::has_ended(restore))
            }
            Reason::Blocked(_) | Reason::Unrecorded(_) | Reason::GoesElsewhere(_) | Reason::NeededByClaims { .. } => {
                true
            }
            Reason::KeptBy(by) => !by.is_empty(),
            Reason::Disabled(_) | Reason::Unreadable(_) => false,
        };
        assert!(holds, "{subject:?}: {why:?}");
    }
}

/// The objects that one waits for.
fn others(subject: &Subject, why: &Reason) -> Vec<Subject> {
    let like = |key: &NamespacedName| match subject {
        Subject::Restore(_) => Subject::Restore(key.clone()),
        _ => Subject::Backup(key.clone()),
    };
    match why {
        Reason::Queued { why, .. } | Reason::NoSlot(why) => match why {
            Blocked::Full { by, .. } => by.iter().map(like).collect(),
            Blocked::Overlaps(key) => vec![like(key)],
        },
        Reason::Unvalidated(location) => vec![Subject::Location(location.clone())],
        Reason::EarlierRun { backup, .. } => vec![Subject::Backup(backup.clone())],
        Reason::ReadBy(restore) | Reason::Restored(restore) => vec![Subject::Restore(restore.clone())],
        _ => Vec::new(),
    }
}
