//! `lifeboat repo maintenance set`.

use super::run::identity;
use crate::commands::repo::{RepositoryArgs, write_options};
use anyhow::{Result, bail};
use clap::Args;
use lifeboat_api::Duration;
use lifeboat_kopia::WriteOptions;
use lifeboat_kopia::format::maintenance::Cycle;
use lifeboat_kopia::maintenance::set_parameters;
use lifeboat_object::printable;
use lifeboat_terminal::flags;
use lifeboat_terminal::flags::globals::Globals;
use std::io::Write;
use std::process::ExitCode;

/// The owner of this command.
const ME: &str = "me";

/// `lifeboat repo maintenance set`.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The owner, who alone may run maintenance: user@host, or me (user and host of this machine, default@default with --velero)
    #[arg(long, value_name = "USER@HOST")]
    owner: Option<String>,
    /// Interval of full maintenance; 0 switches it off
    #[arg(long, value_parser = flags::duration, value_name = "DURATION")]
    full_interval: Option<Duration>,
    /// Interval of quick maintenance; 0 switches it off
    #[arg(long, value_parser = flags::duration, value_name = "DURATION")]
    quick_interval: Option<Duration>,
    #[command(flatten)]
    repository: RepositoryArgs,
}

impl SetArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        if self.owner.is_none() && self.full_interval.is_none() && self.quick_interval.is_none() {
            bail!("there is nothing to set: name --owner, --full-interval or --quick-interval");
        }
        self.repository.refuse_recovery()?;
        let me = identity(None, &self.repository)?;
        let opened = self.repository.open(globals).await?;
        let mut parameters = opened.repository.maintenance_parameters().await?;
        if let Some(owner) = &self.owner {
            parameters.owner = if owner == ME { me.clone() } else { identity(Some(owner), &self.repository)? };
        }
        for (interval, cycle) in
            [(self.full_interval, &mut parameters.full), (self.quick_interval, &mut parameters.quick)]
        {
            if let Some(interval) = interval {
                *cycle = changed(*cycle, interval)?;
            }
        }
        let (user, host) = me.split_once('@').unwrap_or((&me, ""));
        // One document needs no puts side by side.
        let write = WriteOptions { uploads: 1, ..write_options(user, host) };
        let writer = opened.repository.writer(write).await?;
        set_parameters(&writer, &parameters).await?;
        let owner = if parameters.owner.is_empty() { "nobody, so that nobody can run it" } else { &parameters.owner };
        writeln!(std::io::stdout(), "Maintenance is set; its owner is {}.", printable(owner))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn changed(cycle: Cycle, interval: Duration) -> Result<Cycle> {
    match interval.nanoseconds() {
        0 => Ok(Cycle { enabled: false, ..cycle }),
        nanoseconds @ 1.. => Ok(Cycle { enabled: true, interval: nanoseconds }),
        _ => bail!("{interval} is no interval"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_of_0_switches_it_off_and_keeps_the_one_before() {
        let day = Cycle { enabled: true, interval: 86_400_000_000_000 };
        assert_eq!(changed(day, Duration::ZERO).unwrap(), Cycle { enabled: false, ..day });
        let hour = flags::duration("1h").unwrap();
        let expected = Cycle { enabled: true, interval: 3_600_000_000_000 };
        assert_eq!(changed(Cycle { enabled: false, ..day }, hour).unwrap(), expected);
        assert!(changed(day, flags::duration("-1h").unwrap()).is_err());
    }
}
