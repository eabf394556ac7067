//! `lifeboat backup contents` and `lifeboat local contents`: the files of a backup.

mod extract;
mod get;

use crate::globals::Globals;
use crate::opened::{self, FromServerArgs, Opened, ScratchArgs};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use lifeboat_browse::BackupStore;
use lifeboat_object::GroupResource;
use lifeboat_patch::hide_secret;
use lifeboat_sandbox::{ListQuery, ObjectStore, Selector};
use serde_json::Value;
use std::io::Write;
use std::process::ExitCode;
use tabwriter::TabWriter;

/// Objects that are read at once.
const PAGE: usize = 500;

/// `lifeboat backup contents NAME [get …|extract …]`.
#[derive(Debug, Args)]
pub(crate) struct ContentsArgs {
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
pub(crate) struct LocalContentsArgs {
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

impl ContentsArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let folder = self.scratch.folder()?;
        let opened = opened::through_server(&self.name, &self.server, globals, folder.path()).await?;
        show(self.command, &opened).await
    }
}

impl LocalContentsArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let folder = self.scratch.folder()?;
        let opened = opened::in_bucket(&self.bucket, &self.name, globals, folder.path()).await?;
        show(self.command, &opened).await
    }
}

async fn show(command: Option<ContentsCommand>, opened: &Opened) -> Result<ExitCode> {
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
        let versions = of_type.versions.join(",");
        writeln!(table, "{}\t{versions}\t{}\t{}", of_type.resource, of_type.objects, of_type.bytes)?;
    }
    Ok(table.flush()?)
}

/// The types that a word names, as kubectl takes it.
fn types_of(store: &BackupStore, word: &str) -> Result<Vec<GroupResource>> {
    let held: Vec<GroupResource> = store.contents().into_iter().map(|of_type| of_type.resource).collect();
    let named = store.resources_of(word);
    if named.is_empty() {
        bail!("no type is called {word:?}; the command without get or extract lists those of the backup");
    }
    // One word may name a type in several groups: those that the backup has are meant.
    let meant: Vec<GroupResource> = named.iter().filter(|resource| held.contains(resource)).cloned().collect();
    Ok(if meant.is_empty() { named } else { meant })
}

/// The objects of a type in pages, by namespace and name.
struct Objects<'a> {
    store: &'a BackupStore,
    query: ListQuery,
    ended: bool,
}

impl<'a> Objects<'a> {
    /// All of a type, of one namespace, or of one name.
    fn of(
        store: &'a BackupStore,
        resource: GroupResource,
        namespace: Option<String>,
        name: Option<&str>,
    ) -> Result<Self> {
        let named = name.map_or_else(String::new, |name| format!("metadata.name={name}"));
        let selector = Selector::parse(&resource.resource, "", &named)?;
        let query = ListQuery { resource, namespace, selector, after: None, limit: PAGE, revision: None };
        Ok(Self { store, query, ended: false })
    }

    /// The next ones; nothing at the end. Values of Secrets are hidden unless they are asked for.
    async fn next(&mut self, show_secrets: bool) -> Result<Vec<Value>> {
        if self.ended {
            return Ok(Vec::new());
        }
        // A page of a list may be empty only at the end: no selector but the name thins it out.
        let page = self.store.list(&self.query).await.with_context(|| format!("read {}", self.query.resource))?;
        self.ended = !page.more;
        self.query.after = page.objects.last().map(|last| {
            let key = &last.key;
            (key.namespace.clone().unwrap_or_default(), key.name.clone())
        });
        let read = |body: &[u8]| -> Result<Value> {
            let mut object: Value = serde_json::from_slice(body)?;
            if !show_secrets && is_secret(&self.query.resource) {
                hide_secret(&mut object);
            }
            Ok(object)
        };
        page.objects.iter().map(|object| read(&object.body).with_context(|| format!("read {}", object.key))).collect()
    }
}

fn is_secret(resource: &GroupResource) -> bool {
    resource.group.is_empty() && resource.resource == "secrets"
}
