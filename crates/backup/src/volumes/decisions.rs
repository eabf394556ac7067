//! Decides about the volumes whose objects the action lane has taken in.

use crate::action_lane::fetch::{ItemReceiver, pick};
use crate::action_lane::intake::ActionLaneIntake;
use crate::env::Env;
use crate::stage_error::{ListError, StageError};
use bytes::Bytes;
use lifeboat_cluster::ListRequest;
use lifeboat_object::{ApiResource, Item, ObjectKey, ResultScope, counted};
use lifeboat_volume::csi::{GroupTypes, SnapshotTypes};
use lifeboat_volume::facts::Claim;
use lifeboat_volume::fs_backup::unready_node_agents;
use lifeboat_volume::{GroupClass, GroupNote, GroupRules, SnapshotClass, SnapshotClasses, Verdicts, VolumeInventory};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Decides about all volumes, once all objects of their types were taken in. What people must know of groups of claims is told, and for
/// each claim that is snapshotted by itself the class is chosen.
pub(crate) async fn decide(intake: &mut ActionLaneIntake) -> Result<Verdicts, StageError> {
    survey_pods_outside(intake).await?;
    let inventory = std::mem::take(&mut intake.inventory);
    let mut verdicts = inventory.decide(intake.scope.volumes.rules.get());
    let namespaces = verdicts.namespaces_of_groups();
    if !namespaces.is_empty() {
        let rules = group_rules(namespaces, intake).await?;
        for GroupNote { namespace, text } in verdicts.settle_groups(&intake.scope.volumes.rules.flags, &rules) {
            intake.env.operation.journal.warn(&ResultScope::Namespace(namespace), text);
        }
    }
    if verdicts.has_single_snapshots()
        && let Some(types) = SnapshotTypes::of(&intake.scope.catalog)
    {
        let wanted = WholeList { resource: &types.classes, namespace: None, selector: "" };
        match listed(wanted, &intake.env).await {
            Ok(bodies) => {
                let read = bodies.iter().filter_map(|body| serde_json::from_slice(body).ok());
                let classes = read.map(|class| SnapshotClass::of(&class)).collect();
                verdicts.settle_classes(&SnapshotClasses::new(classes, &intake.scope.backup.metadata.annotations));
            }
            // That is an error of each snapshot.
            Err(ListError::Cluster(_)) => {}
            Err(ListError::Stage(e)) => return Err(e),
        }
    }
    tell_waiting(&verdicts, intake);
    Ok(verdicts)
}

/// Warns of volumes whose data waits for a node agent that is ready on no node.
fn tell_waiting(verdicts: &Verdicts, intake: &ActionLaneIntake) {
    let movers = &intake.scope.volumes.rules.flags.movers;
    let waiting = movers.waiting(verdicts.iter().map(|decided| &decided.verdict.method));
    if waiting > 0 {
        let data = format!("the data of {}", counted(waiting, "volume"));
        let text = unready_node_agents(&intake.scope.backup.metadata.namespace, &data);
        intake.env.operation.journal.warn(&ResultScope::Velero, text);
    }
}

/// Reads what decides about groups of claims in these namespaces, beside the claims of the backup.
async fn group_rules(namespaces: BTreeSet<String>, intake: &ActionLaneIntake) -> Result<GroupRules, StageError> {
    let (scope, env) = (&intake.scope, &intake.env);
    let classes = match GroupTypes::of(&scope.catalog) {
        Some(types) => {
            let wanted = WholeList { resource: &types.classes, namespace: None, selector: "" };
            match listed(wanted, env).await {
                Ok(bodies) => {
                    let read = bodies.iter().filter_map(|body| serde_json::from_slice(body).ok());
                    Ok(read.map(|class| GroupClass::of(&class)).collect())
                }
                Err(ListError::Cluster(e)) => Err(e.to_string()),
                Err(ListError::Stage(e)) => return Err(e),
            }
        }
        // Without them nothing is asked of the classes.
        None => Ok(Vec::new()),
    };
    let mut outside = Vec::new();
    let label = scope.backup.spec.volume_group_snapshot_label_key.as_str();
    for namespace in namespaces {
        let Some(claims) = scope.find("", "persistentvolumeclaims") else { break };
        let wanted = WholeList { resource: claims, namespace: Some(&namespace), selector: label };
        match listed(wanted, env).await {
            Ok(bodies) => {
                let items = bodies.into_iter().filter_map(|body| Item::parse(Arc::clone(claims), body).ok());
                outside.extend(items.map(|item| Claim::of(&item)));
            }
            // The snapshot-controller finds out what there is.
            Err(ListError::Cluster(why)) => {
                let fields = [("namespace", namespace.as_str()), ("why", &why.to_string())];
                env.operation
                    .journal
                    .info("It is not known which claims outside the backup are in its groups", &fields);
            }
            Err(ListError::Stage(e)) => return Err(e),
        }
    }
    Ok(GroupRules::new(classes, &scope.backup.metadata.annotations).with_outside(outside))
}

/// A list that is read as a whole.
struct WholeList<'a> {
    resource: &'a Arc<ApiResource>,
    namespace: Option<&'a str>,
    selector: &'a str,
}

/// Lists objects.
async fn listed(wanted: WholeList<'_>, env: &Env) -> Result<Vec<Bytes>, ListError> {
    let WholeList { resource, namespace, selector } = wanted;
    let mut list = env
        .cluster
        .list(ListRequest::all(Arc::clone(resource)).in_namespace(namespace.map(str::to_owned)).labelled(selector));
    let mut out = Vec::new();
    loop {
        let bodies = tokio::select! {
            () = env.operation.cancel.cancelled() => return Err(StageError::OperationEnded.into()),
            bodies = list.next() => bodies,
        };
        match bodies {
            Ok(Some(bodies)) => out.extend(bodies),
            Ok(None) => return Ok(out),
            Err(e) => return Err(ListError::Cluster(e)),
        }
    }
}

/// Takes in the pods that are not in the backup and mount its claims: their annotations count too.
pub(crate) async fn survey_pods_outside(intake: &mut ActionLaneIntake) -> Result<(), StageError> {
    let (scope, env) = (Arc::clone(&intake.scope), intake.env.clone());
    let Some(pods) = scope.find("", "pods") else { return Ok(()) };
    if scope.filter.collects(pods).is_ok() && !scope.filter.selects_namespaced() {
        return Ok(());
    }
    let namespaces: HashSet<String> = intake.inventory.namespaces().into_iter().map(str::to_owned).collect();
    let mut outside = PodsOutside(&mut intake.inventory);
    // A list of each is more than one of the cluster when there are many.
    if namespaces.len() > MANY {
        let is_there = |item: &Item| item.head.namespace.as_ref().is_some_and(|name| namespaces.contains(name));
        return pick(pods, None, is_there, &env, &mut outside).await.map(drop);
    }
    for namespace in namespaces {
        pick(pods, Some(&namespace), |_| true, &env, &mut outside).await?;
    }
    Ok(())
}

/// Namespaces of which each is listed alone.
const MANY: usize = 20;

struct PodsOutside<'a>(&'a mut VolumeInventory);

impl ItemReceiver for PodsOutside<'_> {
    async fn take(&mut self, item: Item) -> Result<(), StageError> {
        self.0.take(&item);
        Ok(())
    }

    fn absent(&mut self, _: ObjectKey) {}

    fn unread(&mut self, _: ObjectKey) {}
}
