//! Resources as JSON and YAML on standard output.

pub mod difference;
pub mod errors;
pub mod exit_code;
pub mod log;
pub mod progress;
pub mod results;
pub mod retention;
mod sentence;
pub mod table;
pub mod yaml;

use clap::ValueEnum;
use std::io::Write;

/// `-o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// The resource as JSON
    Json,
    /// The resource as YAML
    Yaml,
}

/// A number of bytes for people.
pub fn size_text(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) => {
            let unit_size = 1_u64 << shift;
            format!("{}.{} {unit}", bytes / unit_size, bytes % unit_size * 10 / unit_size)
        }
        None => format!("{bytes} bytes"),
    }
}

/// Prints a resource.
pub fn print_resource<T: serde::Serialize>(resource: &T, output: Output) -> anyhow::Result<()> {
    let text = match output {
        Output::Json => serde_json::to_string_pretty(resource)?,
        Output::Yaml => yaml::print(&serde_json::to_value(resource)?)?,
    };
    writeln!(std::io::stdout(), "{}", text.trim_end())?;
    Ok(())
}
