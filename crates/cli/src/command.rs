//! The command tree.

#[cfg(test)]
mod error_tests;
pub(crate) mod kubectl;
#[cfg(test)]
mod pflag_tests;

use crate::commands::backup::BackupCommand;
use crate::commands::browse::BrowseArgs;
use crate::commands::bug::BugArgs;
use crate::commands::client::ClientCommand;
use crate::commands::completion::CompletionArgs;
use crate::commands::debug::DebugArgs;
use crate::commands::demo::DemoArgs;
use crate::commands::diff::DiffArgs;
use crate::commands::expiry::ExpiryArgs;
use crate::commands::history::HistoryArgs;
use crate::commands::install::InstallArgs;
use crate::commands::local::Local;
use crate::commands::location::LocationCommand;
use crate::commands::man::ManArgs;
use crate::commands::migrate::MigrateCommand;
use crate::commands::plugin::PluginCommand;
use crate::commands::repo::verbs::RepoCommand;
use crate::commands::restore::RestoreCommand;
use crate::commands::sandbox::SandboxArgs;
use crate::commands::schedule::ScheduleCommand;
use crate::commands::snapshot_location::SnapshotLocationCommand;
use crate::commands::status::StatusArgs;
use crate::commands::undelete::UndeleteArgs;
use crate::commands::uninstall::UninstallArgs;
use crate::commands::verbs::{CreateCommand, DeleteCommand, DescribeCommand, GetCommand};
use crate::commands::version::VersionArgs;
use crate::commands::volume::VolumeCommand;
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use lifeboat_serve::data_mover::DataMoverCommand;
use lifeboat_serve::node_agent::NodeAgentCommand;
use lifeboat_serve::pod_volume::PodVolumeCommand;
use lifeboat_serve::repo_maintenance::RepoMaintenanceArgs;
use lifeboat_serve::restore_helper::RestoreHelperArgs;
use lifeboat_serve::server::ServerArgs;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::object_namespace::ObjectNamespace;
use lifeboat_terminal::flags::pflag;
use lifeboat_terminal::process::program::{PLUGIN, Program};
use std::ffi::OsString;
use std::process::ExitCode;

/// Backup and restore of Kubernetes objects and volumes, compatible with Velero.
#[derive(Debug, Parser)]
#[command(name = "lifeboat", version, max_term_width = 120)]
pub(crate) struct Lifeboat {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Back up and restore with nothing installed in the cluster
    Local(Local),
    /// Work with backups
    #[command(subcommand)]
    Backup(BackupCommand),
    /// Work with restores
    #[command(subcommand)]
    Restore(RestoreCommand),
    /// Work with schedules, which make backups again and again
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// Work with backup storage locations
    #[command(subcommand)]
    BackupLocation(LocationCommand),
    /// Work with volume snapshot locations
    #[command(subcommand)]
    SnapshotLocation(SnapshotLocationCommand),
    /// Work with repositories of volume data
    #[command(subcommand)]
    Repo(RepoCommand),
    /// Work with plugins
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// List backups, restores, schedules, locations or plugins
    #[command(subcommand)]
    Get(GetCommand),
    /// Describe backups, restores or schedules
    #[command(subcommand)]
    Describe(DescribeCommand),
    /// Make a backup, restore, schedule or location
    #[command(subcommand)]
    Create(CreateCommand),
    /// Delete backups, restores, schedules or storage locations
    #[command(subcommand)]
    Delete(DeleteCommand),
    /// Show what is protected and what is not, what runs, and what needs attention
    Status(StatusArgs),
    /// Show which backups go when, and what keeps the others
    Expiry(ExpiryArgs),
    /// Work with the client
    #[command(subcommand)]
    Client(ClientCommand),
    /// Look into a backup with kubectl: serve it as a Kubernetes API that can be read
    Browse(Box<BrowseArgs>),
    /// Show what changed since a backup, or between two; exit code 0 for nothing, 1 for something, 2 for an error
    Diff(Box<DiffArgs>),
    /// Show when one object appeared, changed and vanished, over all backups of a bucket
    History(Box<HistoryArgs>),
    /// Bring one object back, from the newest backup that has it
    Undelete(Box<UndeleteArgs>),
    /// Ask what happens to volumes, and get files of them out of backups
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Gather resources, logs and versions for whoever helps into one file; Secrets are left out, and values that look secret are removed
    Debug(DebugArgs),
    /// Print the report of a bug with the versions filled in, and open it in the browser where the build names a tracker
    Bug(BugArgs),
    /// Print the versions of this program and of the server
    Version(VersionArgs),
    /// Print a script that completes command lines, also names of objects
    Completion(CompletionArgs),
    /// Write the help of all commands into a directory, as man pages
    #[command(hide = true)]
    Man(ManArgs),
    /// Bring the server into the cluster
    Install(Box<InstallArgs>),
    /// Take the server, its resources and its definitions out of the cluster; what lies in buckets stays
    Uninstall(UninstallArgs),
    /// Look at an installation of Velero before Lifeboat takes its place
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Run the server: make what the velero.io resources of a namespace ask for
    Server(Box<ServerArgs>),
    /// Move the bytes of one volume of a pod: run by node agents in pods of their own
    #[command(subcommand, hide = true)]
    PodVolume(PodVolumeCommand),
    /// Move the bytes of one snapshot of a volume: run by node agents in pods of their own
    #[command(subcommand, hide = true)]
    DataMover(DataMoverCommand),
    /// Maintain the repository of a namespace: run by the server in Jobs
    #[command(hide = true)]
    RepoMaintenance(RepoMaintenanceArgs),
    /// Wait until the volumes of a restored pod are filled: run by its init container
    #[command(hide = true)]
    RestoreHelper(RestoreHelperArgs),
    /// Work with the node agent
    #[command(subcommand)]
    NodeAgent(NodeAgentCommand),
    /// Run an in-memory Kubernetes API server and write its kubeconfig to the file named by --kubeconfig
    Sandbox(SandboxArgs),
    /// Make an application in a sandbox, back it up, lose it, restore it, and compare every field
    Demo(DemoArgs),
}

impl Lifeboat {
    /// The command of the process's arguments, under the name that it was called as.
    ///
    /// # Errors
    /// When the arguments are wrong, or ask for help.
    pub(crate) fn of(program: Program) -> Result<Self, clap::Error> {
        let mut command = Self::parse_line(&program.name, std::env::args_os())?;
        if program.is_plugin()
            && let Err(why) = command.take_object_namespace()
        {
            return Err(Self::grammar(&program.name).error(ErrorKind::ArgumentConflict, why));
        }
        if let Command::Undelete(args) = &command.command
            && let Err(why) = args.check_namespace(command.globals.given_namespace.as_deref())
        {
            return Err(Self::grammar(&program.name).error(ErrorKind::ArgumentConflict, why));
        }
        command.globals = command.globals.settled(program);
        Ok(command)
    }

    /// The command of a line, whose first word does not count.
    fn parse_line(name: &str, words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut words: Vec<OsString> = words.into_iter().collect();
        let mut grammar = Self::grammar(name);
        if words.get(1).is_some_and(|word| word == "help") && words.iter().any(|word| word == "--all") {
            words.retain(|word| word != "--all");
            grammar = pflag::with_hidden_flags(grammar);
        }
        let mut matches = grammar.try_get_matches_from_mut(words)?;
        if let Some(path) = pflag::asks_for_help(&grammar, &matches) {
            let words = [name.to_owned()].into_iter().chain(path).chain(["--help".to_owned()]);
            Self::grammar(name).try_get_matches_from(words)?;
        }
        Self::from_arg_matches_mut(&mut matches).map_err(|e| e.format(&mut grammar))
    }

    /// The command of words separated by blanks.
    #[cfg(test)]
    pub(crate) fn parsed(line: &str) -> Self {
        let words = std::iter::once("velero").chain(line.split_whitespace());
        Self::parse_line("velero", words.map(Into::into)).unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    /// The commands and their flags, under this name.
    pub(crate) fn grammar(name: &str) -> clap::Command {
        // The name is also one of files.
        let grammar = pflag::with_rules(Self::command().name(name.replace(' ', "-")).bin_name(name.to_owned()));
        if name == PLUGIN { kubectl::with_namespaces(grammar) } else { grammar }
    }

    /// Lets `-n` mean the namespace of the objects, where the command is about objects of users.
    ///
    /// # Errors
    /// When another flag of the command names another one.
    pub(crate) fn take_object_namespace(&mut self) -> Result<(), String> {
        let given = self.globals.given_namespace.take();
        match (self.object_namespace(), given) {
            (Some(place), Some(name)) => place.set(name),
            (_, given) => {
                self.globals.given_namespace = given;
                Ok(())
            }
        }
    }

    /// The flag that names the namespace of the objects, where the command is about objects of users.
    pub(crate) fn object_namespace(&mut self) -> Option<ObjectNamespace<'_>> {
        match &mut self.command {
            Command::Undelete(args) => Some(ObjectNamespace::One(&mut args.object_namespace)),
            Command::Browse(args) => Some(ObjectNamespace::One(&mut args.object_namespace)),
            Command::History(args) => Some(ObjectNamespace::One(&mut args.object_namespace)),
            Command::Diff(args) => Some(ObjectNamespace::Several(&mut args.include_namespaces)),
            Command::Volume(command) => Some(command.object_namespace()),
            Command::Backup(BackupCommand::Contents(args)) => args.object_namespace(),
            Command::Local(local) => local.object_namespace(),
            _ => None,
        }
    }

    /// Returns true if the command starts its own log.
    pub(crate) fn logs_itself(&self) -> bool {
        match &self.command {
            Command::Server(server) => server.serves(),
            Command::PodVolume(_) | Command::DataMover(_) | Command::RepoMaintenance(_) => true,
            Command::NodeAgent(_) => true,
            _ => false,
        }
    }

    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Local(local) => local.run(&self.globals).await,
            Command::Demo(demo) => demo.run().await,
            Command::Backup(command) => Box::pin(command.run(&self.globals)).await,
            Command::Restore(command) => Box::pin(command.run(&self.globals)).await,
            Command::Schedule(command) => command.run(&self.globals).await,
            Command::BackupLocation(command) => command.run(&self.globals).await,
            Command::SnapshotLocation(command) => command.run(&self.globals).await,
            Command::Repo(command) => command.run(&self.globals).await,
            Command::Plugin(command) => command.run(&self.globals).await,
            Command::Get(command) => Box::pin(command.run(&self.globals)).await,
            Command::Describe(command) => Box::pin(command.run(&self.globals)).await,
            Command::Create(command) => Box::pin(command.run(&self.globals)).await,
            Command::Delete(command) => Box::pin(command.run(&self.globals)).await,
            Command::Status(args) => args.run(&self.globals).await,
            Command::Expiry(args) => args.run(&self.globals).await,
            Command::Client(command) => command.run(&self.globals),
            Command::Volume(command) => Box::pin(command.run(&self.globals)).await,
            Command::Browse(browse) => Box::pin(browse.run(&self.globals)).await,
            Command::Undelete(args) => Box::pin(args.run(&self.globals)).await,
            Command::Diff(diff) => Box::pin(diff.run(&self.globals)).await,
            Command::History(history) => Box::pin(history.run(&self.globals)).await,
            Command::Debug(args) => Box::pin(args.run(&self.globals)).await,
            Command::Bug(args) => args.run(&self.globals).await,
            Command::Version(version) => version.run(&self.globals).await,
            Command::Completion(completion) => completion.run(&self.globals),
            Command::Man(man) => man.run(&self.globals, Self::grammar),
            Command::Install(install) => install.run(&self.globals).await,
            Command::Uninstall(uninstall) => uninstall.run(&self.globals).await,
            Command::Migrate(command) => Box::pin(command.run(&self.globals)).await,
            Command::Server(server) => server.run(&self.globals).await,
            Command::PodVolume(command) => Box::pin(command.run(&self.globals)).await,
            Command::DataMover(command) => Box::pin(command.run(&self.globals)).await,
            Command::RepoMaintenance(args) => Box::pin(args.run(&self.globals)).await,
            Command::RestoreHelper(args) => args.run().await,
            Command::NodeAgent(command) => command.run(&self.globals).await,
            Command::Sandbox(sandbox) => sandbox.run(&self.globals).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    #[test]
    fn the_grammar_is_consistent() {
        Lifeboat::grammar("velero").debug_assert();
    }

    /// The lines of the blocks of a page that call this program, continued lines as one.
    fn calls(page: &str) -> Vec<String> {
        let blocks = page.split("```").skip(1).step_by(2);
        let text: String = blocks.collect::<String>().replace("\\\n", " ");
        let lines = text.lines().map(|line| line.trim().trim_start_matches("$ "));
        let calls = lines.filter(|line| line.starts_with("lifeboat ") || line.starts_with("velero "));
        calls
            .map(|line| line.split(" # ").next().unwrap_or_default())
            .map(|line| line.split(" || ").next().unwrap_or_default().trim().to_owned())
            .collect()
    }

    /// The words of a line as a shell takes them: blanks within quotes are part of a word.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut quote) = (vec![String::new()], None);
        for c in line.chars() {
            match quote {
                Some(open) if c == open => quote = None,
                None if matches!(c, '\'' | '"') => quote = Some(c),
                None if c == ' ' => words.push(String::new()),
                _ => words.last_mut().unwrap().push(c),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn the_commands_of_the_pages_are_understood() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
        let mut seen = 0;
        for path in docs.chain([root.join("README.md")]).filter(|path| path.extension().is_some_and(|e| e == "md")) {
            for line in calls(&std::fs::read_to_string(&path).unwrap()) {
                // Dots stand for what the page does not repeat, and this variable for pairs.
                let words = words(&line.replace("$CONFIG", "region=r"));
                let words = words.into_iter().filter(|word| word != "…").map(Into::into);
                if let Err(e) = Lifeboat::parse_line("lifeboat", words) {
                    panic!("{}: {line}: {e}", path.display());
                }
                seen += 1;
            }
        }
        assert!(seen > 15, "only {seen} commands were found");
    }

    /// On standard output, with 0: as cobra answers.
    #[test]
    fn a_command_that_only_holds_others_prints_its_help() {
        let asked = |line: &str| {
            let words = std::iter::once("velero").chain(line.split_whitespace()).map(Into::into);
            Lifeboat::parse_line("velero", words).expect_err(line)
        };
        for (line, expected) in [
            ("", "velero"),
            ("-n x", "velero"),
            ("help", "velero"),
            ("-h", "velero"),
            ("backup", "velero backup"),
            ("backup --namespace x", "velero backup"),
            ("help backup", "velero backup"),
            ("backup help", "velero backup"),
            ("backup -h", "velero backup"),
            ("help backup create", "velero backup create"),
            ("client config", "velero client config"),
            ("local", "velero local"),
            ("help --all", "velero"),
            ("help backup create --all", "velero backup create"),
        ] {
            let answer = asked(line);
            assert!(!answer.use_stderr() && answer.exit_code() == 0, "{line}: {answer}");
            let text = answer.to_string();
            assert!(text.contains(&format!("\nUsage: {expected} [")), "{line}: {text}");
        }
        assert!(asked("version --namespace=").use_stderr());
        assert!(asked("backup frob").use_stderr() && asked("backup --frob").use_stderr());
    }

    #[test]
    fn help_leaves_the_flags_of_klog_to_help_all() {
        let help = |line: &str| {
            let words = std::iter::once("velero").chain(line.split_whitespace()).map(Into::into);
            Lifeboat::parse_line("velero", words).expect_err(line).to_string()
        };
        for (line, is_listed) in [
            ("--help", false),
            ("help", false),
            ("backup create --help", false),
            ("help --all", true),
            ("help --all backup create", true),
        ] {
            let text = help(line);
            assert!(text.contains("-v, --v <LEVEL>"), "{line}: {text}");
            for flag in ["--logtostderr", "--log_file", "--skip_headers", "--vmodule"] {
                assert_eq!(text.contains(flag), is_listed, "{line} {flag}: {text}");
            }
        }
    }

    /// As `velero install` has: there they are for the server.
    #[test]
    fn a_command_may_have_features_of_its_own() {
        let features = Arg::new("features").long("features").default_value("");
        let mut grammar = Lifeboat::grammar("velero").mut_subcommand("version", |version| version.arg(features));
        for (line, expected) in
            [("velero version --features=a", "a"), ("velero version", ""), ("velero --features b version", "b")]
        {
            let mut matches = grammar.try_get_matches_from_mut(line.split(' ')).unwrap();
            let (_, version) = matches.subcommand().unwrap();
            assert_eq!(version.get_one::<String>("features").map(String::as_str), Some(expected), "{line}");
            Lifeboat::from_arg_matches_mut(&mut matches).unwrap();
        }
    }
}
