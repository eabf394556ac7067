//! Plans a backup, and starts what lists and processes its objects.

use crate::collect::lists::collect;
use crate::collect::plan::{ListPlan, Versions, plan};
use crate::collect::tally::Tally;
use crate::collect::terminating::TerminatingObjects;
use crate::env::Env;
use crate::error::BackupError;
use crate::process::{ProcessingStages, process};
use crate::request::lane::Lane;
use crate::request::scope::{HookScope, Scope, VolumeScope, read_namespaces};
use crate::request::settings::{Settings, ValidationErrors};
use crate::volumes::outcomes::VolumeRules;
use crate::volumes::side_effects::SideEffects;
use crate::volumes::snapshots::csi_snapshots;
use lifeboat_api::{Backup, well_known};
use lifeboat_hook::BackupHooks;
use lifeboat_object::{GroupResource, ResultScope};
use lifeboat_select::{BackupFilter, ResourcePolicies, SelectorError};
use lifeboat_volume::csi::{GroupTypes, SnapshotTypes, served_by};
use lifeboat_volume::{BackupMovers, Flags};
use std::sync::Arc;
use tokio::task::JoinSet;

/// The request for objects: the backup with its policies and settings.
#[derive(Clone, Copy)]
pub(crate) struct ObjectsRequest<'a> {
    pub(crate) backup: &'a Backup,
    pub(crate) policies: Option<&'a ResourcePolicies>,
    pub(crate) settings: &'a Settings,
    pub(crate) movers: BackupMovers,
}

/// The objects of a backup on their way.
pub(crate) struct ObjectPipeline {
    pub(crate) plan: ListPlan,
    pub(crate) processed: ProcessingStages,
    /// Namespaces whose label keeps them out.
    pub(crate) kept_out: Vec<String>,
    pub(crate) tally: Arc<Tally>,
}

/// Plans, and starts listing and processing as tasks of the operation. Without hands, the cluster is only read.
pub(crate) async fn objects(
    wanted: ObjectsRequest<'_>,
    side_effects: Option<&SideEffects>,
    env: &Env,
    tasks: &mut JoinSet<()>,
) -> Result<ObjectPipeline, BackupError> {
    let scope = env.operation.trace().stage("discover", Box::pin(scope(wanted, side_effects, env)));
    let scope = Arc::new(scope.await?);
    let existing: Vec<String> = scope.namespaces.iter().map(|namespace| namespace.facts.name.clone()).collect();
    let plan = plan(&scope.catalog, &scope.filter, &scope.lane, &existing, Versions::of(wanted.settings.features));
    let kept_out = scope.kept_out();
    env.operation.journal.info(
        "Planned the backup",
        &[("types", &plan.lists.len().to_string()), ("excludedTypes", &plan.excluded.len().to_string())],
    );
    let tally = Arc::default();
    let collected = collect(&plan, wanted.settings.memory_budget, env, &tally, tasks);
    let processed = process(collected, scope, env, &tally, tasks);
    Ok(ObjectPipeline { plan, processed, kept_out, tally })
}

/// Reads from the cluster the facts that the filters need, from fresh discovery. Oddities are warnings.
pub(crate) async fn scope(
    wanted: ObjectsRequest<'_>,
    side_effects: Option<&SideEffects>,
    env: &Env,
) -> Result<Scope, BackupError> {
    let catalog = env.cluster.discover().await?;
    for failure in &catalog.failures {
        env.operation.journal.warn(
            &ResultScope::Velero,
            format!(
                "the types of {} could not be discovered and are not in this backup: {}",
                failure.group_version, failure.message
            ),
        );
    }
    let ObjectsRequest { backup, policies, settings, movers } = wanted;
    let namespaces = read_namespaces(backup, &catalog, env).await?;
    let facts: Vec<_> = namespaces.iter().map(|n| n.facts.clone()).collect();
    let filter = BackupFilter::new(&backup.spec, policies, &catalog, &facts).map_err(|e| {
        ValidationErrors(vec![match e {
            SelectorError::Requirement(_) | SelectorError::Syntax(_) => format!("invalid label selector: {e}"),
            SelectorError::Wildcard(_) | SelectorError::Ambiguous(_) => e.to_string(),
        }])
    })?;
    for name in filter.namespaces().missing() {
        env.operation
            .journal
            .error(&ResultScope::Namespace(name.clone()), format!("the included namespace {name} does not exist"));
    }
    if filter.namespaces().matched_nothing() {
        env.operation
            .journal
            .warn(&ResultScope::Velero, "no namespace matches the included namespaces: no namespaced object is saved");
    }
    for name in filter.unresolved() {
        env.operation
            .journal
            .warn(&ResultScope::Velero, format!("the cluster serves no type {name:?}, which a filter names"));
    }
    for name in filter.wrong_scope() {
        env.operation.journal.warn(
            &ResultScope::Velero,
            format!("the type {name:?} is of the other scope than the filter that names it"),
        );
    }
    for warning in filter.warnings() {
        env.operation.journal.warn(&ResultScope::Velero, warning.as_str());
    }
    for facts in facts.iter().filter(|f| filter.namespaces().includes(&f.name)) {
        if facts.labels.get(well_known::LABEL_ARGOCD_MANAGED_BY).is_some_and(|v| !v.is_empty()) {
            env.operation.journal.warn(
                &ResultScope::Namespace(facts.name.clone()),
                format!("namespace {} is managed by Argo CD: restoring it may fight with it", facts.name),
            );
        }
    }
    let takes_snapshots = settings.features.csi && side_effects.is_some();
    if takes_snapshots && let Err(e) = Box::pin(served_by(&env.cluster, &catalog)).await {
        // Otherwise there would only be a warning of volumes that nothing protects.
        env.operation.journal.error(&ResultScope::Velero, format!("not all CSI snapshots can be taken: {e}"));
    }
    let csi = takes_snapshots.then(|| csi_snapshots(backup, &catalog, env)).flatten();
    if let (Some(side_effects), Some(csi)) = (side_effects, &csi) {
        side_effects.hold(csi);
    }
    let commands = side_effects.map(|side_effects| side_effects.commands.clone());
    let native = side_effects.and_then(SideEffects::native).cloned();
    let files = side_effects.and_then(SideEffects::files).cloned();
    let mut lane = Lane::new(&catalog, &env.actions, csi)?;
    lane.workers = settings.item_block_workers.max(1);
    let hooks = BackupHooks::new(&backup.spec.hooks, &catalog).map_err(ValidationErrors)?;
    let hooks = hooks.with_most(settings.max_hook_timeout);
    let claims = catalog.find(&GroupResource::new("", "persistentvolumeclaims"));
    let flags = Flags {
        serves_snapshots: SnapshotTypes::of(&catalog).is_some(),
        serves_groups: GroupTypes::of(&catalog).is_some(),
        native: !env.actions.volume_snapshotters.is_empty(),
        saves_claims: claims.is_some_and(|resource| filter.collects(resource).is_ok()),
        movers,
        ..Flags::of(&backup.spec, settings.features)
    };
    let rules = VolumeRules { policies: policies.cloned(), flags };
    Ok(Scope {
        backup: backup.clone(),
        catalog,
        filter,
        namespaces,
        lane,
        volumes: VolumeScope { rules, native, files },
        hooks: HookScope { rules: hooks, commands },
        terminating: TerminatingObjects::default(),
    })
}
