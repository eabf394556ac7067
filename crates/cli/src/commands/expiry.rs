//! `lifeboat expiry`: the time at which backups expire, and the reasons why others are kept.

use crate::resource::expiry::{FormatArgs, lists};
use crate::resource::release::RulesReleaseArgs;
use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use lifeboat_api::Time;
use lifeboat_lifecycle::phase::backup_expiry::expiries;
use lifeboat_terminal::flags::globals::Globals;
use std::process::ExitCode;

/// Flags of the command: a release of backups, and the output format.
#[derive(Debug, Args)]
pub(crate) struct ExpiryArgs {
    #[command(flatten)]
    release: RulesReleaseArgs,
    #[command(flatten)]
    form: FormatArgs,
}

impl ExpiryArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let now = Timestamp::now();
        if self.release.is_asked()? {
            let client = globals.client().await?;
            let lists = lists(&client).await?;
            return self.release.run(&client, &lists, now, |expiries| self.form.print(expiries, now)).await;
        }
        let mut expiries = expiries(&lists(&globals.client().await?).await?, &TimeZone::UTC, now);
        expiries.sort_by_key(|expiry| {
            let end = expiry.backup.status.expiration.map(Time::timestamp);
            (end.is_none(), end, expiry.backup.metadata.name.clone())
        });
        self.form.print(&expiries, now)
    }
}
