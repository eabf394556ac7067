//! `lifeboat completion bash|zsh|fish`, and the answers to what those shells ask: names of objects that are there now.

use crate::command::{Globals, Lifeboat};
use crate::program::Program;
use anyhow::{Context, Result};
use clap::{Args, Command, Parser, ValueEnum};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use lifeboat_api::{Backup, BackupStorageLocation, Resource, Restore, Schedule};
use lifeboat_control::{Client, Object};
use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// How long a shell waits for names.
const PATIENCE: Duration = Duration::from_secs(3);
/// Tells the process that a shell asks.
const VARIABLE: &str = "LIFEBOAT_COMPLETE";

/// Where names of objects stand on a command line: the command, its argument, and the kind.
const NAMES: [(&[&str], &str, &str); 27] = [
    (&["backup", "get"], "names", Backup::KIND),
    (&["backup", "describe"], "names", Backup::KIND),
    (&["backup", "logs"], "name", Backup::KIND),
    (&["backup", "download"], "name", Backup::KIND),
    (&["backup", "delete"], "names", Backup::KIND),
    (&["backup", "cancel"], "names", Backup::KIND),
    (&["backup", "create"], "from_schedule", Schedule::KIND),
    (&["backup", "create"], "storage_location", BackupStorageLocation::KIND),
    (&["restore", "get"], "names", Restore::KIND),
    (&["restore", "describe"], "names", Restore::KIND),
    (&["restore", "logs"], "name", Restore::KIND),
    (&["restore", "delete"], "names", Restore::KIND),
    (&["restore", "cancel"], "names", Restore::KIND),
    (&["restore", "create"], "from_backup", Backup::KIND),
    (&["restore", "create"], "from_schedule", Schedule::KIND),
    (&["backup-location", "get"], "names", BackupStorageLocation::KIND),
    (&["backup-location", "set"], "name", BackupStorageLocation::KIND),
    (&["backup-location", "delete"], "names", BackupStorageLocation::KIND),
    (&["get", "backups"], "names", Backup::KIND),
    (&["get", "restores"], "names", Restore::KIND),
    (&["get", "backup-locations"], "names", BackupStorageLocation::KIND),
    (&["describe", "backups"], "names", Backup::KIND),
    (&["describe", "restores"], "names", Restore::KIND),
    (&["delete", "backup"], "names", Backup::KIND),
    (&["delete", "restore"], "names", Restore::KIND),
    (&["delete", "backup-location"], "names", BackupStorageLocation::KIND),
    (&["create", "restore"], "from_backup", Backup::KIND),
];

/// A shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// For which shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionArgs {
    /// Prints a script that the shell reads.
    pub(crate) fn run(self, globals: &Globals) -> Result<ExitCode> {
        let shell = match self.shell {
            Shell::Bash => "bash",
            Shell::Zsh => "zsh",
            Shell::Fish => "fish",
        };
        let shells = Shells::builtins();
        let shell = shells.completer(shell).context("this shell is not known")?;
        let name = &globals.program.name;
        // What is found by its name is called by its name, so that the script outlives an update.
        let mut path = PathBuf::from(std::env::args_os().next().unwrap_or_else(|| name.into()));
        if path.components().count() > 1 {
            path = std::path::absolute(path)?;
        }
        let mut script = Vec::new();
        shell.write_registration(VARIABLE, name, name, &path.to_string_lossy(), &mut script)?;
        std::io::stdout().write_all(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Answers a shell that asks, and ends the process then.
pub(crate) fn answer() {
    CompleteEnv::with_factory(|| grammar(&Program::here().0.name)).var(VARIABLE).complete();
}

/// The commands, with the sources of names.
fn grammar(name: &str) -> Command {
    NAMES.iter().fold(Lifeboat::grammar(name), |grammar, (path, argument, kind)| at(grammar, path, argument, kind))
}

fn at(command: Command, path: &[&str], argument: &str, kind: &'static str) -> Command {
    match path.split_first() {
        None => {
            command.mut_arg(argument, |arg| arg.add(ArgValueCompleter::new(move |typed: &OsStr| names(kind, typed))))
        }
        Some((first, rest)) => command.mut_subcommand(first, |command| at(command, rest, argument, kind)),
    }
}

/// Names that begin like this and do not stand on the line yet. Whatever goes wrong, there are just none: the shell has
/// no place for an error.
fn names(kind: &'static str, typed: &OsStr) -> Vec<CompletionCandidate> {
    let words: Vec<OsString> = std::env::args_os().skip_while(|word| word != "--").skip(2).collect();
    let Some(globals) = globals(&words) else { return Vec::new() };
    let found = waited_for(async {
        let client = crate::resource::client(&globals).await?;
        match kind {
            Backup::KIND => all::<Backup>(&client).await,
            Restore::KIND => all::<Restore>(&client).await,
            Schedule::KIND => all::<Schedule>(&client).await,
            _ => all::<BackupStorageLocation>(&client).await,
        }
    });
    fitting(found, &words, typed).into_iter().map(CompletionCandidate::new).collect()
}

fn fitting(found: Vec<String>, words: &[OsString], typed: &OsStr) -> Vec<String> {
    let typed = typed.to_string_lossy();
    let is_new = |name: &String| !words.iter().any(|word| word == name.as_str() && *name != typed);
    found.into_iter().filter(|name| name.starts_with(&*typed) && is_new(name)).collect()
}

async fn all<T: Object + Named>(client: &Client) -> Result<Vec<String>> {
    Ok(client.list::<T>("").await?.into_iter().map(Named::name).collect())
}

/// What has a name.
trait Named {
    fn name(self) -> String;
}

macro_rules! named {
    ($($kind:ty),+) => { $(impl Named for $kind {
        fn name(self) -> String {
            self.metadata.name
        }
    })+ };
}

named!(Backup, Restore, Schedule, BackupStorageLocation);

fn waited_for(asking: impl Future<Output = Result<Vec<String>>>) -> Vec<String> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let answer = runtime.block_on(async { tokio::time::timeout(PATIENCE, asking).await });
    answer.map(Result::unwrap_or_default).unwrap_or_default()
}

/// The flags on the line that say where to ask.
fn globals(words: &[OsString]) -> Option<Globals> {
    #[derive(Parser)]
    #[command(no_binary_name = true)]
    struct Only {
        #[command(flatten)]
        globals: Globals,
    }
    let parsed = Only::try_parse_from(where_to(words)).ok()?;
    Some(parsed.globals.settled(Program::here().0))
}

fn where_to(words: &[OsString]) -> Vec<OsString> {
    const FLAGS: [&str; 4] = ["--kubeconfig", "--kubecontext", "--namespace", "-n"];
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if FLAGS.contains(&&*text) {
            if let Some(value) = words.next() {
                kept.extend([word.clone(), value.clone()]);
            }
        } else if FLAGS.iter().any(|flag| text.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='))) {
            kept.push(word.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_a_name_is_there() {
        let grammar = grammar("velero");
        for (path, argument, _) in NAMES {
            let mut command = &grammar;
            for name in path {
                command = command.find_subcommand(name).unwrap_or_else(|| panic!("{path:?}"));
            }
            assert!(command.get_arguments().any(|found| found.get_id() == argument), "{path:?} {argument}");
        }
    }

    #[test]
    fn names_are_offered_once() {
        let words: Vec<OsString> = ["backup", "get", "a-1", "a"].map(Into::into).into();
        let found = ["a", "a-1", "a-2", "b"].map(String::from);
        assert_eq!(fitting(found.into(), &words, OsStr::new("a")), ["a", "a-2"]);
    }

    #[test]
    fn the_line_says_where_to_ask() {
        let words: Vec<OsString> =
            ["-n", "x", "backup", "get", "--kubeconfig=/k", "--details", "a", "--kubecontext"].map(Into::into).into();
        assert_eq!(where_to(&words), ["-n", "x", "--kubeconfig=/k"]);
        assert_eq!(globals(&words).unwrap().namespace, "x");
    }
}
