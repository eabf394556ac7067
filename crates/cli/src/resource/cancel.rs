//! `lifeboat backup|restore cancel`: ends an operation that runs or is queued (`spec.cancel`, an addition of ours).

use super::change::change;
use super::{Operation, together, wait};
use anyhow::{Result, bail};
use clap::Args;
use lifeboat_client::Client;
use lifeboat_terminal::flags::globals::Globals;
use std::io::Write;
use std::process::ExitCode;

/// Operations to cancel.
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// Names
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Wait until they have ended, which takes seconds
    #[arg(long, short)]
    wait: bool,
}

/// An operation that can be ended before its time.
pub(crate) trait Cancellable: Operation {
    fn cancel(&mut self);

    fn is_cancelled(&self) -> bool;

    /// The reason of the failure.
    fn reason(&self) -> &str;
}

impl CancelArgs {
    pub(crate) async fn run<T: Cancellable>(self, globals: &Globals) -> Result<ExitCode> {
        let client = globals.client().await?;
        let (word, title) = (T::WORD, T::TITLE);
        let mut out = std::io::stdout();
        let (mut sent, mut errors) = (Vec::new(), Vec::new());
        for name in &self.names {
            match cancel::<T>(&client, name, &globals.program.name).await {
                Ok(None) => {
                    writeln!(out, "Request to cancel {word} \"{name}\" submitted successfully.")?;
                    sent.push(name);
                }
                Ok(Some(phase)) => writeln!(out, "{title} \"{name}\" has ended already: {phase}.")?,
                Err(e) => errors.push(e),
            }
        }
        for name in sent.into_iter().filter(|_| self.wait) {
            let phase = wait::<T>(&client, name).await?;
            let reason = client.get::<T>(name).await?.map_or_else(String::new, |found| found.reason().to_owned());
            let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
            writeln!(out, "{title} \"{name}\" ended with status: {phase}{reason}.")?;
        }
        together(errors)
    }
}

/// Sets the field; the phase of an operation that has ended without it.
async fn cancel<T: Cancellable>(client: &Client, name: &str, program: &str) -> Result<Option<&'static str>> {
    let (found, is_sent) = change(client, name, "cancelled", |found: &T| {
        let mut after = found.clone();
        after.cancel();
        Ok(found.ended().is_none().then_some(after))
    })
    .await?;
    if !is_sent {
        return Ok(found.ended());
    }
    if !found.is_cancelled() {
        bail!(
            "{} \"{name}\" cannot be cancelled: the cluster's definition of {} has no spec.cancel; run `{program} install --crds-only --apply`",
            T::WORD,
            T::PLURAL
        );
    }
    Ok(None)
}
