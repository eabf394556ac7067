//! `lifeboat client config get|set`: the defaults of flags (velero: pkg/client/config.go).

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::process::program::Config;
use serde_json::Value;
use std::io::Write;
use std::process::ExitCode;

/// Work with the client.
#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    /// Read and write the client config file
    #[command(subcommand)]
    Config(ConfigCommand),
}

/// Read and write the client config file.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print values
    Get(ConfigGetArgs),
    /// Change values; an empty one is removed
    Set(ConfigSetArgs),
}

/// Which values to print.
#[derive(Debug, Args)]
pub(crate) struct ConfigGetArgs {
    /// Keys; all when left out
    keys: Vec<String>,
}

/// Settings to change.
#[derive(Debug, Args)]
pub(crate) struct ConfigSetArgs {
    /// Keys with their values
    #[arg(required = true, value_name = "KEY=VALUE")]
    pairs: Vec<String>,
}

impl ClientCommand {
    pub(crate) fn run(self, globals: &Globals) -> Result<ExitCode> {
        let path = globals.program.config_path.as_deref().context("there is no home for a config file: set HOME")?;
        let mut config = Config::read(path)?;
        match self {
            Self::Config(ConfigCommand::Get(args)) => write!(std::io::stdout(), "{}", shown(&config, args.keys))?,
            Self::Config(ConfigCommand::Set(args)) => {
                for wrong in change(&mut config, &args.pairs) {
                    writeln!(std::io::stderr(), "WARNING: invalid KEY=VALUE: {wrong:?}")?;
                }
                config.write(path)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn shown(config: &Config, mut keys: Vec<String>) -> String {
    if keys.is_empty() {
        keys.extend(config.0.keys().cloned());
    }
    let line = |key: &String| match config.0.get(key) {
        None => format!("{key}: <NOT SET>\n"),
        Some(Value::String(text)) => format!("{key}: {text}\n"),
        Some(other) => format!("{key}: {other}\n"),
    };
    keys.iter().map(line).collect()
}

/// Makes the changes; gives what is no pair.
fn change<'a>(config: &mut Config, pairs: &'a [String]) -> Vec<&'a str> {
    let mut wrong = Vec::new();
    for pair in pairs {
        match pair.split('=').collect::<Vec<_>>()[..] {
            [key, ""] => drop(config.0.remove(key)),
            [key, value] => drop(config.0.insert(key.to_owned(), Value::String(value.to_owned()))),
            _ => wrong.push(pair.as_str()),
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_set_removed_and_shown() {
        let mut config = Config::default();
        let pairs = ["b=2", "a=1", "c=3", "c=", "nothing", "x=y=z"].map(String::from);
        assert_eq!(change(&mut config, &pairs), ["nothing", "x=y=z"]);
        config.0.insert("n".into(), serde_json::json!(7));
        assert_eq!(shown(&config, Vec::new()), "a: 1\nb: 2\nn: 7\n");
        assert_eq!(shown(&config, vec!["b".into(), "none".into()]), "b: 2\nnone: <NOT SET>\n");
    }
}
