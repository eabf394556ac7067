//! `lifeboat schedule create`.

use super::pause::SkipArgs;
use crate::commands::backup::create::check_spec;
use crate::resource::keep::KeepArgs;
use crate::resource::{OutputArgs, create};
use anyhow::{Result, bail};
use clap::Args;
use jiff::tz::TimeZone;
use lifeboat_api::{Backup, Schedule};
use lifeboat_lifecycle::phase::schedule::refusal as schedule_refusal;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::spec::BackupSpecArgs;
use std::io::Write;
use std::process::ExitCode;

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

impl ScheduleCreateArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        if self.schedule.is_empty() {
            bail!("--schedule is required");
        }
        let schedule = self.made(globals);
        let client = globals.client().await?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Lifeboat;
    use serde_json::{Value, json};

    /// The schedule that a command line asks for, without what is always there.
    fn made(line: &str) -> Value {
        #[derive(Debug, clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: ScheduleCreateArgs,
        }
        let grammar = lifeboat_terminal::flags::pflag::with_rules(<Line as clap::CommandFactory>::command());
        let words = std::iter::once("create").chain(line.split('|'));
        let matches = grammar.try_get_matches_from(words).unwrap_or_else(|e| panic!("{line}: {e}"));
        let args = <ScheduleCreateArgs as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
        let globals = Lifeboat::parsed("-n velero version")
            .globals
            .settled(lifeboat_terminal::process::program::Program::default());
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
