//! `lifeboat plugin get`.

use crate::resource::Format;
use anyhow::Result;
use clap::Args;
use clap::builder::EnumValueParser;
use lifeboat_api::{Duration, PluginInfo};
use lifeboat_requests::status::server_status;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::{self, Optional};
use lifeboat_terminal::output::print_resource;
use lifeboat_terminal::output::table::{Labels, print};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

/// Flags of the list of plugins.
#[derive(Debug, Args)]
pub(crate) struct PluginGetArgs {
    /// Longest wait for the server's answer
    #[arg(long, value_parser = flags::duration, default_value = "5s", value_name = "DURATION")]
    timeout: Duration,
    /// Form of the output
    #[arg(long, short, value_parser = flags::optional(EnumValueParser::<Format>::new()), default_value = "", value_name = "FORM")]
    output: Optional<Format>,
}

impl PluginGetArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let asked = async {
            let client = globals.with_requests_within(self.timeout).client().await?;
            server_status(&client, self.timeout.to_std()).await
        };
        let mut out = std::io::stdout();
        let mut plugins = match asked.await {
            Ok(status) => status.plugins,
            Err(e) => {
                // compat: on standard output and with 0, as Velero.
                writeln!(out, "<error getting plugin information: {e:#}>")?;
                return Ok(ExitCode::SUCCESS);
            }
        };
        plugins.sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
        match self.output.and_then(Format::machine) {
            Some(output) => {
                print_resource(&document(&plugins), output)?;
                // compat: an empty line at the end, as in Velero.
                writeln!(out)?;
            }
            None => {
                let none = BTreeMap::new();
                let rows = plugins.into_iter().map(|plugin| (vec![plugin.name, plugin.kind], &none));
                print(&mut out, &["NAME", "KIND"], rows, &Labels { columns: &[], all: false })?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The answer of a server, as the object in which it comes.
fn document(plugins: &[PluginInfo]) -> Value {
    json!({"apiVersion": "velero.io/v1", "kind": "ServerStatusRequest", "metadata": {},
        "status": {"plugins": plugins}})
}
