//! `lifeboat backup delete`.

use crate::resource::expiry::lists;
use crate::resource::{DeleteArgs, delete, of_which, together};
use anyhow::{Result, bail};
use clap::Args;
use jiff::Timestamp;
use lifeboat_api::{Backup, DeleteBackupRequest, Restore, label_value, well_known};
use lifeboat_backup::unbound_claims;
use lifeboat_client::Client;
use lifeboat_lifecycle::phase::backup_expiry::ExpiryInput;
use lifeboat_lifecycle::phase::hold::Hold;
use lifeboat_lifecycle::phase::request::{
    check_deletion, claims_may_need, reads, refusal_for_claims, refusal_for_restore,
};
use lifeboat_object::first_names;
use lifeboat_terminal::flags::globals::Globals;
use std::io::Write;
use std::process::ExitCode;

/// Backups to be deleted.
#[derive(Debug, Args)]
pub(crate) struct BackupDeleteArgs {
    #[command(flatten)]
    delete: DeleteArgs,
    /// Only say what would be deleted, and what would be refused and why
    #[arg(long)]
    dry_run: bool,
    /// Let the deletion wait for restores that read the backup, and for claims from its snapshots that have no volume yet, instead of
    /// refusing it
    #[arg(long)]
    wait_for_restores: bool,
}

impl BackupDeleteArgs {
    pub(crate) async fn run(mut self, globals: &Globals) -> Result<ExitCode> {
        self.delete.waits_for_restores = self.wait_for_restores;
        if !self.dry_run {
            return delete::<Backup>(&self.delete, globals).await;
        }
        let client = globals.client().await?;
        self.delete.which.is_one_way()?;
        let (found, errors) = of_which::<Backup>(&self.delete.which, &client).await?;
        let lists = lists(&client).await?;
        for backup in &found {
            let name = &backup.metadata.name;
            let users = Users { restores: readers(&lists.restores, name), claims: claims(&client, backup).await? };
            let said = users.deletion(name, self.wait_for_restores);
            let said = said.and_then(|when| would_be_deleted(backup, &lists, &when, Timestamp::now()));
            let said = said.unwrap_or_else(|why| format!("Backup {name} would not be deleted: {why}"));
            writeln!(std::io::stdout(), "{said}")?;
        }
        together(errors)
    }
}

/// Restores and claims that need a backup.
struct Users<'a> {
    /// Restores that read it.
    restores: Vec<&'a str>,
    /// Claims that were restored from its snapshots and have no volume yet.
    claims: Vec<String>,
}

impl Users<'_> {
    /// When the deletion of their backup would begin, as the end of "would be deleted"; empty for at once.
    ///
    /// # Errors
    /// Returns the reason why it would be refused.
    fn deletion(&self, backup: &str, waits: bool) -> Result<String, String> {
        match (self.restores.first(), waits) {
            (Some(reader), false) => return Err(refusal_for_restore(backup, reader)),
            (None, false) if !self.claims.is_empty() => return Err(refusal_for_claims(backup, &self.claims)),
            _ => {}
        }
        let mut ends = Vec::new();
        match &self.restores[..] {
            [] => {}
            [one] => ends.push(format!("restore {one} has ended")),
            some => ends.push(format!("the restores {} have ended", first_names(some))),
        }
        match &self.claims[..] {
            [] => {}
            [one] => ends.push(format!("claim {one} has a volume")),
            some => ends.push(format!("the claims {} have volumes", first_names(some))),
        }
        Ok(if ends.is_empty() { String::new() } else { format!(" when {}", ends.join(" and ")) })
    }
}

/// The claims that need a backup. Where they cannot be listed, a message says so, and none are returned.
async fn claims(client: &Client, backup: &Backup) -> Result<Vec<String>> {
    if !claims_may_need(backup) {
        return Ok(Vec::new());
    }
    let name = &backup.metadata.name;
    let claims = unbound_claims(&client.cluster, name).await;
    if let Err(why) = &claims {
        let warning = "Warning: it is not known whether claims still need the snapshots of backup";
        writeln!(std::io::stderr(), "{warning} {name}: {why}")?;
    }
    Ok(claims.unwrap_or_default())
}

/// Describes the deletion of a backup that would begin then.
///
/// # Errors
/// Returns the reason why it would be refused.
fn would_be_deleted(backup: &Backup, lists: &ExpiryInput, when: &str, now: Timestamp) -> Result<String, String> {
    let (name, status) = (&backup.metadata.name, &backup.status);
    let location = check_deletion(backup, lists.location_of(backup), now)?;
    let mut parts = vec![format!("its files in location {}", location.metadata.name)];
    let snapshots = status.volume_snapshots_attempted + status.csi_volume_snapshots_attempted;
    if snapshots > 0 {
        parts.push(format!("its snapshots, {snapshots} at most"));
    }
    let restores = lists.restores.iter().filter(|restore| restore.spec.backup_name == *name);
    let restores: Vec<&str> = restores.map(|restore| restore.metadata.name.as_str()).collect();
    if !restores.is_empty() {
        parts.push(format!("the records of its restores: {}", restores.join(", ")));
    }
    Ok(format!("Backup {name} would be deleted{when}, with {}", parts.join("; ")))
}

/// The restores that read a backup.
fn readers<'r>(restores: &'r [Restore], backup: &str) -> Vec<&'r str> {
    let readers = restores.iter().filter(|restore| reads(restore, backup));
    readers.map(|restore| restore.metadata.name.as_str()).collect()
}

/// Requests the deletion of a backup, which may wait for restores that need it.
///
/// # Errors
/// When the server would refuse it, or it cannot be asked for.
pub(crate) async fn request_deletion(client: &Client, backup: &Backup, waits_for_restores: bool) -> Result<()> {
    // The server refuses it as well.
    if let Some(hold) = Hold::at(&backup.metadata, Timestamp::now()) {
        bail!("{}", hold.refusal(&backup.metadata.name));
    }
    let mut request = DeleteBackupRequest::default();
    if waits_for_restores {
        let waits = (well_known::ANNOTATION_WAIT_FOR_RESTORES.to_owned(), "true".to_owned());
        request.metadata.annotations = [waits].into();
    } else if let Some(reader) = readers(&client.list::<Restore>("").await?, &backup.metadata.name).first() {
        bail!("{}", refusal_for_restore(&backup.metadata.name, reader));
    }
    request.metadata.generate_name = format!("{}-", backup.metadata.name);
    request.metadata.namespace.clone_from(&client.namespace);
    request.metadata.labels = [
        (well_known::LABEL_BACKUP_NAME.to_owned(), label_value(&backup.metadata.name)),
        (well_known::LABEL_BACKUP_UID.to_owned(), backup.metadata.uid.clone()),
    ]
    .into();
    request.spec.backup_name.clone_from(&backup.metadata.name);
    for _ in 0..8 {
        // The server made up a name that is taken: it makes up another one.
        if client.create(&backup.metadata.name, &request).await?.is_some() {
            return Ok(());
        }
    }
    bail!("a request to delete backup {} could not be made: its names are taken", backup.metadata.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::{BackupStorageLocation, BackupStorageLocationPhase};

    #[test]
    fn a_backup_that_names_no_location_would_be_deleted_in_the_default_one() {
        let mut backup = Backup::default();
        backup.metadata.name = "b".into();
        let mut location = BackupStorageLocation::default();
        location.metadata.name = "main".into();
        location.status.phase = Some(BackupStorageLocationPhase::Available);
        let mut lists = ExpiryInput { locations: vec![location], ..ExpiryInput::default() };
        let would =
            |lists: &ExpiryInput| would_be_deleted(&backup, lists, " when restore r has ended", Timestamp::UNIX_EPOCH);
        assert_eq!(
            would(&lists).unwrap_err(),
            "the backup names no backup storage location, and there is no default location (mark one with \
             `backup-location set NAME --default`)"
        );
        lists.locations[0].spec.default = true;
        let expected = "Backup b would be deleted when restore r has ended, with its files in location main";
        assert_eq!(would(&lists).unwrap(), expected);
    }

    #[test]
    fn a_trial_of_a_deletion_says_who_needs_the_backup_and_when_it_would_go() {
        let claims = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        let (reads, needs) =
            (refusal_for_restore("b", "r"), refusal_for_claims("b", &claims(&["shop/data", "shop/logs"])));
        for (restores, of, refused, waits) in [
            (vec![], vec![], Ok(String::new()), ""),
            (vec!["r"], vec![], Err(reads.clone()), " when restore r has ended"),
            (vec!["r", "s"], vec![], Err(reads.clone()), " when the restores r, s have ended"),
            (
                vec![],
                claims(&["shop/data", "shop/logs"]),
                Err(needs),
                " when the claims shop/data, shop/logs have volumes",
            ),
            (
                vec!["r"],
                claims(&["shop/data"]),
                Err(reads),
                " when restore r has ended and claim shop/data has a volume",
            ),
        ] {
            let users = Users { restores, claims: of };
            assert_eq!(users.deletion("b", false), refused);
            assert_eq!(users.deletion("b", true).as_deref(), Ok(waits));
        }
    }
}
