//! Previews a backup: counts what it would hold, without making it.

use crate::collect::plan::Excluded;
use crate::env::Env;
use crate::error::BackupError;
use crate::objects::{ObjectPipeline, ObjectsRequest, objects};
use crate::process::ProcessingStages;
use crate::request::load::policies;
use crate::request::settings::{Request, prepare};
use crate::volumes::file_backups::find_movers;
use crate::volumes::outcomes::refusal;
use lifeboat_action::Actions;
use lifeboat_object::{GroupResource, ResultScope, Results};
use lifeboat_volume::{BackupMovers, DecidedVolume};
use std::collections::BTreeMap;
use tokio::task::JoinSet;

/// The contents of a backup that would be made.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The types of which something would be saved.
    pub types: BTreeMap<GroupResource, PreviewedType>,
    /// Types that would not be listed, and why.
    pub excluded: Vec<Excluded>,
    /// The number of listed objects of each type that would be left out, by reason.
    pub left_out: BTreeMap<(GroupResource, &'static str), u64>,
    /// The decision about each volume.
    pub volumes: Vec<PreviewedVolume>,
    /// Warnings and errors found on the way.
    pub results: Results,
}

/// The decision about one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewedVolume {
    /// The volume's name for people: namespace and name of its claim, else its own name, else `namespace/pod:volume`.
    pub name: String,
    /// The name of its PersistentVolume, when it has one.
    pub volume: Option<String>,
    /// The decision in a few words, such as `CSI snapshot`, or `nothing`.
    pub done: String,
    /// The reason: the rule, the annotation, or the default that decided.
    pub reason: String,
    /// Advice about what would have to change for its data to be saved; `None` when it would be.
    pub advice: Option<String>,
}

impl PreviewedVolume {
    pub(crate) fn of(decided: &DecidedVolume, movers: BackupMovers) -> Self {
        let verdict = &decided.verdict;
        let needs_mover = movers.lack_of(&verdict.method).map(|lack| lack.advice().to_owned());
        Self {
            name: decided.name(),
            volume: decided.volume.clone(),
            done: verdict.method.describe(),
            reason: verdict.reason(),
            advice: verdict.advice().or(needs_mover),
        }
    }
}

/// The objects of one type that would be saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreviewedType {
    /// Objects.
    pub objects: u64,
    /// Bytes of their JSON.
    pub bytes: u64,
}

/// Previews a backup: lists and decides as `run` would, and only counts. The bucket is only asked whether the name is
/// free.
///
/// # Errors
/// [`BackupError`], where `run` would have it too.
pub async fn preview(request: &Request, env: &Env) -> Result<Preview, BackupError> {
    let version = env.cluster.version().await?;
    let backup = prepare(request, &version, (env.operation.clock)())?;
    env.store.written(&backup.metadata.name, &backup.metadata.uid).await?;
    let mut tasks = JoinSet::new();
    // An action may do what a preview must not, such as begin a snapshot.
    let mut env = env.clone();
    let volume_snapshotters = env.actions.volume_snapshotters.clone();
    let actions = std::mem::replace(&mut env.actions, Actions { volume_snapshotters, ..Actions::default() });
    let names = actions.backup_item.iter().map(|action| action.name());
    let names: Vec<&str> = names.chain(actions.item_block.iter().map(|action| action.name())).collect();
    if !names.is_empty() {
        let text = format!(
            "a preview calls no actions of plugins, so it does not know what they change: {}",
            names.join(", ")
        );
        env.operation.journal.warn(&ResultScope::Velero, text);
    }
    let policies = policies(&backup, &request.settings, &env).await?;
    let (settings, movers) = (&request.settings, find_movers(&backup, &request.settings, &env).await?);
    let wanted = ObjectsRequest { backup: &backup, policies: policies.as_ref(), settings, movers };
    let ObjectPipeline { plan, processed, tally, .. } = objects(wanted, None, &env, &mut tasks).await?;
    let ProcessingStages { mut entries, learned, .. } = processed;
    let mut types: BTreeMap<GroupResource, PreviewedType> = BTreeMap::new();
    loop {
        let batch = match entries.next().await {
            Ok(Some(batch)) => batch,
            Ok(None) => break,
            Err(_) if env.operation.cancel.is_cancelled() => return Err(BackupError::Cancelled),
            Err(broken) => return Err(broken.into()),
        };
        tally.settled(batch.entries.len());
        env.operation.progress.finished(batch.entries.len() as u64);
        for entry in &batch.entries {
            let counted = types.entry(entry.resource.group_resource()).or_default();
            counted.objects += 1;
            counted.bytes += entry.body.len() as u64;
        }
    }
    if env.operation.cancel.is_cancelled() {
        return Err(BackupError::Cancelled);
    }
    tally.balance()?;
    let learned = learned.await.map_err(|_| BackupError::Worker("processing objects"))?;
    if let Some(refusal) = refusal(learned.volumes.decided(), movers).filter(|_| !backup.spec.allow_unprotected) {
        env.operation.journal.error(&ResultScope::Velero, format!("the backup would be refused: {refusal}"));
    }
    let volumes = learned.volumes.decided().map(|decided| PreviewedVolume::of(decided, movers)).collect();
    Ok(Preview {
        types,
        excluded: plan.excluded,
        left_out: learned.left_out,
        volumes,
        results: env.operation.journal.close().results,
    })
}
