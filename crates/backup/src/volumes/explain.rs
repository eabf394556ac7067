//! Explains what a backup would do with volumes, without looking at anything else.

use crate::env::Env;
use crate::error::BackupError;
use crate::objects::{ObjectsRequest, scope};
use crate::preview::PreviewedVolume;
use crate::request::load::policies;
use crate::request::settings::{Request, prepare};
use crate::volumes::file_backups::find_movers;
use crate::volumes::mover_check::survey_volumes;
use crate::volumes::outcomes::refusal;
use lifeboat_object::Results;
use lifeboat_volume::is_to_be_protected;
use std::sync::Arc;

/// The decisions of a backup about the volumes in its scope.
#[derive(Clone, Debug)]
pub struct VolumeExplanation {
    /// The volumes in scope, in the order of their claims; then volumes without a claim.
    pub volumes: Vec<PreviewedVolume>,
    /// Volumes among them whose data would not be saved, although nobody has left it out on purpose.
    pub unprotected: Vec<PreviewedVolume>,
    /// The reason for which the backup would be refused, because of what it asks for some of them.
    pub refusal: Option<String>,
    /// Warnings and errors, such as what could not be read.
    pub results: Results,
}

/// Decides about the volumes of a backup as [`crate::run`] would. Only pods, claims and volumes are read; the bucket is asked
/// nothing.
///
/// # Errors
/// [`BackupError`], where `run` would have it too.
pub async fn explain_volumes(request: &Request, env: &Env) -> Result<VolumeExplanation, BackupError> {
    let version = env.cluster.version().await?;
    let backup = prepare(request, &version, (env.operation.clock)())?;
    let policies = policies(&backup, &request.settings, env).await?;
    let (settings, movers) = (&request.settings, find_movers(&backup, &request.settings, env).await?);
    let wanted = ObjectsRequest { backup: &backup, policies: policies.as_ref(), settings, movers };
    let scope = Arc::new(scope(wanted, None, env).await?);
    let verdicts = survey_volumes(&scope, env).await?;
    let to_be_protected = verdicts.iter().filter(|decided| is_to_be_protected(decided, &verdicts));
    Ok(VolumeExplanation {
        unprotected: to_be_protected
            .map(|decided| PreviewedVolume::of(decided, movers))
            .filter(|volume| volume.advice.is_some())
            .collect(),
        volumes: verdicts.iter().map(|decided| PreviewedVolume::of(decided, movers)).collect(),
        refusal: refusal(verdicts.iter(), movers).filter(|_| !backup.spec.allow_unprotected),
        results: env.operation.journal.close().results,
    })
}
