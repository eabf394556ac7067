//! What a backup would hold, without making it.

use crate::env::Env;
use crate::error::BackupError;
use crate::load::policies;
use crate::objects::{Objects, Wanted, objects};
use crate::plan::Excluded;
use crate::process::Processed;
use crate::request::{Request, prepare};
use lifeboat_archive::volume_info::BackupVolumeInfo;
use lifeboat_object::{GroupResource, Place, Results};
use std::collections::BTreeMap;
use tokio::task::JoinSet;

/// What a backup would hold.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The types of which something would be saved.
    pub types: BTreeMap<GroupResource, PreviewedType>,
    /// Types that would not be listed, and why.
    pub excluded: Vec<Excluded>,
    /// How many listed objects of each type would be left out, by reason.
    pub left_out: BTreeMap<(GroupResource, &'static str), u64>,
    /// What would be done with each volume.
    pub volumes: Vec<BackupVolumeInfo>,
    /// Warnings and errors found on the way.
    pub results: Results,
}

/// What would be saved of one type.
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
    let actions = std::mem::take(&mut env.actions);
    let names = actions.backup_item.iter().map(|action| action.name());
    let names: Vec<&str> = names.chain(actions.item_block.iter().map(|action| action.name())).collect();
    if !names.is_empty() {
        let text = format!(
            "a preview calls no actions of plugins, so it does not know what they change: {}",
            names.join(", ")
        );
        env.operation.journal.warn(&Place::Velero, text);
    }
    let policies = policies(&backup, &request.settings, &env).await?;
    let wanted = Wanted { backup: &backup, policies: policies.as_ref(), settings: &request.settings };
    let Objects { plan, processed, tally, .. } = objects(wanted, None, &env, &mut tasks).await?;
    let Processed { mut entries, learned, .. } = processed;
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
    if let Some(warning) = learned.volumes.warning() {
        env.operation.journal.warn(&Place::Velero, warning);
    }
    Ok(Preview {
        types,
        excluded: plan.excluded,
        left_out: learned.left_out,
        volumes: learned.volumes.records(backup.spec.snapshot_volumes != Some(false)),
        results: env.operation.journal.close().results,
    })
}
