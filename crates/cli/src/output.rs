//! Resources as JSON and YAML on standard output.

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
        Output::Yaml => crate::yaml::print(&serde_json::to_value(resource)?)?,
    };
    writeln!(std::io::stdout(), "{}", text.trim_end())?;
    Ok(())
}
