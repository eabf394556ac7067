//! `lifeboat backup-location set`.

use super::create::{certificates, credential, refuse_second_default};
use crate::resource::change::change;
use anyhow::Result;
use clap::Args;
use lifeboat_api::BackupStorageLocation;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::{self, KeyValuePairs, Optional};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

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

impl SetArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let client = globals.client().await?;
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
