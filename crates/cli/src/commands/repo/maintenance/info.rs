//! `lifeboat repo maintenance info`.

use crate::commands::repo::{RepositoryArgs, kopia_clock};
use anyhow::Result;
use clap::Args;
use lifeboat_api::Duration;
use lifeboat_kopia::format::maintenance::{Cycle, MaintenanceParameters, MaintenanceRun, Schedule};
use lifeboat_kopia::format::time::UnixNanos;
use lifeboat_object::printable;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::{Output, print_resource};
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;

/// `lifeboat repo maintenance info`.
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// Print owner, intervals and runs as json or yaml
    #[arg(long, short, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    repository: RepositoryArgs,
}

impl InfoArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let opened = self.repository.open(globals).await?;
        let parameters = opened.repository.maintenance_parameters().await?;
        let schedule = opened.repository.maintenance_schedule().await?;
        match self.output {
            Some(output) => print_resource(&value(&parameters, &schedule), output)?,
            None => print(&parameters, &schedule, &globals.program.name)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(parameters: &MaintenanceParameters, schedule: &Schedule, program: &str) -> Result<()> {
    let now = kopia_clock()();
    let mut out = std::io::stdout().lock();
    let nobody = format!("nobody (`{program} repo maintenance set --owner me` makes you the owner)");
    let owner = if parameters.owner.is_empty() { &nobody } else { &parameters.owner };
    writeln!(out, "Owner: {}", printable(owner))?;
    for (name, cycle, next) in
        [("Full", parameters.full, schedule.next_full), ("Quick", parameters.quick, schedule.next_quick)]
    {
        writeln!(out, "{name}: {}", describe(cycle, next, now))?;
    }
    for (task, runs) in &schedule.runs {
        if let Some(run) = runs.first() {
            let result = if run.success { "succeeded" } else { run.error.as_str() };
            writeln!(out, "{}: last run {}: {}", printable(task), text(run.end), printable(result))?;
        }
    }
    Ok(())
}

fn describe(cycle: Cycle, next: Option<UnixNanos>, now: UnixNanos) -> String {
    if !cycle.enabled {
        return "off".to_owned();
    }
    let interval = Duration::from_secs(cycle.interval / 1_000_000_000);
    match next {
        Some(next) if next <= now => format!("every {interval}, due since {next}"),
        Some(next) => format!("every {interval}, due at {next}"),
        None => format!("every {interval}, due now"),
    }
}

fn text(time: Option<UnixNanos>) -> String {
    time.map_or_else(|| "at an unknown time".to_owned(), |time| time.to_string())
}

fn value(parameters: &MaintenanceParameters, schedule: &Schedule) -> Value {
    let cycle = |cycle: Cycle, next: Option<UnixNanos>| {
        json!({
            "enabled": cycle.enabled,
            "interval": Duration::from_secs(cycle.interval / 1_000_000_000).to_string(),
            "next": next.map(|next| next.to_string()),
        })
    };
    let run = |run: &MaintenanceRun| {
        json!({
            "start": run.start.map(|time| time.to_string()),
            "end": run.end.map(|time| time.to_string()),
            "success": run.success,
            "error": run.error,
        })
    };
    let runs: serde_json::Map<String, Value> =
        schedule.runs.iter().map(|(task, runs)| (task.clone(), runs.iter().map(run).collect())).collect();
    json!({
        "owner": parameters.owner,
        "full": cycle(parameters.full, schedule.next_full),
        "quick": cycle(parameters.quick, schedule.next_quick),
        "runs": runs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_has_passed_is_due_since_then() {
        let cycle = Cycle { enabled: true, interval: 3600 * 1_000_000_000 };
        let now = UnixNanos(1_795_900_000_000_000_000);
        let later = UnixNanos(now.0 + 1);
        for (cycle, next, expected) in [
            (cycle, None, "every 1h0m0s, due now".to_owned()),
            (cycle, Some(now), format!("every 1h0m0s, due since {now}")),
            (cycle, Some(later), format!("every 1h0m0s, due at {later}")),
            (Cycle { enabled: false, ..cycle }, Some(now), "off".to_owned()),
        ] {
            assert_eq!(describe(cycle, next, now), expected);
        }
    }
}
