//! A restore (velero: pkg/controller/restore_controller.go).

use super::{Decision, MOST_ATTEMPTS, attempt};
use lifeboat_api::{Restore, RestorePhase, well_known};

/// Keeps a restore until its files are deleted.
pub const FINALIZER: &str = well_known::FINALIZER_RESTORE;

/// The next step of the work on a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Delete its files, then let it go.
    CleanUp,
    /// Put the finalizer on it.
    AddFinalizer,
    /// Take the finalizer off: it has ended and never had files, so nothing need be done before it goes.
    RemoveFinalizer,
    /// Validate and run it.
    Run,
    /// Run it again: a server of ours was cut off, or the bucket was away.
    RunAgain {
        /// Which attempt this is.
        attempt: u32,
    },
    /// It has failed, for this reason.
    Fail(String),
    /// A server of Velero was cut off in it: it has failed, and what it began must stop.
    FailVeleros(String),
    /// Ask its operations how far they are.
    LookAfter,
    /// End its operations: it was cancelled.
    CancelOperations,
    /// Its operations have ended, if it had any: end it too.
    Finalize,
}

impl Step {
    /// Returns true if it needs one of the places for concurrent restores.
    pub fn runs(&self) -> bool {
        matches!(self, Self::Run | Self::RunAgain { .. })
    }
}

/// Returns true if a restore has begun and not ended.
#[must_use]
pub fn is_running(restore: &Restore) -> bool {
    let runs = |phase: RestorePhase| {
        phase == RestorePhase::InProgress || phase.waits_for_operations() || phase.is_finalizing()
    };
    restore.status.phase.is_some_and(runs)
}

/// Returns true if a restore has ended: it no longer reads its backup.
pub fn has_ended(restore: &Restore) -> bool {
    use RestorePhase as P;
    matches!(restore.status.phase, Some(P::FailedValidation | P::Completed | P::PartiallyFailed | P::Failed))
}

/// Returns true if a restore may have files in the bucket. When it never began, files under its name belong to a
/// restore of another cluster.
pub fn has_files(restore: &Restore) -> bool {
    restore.status.start_timestamp.is_some()
}

/// Decides the next step for a restore on which no task works. `fail_in_progress` fails interrupted restores, as Velero
/// does.
pub fn step(restore: &Restore, fail_in_progress: bool) -> Decision<Step> {
    let has_finalizer = restore.metadata.finalizers.iter().any(|f| f == FINALIZER);
    if restore.metadata.deletion_timestamp.is_some() {
        return if has_finalizer { Decision::Do(Step::CleanUp) } else { Decision::Rest };
    }
    // compat: one that was refused keeps Velero's finalizer for ever, and with it a namespace that is deleted.
    if has_ended(restore) && !has_files(restore) {
        return if has_finalizer { Decision::Do(Step::RemoveFinalizer) } else { Decision::Rest };
    }
    if !has_finalizer {
        return Decision::Do(Step::AddFinalizer);
    }
    match restore.status.phase {
        None | Some(RestorePhase::New) if restore.spec.cancel => {
            Decision::Do(Step::Fail("cancelled on request before it began".to_owned()))
        }
        Some(RestorePhase::InProgress) if restore.spec.cancel => Decision::Do(Step::Fail(
            "cancelled on request between two attempts at it: what was restored until then stays".to_owned(),
        )),
        None | Some(RestorePhase::New) => Decision::Do(Step::Run),
        Some(RestorePhase::InProgress) => Decision::Do(match attempt(&restore.metadata) {
            Some(begun) if begun >= MOST_ATTEMPTS => {
                Step::Fail(format!("the server was cut off {begun} times while this restore was in progress"))
            }
            Some(begun) if !fail_in_progress => Step::RunAgain { attempt: begun + 1 },
            _ => Step::FailVeleros(
                "found a restore with status \"InProgress\" during the server starting, mark it as \"Failed\""
                    .to_owned(),
            ),
        }),
        Some(phase) if phase.waits_for_operations() => {
            Decision::Do(if restore.spec.cancel { Step::CancelOperations } else { Step::LookAfter })
        }
        Some(RestorePhase::Finalizing | RestorePhase::FinalizingPartiallyFailed) => Decision::Do(Step::Finalize),
        _ => Decision::Rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::Time;
    use lifeboat_api::well_known::ANNOTATION_ATTEMPT;

    #[test]
    fn a_restore_that_ended_without_files_holds_no_namespace() {
        for phase in [RestorePhase::FailedValidation, RestorePhase::Failed] {
            let mut restore = Restore::default();
            restore.status.phase = Some(phase);
            assert_eq!(step(&restore, false), Decision::Rest, "{phase:?}");
            restore.metadata.finalizers.push(FINALIZER.into());
            assert_eq!(step(&restore, false), Decision::Do(Step::RemoveFinalizer), "{phase:?}");
            restore.status.start_timestamp = Some(Time::new(jiff::Timestamp::UNIX_EPOCH));
            assert_eq!(step(&restore, false), Decision::Rest, "{phase:?}: its files are to be deleted first");
        }
    }

    #[test]
    fn the_rows_of_the_state_machine() {
        use RestorePhase as P;
        let found = "found a restore with status \"InProgress\" during the server starting, mark it as \"Failed\"";
        let fail = |why: &str| Decision::Do(Step::Fail(why.to_owned()));
        let veleros = Decision::Do(Step::FailVeleros(found.to_owned()));
        for (phase, begun, velero, expected) in [
            (None, None, false, Decision::Do(Step::Run)),
            (Some(P::New), None, false, Decision::Do(Step::Run)),
            (Some(P::InProgress), None, false, veleros.clone()),
            // Its server was told to stop.
            (Some(P::InProgress), Some("0"), false, Decision::Do(Step::RunAgain { attempt: 1 })),
            (Some(P::InProgress), Some("2"), false, Decision::Do(Step::RunAgain { attempt: 3 })),
            (Some(P::InProgress), Some("2"), true, veleros.clone()),
            (
                Some(P::InProgress),
                Some("4"),
                false,
                fail("the server was cut off 4 times while this restore was in progress"),
            ),
            (Some(P::Finalizing), None, false, Decision::Do(Step::Finalize)),
            (Some(P::FinalizingPartiallyFailed), None, false, Decision::Do(Step::Finalize)),
            (Some(P::WaitingForPluginOperations), None, false, Decision::Do(Step::LookAfter)),
            (Some(P::WaitingForPluginOperationsPartiallyFailed), None, true, Decision::Do(Step::LookAfter)),
            (Some(P::FailedValidation), None, false, Decision::Rest),
            (Some(P::Completed), None, false, Decision::Rest),
            (Some(P::PartiallyFailed), None, false, Decision::Rest),
            (Some(P::Failed), None, false, Decision::Rest),
        ] {
            let mut restore = Restore::default();
            restore.status.phase = phase;
            let begun_at = Time::new(jiff::Timestamp::UNIX_EPOCH);
            restore.status.start_timestamp = has_ended(&restore).then_some(begun_at);
            if let Some(begun) = begun {
                restore.metadata.annotations.insert(ANNOTATION_ATTEMPT.into(), begun.into());
            }
            assert_eq!(step(&restore, velero), Decision::Do(Step::AddFinalizer), "{phase:?}");
            restore.metadata.finalizers.push(FINALIZER.into());
            assert_eq!(step(&restore, velero), expected, "{phase:?} {begun:?} {velero}");
            restore.spec.cancel = true;
            let cancelled = match phase {
                None | Some(P::New) => fail("cancelled on request before it began"),
                Some(P::InProgress) => {
                    fail("cancelled on request between two attempts at it: what was restored until then stays")
                }
                _ if expected == Decision::Do(Step::LookAfter) => Decision::Do(Step::CancelOperations),
                _ => expected,
            };
            assert_eq!(step(&restore, velero), cancelled, "cancelled: {phase:?}");
            restore.metadata.deletion_timestamp = Some(begun_at);
            assert_eq!(step(&restore, velero), Decision::Do(Step::CleanUp), "{phase:?}");
            restore.metadata.finalizers.clear();
            assert_eq!(step(&restore, velero), Decision::Rest, "{phase:?}");
        }
    }
}
