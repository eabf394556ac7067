//! Resources as JSON and YAML on standard output.

pub(crate) mod describe;
pub(crate) mod difference;
pub(crate) mod errors;
pub(crate) mod exit_code;
pub(crate) mod log;
pub(crate) mod preview;
pub(crate) mod progress;
pub(crate) mod results;
pub(crate) mod retention;
pub(crate) mod sentence;
pub(crate) mod table;
pub(crate) mod yaml;

use clap::ValueEnum;
use std::io::Write;

/// `-o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// The resource as JSON
    Json,
    /// The resource as YAML
    Yaml,
}

/// Prints a resource.
pub(crate) fn print_resource<T: serde::Serialize>(resource: &T, output: Output) -> anyhow::Result<()> {
    let text = match output {
        Output::Json => serde_json::to_string_pretty(resource)?,
        Output::Yaml => yaml::print(&serde_json::to_value(resource)?)?,
    };
    writeln!(std::io::stdout(), "{}", text.trim_end())?;
    Ok(())
}
