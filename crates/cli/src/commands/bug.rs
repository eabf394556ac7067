//! `lifeboat bug`: template of a bug report with the versions filled in (cli-and-install.md 1.8).

use crate::commands::version::PATIENCE;
use anyhow::{Context, Result, bail};
use clap::Args;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::process::program::{COMMIT, VERSION};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::io::Write;
use std::process::{ExitCode, Stdio};
use tokio::process::Command;

/// URL for a new report, when the build sets it; it takes `body`.
const TRACKER: Option<&str> = option_env!("LIFEBOAT_NEW_ISSUE_URL");

/// No flags of its own.
#[derive(Debug, Args)]
pub(crate) struct BugArgs {}

impl BugArgs {
    /// Prints the report; opens it in the browser where the build knows the tracker.
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let cluster = match cluster_version(globals).await {
            Ok(version) => version,
            Err(e) => {
                writeln!(std::io::stderr(), "WARNING: unable to get the version of the cluster: {e:#}")?;
                "<UNKNOWN>".to_owned()
            }
        };
        let features = globals.features.clone().unwrap_or_default();
        let text = report(&globals.program.name, &features, &cluster);
        write!(std::io::stdout(), "{text}")?;
        if let Some(tracker) = TRACKER {
            open(&url(tracker, &text)).await?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The version of the cluster that the flags name.
async fn cluster_version(globals: &Globals) -> Result<String> {
    let cluster = globals.with_requests_within(PATIENCE).connect().await?;
    Ok(cluster.version().await?.git_version)
}

/// Fills the template of a bug report with the facts that are known already.
fn report(program: &str, features: &str, cluster: &str) -> String {
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    let features = if features.is_empty() { "<NOT SET>" } else { features };
    format!(
        "**What steps did you take and what happened:**\n\n\n\
         **What did you expect to happen:**\n\n\n\
         **The output of this command will help us to understand what is going on:**\n\
         `{program} debug --backup <backup> --restore <restore>`: attach the file that it writes. Secrets are removed from it; look \
         through it before you send it.\n\n\
         **Environment:**\n\n\
         - Version (`{program} version`): {VERSION}, commit {COMMIT}\n\
         - Features (`{program} client config get features`): {features}\n\
         - This program runs on: {system}/{machine}\n\
         - Kubernetes version: {cluster}\n\
         - Kubernetes installer and version:\n\
         - Cloud provider or hardware:\n\
         - Storage (CSI driver, object store):\n"
    )
}

fn url(tracker: &str, body: &str) -> String {
    let between = if tracker.contains('?') { '&' } else { '?' };
    format!("{tracker}{between}body={}", utf8_percent_encode(body, NON_ALPHANUMERIC))
}

async fn open(url: &str) -> Result<()> {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let hint =
        || format!("open the report in the browser with {opener}: copy the text above into a new report instead");
    let status = Command::new(opener).arg(url).stdin(Stdio::null()).status().await.with_context(hint)?;
    if !status.success() {
        bail!("{}: {opener} ended with {status}", hint());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_versions_and_a_url_takes_it_whole() {
        let text = report("velero", "", "v1.34.4");
        assert!(text.contains(&format!("(`velero version`): {VERSION}, commit {COMMIT}\n")), "{text}");
        assert!(text.contains("get features`): <NOT SET>\n"), "{text}");
        assert!(text.contains("Kubernetes version: v1.34.4\n"), "{text}");
        let url = url("https://tracker.example/new?labels=bug", "a b&c\n");
        assert_eq!(url, "https://tracker.example/new?labels=bug&body=a%20b%26c%0A");
    }
}
