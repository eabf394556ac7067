//! `lifeboat backup-location create|get|set|delete`.

use super::change::change;
use super::table::time;
use super::{DeleteArgs, GetArgs, OutputArgs, TableKind, chosen, client, create, find, show, together};
use crate::flags::{self, KeyValuePairs, Optional};
use crate::globals::Globals;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use lifeboat_api::{
    Backup, BackupRepository, BackupStorageLocation, BackupStorageLocationAccessMode, BackupStorageLocationPhase,
    Duration, ObjectMeta, SecretKeySelector, label_value, well_known,
};
use lifeboat_client::{Client, ObjectIdentity};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Work with storage locations.
#[derive(Debug, Subcommand)]
pub(crate) enum LocationCommand {
    /// Make a storage location
    Create(Box<LocationCreateArgs>),
    /// List storage locations
    Get(LocationGetArgs),
    /// Change a storage location
    Set(SetArgs),
    /// Delete storage locations, and the backups and repositories in the cluster that lie there; the bucket stays
    Delete(DeleteArgs),
}

/// A location to be made.
#[derive(Debug, Args)]
pub(crate) struct LocationCreateArgs {
    /// Its name
    name: String,
    /// Provider of the storage, such as aws or lifeboat.io/directory
    #[arg(long, value_name = "NAME")]
    provider: String,
    /// The bucket
    #[arg(long, value_name = "NAME")]
    bucket: String,
    /// Prefix of all keys in the bucket
    #[arg(long, default_value = "", value_name = "PREFIX")]
    prefix: String,
    /// The Secret with the credentials and its key
    #[arg(long, value_parser = flags::pairs, value_name = "SECRET=KEY")]
    credential: Vec<KeyValuePairs>,
    /// Use it for backups that name no location
    #[arg(long)]
    default: bool,
    /// Interval at which the Backups of the cluster are brought in line with the bucket; 0 for never
    #[arg(long, value_parser = flags::duration, value_name = "DURATION")]
    backup_sync_period: Option<Duration>,
    /// Interval at which it is validated; 0 for once
    #[arg(long, value_parser = flags::duration, value_name = "DURATION")]
    validation_frequency: Option<Duration>,
    /// Settings of the provider
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    config: Vec<KeyValuePairs>,
    /// Labels for the location
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    labels: Vec<KeyValuePairs>,
    /// A file with certificates (PEM) to trust
    #[arg(long, value_parser = flags::path, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Access to the location; no backups are written to one that is read only
    #[arg(long, value_enum, default_value_t = AccessMode::ReadWrite)]
    access_mode: AccessMode,
    #[command(flatten)]
    show: OutputArgs,
}

/// Which locations to list.
#[derive(Debug, Args)]
pub(crate) struct LocationGetArgs {
    #[command(flatten)]
    which: GetArgs,
    /// Only the default one
    #[arg(long)]
    default: bool,
}

/// Settings to change of a location.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Its name
    name: String,
    /// A file with certificates (PEM) to trust; an empty name removes those that are set
    #[arg(long, value_parser = flags::path, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// The Secret with the credentials and its key
    #[arg(long, value_parser = flags::pairs, value_name = "SECRET=KEY")]
    credential: Vec<KeyValuePairs>,
    /// Use it for backups that name no location
    #[arg(long, default_value = "")]
    default: Optional<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum AccessMode {
    ReadWrite,
    ReadOnly,
}

impl LocationCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Create(args) => args.run(globals).await,
            Self::Get(args) => args.run(globals).await,
            Self::Set(args) => args.run(globals).await,
            Self::Delete(args) => delete(&args, globals).await,
        }
    }
}

impl LocationGetArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let mut found: Vec<BackupStorageLocation> = find(&self.which, &client(globals).await?).await?;
        found.retain(|location| location.spec.default || !self.default);
        show(&found, &self.which.show)
    }
}

impl LocationCreateArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let client = client(globals).await?;
        let location = self.location(globals)?;
        if self.default {
            refuse_second_default(&client, &self.name).await?;
        }
        if create(&client, &location, &self.show).await? {
            writeln!(std::io::stdout(), "Backup storage location \"{}\" configured successfully.", self.name)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn location(&self, globals: &Globals) -> Result<BackupStorageLocation> {
        if self.backup_sync_period.is_some_and(|period| period.nanoseconds() < 0) {
            bail!("--backup-sync-period must be non-negative");
        }
        let mut location = BackupStorageLocation::default();
        location.metadata.name.clone_from(&self.name);
        location.metadata.namespace.clone_from(&globals.namespace);
        location.metadata.labels = flags::merged(&self.labels);
        let spec = &mut location.spec;
        spec.provider.clone_from(&self.provider);
        spec.object_storage.bucket.clone_from(&self.bucket);
        spec.object_storage.prefix.clone_from(&self.prefix);
        if let Some(file) = &self.cacert {
            spec.object_storage.ca_cert = certificates(file)?;
        }
        spec.credential = credential(&self.credential)?;
        spec.default = self.default;
        spec.backup_sync_period = self.backup_sync_period;
        spec.validation_frequency = self.validation_frequency;
        spec.config = flags::merged(&self.config);
        spec.access_mode = Some(match self.access_mode {
            AccessMode::ReadWrite => BackupStorageLocationAccessMode::ReadWrite,
            AccessMode::ReadOnly => BackupStorageLocationAccessMode::ReadOnly,
        });
        Ok(location)
    }
}

/// The certificates of a file, as a location holds them; nothing for no file.
fn certificates(file: &Path) -> Result<String> {
    use base64::Engine;
    if file.as_os_str().is_empty() {
        return Ok(String::new());
    }
    let pem = std::fs::read(file).with_context(|| format!("read --cacert {}", file.display()))?;
    Ok(base64::engine::general_purpose::STANDARD.encode(pem))
}

pub(super) fn credential(given: &[KeyValuePairs]) -> Result<Option<SecretKeySelector>> {
    let mut pairs = flags::merged(given).into_iter();
    let first = pairs.next().map(|(name, key)| SecretKeySelector { name, key, ..SecretKeySelector::default() });
    if pairs.next().is_some() {
        bail!("--credential can only contain 1 key/value pair");
    }
    Ok(first)
}

/// Only one location can be the default.
async fn refuse_second_default(client: &Client, name: &str) -> Result<()> {
    let all: Vec<BackupStorageLocation> = client.list("").await?;
    match all.iter().find(|location| location.spec.default && location.metadata.name != name) {
        Some(other) => bail!("there is already a default backup storage location: {}", other.metadata.name),
        None => Ok(()),
    }
}

impl SetArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let client = client(globals).await?;
        let ca_cert = self.cacert.as_deref().map(certificates).transpose()?;
        let credential = credential(&self.credential)?;
        if *self.default == Some(true) {
            refuse_second_default(&client, &self.name).await?;
        }
        let (_, is_changed) = change(&client, &self.name, "configured", |before: &BackupStorageLocation| {
            let mut after = before.clone();
            let spec = &mut after.spec;
            if let Some(ca_cert) = &ca_cert {
                spec.object_storage.ca_cert.clone_from(ca_cert);
                // The API takes one of the two only.
                spec.object_storage.ca_cert_ref = None;
            }
            spec.credential = credential.clone().or(spec.credential.take());
            spec.default = self.default.unwrap_or(spec.default);
            let is_default_already = after == *before && *self.default == Some(true);
            Ok((!is_default_already).then_some(after))
        })
        .await?;
        let what = if is_changed { "configured successfully" } else { "is the default already" };
        writeln!(std::io::stdout(), "Backup storage location \"{}\" {what}.", self.name)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Deletes locations, and what the cluster knows of what lies there.
async fn delete(args: &DeleteArgs, globals: &Globals) -> Result<ExitCode> {
    let client = client(globals).await?;
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

impl TableKind for BackupStorageLocation {
    const COLUMNS: &'static [&'static str] =
        &["NAME", "PROVIDER", "BUCKET/PREFIX", "PHASE", "LAST VALIDATED", "ACCESS MODE", "DEFAULT"];

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn cells(&self, _: Timestamp) -> Vec<String> {
        let (spec, status) = (&self.spec, &self.status);
        let storage = &spec.object_storage;
        let slash = if storage.prefix.is_empty() { "" } else { "/" };
        vec![
            self.metadata.name.clone(),
            spec.provider.clone(),
            format!("{}{slash}{}", storage.bucket, storage.prefix),
            status.phase.map_or("Unknown", BackupStorageLocationPhase::as_str).to_owned(),
            status.last_validation_time.map_or_else(|| "Unknown".to_owned(), |at| time(Some(at))),
            spec.access_mode.map_or("ReadWrite", BackupStorageLocationAccessMode::as_str).to_owned(),
            if spec.default { "true".to_owned() } else { String::new() },
        ]
    }
}
