//! Compares the steps for backups whose time is over, or that something keeps, with the expiries that people are told.

use super::Play;
use crate::server::key::Subject;
use crate::server::plan::ServerPlan;
use crate::server::step::ServerStep;
use crate::server::wait::Reason;
use crate::world::Meta;
use jiff::tz::TimeZone;
use lifeboat_lifecycle::phase::backup_expiry::{ExpiryInput, expiries};
use lifeboat_lifecycle::phase::expiry::{ExpiryOutcome, Step as E};
use lifeboat_lifecycle::phase::location::location_name;
use std::collections::BTreeMap;

impl Play {
    pub(super) fn check_fates(&self, plan: &ServerPlan) {
        let (world, now) = (&self.world, self.now().0);
        let mut lists = ExpiryInput {
            cluster: world.cluster.clone(),
            backups: world.backups.iter().cloned().collect(),
            schedules: world.schedules.iter().cloned().collect(),
            requests: world.delete_requests.iter().cloned().collect(),
            locations: world.locations.iter().cloned().collect(),
            restores: world.restores.iter().cloned().collect(),
        };
        // People do not know the server's flag: what it says is noted in the backups.
        for backup in &mut lists.backups {
            let beside = world.locations.beside(backup);
            let name = location_name(backup, beside, self.options.default_location.as_deref()).map(str::to_owned);
            backup.spec.storage_location = name.unwrap_or_default();
        }
        let steps: BTreeMap<Subject, &ServerStep> =
            plan.work.iter().map(|work| (work.key.object(), &work.step)).collect();
        let waits: BTreeMap<&Subject, &Reason> = plan.waits.iter().map(|wait| (&wait.subject, &wait.why)).collect();
        for expiry in expiries(&lists, &TimeZone::UTC, now) {
            let subject = Subject::Backup(expiry.backup.key());
            let (step, why) = (steps.get(&subject), waits.get(&subject).copied());
            let agrees = match step {
                Some(ServerStep::Expire(_, _, E::Delete)) => {
                    matches!(expiry.becomes, ExpiryOutcome::Goes(at) if at <= now)
                }
                Some(ServerStep::Expire(_, _, E::Prolong { by, .. })) => {
                    (&expiry.becomes, &expiry.keepers) == (&ExpiryOutcome::Kept, by)
                }
                Some(ServerStep::Expire(_, _, E::LabelFailure(obstacle))) => {
                    expiry.becomes == ExpiryOutcome::Blocked(obstacle.clone())
                }
                _ => true,
            };
            assert!(agrees, "{step:?}, and people are told {expiry:?}");
            let agrees = match why {
                Some(Reason::Blocked(obstacle)) => expiry.becomes == ExpiryOutcome::Blocked(obstacle.clone()),
                Some(Reason::ReadBy(restore)) => {
                    expiry.becomes == ExpiryOutcome::Read { restore: restore.name.clone() }
                }
                Some(Reason::KeptBy(by)) => expiry.keepers == *by,
                _ => true,
            };
            assert!(agrees, "waits for {why:?}, and people are told {expiry:?}");
            let is_something_due = match expiry.becomes {
                ExpiryOutcome::Goes(at) => at <= now,
                ExpiryOutcome::Blocked(_) | ExpiryOutcome::Read { .. } => true,
                _ => false,
            };
            let is_worked_on = self.tasks.iter().any(|task| task.work.key.object() == subject);
            assert!(
                !is_something_due || step.is_some() || why.is_some() || is_worked_on,
                "nothing is done, and people are told {expiry:?}"
            );
        }
    }
}
