//! `lifeboat repo maintenance run`.

use crate::commands::repo::identity::{VELERO, host, user};
use crate::commands::repo::{RepositoryArgs, kopia_clock, write_options};
use anyhow::{Result, bail};
use clap::Args;
use lifeboat_kopia::KopiaError;
use lifeboat_kopia::maintenance::plan::schedule::{Due, Mode};
use lifeboat_kopia::maintenance::plan::{Plan, Step};
use lifeboat_kopia::maintenance::{
    Maintenance, MaintenanceOptions, MaintenanceReport, Preview, Requested, StepReport, StorageClock,
};
use lifeboat_object::printable;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::exit_code::PARTIALLY_FAILED;
use lifeboat_terminal::output::progress::{clear, shown, tell};
use lifeboat_terminal::output::{Output, print_resource};
use lifeboat_terminal::process::signals::on_signal;
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// `lifeboat repo maintenance run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Run full maintenance, due or not: delete what no snapshot needs, after the safety delays
    #[arg(long)]
    full: bool,
    /// Run quick maintenance, due or not: merge indexes
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Show what would be done, why, and what blocks the rest, and write nothing; ends with 3 when something blocks the rest
    #[arg(long)]
    dry_run: bool,
    /// Run as this user@host, which must be the owner; user and host of this machine when left out, default@default with --velero
    #[arg(long, value_name = "USER@HOST")]
    identity: Option<String>,
    /// Print the report as json or yaml
    #[arg(long, short, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    repository: RepositoryArgs,
}

impl RunArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        self.repository.refuse_recovery()?;
        let requested = match (self.full, self.quick) {
            (true, _) => Requested::Now(Mode::Full),
            (_, true) => Requested::Now(Mode::Quick),
            _ => Requested::Due,
        };
        let identity = identity(self.identity.as_deref(), &self.repository)?;
        let clock = StorageClock::new(kopia_clock());
        let opened = self.repository.open_at(globals, clock.clock()).await?;
        let maintenance = Maintenance::new(opened.repository.clone(), clock);
        let program = globals.program.name.as_str();
        if self.dry_run {
            let preview = Box::pin(maintenance.preview(requested, &identity));
            let preview = shown(|| "maintenance: looking".to_owned(), NOTHING_WRITTEN, preview).await??;
            return self.print_preview(&preview, program);
        }
        let (user, host) = identity.split_once('@').unwrap_or((&identity, ""));
        let write = write_options(user, host);
        let options = MaintenanceOptions { requested, identity: identity.clone(), write };
        let step = Mutex::new("looking".to_owned());
        let on_step = |next: &Step| {
            *step.lock().unwrap_or_else(PoisonError::into_inner) = next.action.to_string();
        };
        let line = || format!("maintenance: {}", step.lock().unwrap_or_else(PoisonError::into_inner));
        let cancel = CancellationToken::new();
        let running = Box::pin(maintenance.run_until(&options, on_step, cancel.cancelled()));
        let outcome = tokio::select! {
            outcome = running => outcome,
            () = tell(line) => unreachable!("progress is shown until the end"),
            () = on_signal(cancel.clone()) => unreachable!("the process has ended"),
        };
        clear();
        let report = match outcome {
            Err(KopiaError::Cancelled) if cancel.is_cancelled() => bail!(INTERRUPTED),
            Err(error) => bail!(advised(&error, program)),
            Ok(report) => report,
        };
        self.print_report(&report)?;
        let is_well = report.steps.iter().all(|step| step.error.is_none())
            && report.put_refusal.is_none()
            && report.plan.as_ref().is_none_or(is_whole);
        Ok(exit_code(is_well))
    }

    fn print_preview(&self, preview: &Preview, program: &str) -> Result<ExitCode> {
        let Preview { due, plan, refusal } = preview;
        let refusal = refusal.as_ref().map(|error| advised(error, program));
        let is_well = refusal.is_none() && plan.as_ref().is_none_or(is_whole);
        let steps = plan.iter().flat_map(|plan| &plan.steps);
        if let Some(output) = self.output {
            let steps = steps.map(|step| step_json(&step.action.to_string(), &step.reason, None)).collect();
            let printed = Printed { due, plan: plan.as_ref(), steps, refusal, put_refusal: None, is_dry_run: true };
            print_resource(&printed.json(), output)?;
            return Ok(exit_code(is_well));
        }
        let mut out = std::io::stdout().lock();
        print_due(&mut out, due)?;
        if let Some(plan) = plan {
            writeln!(out, "by the clock of this machine, {}: the run itself goes by that of the bucket", plan.now)?;
        }
        for step in steps {
            writeln!(out, "would {step}")?;
        }
        print_rest(&mut out, plan.as_ref())?;
        if let Some(refusal) = refusal {
            writeln!(out, "the run would be refused: {}", printable(refusal))?;
        }
        Ok(exit_code(is_well))
    }

    fn print_report(&self, report: &MaintenanceReport) -> Result<()> {
        let MaintenanceReport { due, steps, plan, put_refusal } = report;
        if let Some(output) = self.output {
            let steps = steps.iter().map(|step| step_json(&step.action, &step.reason, step.error.as_deref())).collect();
            let put_refusal = put_refusal.as_deref();
            let printed = Printed { due, plan: plan.as_ref(), steps, refusal: None, put_refusal, is_dry_run: false };
            return print_resource(&printed.json(), output);
        }
        let mut out = std::io::stdout().lock();
        print_due(&mut out, due)?;
        if let Some(why) = put_refusal {
            writeln!(out, "the bucket takes no new blobs, so that deletions came first: {}", printable(why))?;
        }
        for StepReport { action, reason, error } in steps {
            match error {
                None => writeln!(out, "done: {action}: {reason}")?,
                Some(error) => writeln!(out, "failed: {action}: {reason}: {}", printable(error))?,
            }
        }
        print_rest(&mut out, plan.as_ref())
    }
}

const INTERRUPTED: &str = "maintenance was interrupted: nothing is harmed, and the next run goes on";
const NOTHING_WRITTEN: &str = "the dry run of maintenance was interrupted: nothing was written";

/// An error with the command that helps.
fn advised(error: &KopiaError, program: &str) -> String {
    match error {
        KopiaError::NotOwner { owner, identity } => {
            let elsewhere = if owner.is_empty() { "" } else { "let the owner run it, or take it over: " };
            format!(
                "{error}: {elsewhere}`{program} repo maintenance set --owner {identity}` makes {identity} the owner"
            )
        }
        error => error.to_string(),
    }
}

fn print_due(out: &mut impl Write, due: &Due) -> Result<()> {
    match due.mode {
        Some(_) => writeln!(out, "{}", due.reason)?,
        None => writeln!(out, "Nothing to do: {}", due.reason)?,
    }
    Ok(())
}

/// Prints what stays, and what blocks the rest.
fn print_rest(out: &mut impl Write, plan: Option<&Plan>) -> Result<()> {
    let Some(plan) = plan else { return Ok(()) };
    for waiting in &plan.waiting {
        writeln!(out, "stays for now: {waiting}")?;
    }
    for undone in &plan.undone {
        writeln!(out, "not done: {undone}")?;
    }
    for blocker in &plan.blockers {
        writeln!(out, "blocked: no content and no pack is deleted, because of {}", printable(blocker))?;
    }
    Ok(())
}

/// True for a plan that leaves nothing out.
fn is_whole(plan: &Plan) -> bool {
    plan.blockers.is_empty() && plan.undone.is_empty()
}

fn exit_code(is_well: bool) -> ExitCode {
    if is_well { ExitCode::SUCCESS } else { ExitCode::from(PARTIALLY_FAILED) }
}

fn step_json(action: &str, reason: &str, error: Option<&str>) -> Value {
    json!({"action": action, "reason": reason, "error": error})
}

/// The parts of what is printed as JSON. Every key is there, whatever was run.
struct Printed<'a> {
    due: &'a Due,
    plan: Option<&'a Plan>,
    steps: Vec<Value>,
    refusal: Option<String>,
    put_refusal: Option<&'a str>,
    is_dry_run: bool,
}

impl Printed<'_> {
    fn json(self) -> Value {
        let waiting = self.plan.iter().flat_map(|plan| &plan.waiting);
        let waiting: Vec<Value> = waiting
            .map(|one| json!({"things": one.things, "count": one.count, "bytes": one.bytes, "reason": one.reason}))
            .collect();
        json!({
            "dryRun": self.is_dry_run,
            "mode": self.due.mode.map(|mode| mode.to_string()),
            "reason": self.due.reason,
            "time": self.plan.map(|plan| plan.now.to_string()),
            "steps": self.steps,
            "waiting": waiting,
            "blockers": self.plan.map(|plan| plan.blockers.as_slice()).unwrap_or_default(),
            "undone": self.plan.map(|plan| plan.undone.as_slice()).unwrap_or_default(),
            "refusal": self.refusal,
            "putRefusal": self.put_refusal,
        })
    }
}

/// The `user@host` of a run.
pub(super) fn identity(given: Option<&str>, repository: &RepositoryArgs) -> Result<String> {
    match given {
        Some(given) if given.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty()) => {
            Ok(given.to_owned())
        }
        Some(given) => bail!("{given:?} is no owner: it has the form user@host"),
        None if repository.is_of_velero() => Ok(format!("{VELERO}@{VELERO}")),
        None => Ok(format!("{}@{}", user(), host())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_kopia::format::time::UnixNanos;

    #[test]
    fn the_report_has_the_same_keys_whatever_was_run() {
        let due = |mode| Due { mode, reason: "because".to_owned() };
        let (nothing, full) = (due(None), due(Some(Mode::Full)));
        let blockers = vec!["snapshot 1: it is damaged".to_owned()];
        let now = UnixNanos(0);
        let plan = Plan {
            mode: Mode::Full,
            now,
            steps: Vec::new(),
            blockers: blockers.clone(),
            waiting: Vec::new(),
            undone: Vec::new(),
        };
        let steps = vec![step_json("delete 1 log, 1 byte", "it is old", None)];
        let printed =
            |due, plan, steps| Printed { due, plan, steps, refusal: None, put_refusal: None, is_dry_run: false };
        let expected = json!({
            "dryRun": false, "mode": null, "reason": "because", "time": null, "steps": [], "waiting": [],
            "blockers": [], "undone": [], "refusal": null, "putRefusal": null,
        });
        assert_eq!(printed(&nothing, None, Vec::new()).json(), expected);
        let expected = json!({
            "dryRun": false, "mode": "full", "reason": "because", "time": now.to_string(), "steps": steps.clone(),
            "waiting": [], "blockers": blockers, "undone": [], "refusal": null, "putRefusal": null,
        });
        assert_eq!(printed(&full, Some(&plan), steps).json(), expected);
    }

    #[test]
    fn who_is_not_the_owner_reads_the_command_that_makes_one() {
        let refused = |owner: &str| {
            advised(&KopiaError::NotOwner { owner: owner.to_owned(), identity: "a@b".to_owned() }, "lifeboat")
        };
        assert_eq!(
            [refused(""), refused("c@d")],
            [
                "maintenance was not run: nobody owns it, and only an owner may, such as a@b: \
                 `lifeboat repo maintenance set --owner a@b` makes a@b the owner",
                "maintenance was not run: c@d owns it, not a@b: let the owner run it, or take it over: \
                 `lifeboat repo maintenance set --owner a@b` makes a@b the owner",
            ]
        );
    }
}
