//! `lifeboat expiry` and `lifeboat schedule retention`: the time at which backups expire, and the reasons why others
//! are kept.

use super::Format;
use anyhow::Result;
use clap::Args;
use clap::builder::EnumValueParser;
use jiff::Timestamp;
use lifeboat_api::{BackupPhase, Time};
use lifeboat_client::Client;
use lifeboat_lifecycle::phase::backup_expiry::{BackupExpiry, ExpiryInput};
use lifeboat_lifecycle::phase::expiry::ExpiryOutcome;
use lifeboat_lifecycle::phase::keep::describe as describe_keepers;
use lifeboat_terminal::flags::{self, Optional};
use lifeboat_terminal::output::print_resource;
use lifeboat_terminal::output::table::{Labels, print, time, until};
use lifeboat_view::table::TableKind;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct FormatArgs {
    /// Form of the output
    #[arg(long, short, value_parser = flags::optional(EnumValueParser::<Format>::new()), default_value = "", value_name = "FORM")]
    output: Optional<Format>,
}

/// All that decides what becomes of backups.
pub(crate) async fn lists(client: &Client) -> Result<ExpiryInput> {
    let (backups, schedules, requests, locations, restores, cluster) = tokio::try_join!(
        client.list(""),
        client.list(""),
        client.list(""),
        client.list(""),
        client.list(""),
        client.cluster.uid()
    )?;
    Ok(ExpiryInput { backups, schedules, requests, locations, restores, cluster })
}

/// Describes the expiry of a backup.
pub(crate) fn describe(expiry: &BackupExpiry, now: Timestamp) -> String {
    match &expiry.becomes {
        ExpiryOutcome::Goes(at) if *at <= now => "goes now: its time is over".to_owned(),
        ExpiryOutcome::Goes(at) => format!("goes in {}", until(Some(*at), now)),
        ExpiryOutcome::Going => match &expiry.waits_for {
            Some(what) => format!("its deletion is asked for, and waits for {what}"),
            None => "its deletion is asked for".to_owned(),
        },
        ExpiryOutcome::Kept => describe_keepers(&expiry.keepers),
        ExpiryOutcome::Runs => "is in progress".to_owned(),
        ExpiryOutcome::Read { restore } => {
            format!("its time is over; restore {restore} reads it, and it goes after that")
        }
        ExpiryOutcome::Blocked(obstacle) => {
            let by = describe_keepers(&expiry.keepers);
            let by = if by.is_empty() { by } else { format!("; it is also {by}") };
            format!("its time is over; it stays, because {obstacle}{by}")
        }
        ExpiryOutcome::Elsewhere { cluster } => {
            let end = expiry.backup.status.expiration.filter(|end| end.timestamp() <= now);
            let is_over = if end.is_some() { "its time is over; " } else { "" };
            format!("{is_over}it is left to cluster {cluster}, which has made it, to let it go")
        }
        ExpiryOutcome::Stays => "has no expiration".to_owned(),
    }
}

fn phase(expiry: &BackupExpiry) -> &'static str {
    expiry.backup.status.phase.map_or("New", BackupPhase::as_str)
}

impl FormatArgs {
    pub(crate) fn print(&self, expiries: &[BackupExpiry], now: Timestamp) -> Result<ExitCode> {
        if let Some(output) = self.output.and_then(Format::machine) {
            let all: Vec<Value> = expiries.iter().map(|expiry| value(expiry, now)).collect();
            print_resource(&all, output)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut out = std::io::stdout();
        if expiries.is_empty() {
            writeln!(std::io::stderr(), "No backups found")?;
        }
        let rows = expiries.iter().map(|expiry| (cells(expiry, now), &expiry.backup.meta().labels));
        print(&mut out, &COLUMNS, rows, &Labels { columns: &[], all: false })?;
        Ok(ExitCode::SUCCESS)
    }
}

const COLUMNS: [&str; 5] = ["NAME", "STATUS", "MADE FOR", "EXPIRES", "WHAT BECOMES OF IT"];

fn cells(expiry: &BackupExpiry, now: Timestamp) -> Vec<String> {
    let end = expiry.backup.status.expiration;
    vec![
        expiry.backup.metadata.name.clone(),
        phase(expiry).to_owned(),
        time(expiry.stands_for.map(Time::new)),
        time(end),
        describe(expiry, now),
    ]
}

fn value(expiry: &BackupExpiry, now: Timestamp) -> Value {
    let (becomes, more): (&str, BTreeMap<&str, Value>) = match &expiry.becomes {
        ExpiryOutcome::Goes(at) => ("Goes", [("at", json!(Time::new(*at)))].into()),
        ExpiryOutcome::Going => ("Going", BTreeMap::new()),
        ExpiryOutcome::Kept => ("Kept", BTreeMap::new()),
        ExpiryOutcome::Runs => ("Runs", BTreeMap::new()),
        ExpiryOutcome::Read { restore } => ("Read", [("restore", json!(restore))].into()),
        ExpiryOutcome::Blocked(obstacle) => ("Blocked", [("location", json!(obstacle.location()))].into()),
        ExpiryOutcome::Elsewhere { cluster } => ("Elsewhere", [("cluster", json!(cluster))].into()),
        ExpiryOutcome::Stays => ("Stays", BTreeMap::new()),
    };
    let mut value = json!({
        "backup": expiry.backup.metadata.name,
        "schedule": expiry.schedule,
        "sourceCluster": expiry.source,
        "phase": phase(expiry),
        "madeFor": expiry.stands_for.map(Time::new),
        "expiration": expiry.backup.status.expiration,
        "keptBy": expiry.keepers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "becomes": becomes,
        "waitsFor": expiry.waits_for,
        "message": describe(expiry, now),
    });
    for (name, more) in more {
        value[name] = more;
    }
    value
}
