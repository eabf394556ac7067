//! `lifeboat status`: what is protected and what is not, on one screen.

use super::expiry::lists;
use super::table::{Labels, print, time, until};
use super::{Format, client, server_status};
use crate::exit_code::ATTENTION;
use crate::flags::{self, Optional};
use crate::globals::Globals;
use crate::output::print_resource;
use anyhow::{Context, Result};
use clap::Args;
use clap::builder::EnumValueParser;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{BackupStorageLocationPhase, ObjectMeta, Time};
use lifeboat_client::Client;
use lifeboat_control::{Coverage, Inventory, NamespaceState, Progress, coverage, namespaces_to_protect};
use lifeboat_object::ApiResource;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How the status is shown.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Show it again every five seconds, or less often where the cluster answers slowly, until ctrl-c
    #[arg(long)]
    watch: bool,
    /// Show all namespaces; without it ten at most, the worst ones
    #[arg(long)]
    details: bool,
    /// How long to wait for the server's answer
    #[arg(long, value_parser = flags::duration, default_value = "5s", value_name = "DURATION")]
    timeout: lifeboat_api::Duration,
    /// Form of the output
    #[arg(long, short, value_parser = flags::optional(EnumValueParser::<Format>::new()), default_value = "", value_name = "FORM")]
    output: Optional<Format>,
}

/// Between two looks.
const LOOK: Duration = Duration::from_secs(5);
/// A look takes a tenth of the time at most: the pause after it is so many times as long.
const SHARE: u32 = 9;
/// Between two counts of the claims of the cluster, of which there may be very many.
const COUNT: Duration = Duration::from_secs(60);
/// Namespaces that are shown.
const SHOWN: usize = 10;

impl StatusArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let (machine, mut claims) = (self.output.and_then(Format::machine), Claims::default());
        loop {
            let (mut text, begun) = (Vec::new(), Instant::now());
            let is_well = match Box::pin(self.look(globals, &mut claims)).await {
                Ok(status) => {
                    match machine {
                        Some(output) => print_resource(&status.value(), output)?,
                        None => status.write(&mut text, self.details)?,
                    }
                    status.server.is_ok() && status.coverage.attention.is_empty()
                }
                // What fails once may work at the next look.
                Err(e) if self.watch => {
                    let told = format!("The status is not known now: {e:#}");
                    // Programs read one document after the other.
                    if machine.is_some() {
                        writeln!(std::io::stderr(), "{told}")?;
                    } else {
                        writeln!(text, "{told}")?;
                    }
                    false
                }
                Err(e) => return Err(e),
            };
            let took = begun.elapsed();
            let mut out = std::io::stdout();
            if self.watch && machine.is_none() && out.is_terminal() {
                // To the upper left corner, and nothing below.
                write!(out, "\x1b[H\x1b[2J")?;
            }
            out.write_all(&text)?;
            out.flush()?;
            if !self.watch {
                return Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(ATTENTION) });
            }
            tokio::time::sleep(pause(took)).await;
        }
    }

    async fn look(&self, globals: &Globals, claims: &mut Claims) -> Result<Status> {
        let own = client(globals).await?;
        let asking = client(&globals.with_requests_within(self.timeout)).await?;
        let (inventory, server) = tokio::join!(inventory(&own, claims), server_status(&asking, self.timeout.to_std()));
        let now = Timestamp::now();
        let coverage = coverage(&inventory?, &TimeZone::UTC, now, &globals.program.name);
        let server = server.map(|answer| answer.server_version).map_err(|e| format!("{e:#}"));
        Ok(Status { server, coverage, now, namespace: globals.namespace.clone() })
    }
}

/// How long it is until the next look, after one that took so long.
fn pause(took: Duration) -> Duration {
    LOOK.max(took.saturating_mul(SHARE))
}

/// How many claims each namespace has, and when they were counted.
#[derive(Debug, Default)]
struct Claims {
    of: BTreeMap<String, u64>,
    counted: Option<Instant>,
}

impl Claims {
    /// Counts them, unless that was done just before.
    async fn count(&mut self, client: &Client) -> Result<&BTreeMap<String, u64>> {
        if self.counted.is_none_or(|at| at.elapsed() >= COUNT) {
            let mut of = BTreeMap::<String, u64>::new();
            let resource = ApiResource::new("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim");
            let take = |meta: ObjectMeta| *of.entry(meta.namespace).or_default() += 1;
            let counted = client.cluster.each_metadata(&resource, None, "", take).await;
            counted.context("without the claims of the cluster nobody knows which volumes are not protected")?;
            (self.of, self.counted) = (of, Some(Instant::now()));
        }
        Ok(&self.of)
    }
}

async fn inventory(client: &Client, claims: &mut Claims) -> Result<Inventory> {
    let (lists, mut namespaces, claims) = tokio::try_join!(
        lists(client),
        async {
            let found = namespaces_to_protect(&client.cluster, &client.namespace).await;
            found.context("without the namespaces of the cluster nobody knows what is not protected")
        },
        claims.count(client),
    )?;
    for one in &mut namespaces {
        one.claims = claims.get(&one.facts.name).copied().unwrap_or_default();
    }
    Ok(Inventory { lists, namespaces })
}

/// All that is shown.
struct Status {
    /// The version of the server, or why it is not known.
    server: Result<String, String>,
    coverage: Coverage,
    now: Timestamp,
    namespace: String,
}

impl Status {
    fn value(&self) -> serde_json::Value {
        let mut value = json!(self.coverage);
        value["server"] = match &self.server {
            Ok(version) => json!({ "version": version }),
            Err(why) => json!({ "error": why }),
        };
        value["time"] = json!(Time::new(self.now));
        value
    }

    fn write(&self, out: &mut Vec<u8>, details: bool) -> Result<()> {
        let (coverage, now) = (&self.coverage, self.now);
        match &self.server {
            Ok(version) => writeln!(out, "Server {version} in namespace {}", self.namespace)?,
            Err(why) => writeln!(out, "No server answers in namespace {}: {why}", self.namespace)?,
        }
        let ago = |at: Option<Time>| until(at.map(Time::timestamp), now);
        let locations = coverage.locations.iter().map(|one| {
            let phase = one.phase.map_or("New", BackupStorageLocationPhase::as_str).to_owned();
            let access = if one.read_only { "ReadOnly" } else { "ReadWrite" };
            let is_default = if one.default { "true" } else { "" };
            vec![one.name.clone(), phase, ago(one.last_validated), access.to_owned(), is_default.to_owned()]
        });
        table(out, &["LOCATION", "PHASE", "LAST VALIDATED", "ACCESS MODE", "DEFAULT"], locations.collect())?;
        let schedules = coverage.schedules.iter().map(|one| {
            let (last, phase, start) = match &one.last_ended {
                Some(last) => (last.backup.clone(), last.phase.as_str().to_owned(), ago(last.start)),
                None => ("<none>".to_owned(), String::new(), String::new()),
            };
            vec![one.name.clone(), one.state.as_str().to_owned(), last, phase, start, time(one.next_run)]
        });
        let columns = ["SCHEDULE", "STATUS", "LAST BACKUP", "PHASE", "STARTED", "NEXT RUN"];
        table(out, &columns, schedules.collect())?;
        let running = coverage.running.iter().map(|one| {
            let progress =
                one.progress.map_or_else(String::new, |Progress { done, total }| format!("{done} of {total} objects"));
            vec![format!("{} {}", one.kind.to_lowercase(), one.name), one.phase.to_owned(), ago(one.start), progress]
        });
        table(out, &["RUNNING", "PHASE", "STARTED", "PROGRESS"], running.collect())?;
        self.namespaces(out, details)?;
        if coverage.attention.is_empty() {
            writeln!(out, "\nNothing needs attention.")?;
        }
        for (at, one) in coverage.attention.iter().enumerate() {
            writeln!(out, "{}! {}\n    next: {}", if at == 0 { "\n" } else { "" }, one.what, one.next)?;
        }
        Ok(())
    }

    fn namespaces(&self, out: &mut Vec<u8>, details: bool) -> Result<()> {
        let all = &self.coverage.namespaces;
        let shown = if details { all.len() } else { all.len().min(SHOWN) };
        let row = |one: &NamespaceState| {
            let (backup, age) = match (&one.last_good, one.age_seconds) {
                (Some(last), Some(seconds)) => {
                    let start = self.now.saturating_sub(SignedDuration::from_secs(seconds)).unwrap_or(self.now);
                    (last.backup.clone(), until(Some(start), self.now))
                }
                _ => ("<none>".to_owned(), String::new()),
            };
            let schedules = if one.schedules.is_empty() { "<none>".to_owned() } else { one.schedules.join(",") };
            vec![one.name.clone(), backup, age, schedules, one.claims.to_string()]
        };
        let columns = ["NAMESPACE", "LAST GOOD BACKUP", "STARTED", "SCHEDULES", "CLAIMS"];
        table(out, &columns, all.iter().take(shown).map(row).collect())?;
        if shown < all.len() {
            writeln!(out, "and {} more (--details shows them)", all.len() - shown)?;
        }
        Ok(())
    }
}

fn table(out: &mut Vec<u8>, columns: &[&str], rows: Vec<Vec<String>>) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let (none, labels) = (BTreeMap::new(), Labels { columns: &[], all: false });
    writeln!(out)?;
    print(out, columns, rows.into_iter().map(|row| (row, &none)), &labels)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_that_take_long_are_rare() {
        let seconds = Duration::from_secs;
        for (took, expected) in [(0, 5), (1, 9), (30, 270)] {
            assert_eq!(pause(seconds(took)), seconds(expected));
        }
    }
}
