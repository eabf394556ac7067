//! `lifeboat backup contents` and `lifeboat local contents`: the files of a backup.

mod extract;
mod get;
mod objects;

use crate::backup_source::{self, OpenBackup, until_interrupted};
use anyhow::Result;
use clap::{Args, Subcommand};
use lifeboat_browse::BackupStore;
use lifeboat_object::printable;
use lifeboat_requests::archive::FromServerArgs;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::object_namespace::ObjectNamespace;
use lifeboat_terminal::process::scratch::ScratchArgs;
use std::io::Write;
use std::process::ExitCode;
use tabwriter::TabWriter;

/// Message for output that a signal has cut short.
const INTERRUPTED: &str = "interrupted before all was read: what is printed or written is not all";

/// `lifeboat backup contents NAME [get …|extract …]`.
#[derive(Debug, Args)]
pub struct ContentsArgs {
    /// The backup
    name: String,
    #[command(flatten)]
    scratch: ScratchArgs,
    #[command(flatten)]
    server: FromServerArgs,
    #[command(subcommand)]
    command: Option<ContentsCommand>,
}

/// `lifeboat local contents NAME --bucket URL [get …|extract …]`.
#[derive(Debug, Args)]
pub struct LocalContentsArgs {
    /// The backup
    name: String,
    /// Where the backup lies: a directory, file:///directory, or s3://bucket/prefix?region=…&endpoint=…
    #[arg(long, value_name = "URL")]
    bucket: String,
    #[command(flatten)]
    scratch: ScratchArgs,
    #[command(subcommand)]
    command: Option<ContentsCommand>,
}

#[derive(Debug, Subcommand)]
enum ContentsCommand {
    /// Print objects
    Get(get::GetArgs),
    /// Write one file for each object
    Extract(extract::ExtractArgs),
}

impl ContentsCommand {
    fn object_namespace(&mut self) -> ObjectNamespace<'_> {
        match self {
            Self::Get(args) => ObjectNamespace::One(&mut args.object_namespace),
            Self::Extract(args) => ObjectNamespace::Several(&mut args.include_namespaces),
        }
    }
}

impl ContentsArgs {
    /// The flag that names the namespace of the objects, if it has one.
    pub fn object_namespace(&mut self) -> Option<ObjectNamespace<'_>> {
        self.command.as_mut().map(ContentsCommand::object_namespace)
    }

    /// Prints or writes what is in the backup.
    ///
    /// # Errors
    /// When there is no such backup, or it cannot be had, read or written.
    pub async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let folder = self.scratch.folder()?;
        let shown = async {
            let opened = backup_source::through_server(&self.name, &self.server, globals, folder.path()).await?;
            show(self.command, &opened).await
        };
        Box::pin(until_interrupted(shown, INTERRUPTED)).await
    }
}

impl LocalContentsArgs {
    /// The flag that names the namespace of the objects, if it has one.
    pub fn object_namespace(&mut self) -> Option<ObjectNamespace<'_>> {
        self.command.as_mut().map(ContentsCommand::object_namespace)
    }

    /// Prints or writes what is in the backup.
    ///
    /// # Errors
    /// When there is no such backup, or it cannot be had, read or written.
    pub async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let folder = self.scratch.folder()?;
        let shown = async {
            let opened = backup_source::in_bucket(&self.bucket, &self.name, globals, folder.path()).await?;
            show(self.command, &opened).await
        };
        Box::pin(until_interrupted(shown, INTERRUPTED)).await
    }
}

async fn show(command: Option<ContentsCommand>, opened: &OpenBackup) -> Result<ExitCode> {
    match command {
        None => table(&opened.store, std::io::stdout())?,
        Some(ContentsCommand::Get(args)) => args.run(opened).await?,
        Some(ContentsCommand::Extract(args)) => args.run(opened).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn table(store: &BackupStore, out: impl Write) -> Result<()> {
    let mut table = TabWriter::new(out).minwidth(0).padding(3);
    writeln!(table, "TYPE\tVERSION\tOBJECTS\tBYTES")?;
    for of_type in store.contents() {
        let [resource, versions] = [of_type.resource.to_string(), of_type.versions.join(",")].map(printable);
        writeln!(table, "{resource}\t{versions}\t{}\t{}", of_type.objects, of_type.bytes)?;
    }
    Ok(table.flush()?)
}
