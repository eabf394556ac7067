//! `lifeboat undelete`: restores a single object from a backup that has it, through the restore engine.

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use lifeboat_api::{ExistingResourcePolicy, SourceCluster};
use lifeboat_requests::archive::FromServerArgs;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::object_name::ObjectArgs;
use lifeboat_terminal::output::Output;
use lifeboat_terminal::process::scratch::ScratchArgs;
use lifeboat_undelete::Undelete;
use std::process::ExitCode;

/// `lifeboat undelete TYPE/NAME [--object-namespace NAMESPACE] [--from BACKUP] [--bucket URL]`.
#[derive(Debug, Args)]
pub(crate) struct UndeleteArgs {
    #[command(flatten)]
    object: ObjectArgs,
    /// The namespace of the object; otherwise that of the kubeconfig's context. Objects that are in none take no namespace
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) object_namespace: Option<String>,
    /// The backup to take it from; otherwise that of the same command that was cut off, or the newest one that has it
    #[arg(long, value_name = "BACKUP")]
    from: Option<String>,
    /// Look through the backups of the cluster of this UID, or of "any", instead of this one's own
    #[arg(long, value_name = "UID", conflicts_with = "from", default_value = "", hide_default_value = true)]
    source_cluster: String,
    /// Where the backups lie: a directory, file:///directory, or s3://bucket/prefix?region=…&endpoint=…; otherwise the server is
    /// asked for them
    #[arg(long, value_name = "URL")]
    bucket: Option<String>,
    /// Bring back what the object owned too, what that owned, and so on, and give all of them their owners back
    #[arg(long)]
    with_owned: bool,
    /// Policy for an object that exists: none leaves it, update makes it match the backup, recreate deletes one that
    /// differs and makes it anew
    #[arg(long, value_parser = policies(), default_value = "update", value_name = "POLICY")]
    existing_resource_policy: ExistingResourcePolicy,
    /// Let objects of this type be recreated although more may go with them: custom resources, objects with finalizers,
    /// StatefulSets that delete their claims
    #[arg(long, value_name = "TYPE")]
    allow_recreate: Vec<String>,
    /// Give the object its owners back, so that it is deleted with them; not pods, replica sets and others that their controllers
    /// adopt
    #[arg(long)]
    restore_owner_references: bool,
    /// Only say what would be done; nothing is written
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    confirm: bool,
    /// Show the values of Secrets where they differ
    #[arg(long)]
    show_secrets: bool,
    /// Print json or yaml: what would be done, or with --confirm the final Restore, if something is restored
    #[arg(long, short, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    scratch: ScratchArgs,
    #[command(flatten)]
    server: FromServerArgs,
}

/// Reads what may be done with an object that exists.
fn policies() -> impl TypedValueParser<Value = ExistingResourcePolicy> {
    PossibleValuesParser::new(["none", "update", "recreate"]).map(ExistingResourcePolicy::from)
}

impl UndeleteArgs {
    /// Refuses a namespace of Velero where it has no effect: a user who gives one means the namespace of the object.
    ///
    /// # Errors
    /// Returns a hint at the right flag.
    pub(crate) fn check_namespace(&self, of_velero: Option<&str>) -> Result<(), String> {
        match of_velero {
            Some(given) if self.bucket.is_some() && self.object_namespace.is_none() => Err(format!(
                "--namespace {given} is the namespace of the server, which a bucket does not need: name the namespace of the object by \
                 --object-namespace"
            )),
            _ => Ok(()),
        }
    }

    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let undelete = Undelete {
            object: self.object,
            object_namespace: self.object_namespace,
            from: self.from,
            source_cluster: SourceCluster::parse(&self.source_cluster),
            bucket: self.bucket,
            with_owned: self.with_owned,
            policy: self.existing_resource_policy,
            allow_recreate: self.allow_recreate,
            restore_owner_references: self.restore_owner_references,
            dry_run: self.dry_run,
            is_confirmed: self.confirm,
            show_secrets: self.show_secrets,
            output: self.output,
            scratch: self.scratch,
            server: self.server,
        };
        Box::pin(undelete.run(globals)).await
    }
}
