//! `lifeboat bug`: template of a bug report with the versions filled in (velero: pkg/cmd/cli).

use anyhow::{Context, Result, bail};
use clap::Args;
use lifeboat_requests::version::PATIENCE;
use lifeboat_support::bug_report::{report, url};
use lifeboat_terminal::flags::globals::Globals;
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
