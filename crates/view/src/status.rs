//! The status of an installation: protected and unprotected namespaces and volumes, as text or as a value.

use crate::transfer::{COLUMNS, VolumeTransfer};
use anyhow::Result;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{BackupStorageLocationPhase, Time};
use lifeboat_lifecycle::coverage::{Coverage, FailedEarlier, Inventory, NamespaceState, ObjectProgress, coverage};
use lifeboat_object::{counted, printable};
use lifeboat_terminal::output::table::{Labels, print, time, until};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;

/// Namespaces that are shown.
const SHOWN: usize = 10;
/// Transfers of volumes that are shown.
const SHOWN_TRANSFERS: usize = 10;

/// The data of the status.
pub struct StatusInput<'a> {
    /// The objects of the cluster that are looked at.
    pub inventory: &'a Inventory,
    /// The version of the server, or why it is not known.
    pub server: &'a Result<String, String>,
    /// The transfers of volumes that go on, in the order in which they are shown.
    pub transfers: &'a [VolumeTransfer],
}

/// All that is shown.
pub struct StatusScreen {
    /// The version of the server, or why it is not known.
    pub server: Result<String, String>,
    /// The protected and unprotected namespaces, and what needs attention.
    pub coverage: Coverage,
    /// The transfers of volumes that go on.
    pub transfers: Vec<VolumeTransfer>,
    now: Timestamp,
    namespace: String,
}

impl StatusScreen {
    /// The status of the installation in a namespace at a time. `program` is what commands begin with.
    pub fn of(view: StatusInput<'_>, namespace: &str, program: &str, now: Timestamp) -> Self {
        let coverage = coverage(view.inventory, &TimeZone::UTC, now, program);
        let transfers = view.transfers.to_vec();
        Self { server: view.server.clone(), coverage, transfers, now, namespace: namespace.to_owned() }
    }

    /// The status for programs.
    pub fn value(&self) -> serde_json::Value {
        let mut value = json!(self.coverage);
        value["server"] = match &self.server {
            Ok(version) => json!({ "version": version }),
            Err(why) => json!({ "error": why }),
        };
        value["transfers"] = self.transfers.iter().map(VolumeTransfer::value).collect();
        value["time"] = json!(Time::new(self.now));
        value
    }

    /// Writes the status as text; of the namespaces the worst ones, or with details all.
    ///
    /// # Errors
    /// When a table cannot be written.
    pub fn write(&self, out: &mut Vec<u8>, details: bool) -> Result<()> {
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
            let progress = one
                .progress
                .map_or_else(String::new, |ObjectProgress { done, total }| format!("{done} of {total} objects"));
            vec![format!("{} {}", one.kind.to_lowercase(), one.name), one.phase.to_owned(), ago(one.start), progress]
        });
        table(out, &["RUNNING", "PHASE", "STARTED", "PROGRESS"], running.collect())?;
        self.transfers(out, details)?;
        self.namespaces(out, details)?;
        if coverage.attention.is_empty() {
            writeln!(out, "\nNothing needs attention.")?;
        }
        for (at, one) in coverage.attention.iter().enumerate() {
            writeln!(out, "{}! {}\n    next: {}", if at == 0 { "\n" } else { "" }, one.what, one.next)?;
        }
        if let Some(failed) = failed_earlier(coverage.failed_earlier) {
            writeln!(out, "\n{failed}")?;
        }
        Ok(())
    }

    fn transfers(&self, out: &mut Vec<u8>, details: bool) -> Result<()> {
        let all = &self.transfers;
        let shown = if details { all.len() } else { all.len().min(SHOWN_TRANSFERS) };
        let row = |one: &VolumeTransfer| -> Vec<String> { one.cells().into_iter().map(printable).collect() };
        table(out, &COLUMNS, all.iter().take(shown).map(row).collect())?;
        for one in all.iter().take(shown).filter(|one| !one.is_moving() && !one.message.is_empty()) {
            writeln!(out, "{} waits: {}", printable(&one.volume), printable(&one.message))?;
        }
        if shown < all.len() {
            writeln!(out, "and {} more (--details shows them)", all.len() - shown)?;
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
            vec![
                one.name.clone(),
                backup,
                age,
                schedules,
                one.claims.map_or_else(|| "<unknown>".to_owned(), |claims| claims.to_string()),
            ]
        };
        let columns = ["NAMESPACE", "LAST GOOD BACKUP", "STARTED", "SCHEDULES", "CLAIMS"];
        table(out, &columns, all.iter().take(shown).map(row).collect())?;
        if shown < all.len() {
            writeln!(out, "and {} more (--details shows them)", all.len() - shown)?;
        }
        Ok(())
    }
}

/// The failures that need no attention any more, in a line; `None` when there are none.
fn failed_earlier(FailedEarlier { backups, restores }: FailedEarlier) -> Option<String> {
    let all = [(restores, "restore"), (backups, "backup")];
    let failed: Vec<String> =
        all.iter().filter(|(count, _)| *count > 0).map(|(count, what)| counted(*count, what)).collect();
    (!failed.is_empty()).then(|| {
        format!(
            "Failed earlier: {} (a later one of the same completed, or it is more than a week ago).",
            failed.join(", ")
        )
    })
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
