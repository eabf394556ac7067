//! `lifeboat backup hold` and `release`: a backup on hold is not deleted, neither when it expires nor on request.

use crate::resource::change::change;
use crate::resource::together;
use anyhow::{Result, bail};
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{Backup, BackupStorageLocation, DeleteBackupRequest, Duration, well_known};
use lifeboat_client::Client;
use lifeboat_lifecycle::phase::expiry::Obstacle;
use lifeboat_lifecycle::phase::facts::deletion_has_begun;
use lifeboat_lifecycle::phase::hold::Hold;
use lifeboat_lifecycle::phase::location::location_of;
use lifeboat_lifecycle::phase::request::deletion_is_asked;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::errors::tell;
use std::io::Write;
use std::process::ExitCode;

/// Backups that are to stay.
#[derive(Debug, Args)]
pub(crate) struct HoldArgs {
    /// Names
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Until when: a time such as 2027-01-31T00:00:00Z, or how long from now, such as 720h; until they are released when left out
    #[arg(long, default_value = "", value_name = "TIME")]
    until: String,
}

/// Backups that need not stay any more.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    /// Names
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

impl HoldArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let hold = until(&self.until, Timestamp::now())?;
        let value = hold.value();
        let client = globals.client().await?;
        let requests: Vec<DeleteBackupRequest> = client.list("").await?;
        let locations = client.list("").await.ok();
        let mut errors = Vec::new();
        for name in &self.names {
            let may_be_held = |backup: &Backup| match is_going(backup, &requests) {
                true => bail!("backup {name} cannot be held: its deletion is asked for"),
                false => Ok(()),
            };
            match write_hold(&client, name, Some(&value), may_be_held).await {
                Ok((backup, _)) => {
                    writeln!(std::io::stdout(), "Backup \"{name}\" is {hold}.")?;
                    tell(unrecorded(&backup, locations.as_deref(), "may delete it"))?;
                }
                Err(e) => errors.push(e),
            }
        }
        together(errors)
    }
}

impl ReleaseArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let client = globals.client().await?;
        let locations = client.list("").await.ok();
        let mut errors = Vec::new();
        for name in &self.names {
            match write_hold(&client, name, None, |_| Ok(())).await {
                Ok((backup, true)) => {
                    writeln!(std::io::stdout(), "The hold of backup \"{name}\" is released.")?;
                    tell(unrecorded(&backup, locations.as_deref(), "goes on holding it"))?;
                }
                Ok((_, false)) => writeln!(std::io::stdout(), "Backup \"{name}\" is not held.")?,
                Err(e) => errors.push(e),
            }
        }
        together(errors)
    }
}

fn until(text: &str, now: Timestamp) -> Result<Hold> {
    if text.is_empty() || text == well_known::HOLD_FOREVER {
        return Ok(Hold::Forever);
    }
    let end = match (text.parse::<Timestamp>(), text.parse::<Duration>()) {
        (Ok(end), _) => Some(end),
        (_, Ok(time)) => now.checked_add(SignedDuration::from_nanos(time.nanoseconds())).ok(),
        _ => None,
    };
    // Whole seconds, as all times in resources.
    let end = end.and_then(|end| Timestamp::from_second(end.as_second()).ok());
    match end {
        Some(end) if end > now => Ok(Hold::Until(end)),
        Some(end) => bail!("--until: {end} is over already"),
        None => bail!("--until: {text:?} is neither a time such as 2027-01-31T00:00:00Z nor a duration such as 720h"),
    }
}

fn is_going(backup: &Backup, requests: &[DeleteBackupRequest]) -> bool {
    deletion_has_begun(backup) || backup.metadata.deletion_timestamp.is_some() || deletion_is_asked(backup, requests)
}

/// Explains why another cluster that has the backup of the same bucket does not learn of the hold: nothing can be
/// written into its location. Returns `None` without the right to list locations.
pub(crate) fn unrecorded(backup: &Backup, locations: Option<&[BackupStorageLocation]>, so: &str) -> Option<String> {
    let obstacle = Obstacle::of(location_of(backup, locations?))?;
    Some(format!("That is not written into the bucket, because {obstacle}: another cluster that has the backup {so}."))
}

/// Sets the annotation of a hold, or removes it for `None`; returns the backup, and false when nothing had to be
/// changed.
async fn write_hold(
    client: &Client,
    name: &str,
    value: Option<&str>,
    check: impl Fn(&Backup) -> Result<()>,
) -> Result<(Backup, bool)> {
    let goal = if value.is_some() { "held" } else { "released" };
    change(client, name, goal, |before: &Backup| {
        check(before)?;
        let mut after = before.clone();
        let annotations = &mut after.metadata.annotations;
        match value {
            Some(value) => drop(annotations.insert(well_known::ANNOTATION_HOLD.to_owned(), value.to_owned())),
            None => drop(annotations.remove(well_known::ANNOTATION_HOLD)),
        }
        Ok((after.metadata.annotations != before.metadata.annotations).then_some(after))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::{BackupStorageLocationAccessMode, BackupStorageLocationPhase};

    #[test]
    fn where_nothing_can_be_written_it_is_said_that_only_this_cluster_knows() {
        let location = |name: &str, mode, phase| {
            let mut location = BackupStorageLocation::default();
            location.metadata.name = name.into();
            (location.spec.access_mode, location.status.phase) = (mode, phase);
            location
        };
        let available = Some(BackupStorageLocationPhase::Available);
        let locations = [
            location("good", None, available),
            location("sealed", Some(BackupStorageLocationAccessMode::ReadOnly), available),
            location("away", None, Some(BackupStorageLocationPhase::Unavailable)),
        ];
        let mut backup = Backup::default();
        for (name, expected) in [
            ("good", None),
            ("sealed", Some("location sealed is read-only")),
            ("away", Some("location away is not available")),
            ("gone", Some("there is no location gone")),
            ("", Some("there is no default location (mark one with `backup-location set NAME --default`)")),
        ] {
            backup.spec.storage_location = name.into();
            let expected = expected.map(|why| {
                format!(
                    "That is not written into the bucket, because {why}: another cluster that has the backup may delete it."
                )
            });
            assert_eq!(unrecorded(&backup, Some(&locations), "may delete it"), expected);
            assert_eq!(unrecorded(&backup, None, "may delete it"), None);
        }
    }

    #[test]
    fn a_backup_can_be_held_that_expiry_alone_asks_to_delete() {
        let mut backup = Backup::default();
        backup.metadata.name = "b".into();
        let mut request = DeleteBackupRequest::default();
        request.spec.backup_name = "b".into();
        assert!(is_going(&backup, std::slice::from_ref(&request)));
        request.metadata.annotations.insert(well_known::ANNOTATION_BY_EXPIRY.into(), "true".into());
        assert!(!is_going(&backup, &[request]));
    }

    #[test]
    fn until_is_a_time_or_how_long_from_now() {
        let now: Timestamp = "2026-11-22T12:00:00.5Z".parse().unwrap();
        for (text, expected) in [
            ("", "held until it is released"),
            ("forever", "held until it is released"),
            ("2027-01-31T01:00:00+01:00", "held until 2027-01-31T00:00:00Z"),
            ("48h", "held until 2026-11-24T12:00:00Z"),
        ] {
            assert_eq!(until(text, now).unwrap().to_string(), expected, "{text}");
        }
        for (text, expected) in [
            ("2026-11-22T11:00:00Z", "--until: 2026-11-22T11:00:00Z is over already"),
            ("-1h", "--until: 2026-11-22T11:00:00Z is over already"),
            ("soon", "--until: \"soon\" is neither a time such as 2027-01-31T00:00:00Z nor a duration such as 720h"),
        ] {
            assert_eq!(until(text, now).unwrap_err().to_string(), expected);
        }
    }
}
