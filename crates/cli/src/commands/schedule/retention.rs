//! `lifeboat schedule retention`.

use crate::resource::expiry::{FormatArgs, lists};
use crate::resource::keep::{self, KeepArgs};
use crate::resource::release::{kept_by_schedule, staying};
use anyhow::{Result, bail};
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use lifeboat_api::Schedule;
use lifeboat_lifecycle::phase::backup_expiry::expiries;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::errors::{missing, tell};
use lifeboat_terminal::output::retention::retention_text;
use std::io::Write;
use std::process::ExitCode;

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

impl RetentionArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let (client, name, now) = (globals.client().await?, &self.name, Timestamp::now());
        let rules = self.keep.rules();
        if (rules.is_some() || self.none) && !self.dry_run {
            keep::set(&client, name, rules.as_ref()).await?;
            let what = rules.as_ref().map_or_else(
                || "keeps no new backup beyond its time, but the last good one".to_owned(),
                |rules| format!("keeps {}", retention_text(rules)),
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
            tell(staying(name, &kept_by_schedule(&expiries, name)))?;
        }
        expiries.sort_by_key(|expiry| std::cmp::Reverse((expiry.stands_for, expiry.backup.metadata.name.clone())));
        self.form.print(&expiries, now)
    }
}
