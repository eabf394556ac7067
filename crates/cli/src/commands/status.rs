//! `lifeboat status`: protected and unprotected namespaces and volumes, on one screen.

mod follow;
mod looked;
mod node_agents;
mod rhythm;
mod state;
mod watched;

use crate::resource::Format;
use anyhow::Result;
use clap::Args;
use clap::builder::EnumValueParser;
use jiff::Timestamp;
use lifeboat_lifecycle::coverage::Inventory;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::{self, Optional};
use lifeboat_terminal::output::exit_code::ATTENTION;
use lifeboat_terminal::output::print_resource;
use lifeboat_view::status::{StatusInput, StatusScreen};
use looked::{ServerQuery, ServerReport, inventory, transfers};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Output format of the status.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Show it again when something changes, and every five seconds, until ctrl-c
    #[arg(long)]
    watch: bool,
    /// Show all namespaces; without it ten at most, the worst ones
    #[arg(long)]
    details: bool,
    /// Longest wait for the server's answer
    #[arg(long, value_parser = flags::duration, default_value = "5s", value_name = "DURATION")]
    timeout: lifeboat_api::Duration,
    /// Form of the output
    #[arg(long, short, value_parser = flags::optional(EnumValueParser::<Format>::new()), default_value = "", value_name = "FORM")]
    output: Optional<Format>,
}

/// Longest time for a request of a watch. Until it has failed, the last known state is shown.
const FOLLOWING: lifeboat_api::Duration = lifeboat_api::Duration::from_secs(15);

impl StatusArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let own = match self.watch {
            true => globals.with_requests_within(FOLLOWING).client().await?,
            false => globals.client().await?,
        };
        let asking = ServerQuery::new(globals, self.timeout).await?;
        let program = &globals.program.name;
        if self.watch {
            let show = |known: Result<StatusInput<'_>, String>| match known {
                Ok(view) => self.show(&StatusScreen::of(view, &own.namespace, program, Timestamp::now())),
                Err(why) => self.tell(&why),
            };
            return Box::pin(watched::watch(&own, asking, show)).await.map(|()| ExitCode::SUCCESS);
        }
        let (inventory, report) = tokio::join!(Box::pin(inventory(&own)), Box::pin(asking.ask()));
        let ServerReport { version: server, next_backups } = report;
        let inventory = Inventory { next_backups, ..inventory? };
        let transfers = match transfers(&own, &inventory).await {
            Ok(transfers) => transfers,
            // All else is known.
            Err(why) => {
                writeln!(std::io::stderr(), "note: it is not known how far volumes are that are moved: {why:#}")?;
                Vec::new()
            }
        };
        let status = StatusScreen::of(
            StatusInput { inventory: &inventory, server: &server, transfers: &transfers },
            &own.namespace,
            program,
            Timestamp::now(),
        );
        self.show(&status)?;
        let is_well = status.server.is_ok() && status.coverage.attention.is_empty();
        Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(ATTENTION) })
    }

    fn show(&self, status: &StatusScreen) -> Result<()> {
        if let Some(output) = self.output.and_then(Format::machine) {
            return print_resource(&status.value(), output);
        }
        let mut text = Vec::new();
        status.write(&mut text, self.details)?;
        self.print(&text)
    }

    /// Says why nothing can be shown for now.
    fn tell(&self, why: &str) -> Result<()> {
        let text = format!("The status is not known now: {why}\n");
        // Programs read one document after the other.
        if self.output.and_then(Format::machine).is_some() {
            std::io::stderr().write_all(text.as_bytes())?;
            return Ok(());
        }
        self.print(text.as_bytes())
    }

    fn print(&self, text: &[u8]) -> Result<()> {
        let mut out = std::io::stdout();
        if self.watch && out.is_terminal() {
            // To the upper left corner, and nothing below.
            write!(out, "\x1b[H\x1b[2J")?;
        }
        out.write_all(text)?;
        Ok(out.flush()?)
    }
}
