//! `lifeboat expiry` and `lifeboat schedule retention`: the time at which backups expire, and the reasons why others
//! are kept.

use super::keep::{self, KeepArgs};
use super::release::{RulesReleaseArgs, kept_by_rules, staying};
use super::table::{Labels, print, time, until};
use super::{Format, TableKind, client, missing, said};
use crate::flags::{self, Optional};
use crate::globals::Globals;
use crate::output::print_resource;
use anyhow::{Result, bail};
use clap::Args;
use clap::builder::EnumValueParser;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use lifeboat_api::{BackupPhase, Schedule, Time};
use lifeboat_client::Client;
use lifeboat_lifecycle::phase::backup_expiry::{BackupExpiry, ExpiryInput, expiries};
use lifeboat_lifecycle::phase::expiry::ExpiryOutcome;
use lifeboat_lifecycle::phase::keep::describe as describe_keepers;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

/// Flags of the command: a release of backups, and the output format.
#[derive(Debug, Args)]
pub(crate) struct ExpiryArgs {
    #[command(flatten)]
    release: RulesReleaseArgs,
    #[command(flatten)]
    form: FormatArgs,
}

#[derive(Debug, Args)]
struct FormatArgs {
    /// Form of the output
    #[arg(long, short, value_parser = flags::optional(EnumValueParser::<Format>::new()), default_value = "", value_name = "FORM")]
    output: Optional<Format>,
}

/// The rules of a schedule.
#[derive(Debug, Args)]
pub(crate) struct RetentionArgs {
    /// Name of the schedule
    name: String,
    #[command(flatten)]
    keep: KeepArgs,
    /// Take the rules away: what they have kept stays until expiry --release, and other backups go when their time is over
    #[arg(long, conflicts_with_all = ["keep_last_good", "keep_last", "keep_hourly", "keep_daily", "keep_weekly", "keep_monthly", "keep_yearly"])]
    none: bool,
    /// Only show which backups these rules would keep, and when the others would go
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    form: FormatArgs,
}

impl ExpiryArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let now = Timestamp::now();
        if self.release.is_asked()? {
            let client = client(globals).await?;
            let lists = lists(&client).await?;
            return self.release.run(&client, &lists, now, |expiries| self.form.print(expiries, now)).await;
        }
        let mut expiries = expiries(&lists(&client(globals).await?).await?, &TimeZone::UTC, now);
        expiries.sort_by_key(|expiry| {
            let end = expiry.backup.status.expiration.map(Time::timestamp);
            (end.is_none(), end, expiry.backup.metadata.name.clone())
        });
        self.form.print(&expiries, now)
    }
}

impl RetentionArgs {
    pub(super) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let (client, name, now) = (client(globals).await?, &self.name, Timestamp::now());
        let rules = self.keep.rules();
        if (rules.is_some() || self.none) && !self.dry_run {
            keep::set(&client, name, rules.as_ref()).await?;
            let what = rules.as_ref().map_or_else(
                || "keeps no new backup beyond its time".to_owned(),
                |rules| format!("keeps {}", keep::shown(rules)),
            );
            writeln!(std::io::stderr(), "Schedule \"{name}\" {what}.")?;
        }
        let mut lists = lists(&client).await?;
        let Some(schedule) = lists.schedules.iter_mut().find(|schedule| schedule.metadata.name == *name) else {
            return Err(missing::<Schedule>(name));
        };
        if rules.is_some() || self.none {
            schedule.metadata.annotations.remove(lifeboat_api::well_known::ANNOTATION_RETENTION);
            schedule.spec.retention = rules;
        } else if let Err(why) = schedule.retention() {
            bail!("the retention of schedule {name} cannot be followed, so all its good backups stay: {why}");
        }
        let mut expiries = expiries(&lists, &TimeZone::UTC, now);
        expiries.retain(|expiry| expiry.schedule.as_ref() == Some(name));
        if self.none && !self.dry_run {
            said(staying(name, &kept_by_rules(&expiries, name)))?;
        }
        expiries.sort_by_key(|expiry| std::cmp::Reverse((expiry.stands_for, expiry.backup.metadata.name.clone())));
        self.form.print(&expiries, now)
    }
}

/// All that decides what becomes of backups.
pub(super) async fn lists(client: &Client) -> Result<ExpiryInput> {
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
pub(super) fn describe(expiry: &BackupExpiry, now: Timestamp) -> String {
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
    fn print(&self, expiries: &[BackupExpiry], now: Timestamp) -> Result<ExitCode> {
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
