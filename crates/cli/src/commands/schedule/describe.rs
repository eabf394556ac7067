//! `lifeboat schedule describe`.

use crate::resource::describe::{between, find};
use anyhow::Result;
use clap::Args;
use lifeboat_api::Schedule;
use lifeboat_requests::describe::style;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_view::describe::schedule::describe as schedule_text;
use std::io::Write;
use std::process::ExitCode;

/// Which schedules to describe.
#[derive(Debug, Args)]
pub(crate) struct ScheduleDescribeArgs {
    /// Names; all when left out
    names: Vec<String>,
    /// Without names, only those with these labels
    #[arg(long, short = 'l', default_value = "", value_name = "SELECTOR")]
    selector: String,
}

impl ScheduleDescribeArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let client = globals.client().await?;
        let style = style(globals, false);
        let found: Vec<Schedule> = find(&client, &self.names, &self.selector).await?;
        for (at, schedule) in found.iter().enumerate() {
            write!(std::io::stdout(), "{}{}", between(at), schedule_text(schedule, &style))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
