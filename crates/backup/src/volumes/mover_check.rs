//! Looks at the volumes of a backup before it begins, and for nothing else.

use crate::action_lane::gather::gather;
use crate::action_lane::intake::ActionLaneIntake;
use crate::collect::lists::{CollectedLists, collect};
use crate::collect::plan::{ListPlan, Versions, plan};
use crate::collect::spool::LEAST;
use crate::env::Env;
use crate::error::BackupError;
use crate::objects::{ObjectsRequest, scope};
use crate::request::scope::Scope;
use crate::request::settings::ValidationErrors;
use crate::stage_error::StageError;
use crate::volumes::decisions::decide;
use crate::volumes::outcomes::{may_need_movers, refusal};
use lifeboat_operation::Operation;
use lifeboat_volume::{Flags, Verdicts};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Refuses a backup whose volumes need movers that are not there, before anything is done ([`refusal`]). Read errors on the way are
/// reported when the backup is made.
pub(crate) async fn check_movers(wanted: ObjectsRequest<'_>, env: &Env) -> Result<(), BackupError> {
    let ObjectsRequest { backup, policies, settings, movers } = wanted;
    let flags = Flags::of(&backup.spec, settings.features);
    if backup.spec.allow_unprotected || !may_need_movers(policies, &flags) {
        return Ok(());
    }
    let operation = &env.operation;
    let quiet = Operation {
        cancel: operation.cancel.clone(),
        ..Operation::new(Arc::clone(&operation.clock), "", operation.scratch.clone())
    };
    let env = Env { operation: quiet, ..env.clone() };
    let scope = Arc::new(scope(wanted, None, &env).await?);
    let verdicts = survey_volumes(&scope, &env).await?;
    refusal(verdicts.iter(), movers).map_or(Ok(()), |why| Err(ValidationErrors(vec![why]).into()))
}

/// Reads the pods, claims and volumes in scope, and decides. Objects that cannot be read are errors in the journal.
///
/// # Errors
/// [`BackupError::Cancelled`], or a part of it died.
pub(crate) async fn survey_volumes(scope: &Arc<Scope>, env: &Env) -> Result<Verdicts, BackupError> {
    let existing: Vec<String> = scope.namespaces.iter().map(|namespace| namespace.facts.name.clone()).collect();
    let ListPlan { mut lists, .. } = plan(&scope.catalog, &scope.filter, &scope.lane, &existing, Versions::Preferred);
    lists.retain(|list| {
        let resource = &list.resource;
        resource.group.is_empty()
            && matches!(resource.resource.as_str(), "pods" | "persistentvolumeclaims" | "persistentvolumes")
    });
    let (plan, tally, mut tasks) = (ListPlan { lists, excluded: Vec::new() }, Arc::default(), JoinSet::new());
    let CollectedLists { batches, looked_at, room } = collect(&plan, LEAST, env, &tally, &mut tasks);
    let mut intake = ActionLaneIntake::new(room, Arc::clone(scope), env, tally);
    let decided = async {
        intake.take_lists(looked_at).await?;
        gather(&mut intake).await?;
        decide(&mut intake).await
    };
    let verdicts = decided.await;
    drop(batches);
    tasks.shutdown().await;
    match verdicts {
        Ok(verdicts) => Ok(verdicts),
        Err(StageError::StageDied(broken)) => Err(broken.into()),
        Err(StageError::ActionRefused(refusal)) => Err((*refusal).into()),
        Err(StageError::OperationEnded) => Err(BackupError::Cancelled),
    }
}
