//! `lifeboat backup create`.

use crate::resource::{Format, OutputArgs, create, one_way_to_select, submitted};
use anyhow::{Result, bail};
use clap::Args;
use jiff::Timestamp;
use lifeboat_api::{Backup, BackupSpec, BackupStorageLocation, ObjectMeta, Schedule, VolumeSnapshotLocation};
use lifeboat_client::Client;
use lifeboat_standalone::preview::preview_backup;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::spec::BackupSpecArgs;
use lifeboat_terminal::output::errors::missing;
use std::io::Write;
use std::process::ExitCode;

/// A backup to be made.
#[derive(Debug, Args)]
pub(crate) struct BackupCreateArgs {
    /// Its name
    name: Option<String>,
    /// The schedule whose template says what to back up; then no filter is taken from the command line
    #[arg(long, value_name = "NAME")]
    from_schedule: Option<String>,
    #[command(flatten)]
    spec: BackupSpecArgs,
    /// Only say what would be saved, how much, and what not and why; nothing is written. Asks the cluster from here, by your own
    /// rights, and knows no settings of the server
    #[arg(long)]
    dry_run: bool,
    /// Wait until it has ended
    #[arg(long, short)]
    wait: bool,
    #[command(flatten)]
    show: OutputArgs,
}

impl BackupCreateArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        if self.from_schedule.as_deref().is_some_and(|schedule| schedule.trim().is_empty()) {
            bail!("flag must have a non-empty value: --from-schedule");
        }
        if self.name.is_none() && self.from_schedule.is_none() {
            bail!("a backup name is required, unless you are creating based on a schedule");
        }
        let mut given = Backup::default();
        self.spec.apply(&mut given);
        let client = globals.client().await?;
        check_spec(&client, &given.spec).await?;
        let mut backup = match &self.from_schedule {
            None => given,
            Some(schedule) => {
                let Some(found) = client.get::<Schedule>(schedule).await? else {
                    return Err(missing::<Schedule>(schedule));
                };
                if self.show.output.is_none() {
                    writeln!(std::io::stdout(), "Creating backup from schedule, all other filters are ignored.")?;
                }
                of_schedule(&found, given.metadata)
            }
        };
        backup.metadata.name = self.name.unwrap_or_else(|| {
            let now = Timestamp::now().strftime("%Y%m%d%H%M%S").to_string();
            format!("{}-{now}", self.from_schedule.unwrap_or_default())
        });
        backup.metadata.namespace.clone_from(&globals.namespace);
        if self.dry_run {
            let output = self.show.output.and_then(Format::machine);
            return Box::pin(preview_backup(backup, &client, globals, output)).await;
        }
        if !create(&client, &backup, &self.show).await? {
            return Ok(ExitCode::SUCCESS);
        }
        submitted::<Backup>(&client, &backup.metadata.name, self.wait, &globals.program.name).await
    }
}

/// Checks that the flags make sense together, and that the locations that they name exist.
pub(crate) async fn check_spec(client: &Client, spec: &BackupSpec) -> Result<()> {
    one_way_to_select(spec.label_selector.as_ref(), &spec.or_label_selectors)?;
    let errors = lifeboat_select::BackupFilter::validate(spec);
    if !errors.is_empty() {
        bail!("{}", errors.join("; "));
    }
    locations_exist(client, spec).await
}

async fn locations_exist(client: &Client, spec: &BackupSpec) -> Result<()> {
    let location = &spec.storage_location;
    if !location.is_empty() && client.get::<BackupStorageLocation>(location).await?.is_none() {
        return Err(missing::<BackupStorageLocation>(location));
    }
    for location in &spec.volume_snapshot_locations {
        if client.get::<VolumeSnapshotLocation>(location).await?.is_none() {
            return Err(missing::<VolumeSnapshotLocation>(location));
        }
    }
    Ok(())
}

/// A backup of a schedule, with these labels and annotations besides its own.
fn of_schedule(schedule: &Schedule, given: ObjectMeta) -> Backup {
    let mut backup = schedule.backup();
    backup.metadata.labels.extend(given.labels);
    backup.metadata.annotations.extend(given.annotations);
    backup
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::well_known;
    use std::collections::BTreeMap;

    #[test]
    fn a_backup_of_a_schedule_has_what_the_flags_add() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        let mut schedule = Schedule::default();
        schedule.metadata.name = "daily".into();
        schedule.metadata.labels = map(&[("own", "1"), ("both", "1")]);
        schedule.metadata.annotations = map(&[("own", "1")]);
        let (labels, annotations) = (map(&[("given", "2"), ("both", "2")]), map(&[("given", "3")]));
        let backup = of_schedule(&schedule, ObjectMeta { labels, annotations, ..ObjectMeta::default() });
        assert_eq!(
            (backup.metadata.labels, backup.metadata.annotations),
            (
                map(&[("both", "2"), ("given", "2"), ("own", "1"), (well_known::LABEL_SCHEDULE_NAME, "daily")]),
                map(&[("given", "3"), ("own", "1")])
            )
        );
    }
}
