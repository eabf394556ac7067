//! `lifeboat schedule create|get|describe|delete|pause|unpause|retention`.

use super::backup::check_spec;
use super::change::change;
use super::describe::ScheduleDescribeArgs;
use super::expiry::{RetentionArgs, lists};
use super::keep::{KeepArgs, annotated};
use super::release::{kept_by_rules, release, released_with, staying};
use super::table::{selector, time, until};
use super::{
    DeleteArgs, GetArgs, ObjectSelectionArgs, OutputArgs, TableKind, chosen, client, create, get, of_which, together,
};
use crate::flags::{self, Optional, RequiredBool};
use crate::globals::Globals;
use crate::spec::BackupSpecArgs;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use lifeboat_api::{Backup, ObjectMeta, Schedule, SchedulePhase, Time};
use lifeboat_client::{Client, ObjectIdentity};
use lifeboat_lifecycle::phase::backup_expiry::{ExpiryInput, expiries};
use lifeboat_lifecycle::phase::schedule::refusal as schedule_refusal;
use std::io::Write;
use std::process::ExitCode;

/// Work with schedules.
#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Make a schedule
    Create(Box<ScheduleCreateArgs>),
    /// List schedules
    Get(GetArgs),
    /// Show when schedules make backups, and which
    Describe(ScheduleDescribeArgs),
    /// Delete schedules; their backups stay, unless the schedule owns them: what its rules keep until they are released, the others until
    /// their time is over
    Delete(ScheduleDeleteArgs),
    /// Let schedules rest
    Pause(PauseArgs),
    /// Let schedules make backups again
    Unpause(PauseArgs),
    /// Say which backups of a schedule stay although their time is over; without flags, show which do
    Retention(RetentionArgs),
}

/// A schedule to be made.
#[derive(Debug, Args)]
pub(crate) struct ScheduleCreateArgs {
    /// Its name
    name: String,
    /// When to make a backup: five fields of cron, such as '0 3 * * *', a word such as @daily, or '@every 6h'. In the server's
    /// time zone, which is UTC in its image, unless CRON_TZ=ZONE goes before
    #[arg(long, default_value = "", value_name = "CRON")]
    schedule: String,
    /// The schedule owns its backups: where it is deleted, they are too
    #[arg(long)]
    use_owner_references_in_backup: bool,
    /// It rests until schedule unpause
    #[arg(long)]
    paused: bool,
    #[command(flatten)]
    skip: SkipArgs,
    #[command(flatten)]
    keep: KeepArgs,
    #[command(flatten)]
    spec: BackupSpecArgs,
    #[command(flatten)]
    show: OutputArgs,
}

/// Flag that decides about the run that is due.
#[derive(Debug, Args)]
struct SkipArgs {
    /// Leave out the run that is due now: true or false; when left out, a new schedule does as the server's flag says, and one that is
    /// there stays as it is
    #[arg(long, value_parser = flags::optional(flags::stated), default_value = "", value_name = "BOOL")]
    skip_immediately: Optional<RequiredBool>,
}

/// Schedules that are to go.
#[derive(Debug, Args)]
pub(crate) struct ScheduleDeleteArgs {
    #[command(flatten)]
    delete: DeleteArgs,
    /// Release the backups that their rules keep: these go when their time is over
    #[arg(long)]
    release_backups: bool,
}

/// Schedules that are to rest, or no longer.
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    which: ObjectSelectionArgs,
    #[command(flatten)]
    skip: SkipArgs,
}

impl ScheduleCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Create(args) => args.run(globals).await,
            Self::Get(args) => get::<Schedule>(&args, globals).await,
            Self::Describe(args) => args.run(globals).await,
            Self::Delete(args) => delete(&args, globals).await,
            Self::Pause(args) => args.run(true, globals).await,
            Self::Unpause(args) => args.run(false, globals).await,
            Self::Retention(args) => args.run(globals).await,
        }
    }
}

impl SkipArgs {
    fn said(&self) -> Option<bool> {
        self.skip_immediately.map(|RequiredBool(value)| value)
    }
}

impl ScheduleCreateArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        if self.schedule.is_empty() {
            bail!("--schedule is required");
        }
        let schedule = self.made(globals);
        let client = client(globals).await?;
        check_spec(&client, &schedule.spec.template).await?;
        if create(&client, &schedule, &self.show).await? {
            writeln!(std::io::stdout(), "Schedule \"{}\" created successfully.", self.name)?;
        }
        // compat: it is made all the same, as by Velero; a server of a later version may read it.
        if let Some(why) = schedule_refusal(&schedule, &TimeZone::UTC) {
            writeln!(std::io::stderr(), "WARNING: the server will refuse it: {why}")?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn made(&self, globals: &Globals) -> Schedule {
        let mut backup = Backup::default();
        self.spec.apply(&mut backup);
        let mut schedule = Schedule { metadata: backup.metadata, ..Schedule::default() };
        schedule.metadata.name.clone_from(&self.name);
        schedule.metadata.namespace.clone_from(&globals.namespace);
        schedule.spec.template = backup.spec;
        schedule.spec.schedule.clone_from(&self.schedule);
        schedule.spec.use_owner_references_in_backup = Some(self.use_owner_references_in_backup);
        schedule.spec.paused = self.paused;
        schedule.spec.skip_immediately = self.skip.said();
        schedule.spec.retention = self.keep.rules();
        schedule
    }
}

impl PauseArgs {
    async fn run(self, paused: bool, globals: &Globals) -> Result<ExitCode> {
        let client = client(globals).await?;
        self.which.is_one_way()?;
        let (found, mut errors) = of_which::<Schedule>(&self.which, &client).await?;
        let mut out = std::io::stdout();
        if found.is_empty() {
            writeln!(out, "No schedules found")?;
            return together(errors);
        }
        let word = if paused { "paused" } else { "unpaused" };
        for schedule in found {
            let name = &schedule.metadata.name;
            match turn(&client, name, paused, self.skip.said()).await {
                Ok(true) => writeln!(out, "Schedule {name} {word} successfully")?,
                Ok(false) => writeln!(out, "Schedule {name} is already {word}, skip")?,
                Err(e) => errors.push(e),
            }
        }
        together(errors)
    }
}

/// Pauses a schedule or ends that; false when that is so already.
async fn turn(client: &Client, name: &str, paused: bool, skips: Option<bool>) -> Result<bool> {
    let goal = if paused { "paused" } else { "unpaused" };
    let (_, is_changed) = change(client, name, goal, |before: &Schedule| {
        let mut after = before.clone();
        after.spec.paused = paused;
        after.spec.skip_immediately = skips.or(after.spec.skip_immediately);
        Ok((before.spec.paused != paused).then_some(after))
    })
    .await?;
    Ok(is_changed)
}

async fn delete(args: &ScheduleDeleteArgs, globals: &Globals) -> Result<ExitCode> {
    let (client, now) = (client(globals).await?, Timestamp::now());
    args.delete.which.is_one_way()?;
    let lists = match lists(&client).await {
        Ok(lists) => lists,
        Err(why) if args.release_backups => return Err(why),
        Err(why) => {
            writeln!(
                std::io::stderr(),
                "It is not known which backups their rules keep; these stay until released: {why:#}"
            )?;
            ExpiryInput::default()
        }
    };
    let all = expiries(&lists, &TimeZone::UTC, now);
    let told = if args.release_backups { released_with } else { staying };
    let consequences = |found: &[Schedule]| -> Vec<String> {
        let names = found.iter().map(|schedule| &schedule.metadata.name);
        names.filter_map(|name| told(name, &kept_by_rules(&all, name))).collect()
    };
    let Some((found, mut errors)) = chosen(&args.delete, &client, consequences).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    let mut out = std::io::stdout();
    if found.is_empty() {
        writeln!(out, "No schedules found")?;
        return together(errors);
    }
    for schedule in &found {
        let name = &schedule.metadata.name;
        match client.delete_exactly::<Schedule>(&ObjectIdentity::of(&schedule.metadata)).await {
            Ok(_) => writeln!(out, "Schedule deleted: {name}")?,
            Err(e) => {
                errors.push(e.into());
                continue;
            }
        }
        if args.release_backups {
            let mut kept = kept_by_rules(&all, name);
            kept.retain(|expiry| expiry.is_own);
            errors.extend(release(&client, &kept, &lists.locations, now).await.err());
        }
    }
    together(errors)
}

impl TableKind for Schedule {
    const COLUMNS: &'static [&'static str] =
        &["NAME", "STATUS", "CREATED", "SCHEDULE", "BACKUP TTL", "LAST BACKUP", "SELECTOR", "PAUSED"];

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn cells(&self, now: Timestamp) -> Vec<String> {
        let (spec, status) = (&self.spec, &self.status);
        vec![
            self.metadata.name.clone(),
            status.phase.map_or("New", SchedulePhase::as_str).to_owned(),
            time(self.metadata.creation_timestamp),
            spec.schedule.clone(),
            spec.template.ttl.to_string(),
            until(status.last_backup.map(Time::timestamp), now),
            selector(spec.template.label_selector.as_ref()),
            spec.paused.to_string(),
        ]
    }

    fn for_definition_without(&self, fields: &[String]) -> Result<Option<Self>> {
        let lacks_only_rules = fields == ["spec.retention"] && self.spec.retention.is_some();
        lacks_only_rules.then(|| annotated(self)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Lifeboat;
    use serde_json::{Value, json};

    #[test]
    fn a_row_is_that_of_velero() {
        let at = |text: &str| Time::new(text.parse().unwrap());
        let mut schedule = Schedule::default();
        schedule.metadata.name = "s".into();
        schedule.spec.schedule = "0 3 * * *".into();
        let now = at("2026-11-21T10:00:00Z").timestamp();
        assert_eq!(schedule.cells(now), ["s", "New", "n/a", "0 3 * * *", "0s", "n/a", "<none>", "false"]);
        schedule.status.phase = Some(SchedulePhase::FailedValidation);
        schedule.status.last_backup = Some(at("2026-11-21T03:00:00Z"));
        schedule.spec.template.ttl = "48h".parse().unwrap();
        schedule.spec.template.label_selector = Some(flags::selector("a=b").unwrap());
        schedule.spec.paused = true;
        let cells = schedule.cells(now);
        assert_eq!(cells[..2], ["s", "FailedValidation"]);
        assert_eq!(cells[3..], ["0 3 * * *", "48h0m0s", "7h ago", "a=b", "true"]);
    }

    /// The schedule that a command line asks for, without what is always there.
    fn made(line: &str) -> Value {
        #[derive(Debug, clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: ScheduleCreateArgs,
        }
        let grammar = crate::pflag::with_rules(<Line as clap::CommandFactory>::command());
        let words = std::iter::once("create").chain(line.split('|'));
        let matches = grammar.try_get_matches_from(words).unwrap_or_else(|e| panic!("{line}: {e}"));
        let args = <ScheduleCreateArgs as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
        let globals = Lifeboat::parsed("-n velero version").globals.settled(crate::program::Program::default());
        let mut object = serde_json::to_value(args.made(&globals)).unwrap();
        let spec = object["spec"].take();
        let template = &spec["template"];
        assert_eq!(template["includedNamespaces"], json!(["*"]));
        let mut rest = spec.clone();
        rest["template"] = json!({"ttl": template["ttl"], "backupType": template["backupType"]});
        json!({"metadata": object["metadata"], "spec": rest})
    }

    #[test]
    fn each_flag_fills_its_field() {
        let template = json!({"ttl": "0s", "backupType": null});
        assert_eq!(
            made("s|--schedule|@every 6h"),
            json!({"metadata": {"name": "s", "namespace": "velero"},
                "spec": {"template": template, "schedule": "@every 6h", "useOwnerReferencesInBackup": false}})
        );
        assert_eq!(
            made(
                "s|--schedule|0 3 * * *|--labels|a=b|--annotations|c=d|--ttl|48h|--backup-type|full|--paused\
                 |--use-owner-references-in-backup|--skip-immediately|true"
            ),
            json!({"metadata": {"name": "s", "namespace": "velero", "labels": {"a": "b"}, "annotations": {"c": "d"}},
                "spec": {"template": {"ttl": "48h0m0s", "backupType": "Full"}, "schedule": "0 3 * * *", "paused": true,
                    "useOwnerReferencesInBackup": true, "skipImmediately": true}})
        );
        let kept = made("s|--schedule|@daily|--keep-last|3|--keep-weekly|4")["spec"]["retention"].take();
        assert_eq!(kept, json!({"keepLast": 3, "keepWeekly": 4}));
        assert_eq!(made("s|--schedule|@daily|--keep-last-good")["spec"]["retention"], json!({}));
        assert_eq!(made("s|--schedule|@daily|--skip-immediately=false")["spec"]["skipImmediately"], false);
        assert_eq!(made("s|--schedule|@daily|--skip-immediately=")["spec"]["skipImmediately"], Value::Null);
    }
}
