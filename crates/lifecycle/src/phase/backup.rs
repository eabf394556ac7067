//! A backup after the queue (velero: pkg/controller/backup_controller.go).

use super::{Decision, MOST_ATTEMPTS, attempt};
use lifeboat_api::{Backup, BackupPhase};

/// The next step of the work on a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Validate and run it.
    Run,
    /// Run it again: a server of ours was cut off.
    RunAgain {
        /// Which attempt this is.
        attempt: u32,
    },
    /// It has failed, for this reason.
    Fail(String),
    /// A server of Velero was cut off in it: it has failed, and what it began must stop.
    FailVeleros(String),
    /// It was cancelled while no task worked on it.
    Cancel,
    /// Ask its operations how far they are.
    LookAfter,
    /// End its operations: it was cancelled.
    CancelOperations,
    /// Its operations have ended, if it had any: end it too, unless its record says that this is done.
    Finalize,
}

/// Decides the next step for a backup on which no task works. `fail_in_progress` fails interrupted backups, as Velero
/// does.
pub fn step(backup: &Backup, fail_in_progress: bool) -> Decision<Step> {
    use BackupPhase as P;
    match backup.status.phase {
        None | Some(P::New | P::Queued | P::ReadyToStart | P::InProgress) if backup.spec.cancel => {
            Decision::Do(Step::Cancel)
        }
        Some(P::ReadyToStart) => Decision::Do(Step::Run),
        Some(P::InProgress) => Decision::Do(match attempt(&backup.metadata) {
            Some(begun) if begun >= MOST_ATTEMPTS => {
                Step::Fail(format!("the server was cut off {begun} times while this backup was in progress"))
            }
            Some(begun) if !fail_in_progress => Step::RunAgain { attempt: begun + 1 },
            _ => Step::FailVeleros(
                "found a backup with status \"InProgress\" during the server starting, mark it as \"Failed\""
                    .to_owned(),
            ),
        }),
        Some(phase) if phase.waits_for_operations() => {
            Decision::Do(if backup.spec.cancel { Step::CancelOperations } else { Step::LookAfter })
        }
        Some(P::Finalizing | P::FinalizingPartiallyFailed) => Decision::Do(Step::Finalize),
        _ => Decision::Rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::well_known::ANNOTATION_ATTEMPT;

    #[test]
    fn the_rows_of_the_state_machine() {
        use BackupPhase as P;
        let found = "found a backup with status \"InProgress\" during the server starting, mark it as \"Failed\"";
        let fail = |why: &str| Decision::Do(Step::Fail(why.to_owned()));
        let veleros = Decision::Do(Step::FailVeleros(found.to_owned()));
        for (phase, begun, velero, expected) in [
            // The queue's.
            (None, None, false, Decision::Rest),
            (Some(P::New), None, false, Decision::Rest),
            (Some(P::Queued), None, false, Decision::Rest),
            (Some(P::ReadyToStart), None, false, Decision::Do(Step::Run)),
            (Some(P::InProgress), None, false, veleros.clone()),
            (Some(P::InProgress), Some("x"), false, veleros.clone()),
            // Its server was told to stop.
            (Some(P::InProgress), Some("0"), false, Decision::Do(Step::RunAgain { attempt: 1 })),
            (Some(P::InProgress), Some("1"), false, Decision::Do(Step::RunAgain { attempt: 2 })),
            (Some(P::InProgress), Some("1"), true, veleros.clone()),
            (
                Some(P::InProgress),
                Some("3"),
                false,
                fail("the server was cut off 3 times while this backup was in progress"),
            ),
            (Some(P::Finalizing), Some("1"), false, Decision::Do(Step::Finalize)),
            (Some(P::FinalizingPartiallyFailed), None, true, Decision::Do(Step::Finalize)),
            (Some(P::WaitingForPluginOperations), None, false, Decision::Do(Step::LookAfter)),
            (Some(P::WaitingForPluginOperationsPartiallyFailed), None, true, Decision::Do(Step::LookAfter)),
            // The end, or another one's.
            (Some(P::FailedValidation), None, false, Decision::Rest),
            (Some(P::Completed), Some("1"), false, Decision::Rest),
            (Some(P::PartiallyFailed), None, false, Decision::Rest),
            (Some(P::Failed), None, false, Decision::Rest),
            (Some(P::Deleting), None, false, Decision::Rest),
        ] {
            let mut backup = Backup::default();
            backup.status.phase = phase;
            if let Some(begun) = begun {
                backup.metadata.annotations.insert(ANNOTATION_ATTEMPT.into(), begun.into());
            }
            assert_eq!(step(&backup, velero), expected, "{phase:?} {begun:?} {velero}");
            backup.spec.cancel = true;
            let not_over = matches!(phase, None | Some(P::New | P::Queued | P::ReadyToStart | P::InProgress));
            let expected = match expected {
                _ if not_over => Decision::Do(Step::Cancel),
                Decision::Do(Step::LookAfter) => Decision::Do(Step::CancelOperations),
                expected => expected,
            };
            assert_eq!(step(&backup, velero), expected, "cancelled: {phase:?} {begun:?} {velero}");
        }
    }
}
