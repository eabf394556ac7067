//! The versions of this program and of the server, as text.

use crate::status::server_status;
use anyhow::Result;
use lifeboat_api::Duration;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::process::program::{COMMIT, VERSION};
use std::fmt::Write as _;

/// Default time to wait for the server.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the versions of this program and of the server, for which it waits that long.
pub async fn versions_with_server(globals: &Globals, patience: Duration) -> String {
    versions(Some(&server(globals, patience).await))
}

/// The server's version, or why it is not known.
async fn server(globals: &Globals, patience: Duration) -> Result<String> {
    let client = globals.with_requests_within(patience).client().await?;
    Ok(server_status(&client, patience.to_std()).await?.server_version)
}

/// Returns the version of this program, and that of the server when it was asked.
pub fn versions(server: Option<&Result<String>>) -> String {
    let mut out = format!("Client:\n\tVersion: {VERSION}\n\tGit commit: {COMMIT}\n");
    match server {
        None => {}
        Some(Err(e)) => {
            let _ = writeln!(out, "<error getting server version: {e:#}>");
        }
        Some(Ok(version)) => {
            let _ = writeln!(out, "Server:\n\tVersion: {version}");
            out.push_str(&mismatch(VERSION, version));
        }
    }
    out
}

/// Returns a hint when major or minor version differ; an empty text when they do not, or one of them is no version.
fn mismatch(client: &str, server: &str) -> String {
    let (Some(ours), Some(theirs)) = (minor(client), minor(server)) else { return String::new() };
    if ours == theirs {
        return String::new();
    }
    let older = if ours < theirs { "client" } else { "server" };
    format!("# WARNING: the client version does not match the server version. Please update {older}\n")
}

/// Major and minor version.
fn minor(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.strip_prefix('v')?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_veleros_form() {
        let client = format!("Client:\n\tVersion: {VERSION}\n\tGit commit: {COMMIT}\n");
        assert_eq!(versions(None), client);
        let same = versions(Some(&Ok(VERSION.to_owned())));
        assert_eq!(same, format!("{client}Server:\n\tVersion: {VERSION}\n"));
        let away = versions(Some(&Err(anyhow::anyhow!("it is away").context("ask"))));
        assert_eq!(away, format!("{client}<error getting server version: ask: it is away>\n"));
    }

    #[test]
    fn who_is_older_is_to_be_updated() {
        let warning = |who: &str| {
            format!("# WARNING: the client version does not match the server version. Please update {who}\n")
        };
        for (client, server, expected) in [
            ("v1.18.2", "v1.18.0-rc.1", String::new()),
            ("v1.18.2", "v1.19.0", warning("client")),
            ("v2.0.0", "v1.19.0", warning("server")),
            ("v1.18.2", "main", String::new()),
        ] {
            assert_eq!(mismatch(client, server), expected, "{client} {server}");
        }
    }
}
