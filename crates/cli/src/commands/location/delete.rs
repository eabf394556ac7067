//! `lifeboat backup-location delete`.

use crate::resource::{DeleteArgs, chosen, together};
use anyhow::Result;
use lifeboat_api::{Backup, BackupRepository, BackupStorageLocation, label_value, well_known};
use lifeboat_client::ObjectIdentity;
use lifeboat_terminal::flags::globals::Globals;
use std::io::Write;
use std::process::ExitCode;

/// Deletes locations, and what the cluster knows of what lies there.
pub(crate) async fn delete(args: &DeleteArgs, globals: &Globals) -> Result<ExitCode> {
    let client = globals.client().await?;
    let Some((found, mut errors)) = chosen::<BackupStorageLocation>(args, &client, |_| Vec::new()).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    let mut out = std::io::stdout();
    if found.is_empty() {
        writeln!(out, "No backup-locations found")?;
        return Ok(ExitCode::SUCCESS);
    }
    for location in &found {
        let name = &location.metadata.name;
        if let Err(e) = client.delete_exactly::<BackupStorageLocation>(&ObjectIdentity::of(&location.metadata)).await {
            errors.push(e.into());
            continue;
        }
        writeln!(out, "Backup storage location \"{name}\" deleted successfully.")?;
        let label = format!("{}={}", well_known::LABEL_STORAGE_LOCATION, label_value(name));
        for backup in client.list::<Backup>(&label).await? {
            let name = &backup.metadata.name;
            match client.delete::<Backup>(name).await {
                Ok(_) => writeln!(out, "Backup associated with deleted BSL(s) \"{name}\" deleted successfully.")?,
                Err(e) => errors.push(e.into()),
            }
        }
        for repository in client.list::<BackupRepository>(&label).await? {
            let name = &repository.metadata.name;
            match client.delete::<BackupRepository>(name).await {
                Ok(_) => {
                    writeln!(out, "Backup repository associated with deleted BSL(s) \"{name}\" deleted successfully.")?;
                }
                Err(e) => errors.push(e.into()),
            }
        }
    }
    together(errors)
}
