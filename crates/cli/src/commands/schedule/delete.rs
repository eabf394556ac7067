//! `lifeboat schedule delete`.

use crate::resource::expiry::lists;
use crate::resource::release::{kept_by_schedule, release, released_with, staying, to_be_released};
use crate::resource::{DeleteArgs, chosen, together};
use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use lifeboat_api::Schedule;
use lifeboat_client::ObjectIdentity;
use lifeboat_lifecycle::phase::backup_expiry::{ExpiryInput, expiries};
use lifeboat_terminal::flags::globals::Globals;
use std::io::Write;
use std::process::ExitCode;

/// Schedules that are to go.
#[derive(Debug, Args)]
pub(crate) struct ScheduleDeleteArgs {
    #[command(flatten)]
    delete: DeleteArgs,
    /// Release the backups that their rules keep: these go when their time is over
    #[arg(long)]
    release_backups: bool,
}

pub(crate) async fn delete(args: &ScheduleDeleteArgs, globals: &Globals) -> Result<ExitCode> {
    let (client, now) = (globals.client().await?, Timestamp::now());
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
    let told = |name: &String| match args.release_backups {
        true => released_with(name, &to_be_released(&all, name)),
        false => staying(name, &kept_by_schedule(&all, name)),
    };
    let consequences = |found: &[Schedule]| -> Vec<String> {
        found.iter().filter_map(|schedule| told(&schedule.metadata.name)).collect()
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
            let mut kept = to_be_released(&all, name);
            kept.retain(|expiry| expiry.is_own);
            errors.extend(release(&client, &kept, &lists.locations, now).await.err());
        }
    }
    together(errors)
}
