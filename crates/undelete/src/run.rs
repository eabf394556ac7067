//! The whole of an undelete: the search, the plan, the question and the restore.

use super::find::{BackupChoice, BackupsLocation, FoundObject, Origin, Search};
use super::job::{Job, UndeletePlan};
use super::next::Next;
use super::report::of_another_cluster;
use super::requested_object::RequestedObject;
use super::resume_state::{self, ResumeState, UndeleteOptions};
use super::shown::ShownPlan;
use anyhow::{Context, Result, bail};
use lifeboat_api::{ExistingResourcePolicy, SourceCluster};
use lifeboat_browse::owned_by;
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_requests::archive::FromServerArgs;
use lifeboat_standalone::backup_source::until_interrupted;
use lifeboat_standalone::bucket_url::{self, Purpose};
use lifeboat_standalone::local_operation::operation_key::{OperationKey, identity};
use lifeboat_standalone::local_operation::restore_run::{RestoreRun, ResumeRule, RunOutcome, run_restore};
use lifeboat_standalone::local_operation::state::OperationStateFile;
use lifeboat_terminal::flags::confirm::{asked, refuse_without_terminal};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::object_name::ObjectArgs;
use lifeboat_terminal::output::errors;
use lifeboat_terminal::output::exit_code::INTERRUPTED;
use lifeboat_terminal::output::results::{exit_code, print_results};
use lifeboat_terminal::output::{Output, print_resource};
use lifeboat_terminal::process::clock::clock;
use lifeboat_terminal::process::scratch::{ScratchArgs, end_at_once};
use lifeboat_terminal::process::signals::terminated;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;

/// An object that is restored from a backup.
#[derive(Debug)]
pub struct Undelete {
    /// The object.
    pub object: ObjectArgs,
    /// The namespace of the object; otherwise that of the kubeconfig's context.
    pub object_namespace: Option<String>,
    /// The backup to take it from; otherwise that of the same command that was cut off, or the newest one that has it.
    pub from: Option<String>,
    /// The cluster whose backups are looked through.
    pub source_cluster: SourceCluster,
    /// The URL of the bucket with the backups; otherwise the server is asked for them.
    pub bucket: Option<String>,
    /// True when what the object owned comes back too.
    pub with_owned: bool,
    /// The policy for an object that exists.
    pub policy: ExistingResourcePolicy,
    /// Types whose objects may be recreated although more may go with them.
    pub allow_recreate: Vec<String>,
    /// True when the object gets its owners back.
    pub restore_owner_references: bool,
    /// True when nothing is written.
    pub dry_run: bool,
    /// True when nobody is asked.
    pub is_confirmed: bool,
    /// True when the values of Secrets are shown where they differ.
    pub show_secrets: bool,
    /// The form of the output; text when there is none.
    pub output: Option<Output>,
    /// The folder for copies.
    pub scratch: ScratchArgs,
    /// The request to the server.
    pub server: FromServerArgs,
}

impl Undelete {
    /// Finds the object, prints the plan of its restore, asks, and restores it.
    ///
    /// # Errors
    /// When no backup has the object, its restore is refused, or something cannot be read or written.
    pub async fn run(self, globals: &Globals) -> Result<ExitCode> {
        if self.bucket.is_none() && self.policy == ExistingResourcePolicy::Recreate {
            bail!(
                "--existing-resource-policy recreate stores what it deletes in the bucket first, and the server lets this command read \
                 there alone: name the bucket by --bucket"
            );
        }
        let folder = self.scratch.folder()?;
        let cluster = globals.connect().await?;
        let wanted =
            RequestedObject::parse(&self.object, self.object_namespace.as_deref(), cluster.default_namespace())?;
        let catalog = cluster.discover().await?;
        let wanted = wanted.served_by(&catalog);
        let place = match &self.bucket {
            Some(url) => BackupsLocation::Bucket(bucket_url::open(url, Purpose::Read, globals.patience()).await?),
            None => BackupsLocation::Server(&self.server),
        };
        let key = OperationKey {
            kind: resume_state::KIND,
            bucket: place.describe(globals),
            cluster: identity(&cluster).await?,
            name: resume_state::name(&wanted.identity(), self.manner()),
        };
        let kept = ResumeState::find(key, clock()())?;
        let source = match (&self.from, kept.backup()) {
            (Some(name), _) => BackupChoice::Named(name),
            (None, Some(backup)) => BackupChoice::Kept { backup, has_ended: kept.has_ended() },
            (None, None) => BackupChoice::Newest,
        };
        let only_newest = self.is_confirmed && !self.dry_run;
        let this = cluster.uid().await?;
        let origin = Origin { from: self.source_cluster.clone(), this: this.clone() };
        let search =
            Search { wanted: &wanted, place, origin, only_newest, catalog: &catalog, globals, folder: folder.path() };
        let finding = self.find(search, source);
        let (found, owned) =
            until_interrupted(finding, "interrupted before the object was found: nothing was restored").await?;
        if let Some(said) = of_another_cluster(&found.backup, found.maker.as_deref(), &this) {
            errors::warn(Some(&said));
        }
        let job = Job {
            globals,
            cluster,
            store: found.store.clone(),
            archive: found.contents.archive().clone(),
            backup: found.backup.metadata.name.clone(),
            policy: self.policy.clone(),
            allow_recreate: self.allow_recreate.clone(),
            with_owners: self.with_owned || self.restore_owner_references,
            scratch: folder.path().to_path_buf(),
        };
        let plan = Box::pin(job.plan(&found.key, owned)).await?;
        let next = plan.next(&job.policy, self.dry_run, kept.is_of(&found.backup));
        // With -o one document is printed: the plan, or the Restore that comes of it.
        if self.output.is_none() || !self.is_confirmed || next != Next::Restore {
            self.print(&found, &plan, globals.colour())?;
        }
        match next {
            Next::Refuse(why) => bail!(why),
            Next::End { is_well } => Ok(exit_code(is_well)),
            Next::NothingToDo => {
                let owners = if job.with_owners {
                    "; owners are given to objects that come back, and were not compared"
                } else {
                    ""
                };
                let _ = writeln!(std::io::stderr(), "Nothing is to be done: it is there as in the backup{owners}.");
                Ok(ExitCode::SUCCESS)
            }
            Next::Restore if self.confirm().await? => {
                let time = async { anyhow::Ok(job.cluster.time().await?) };
                let now = until_interrupted(time, "interrupted: nothing was restored").await?;
                let now = now.unwrap_or_else(jiff::Timestamp::now);
                Box::pin(self.restore(&job, &plan, kept.open(&found.backup, now)?)).await
            }
            Next::Restore => Ok(ExitCode::SUCCESS),
        }
    }

    /// Restores what is in the plan.
    async fn restore(&self, job: &Job<'_>, plan: &UndeletePlan, state: OperationStateFile) -> Result<ExitCode> {
        let request = job.request_of(plan, &state.content)?;
        let restore = &request.restore.metadata.name;
        let run = RestoreRun { state, until: ResumeRule::Completed, output: self.output };
        match Box::pin(run_restore(&request, job.env(restore), run)).await? {
            RunOutcome::Done(code) => Ok(code),
            RunOutcome::Refused { was_new, .. } => {
                // It has stored what it would do now, and nobody asks for that.
                if was_new && let Err(e) = job.delete_files(&request).await {
                    errors::warn(Some(&format!("warning: the files of the restore {restore} stay: {e:#}")));
                }
                bail!(
                    "nothing was restored, because the cluster has changed since the plan was made: the same command again shows what it \
                     would do now"
                )
            }
        }
    }

    fn manner(&self) -> UndeleteOptions<'_> {
        UndeleteOptions {
            policy: &self.policy,
            with_owned: self.with_owned,
            with_owners: self.restore_owner_references,
            allow_recreate: &self.allow_recreate,
        }
    }

    /// The object, and what it owned where that is wanted.
    async fn find(&self, search: Search<'_>, source: BackupChoice<'_>) -> Result<(FoundObject, BTreeSet<ObjectKey>)> {
        let (catalog, globals) = (search.catalog, search.globals);
        let found = Box::pin(search.run(source)).await?;
        let resource = &found.key.resource;
        let definition = GroupResource::definitions();
        let definition = ObjectKey::new(definition, None, resource.to_string());
        if catalog.find(resource).is_none() && found.contents.has(&definition) {
            bail!(
                "{} has {}, but the cluster does not serve {resource}: bring their definition back first, by `{} undelete \
                 customresourcedefinition/{resource} --from {}`",
                found.what,
                found.key,
                globals.program.name,
                found.backup.metadata.name
            );
        }
        let owned = if self.with_owned { owned_by(&found.contents, &found.key).await } else { Ok(BTreeSet::new()) };
        let owned = owned.with_context(|| format!("look for what {} owned in {}", found.key, found.what))?;
        Ok((found, owned))
    }

    /// Returns true if the user confirms, by the flag or when asked. Without a terminal nobody can be asked.
    async fn confirm(&self) -> Result<bool> {
        if self.is_confirmed {
            return Ok(true);
        }
        if self.output.is_some() {
            bail!(
                "nothing was restored: -o prints the plan and does not ask; the same command with --confirm restores it, and with --dry-run it only says what it would do"
            );
        }
        refuse_without_terminal(false, || {
            "nothing was restored, because nobody could be asked: the same command with --confirm restores it, and with --dry-run it only \
             says what it would do"
                .to_owned()
        })?;
        let interrupted = terminated()?;
        let asking = tokio::task::spawn_blocking(|| asked("", false));
        let answer = tokio::select! {
            answer = asking => answer.context("ask")??,
            () = interrupted => {
                // A thread still waits for an answer, and nothing else is under way.
                let _ = writeln!(std::io::stderr(), "\nNothing was restored.");
                end_at_once(INTERRUPTED);
            }
        };
        if !answer {
            writeln!(std::io::stdout(), "Nothing was restored.")?;
        }
        Ok(answer)
    }

    fn print(&self, found: &FoundObject, plan: &UndeletePlan, colours: bool) -> Result<()> {
        print_results(&plan.end.results);
        let shown = ShownPlan {
            backup: &found.backup.metadata.name,
            what: &found.what,
            plan,
            with_owned: self.with_owned,
            secrets: self.show_secrets,
        };
        match self.output {
            Some(output) => print_resource(&shown.document(), output),
            None => shown.write_text(&mut std::io::stdout().lock(), colours),
        }
    }
}
