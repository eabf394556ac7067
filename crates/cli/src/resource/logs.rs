//! `lifeboat backup logs` and `restore logs`.

use super::Operation;
use anyhow::{Result, bail};
use clap::Args;
use lifeboat_api::{DownloadTargetKind, Duration};
use lifeboat_requests::artifact::{Downloads, artifact};
use lifeboat_requests::trust::TrustArgs;
use lifeboat_terminal::flags;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::errors::tell;
use std::io::{self, Write};
use std::process::ExitCode;

/// Whose log.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Its name
    name: String,
    /// Longest wait for the server, and for each part of the download
    #[arg(long, value_parser = flags::duration, default_value = "1m0s", value_name = "DURATION")]
    timeout: Duration,
    #[command(flatten)]
    trust: TrustArgs,
}

impl LogsArgs {
    /// Prints the log of an operation that has one by now.
    pub(crate) async fn run<T: Operation>(self, kind: DownloadTargetKind, globals: &Globals) -> Result<ExitCode> {
        let (word, name) = (T::WORD, &self.name);
        let client = globals.client().await?;
        let Some(found) = client.get::<T>(name).await? else { bail!("{word} {name:?} does not exist") };
        if !found.has_log() {
            bail!(
                "logs for {word} {name:?} are not available until it has been processed; its phase is {}",
                found.phase_word()
            );
        }
        let timeout = self.timeout.to_std();
        let (downloads, warning) = Downloads::new(&client, globals, &self.trust, found.backup_name(), timeout).await?;
        tell(warning)?;
        let Some(log) = artifact(&downloads, kind, name).await? else {
            bail!("the log of {word} {name:?} is not in its storage location");
        };
        let mut out = io::stdout().lock();
        match io::copy(&mut log.reader(), &mut out).and_then(|_| out.flush()) {
            // The program that reads our output has seen enough.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
            other => other.map(|()| ExitCode::SUCCESS).map_err(Into::into),
        }
    }
}
