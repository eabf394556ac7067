//! `lifeboat schedule create|get|describe|delete|pause|unpause|retention`.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod describe;
pub(crate) mod pause;
pub(crate) mod retention;

use crate::commands::schedule::describe::ScheduleDescribeArgs;
use crate::commands::schedule::retention::RetentionArgs;
use crate::resource::{GetArgs, get};
use anyhow::Result;
use clap::Subcommand;
use create::ScheduleCreateArgs;
use delete::{ScheduleDeleteArgs, delete};
use lifeboat_api::Schedule;
use lifeboat_terminal::flags::globals::Globals;
use pause::PauseArgs;
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
