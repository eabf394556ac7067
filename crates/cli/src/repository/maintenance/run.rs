//! `lifeboat repo maintenance run`.

use crate::globals::Globals;
use crate::output::{Output, print_resource};
use crate::progress::shown;
use crate::random::random;
use crate::repository::identity::{VELERO, host, user};
use crate::repository::{MEMORY, RepositoryArgs, kopia_clock};
use anyhow::{Result, bail};
use clap::Args;
use lifeboat_kopia::WriteOptions;
use lifeboat_kopia::maintenance::plan::schedule::{Due, Mode};
use lifeboat_kopia::maintenance::plan::{Plan, Step};
use lifeboat_kopia::maintenance::{
    Maintenance, MaintenanceOptions, MaintenanceReport, Requested, StepReport, StorageClock,
};
use lifeboat_object::printable;
use serde_json::{Value, json};
use std::io::Write;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

/// The most puts at once.
const UPLOADS: usize = 8;

/// `lifeboat repo maintenance run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Run full maintenance, due or not: delete what no snapshot needs, after the safety delays
    #[arg(long)]
    full: bool,
    /// Run quick maintenance, due or not: merge indexes
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Show what would be done, why, and what blocks the rest; write nothing
    #[arg(long)]
    dry_run: bool,
    /// The owner as whom it runs; user@host of this machine when left out, default@default with --velero
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
        let requested = match (self.full, self.quick) {
            (true, _) => Requested::Now(Mode::Full),
            (_, true) => Requested::Now(Mode::Quick),
            _ => Requested::Due,
        };
        let identity = identity(self.identity.as_deref(), &self.repository)?;
        let clock = StorageClock::new(kopia_clock());
        let opened = self.repository.open_at(globals, clock.clock()).await?;
        let maintenance = Maintenance::new(opened.repository.clone(), clock);
        if self.dry_run {
            let preview = Box::pin(maintenance.preview(requested));
            let preview = shown(|| "maintenance: looking".to_owned(), INTERRUPTED, preview).await??;
            let Some(plan) = &preview.plan else { return self.print_nothing(&preview.due) };
            self.print_plan(&preview.due, plan)?;
            return Ok(exit_code(plan.blockers.is_empty()));
        }
        let (user, host) = identity.split_once('@').unwrap_or((&identity, ""));
        let write = WriteOptions {
            user: user.to_owned(),
            host: host.to_owned(),
            random: random(),
            threads: std::thread::available_parallelism().map_or(1, NonZero::get),
            memory: MEMORY,
            uploads: UPLOADS,
        };
        let options = MaintenanceOptions { requested, identity: identity.clone(), write };
        let step = Mutex::new("looking".to_owned());
        let tell = |next: &Step| {
            *step.lock().unwrap_or_else(PoisonError::into_inner) = next.action.to_string();
        };
        let running = Box::pin(maintenance.run(&options, tell));
        let line = || format!("maintenance: {}", step.lock().unwrap_or_else(PoisonError::into_inner));
        let report = shown(line, INTERRUPTED, running).await??;
        if report.due.mode.is_none() {
            return self.print_nothing(&report.due);
        }
        self.print_report(&report)?;
        let is_well = report.steps.iter().all(|step| step.error.is_none())
            && report.takes_no_blobs.is_none()
            && report.plan.as_ref().is_none_or(|plan| plan.blockers.is_empty());
        Ok(exit_code(is_well))
    }

    fn print_nothing(&self, due: &Due) -> Result<ExitCode> {
        match self.output {
            Some(output) => print_resource(&json!({"mode": null, "reason": due.reason, "steps": []}), output)?,
            None => writeln!(std::io::stdout(), "Nothing to do: {}", due.reason)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn print_plan(&self, due: &Due, plan: &Plan) -> Result<()> {
        if let Some(output) = self.output {
            let steps: Vec<Value> =
                plan.steps.iter().map(|step| json!({"step": step.action.to_string(), "reason": step.reason})).collect();
            return print_resource(&value(due, plan, steps.into()), output);
        }
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", due.reason)?;
        for step in &plan.steps {
            writeln!(out, "would {step}")?;
        }
        print_rest(&mut out, plan)
    }

    fn print_report(&self, report: &MaintenanceReport) -> Result<()> {
        if let Some(output) = self.output {
            let steps: Vec<Value> =
                report.steps.iter().map(|step| json!({"step": step.step, "error": step.error})).collect();
            let mut value = match &report.plan {
                Some(plan) => value(&report.due, plan, steps.into()),
                None => json!({"reason": report.due.reason, "steps": steps}),
            };
            value["takesNoBlobs"] = json!(report.takes_no_blobs);
            return print_resource(&value, output);
        }
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", report.due.reason)?;
        if let Some(why) = &report.takes_no_blobs {
            writeln!(out, "the bucket takes no new blobs, so that deletions came first: {}", printable(why))?;
        }
        for StepReport { step, error } in &report.steps {
            match error {
                None => writeln!(out, "done: {step}")?,
                Some(error) => writeln!(out, "failed: {step}: {}", printable(error))?,
            }
        }
        match &report.plan {
            Some(plan) => print_rest(&mut out, plan),
            None => Ok(()),
        }
    }
}

const INTERRUPTED: &str = "maintenance was interrupted: nothing is harmed, and a later run goes on";

/// Prints what stays, and what blocks the rest.
fn print_rest(out: &mut impl Write, plan: &Plan) -> Result<()> {
    for waiting in &plan.waiting {
        writeln!(out, "stays for now: {waiting}")?;
    }
    for blocker in &plan.blockers {
        writeln!(out, "blocked: no content and no pack is deleted, because of {}", printable(blocker))?;
    }
    Ok(())
}

fn exit_code(is_well: bool) -> ExitCode {
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn value(due: &Due, plan: &Plan, steps: Value) -> Value {
    let waiting: Vec<Value> = plan
        .waiting
        .iter()
        .map(|one| json!({"things": one.things, "count": one.count, "bytes": one.bytes, "reason": one.reason}))
        .collect();
    json!({
        "mode": plan.mode.to_string(),
        "reason": due.reason,
        "time": plan.now.to_string(),
        "steps": steps,
        "waiting": waiting,
        "blockers": plan.blockers,
    })
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
