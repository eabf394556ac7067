//! The plan of a run: pure decisions with reasons.

pub mod collection;
pub mod epochs;
pub mod logs;
pub mod packs;
pub mod schedule;
mod step;
pub mod survey;

use super::delays::Delays;
use crate::blobs::BlobInfo;
use crate::format::maintenance::{MaintenanceParameters, Schedule};
use crate::format::repository::EpochParameters;
use crate::format::time::{DAY, UnixNanos};
use schedule::Mode;
use survey::Survey;

pub use step::{Action, Plan, Step, Waiting};

/// The task under which collections are recorded.
pub const COLLECTION: &str = "snapshot-gc";
/// The tasks under which rewrites are recorded.
pub const REWRITES: [&str; 2] = ["full-rewrite-contents", "quick-rewrite-contents"];

/// Object locks that are to be extended where there are none.
const NO_LOCKS: &str = "object locks are to be extended, but the repository has no retention: give it one (kopia repository \
                        set-parameters --retention-mode), or switch that off (kopia maintenance set --extend-object-locks=false)";
/// Object locks that end before the next run extends them.
const SHORT_LOCKS: &str = "object locks are extended, but some end before the next full run: the retention has to be a day longer \
                           than the interval of full maintenance";

/// The things from which a plan is made.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The kind of maintenance.
    pub mode: Mode,
    /// The time of the storage at its beginning.
    pub now: UnixNanos,
    /// The delays.
    pub delays: Delays,
    /// The runs before.
    pub schedule: &'a Schedule,
    /// The parameters of maintenance.
    pub parameters: &'a MaintenanceParameters,
    /// The parameters of epochs.
    pub epochs: &'a EpochParameters,
    /// The size at which a pack is finished.
    pub max_pack_size: u64,
    /// The nanoseconds for which blobs are kept from deletion; `None` where they are not.
    pub retention: Option<i64>,
    /// The blobs with prefix `x`.
    pub indexes: &'a [BlobInfo],
    /// The logs.
    pub logs: &'a [BlobInfo],
    /// The contents and packs, or the reasons for which they cannot be judged. Of no matter for quick maintenance.
    pub survey: Result<&'a Survey, &'a [String]>,
}

/// Plans a run. What only deletes comes first, so that it is done in a full bucket, too; rewriting comes last.
pub fn plan(view: &View<'_>) -> Plan {
    let epochs = match view.epochs.enabled {
        true => epochs::epochs(view.indexes, view.epochs, view.mode, view.now),
        false => Vec::new(),
    };
    let (cleanups, merges): (Vec<Step>, Vec<Step>) =
        epochs.into_iter().partition(|step| !step.action.deleted_blobs().is_empty());
    let mut plan = Plan {
        mode: view.mode,
        now: view.now,
        steps: Vec::new(),
        blockers: Vec::new(),
        waiting: Vec::new(),
        undone: Vec::new(),
    };
    if view.mode == Mode::Quick {
        plan.steps = merges;
        return plan;
    }
    let survey = match view.survey {
        Ok(survey) => Some(survey),
        Err(blockers) => {
            plan.blockers = blockers.to_vec();
            None
        }
    };
    let rewrites = REWRITES.iter().filter_map(|task| view.schedule.runs.get(*task)).flatten();
    let wait = packs::deletion_waits_until(rewrites, &view.delays).filter(|end| *end > view.now);
    if let Some(survey) = survey {
        plan.waiting = survey.waiting(view.epochs.enabled);
        match wait {
            None => plan.steps.extend(survey.deletions()),
            Some(_) => plan.waiting.extend(survey.deletions_that_wait()),
        }
    }
    plan.steps.extend(logs::logs(view.logs, view.parameters.log_retention, view.now));
    plan.steps.extend(cleanups);
    if view.parameters.extend_object_locks {
        extend_locks(view, &mut plan);
    }
    if let Some(survey) = survey {
        plan.steps.push(survey.collection());
        if view.epochs.enabled {
            plan.steps.extend(survey.plan_drop_of_deletions());
            if wait.is_none() {
                plan.steps.extend(survey.deletions_after_drop());
            }
        }
        plan.steps.extend(survey.plan_merge_of_manifests());
    }
    plan.steps.extend(merges);
    if let Some(survey) = survey
        && wait.is_none()
    {
        plan.steps.extend(survey.rewrite(view.max_pack_size));
    }
    plan
}

/// Extends object locks, after what is not needed any more was deleted.
fn extend_locks(view: &View<'_>, plan: &mut Plan) {
    let Some(period) = view.retention else { return plan.undone.push(NO_LOCKS.to_owned()) };
    if period < view.parameters.full.interval.saturating_add(DAY) {
        plan.undone.push(SHORT_LOCKS.to_owned());
    }
    let reason = "the repository asks for it, and what snapshots need would be unlocked one day";
    plan.steps.push(Step { action: Action::ExtendLocks { period }, reason: reason.to_owned() });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_maintenance_extends_locks_where_the_repository_asks_for_it() {
        let schedule = Schedule::default();
        let epochs = EpochParameters { enabled: false, ..EpochParameters::default() };
        let planned = |mode, extend_object_locks, retention| {
            let parameters = MaintenanceParameters { extend_object_locks, ..MaintenanceParameters::default() };
            let plan = plan(&View {
                mode,
                now: UnixNanos(0),
                delays: Delays::SAFE,
                schedule: &schedule,
                parameters: &parameters,
                epochs: &epochs,
                max_pack_size: 1,
                retention,
                indexes: &[],
                logs: &[],
                survey: Err(&[]),
            });
            let actions: Vec<Action> = plan.steps.into_iter().map(|step| step.action).collect();
            (actions, plan.undone)
        };
        let extend = |period| vec![Action::ExtendLocks { period }];
        let none = || (Vec::new(), Vec::new());
        assert_eq!(planned(Mode::Full, true, Some(30 * DAY)), (extend(30 * DAY), Vec::new()));
        assert_eq!(planned(Mode::Full, true, Some(DAY)), (extend(DAY), vec![SHORT_LOCKS.to_owned()]));
        assert_eq!(planned(Mode::Full, true, None), (Vec::new(), vec![NO_LOCKS.to_owned()]));
        assert_eq!(planned(Mode::Full, false, Some(30 * DAY)), none());
        assert_eq!(planned(Mode::Quick, true, Some(30 * DAY)), none());
    }
}
