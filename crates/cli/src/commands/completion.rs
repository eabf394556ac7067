//! `lifeboat completion bash|zsh|fish`, and the completions that those shells request: names of objects that exist now.

pub(crate) mod kubectl;
#[cfg(test)]
mod tests;

use crate::command::kubectl::is_about_objects;
use anyhow::{Context, Result, bail};
use clap::{Args, Command, CommandFactory, Parser, ValueEnum};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use lifeboat_api::{
    Backup, BackupRepository, BackupStorageLocation, Resource, Restore, Schedule, VolumeSnapshotLocation,
};
use lifeboat_client::{Client, Object};
use lifeboat_object::ApiResource;
use lifeboat_restore::is_restorable;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::pflag::with_rules;
use lifeboat_terminal::process::program::{Program, completes_for_kubectl};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Longest time that a shell waits for names.
const PATIENCE: Duration = Duration::from_secs(3);
/// Environment variable that is set when a shell requests completions.
const VARIABLE: &str = "LIFEBOAT_COMPLETE";

/// Nouns of the commands with a verb, and the kind of what they name.
const NOUNS: [(&str, &str); 6] = [
    ("backup", Backup::KIND),
    ("restore", Restore::KIND),
    ("schedule", Schedule::KIND),
    ("backup-location", BackupStorageLocation::KIND),
    ("snapshot-location", VolumeSnapshotLocation::KIND),
    ("repo", BackupRepository::KIND),
];
/// Verbs of what is there already.
const VERBS: [&str; 13] = [
    "get",
    "describe",
    "logs",
    "download",
    "contents",
    "cancel",
    "hold",
    "release",
    "delete",
    "set",
    "pause",
    "unpause",
    "retention",
];
/// Verbs of what is not there yet, whose flags name what is.
const MAKING: [&str; 3] = ["create", "plan", "diff"];
/// Flags that name what is there already, in all commands with a noun and a verb.
const FLAGS: [(&str, &str); 4] = [
    ("from_backup", Backup::KIND),
    ("from_schedule", Schedule::KIND),
    ("storage_location", BackupStorageLocation::KIND),
    ("volume_snapshot_locations", VolumeSnapshotLocation::KIND),
];

/// Values that an argument is completed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Completed {
    /// Names of the objects of a kind.
    Kind(&'static str),
    /// Types of the cluster, each with the slash before a name.
    Types,
}

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
        if globals.program.is_plugin() {
            bail!(
                "kubectl completes its plugins itself: put a link kubectl_complete-lifeboat to this program beside kubectl-lifeboat"
            );
        }
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
        if self.shell == Shell::Bash {
            script.extend(for_aliases(name).into_bytes());
        }
        std::io::stdout().write_all(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The function by which bash completes an alias: `complete -F __start_velero v`, as Velero's users have it.
fn for_aliases(name: &str) -> String {
    let function = name.replace('-', "_");
    format!("__start_{name}() {{\n    _clap_complete_{function} \"$@\"\n}}\n")
}

/// Answers a shell that asks, and ends the process then. `grammar` gives the commands of a program of this name.
pub(crate) fn answer(grammar: fn(&str) -> Command) {
    CompleteEnv::with_factory(|| with_names(grammar(&Program::here().0.name))).var(VARIABLE).complete();
}

/// These commands, with the sources of names.
pub(crate) fn with_names(grammar: Command) -> Command {
    grammar.mut_subcommands(|outer| {
        let first = outer.get_name().to_owned();
        let outer = outer.mut_args(|arg| match of_command(&first, arg.get_id().as_str()) {
            Some(what) => arg.add(ArgValueCompleter::new(move |typed: &OsStr| names(what, typed))),
            None => arg,
        });
        outer.mut_subcommands(|command| {
            let second = command.get_name().to_owned();
            let command = match second.as_str() {
                "contents" => command.mut_subcommands(with_types),
                _ => command,
            };
            command.mut_args(|arg| match named_by(&first, &second, arg.get_id().as_str()) {
                Some(kind) => arg.add(ArgValueCompleter::new(move |typed: &OsStr| names(Completed::Kind(kind), typed))),
                None => arg,
            })
        })
    })
}

/// A command about the contents of a backup, with types for the argument that takes some.
fn with_types(command: Command) -> Command {
    command.mut_args(|arg| match arg.get_id().as_str() {
        "what" => arg.add(ArgValueCompleter::new(|typed: &OsStr| names(Completed::Types, typed))),
        _ => arg,
    })
}

/// The kind of the objects whose names an argument takes, if it is one that takes them.
fn named_by(first: &str, second: &str, argument: &str) -> Option<&'static str> {
    let is_verb = |word: &str| VERBS.contains(&word) || MAKING.contains(&word);
    if first == "volume" && argument == "backup" {
        return Some(Backup::KIND);
    }
    let noun = |word: &str| NOUNS.iter().find(|(noun, _)| *noun == word.strip_suffix('s').unwrap_or(word));
    // The noun may stand first or last.
    let (verb, (_, kind)) = match (noun(first), noun(second)) {
        (Some(noun), _) if is_verb(second) => (second, noun),
        (_, Some(noun)) if is_verb(first) => (first, noun),
        _ => return None,
    };
    match argument {
        "name" | "names" => VERBS.contains(&verb).then_some(*kind),
        flag => FLAGS.iter().find(|(id, _)| *id == flag).map(|(_, kind)| *kind),
    }
}

/// Returns the values that complete an argument of a command without a verb.
fn of_command(command: &str, argument: &str) -> Option<Completed> {
    match (command, argument) {
        ("undelete" | "history", "what") => Some(Completed::Types),
        ("debug", "backup")
        | ("browse", "name")
        | ("undelete", "from")
        | ("diff", "before" | "after")
        | ("expiry", "names") => Some(Completed::Kind(Backup::KIND)),
        ("expiry", "schedule") => Some(Completed::Kind(Schedule::KIND)),
        ("debug", "restore") => Some(Completed::Kind(Restore::KIND)),
        _ => None,
    }
}

/// Names that begin like this and do not stand on the line yet. Whatever goes wrong, there are just none: the shell has
/// no place for an error.
fn names(what: Completed, typed: &OsStr) -> Vec<CompletionCandidate> {
    let words: Vec<OsString> = match completes_for_kubectl() {
        true => std::env::args_os().skip(1).collect(),
        false => std::env::args_os().skip_while(|word| word != "--").skip(2).collect(),
    };
    let Some(globals) = globals(&words) else { return Vec::new() };
    let found = waited_for(async {
        let client = globals.client().await?;
        match what {
            Completed::Types => types(&client).await,
            Completed::Kind(Backup::KIND) => all::<Backup>(&client).await,
            Completed::Kind(Restore::KIND) => all::<Restore>(&client).await,
            Completed::Kind(Schedule::KIND) => all::<Schedule>(&client).await,
            Completed::Kind(BackupRepository::KIND) => all::<BackupRepository>(&client).await,
            Completed::Kind(VolumeSnapshotLocation::KIND) => all::<VolumeSnapshotLocation>(&client).await,
            Completed::Kind(_) => all::<BackupStorageLocation>(&client).await,
        }
    });
    fitting(found, &words, typed).into_iter().map(CompletionCandidate::new).collect()
}

fn fitting(found: Vec<String>, words: &[OsString], typed: &OsStr) -> Vec<String> {
    let typed = typed.to_string_lossy();
    let is_new = |name: &String| !words.iter().any(|word| word == name.as_str() && *name != typed);
    found.into_iter().filter(|name| name.starts_with(&*typed) && is_new(name)).collect()
}

async fn all<T: Object + HasName>(client: &Client) -> Result<Vec<String>> {
    Ok(client.list::<T>("").await?.into_iter().map(HasName::name).collect())
}

/// The types whose objects a backup has and a restore brings back.
async fn types(client: &Client) -> Result<Vec<String>> {
    let catalog = client.cluster.discover().await?;
    let is_made = |resource: &&Arc<ApiResource>| resource.verbs.iter().any(|verb| verb == "create");
    let types = catalog.preferred().filter(is_made).map(|resource| resource.group_resource());
    let types: BTreeSet<String> = types.filter(is_restorable).map(|resource| format!("{resource}/")).collect();
    Ok(types.into_iter().collect())
}

/// An object that has a name.
trait HasName {
    fn name(self) -> String;
}

macro_rules! named {
    ($($kind:ty),+) => { $(impl HasName for $kind {
        fn name(self) -> String {
            self.metadata.name
        }
    })+ };
}

named!(Backup, BackupRepository, Restore, Schedule, BackupStorageLocation, VolumeSnapshotLocation);

fn waited_for(asking: impl Future<Output = Result<Vec<String>>>) -> Vec<String> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let answer = runtime.block_on(async { tokio::time::timeout(PATIENCE, asking).await });
    answer.map(Result::unwrap_or_default).unwrap_or_default()
}

/// The flags on the line that select the cluster to ask.
fn globals(words: &[OsString]) -> Option<Globals> {
    #[derive(Parser)]
    #[command(no_binary_name = true)]
    struct Only {
        #[command(flatten)]
        globals: Globals,
    }
    let program = Program::here().0;
    let mut globals = Only::try_parse_from(where_to(words)).ok()?.globals;
    if program.is_plugin() && is_about_objects(&with_rules(Only::command()), words) {
        globals.given_namespace = None;
    }
    Some(globals.settled(program))
}

fn where_to(words: &[OsString]) -> Vec<OsString> {
    const FLAGS: [&str; 5] = ["--kubeconfig", "--kubecontext", "--namespace", "-n", "--lifeboat-namespace"];
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
