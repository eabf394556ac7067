//! `lifeboat schedule pause` and `schedule unpause`.

use crate::resource::change::change;
use crate::resource::{ObjectSelectionArgs, of_which, together};
use anyhow::Result;
use clap::Args;
use lifeboat_api::Schedule;
use lifeboat_client::Client;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::{self, Optional, RequiredBool};
use std::io::Write;
use std::process::ExitCode;

/// Flag that decides about the run that is due.
#[derive(Debug, Args)]
pub(crate) struct SkipArgs {
    /// Leave out the run that is due now: true or false; when left out, a new schedule does as the server's flag says, and one that is
    /// there stays as it is
    #[arg(long, value_parser = flags::optional(flags::stated), default_value = "", value_name = "BOOL")]
    skip_immediately: Optional<RequiredBool>,
}

/// Schedules that are to rest, or no longer.
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    which: ObjectSelectionArgs,
    #[command(flatten)]
    skip: SkipArgs,
}

impl SkipArgs {
    pub(crate) fn said(&self) -> Option<bool> {
        self.skip_immediately.map(|RequiredBool(value)| value)
    }
}

impl PauseArgs {
    pub(crate) async fn run(self, paused: bool, globals: &Globals) -> Result<ExitCode> {
        let client = globals.client().await?;
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
