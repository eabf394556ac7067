//! Runs a restore on this machine to its end, and reports the outcome.

use super::pending::end_restore;
use super::state::OperationStateFile;
use lifeboat_api::RestorePhase;
use lifeboat_object::printable;
use lifeboat_restore::{Env, Outcome, Request, RestoreError};
use lifeboat_terminal::output::exit_code::PARTIALLY_FAILED;
use lifeboat_terminal::output::progress::watched;
use lifeboat_terminal::output::results::print_results;
use lifeboat_terminal::output::{Output, print_resource};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

/// When the same command begins anew instead of going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeRule {
    /// As soon as the restore has ended, however it has.
    Ended,
    /// When all of it is done.
    Completed,
}

/// The way in which a restore is run on this machine.
pub struct RestoreRun {
    /// The state of the operation; its name, UID and time are those of the restore.
    pub state: OperationStateFile,
    /// The end after which the same command begins anew.
    pub until: ResumeRule,
    /// Format in which the restore is printed.
    pub output: Option<Output>,
}

/// The outcome of running a restore.
pub enum RunOutcome {
    /// It has ended, well or only in part.
    Done(ExitCode),
    /// It is held to a plan and would do something else now, so that nothing was written to the cluster.
    Refused {
        /// True when this run has begun it. Its state is forgotten then, and its files in the bucket are left.
        was_new: bool,
        /// The difference from the plan.
        why: RestoreError,
    },
}

/// Runs a restore, whose state is forgotten then: before, the same command again goes on with it.
///
/// # Errors
/// Returns the error that kept it from beginning or ending.
pub async fn run_restore(request: &Request, mut env: Env, run: RestoreRun) -> anyhow::Result<RunOutcome> {
    let RestoreRun { state, until, output } = run;
    env.operation.records = Arc::new(state.records());
    let operation = lifeboat_restore::run(request, &env);
    let mut outcome = match watched("restore", &env.operation.progress, &env.operation.cancel, operation).await {
        Err(e) => {
            // One that is held to a plan notes that it begins before it writes anything.
            let (is_pinned, was_new) = (!request.restore.spec.plan_digest.is_empty(), state.is_new);
            if is_pinned && env.operation.records.keys().await.is_ok_and(|noted| noted.is_empty()) {
                state.forget_if_new();
            }
            return match e {
                why @ RestoreError::PlanChanged { .. } => Ok(RunOutcome::Refused { was_new, why }),
                e => Err(e.into()),
            };
        }
        Ok(outcome) => outcome,
    };
    if let Some(why) = &outcome.broken_off {
        report_break(&outcome, output)?;
        let first = if why.can_pass() { "" } else { "mend what the error above names, then " };
        // Its state stays for that.
        anyhow::bail!(
            "the restore broke off; {first}run the same command again: what is done stays, and it goes on with the rest"
        );
    }
    if !outcome.unstored.is_empty() {
        // They are nowhere else.
        print_results(&outcome.results);
        // The same command goes on where this one has stopped, and stores them.
        anyhow::bail!(
            "the objects are restored, but not all files of the restore are stored: {}",
            outcome.unstored.join("; ")
        );
    }
    if outcome.is_pending() {
        Box::pin(end_restore(&mut outcome, request.settings.resource_timeout, &env)).await?;
    }
    if until == ResumeRule::Ended || outcome.restore.status.phase == Some(RestorePhase::Completed) {
        state.forget();
    } else {
        state.end_with_something_left()?;
        let _ = writeln!(std::io::stderr(), "The same command again goes on with what is not done.");
    }
    Ok(RunOutcome::Done(report(&outcome, output)?))
}

/// Reports the results of a restore that broke off: its files in the bucket may not be stored.
fn report_break(outcome: &Outcome, output: Option<Output>) -> anyhow::Result<()> {
    print_results(&outcome.results);
    let is_said = |why: &&String| outcome.results.errors.messages().any(|said| said == why.as_str());
    for unstored in outcome.unstored.iter().filter(|why| !is_said(why)) {
        let _ = writeln!(std::io::stderr(), "error: {}", printable(unstored));
    }
    match output {
        Some(output) => print_resource(&outcome.restore, output),
        None => {
            let done: Vec<String> = outcome.done.iter().map(|(done, n)| format!("{n} {}", done.word())).collect();
            let done = if done.is_empty() { "none".to_owned() } else { done.join(", ") };
            Ok(writeln!(std::io::stdout(), "Restore broke off. Objects until then: {done}.")?)
        }
    }
}

fn report(outcome: &Outcome, output: Option<Output>) -> anyhow::Result<ExitCode> {
    print_results(&outcome.results);
    let restore = &outcome.restore;
    let phase = restore.status.phase.unwrap_or(RestorePhase::New);
    match output {
        Some(output) => print_resource(restore, output)?,
        None => {
            let items = restore.status.progress.as_ref().map_or(0, |progress| progress.items_restored);
            writeln!(
                std::io::stdout(),
                "Restore completed with status: {phase:?}. {items} objects, {} warnings, {} errors.",
                restore.status.warnings,
                restore.status.errors
            )?;
        }
    }
    Ok(match phase {
        RestorePhase::Completed => ExitCode::SUCCESS,
        RestorePhase::PartiallyFailed => ExitCode::from(PARTIALLY_FAILED),
        _ => ExitCode::FAILURE,
    })
}
