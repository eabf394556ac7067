//! Requests to the server and their answers: files of backups and restores, its version and plugins.

pub(crate) mod archive;
pub(crate) mod artifact;
pub(crate) mod describe;
pub(crate) mod fetch;
pub(crate) mod status;
pub(crate) mod trust;

use anyhow::Result;
use lifeboat_api::Resource;
use lifeboat_client::Client;
use lifeboat_terminal::flags::globals::Globals;
use std::io::Write;

/// A client for the namespace of the globals.
pub(crate) async fn client(globals: &Globals) -> Result<Client> {
    Ok(Client { cluster: globals.connect().await?, namespace: globals.namespace.clone() })
}

/// Prints a warning, if there is one.
pub(crate) fn said(warning: Option<String>) -> std::io::Result<()> {
    warning.map_or(Ok(()), |warning| writeln!(std::io::stderr(), "{warning}"))
}

/// The error of an object that does not exist.
pub(crate) fn missing<T: Resource>(name: &str) -> anyhow::Error {
    anyhow::anyhow!("{}.velero.io \"{name}\" not found", T::PLURAL)
}
