//! Fetches what belongs to objects of the action lane, is of a type that actions look at, and did not come with the
//! lists (velero: pkg/backup/itemblock.go).

use crate::action_lane::fetch::{ItemReceiver, failed, named, pick, tell_absent};
use crate::action_lane::index::{NotIndexed, RelationFacts, group_digest};
use crate::action_lane::intake::ActionLaneIntake;
use crate::action_lane::item_block_actions::ask_item_block_actions;
use crate::action_lane::save_report::AdditionalItem;
use crate::actions::pod::PodView;
use crate::actions::pv::{ClaimView, volume_key};
use crate::actions::service_account::{Binding, Digest};
use crate::stage_error::StageError;
use lifeboat_object::{GroupResource, Item, ObjectKey, ResultScope, view};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// Rounds in which related objects bring further ones; Velero's relations are four deep.
const ROUNDS: usize = 16;
/// Objects whose answers of plugins are in memory together.
const TOGETHER: usize = 1000;

impl ItemReceiver for ActionLaneIntake {
    async fn take(&mut self, item: Item) -> Result<(), StageError> {
        self.tally.came(1);
        self.env.operation.progress.found(1);
        self.take(vec![item]).await;
        Ok(())
    }

    fn absent(&mut self, key: ObjectKey) {
        self.index.note(key.digest(), NotIndexed::Absent);
    }

    fn unread(&mut self, key: ObjectKey) {
        self.index.note(key.digest(), NotIndexed::Unread);
    }
}

/// Runs after the lists of these types have ended. That something is not there is told with the object that needs it.
pub(crate) async fn gather(intake: &mut ActionLaneIntake) -> Result<(), StageError> {
    let mut done = 0;
    for _ in 0..ROUNDS {
        let new = done..intake.index.len();
        if new.is_empty() {
            break;
        }
        done = new.end;
        bindings(new.clone(), intake).await?;
        neighbours(new.clone(), intake).await?;
        let mut missing = missing(new.clone(), intake).await?;
        let asked = asked(new, intake).await?;
        missing.extend(asked.keys().cloned());
        let (scope, env) = (Arc::clone(&intake.scope), intake.env.clone());
        named(missing, &scope, &env, intake).await?;
        for (key, parent) in asked {
            if intake.index.outside(&key.digest()) == Some(NotIndexed::Absent) {
                tell_absent(&key, &parent, &env);
            }
        }
    }
    if done < intake.index.len() {
        let text = format!(
            "objects that belong to objects that belong to others were looked for {ROUNDS} times, and no further"
        );
        intake.env.operation.journal.warn(&ResultScope::Velero, text);
    }
    Ok(())
}

/// The objects that actions of plugins name and that are not known yet, each with the object that it was named for.
/// Named objects that no action looks at become additional items.
async fn asked(new: Range<usize>, intake: &mut ActionLaneIntake) -> Result<BTreeMap<ObjectKey, ObjectKey>, StageError> {
    let scope = Arc::clone(&intake.scope);
    let mut out = BTreeMap::new();
    for start in new.clone().step_by(TOGETHER) {
        for named in ask_item_block_actions(start..new.end.min(start + TOGETHER), intake).await? {
            intake.named.insert(named.number, named.digests());
            for key in named.related {
                let parent = named.object.clone();
                match scope.catalog.find(&key.resource) {
                    Some(resource) if scope.lane.takes(resource) => {
                        let is_missing = !intake.index.knows(&key.digest());
                        if is_missing && scope.can_include(resource, key.namespace.as_deref()) {
                            out.entry(key).or_insert(parent);
                        }
                    }
                    _ => intake.report.want(key, AdditionalItem { parent, must_include: false }),
                }
            }
        }
    }
    Ok(out)
}

/// Cluster role bindings of the service accounts, when that type was not listed as a whole.
async fn bindings(new: Range<usize>, intake: &mut ActionLaneIntake) -> Result<(), StageError> {
    let (scope, env) = (Arc::clone(&intake.scope), intake.env.clone());
    let Some(resource) = scope.find("rbac.authorization.k8s.io", "clusterrolebindings") else { return Ok(()) };
    if scope.filter.lists_all_of(resource) || scope.filter.excludes_additional(resource) {
        return Ok(());
    }
    let new = intake.index.records().get(new).unwrap_or_default();
    let accounts = new.iter().filter(|r| r.resource.resource == "serviceaccounts" && r.resource.group.is_empty());
    let accounts: HashSet<Digest> = accounts.map(|record| record.digest).collect();
    if accounts.is_empty() {
        return Ok(());
    }
    let is_ours = |item: &Item| match serde_json::from_slice(&item.body) {
        Ok(object) => Binding::of(&object).is_some_and(|binding| binding.binds(|account| accounts.contains(account))),
        Err(e) => {
            // It is not known whether it belongs to a saved one.
            failed(&item.key(), &e, &env);
            false
        }
    };
    pick(resource, None, is_ours, &env, intake).await.map(drop)
}

/// Running pods that mount a bound claim, and claims of the same group: only with label selectors can the lists have
/// missed them.
async fn neighbours(new: Range<usize>, intake: &mut ActionLaneIntake) -> Result<(), StageError> {
    let (scope, env) = (Arc::clone(&intake.scope), intake.env.clone());
    if !scope.filter.selects_namespaced() {
        return Ok(());
    }
    let (mut claims, mut groups, mut namespaces) = (HashSet::new(), HashSet::new(), BTreeMap::new());
    for number in new {
        let Some(record) = intake.index.records().get(number) else { continue };
        let RelationFacts::Claim { volume: Some(_), group } = record.facts else { continue };
        claims.insert(record.digest);
        groups.extend(group);
        if let Some(item) = intake.read(number).await
            && let Some(namespace) = item.head.namespace
        {
            *namespaces.entry(namespace).or_insert(false) |= group.is_some();
        }
    }
    for (namespace, has_groups) in namespaces {
        if let Some(pods) = scope.find("", "pods").filter(|r| scope.filter.collects(r).is_ok()) {
            let digest =
                |name| ObjectKey::new(GroupResource::new("", "persistentvolumeclaims"), Some(&namespace), name);
            let mounts = |item: &Item| {
                let pod: PodView = serde_json::from_slice(&item.body)
                    .inspect_err(|e| failed(&item.key(), e, &env))
                    .unwrap_or_default();
                pod.is_running(&item.head)
                    && pod.claims().any(|name| claims.contains(&digest(name.into_owned()).digest()))
            };
            pick(pods, Some(&namespace), mounts, &env, intake).await?;
        }
        if let Some(resource) = scope.find("", "persistentvolumeclaims").filter(|_| has_groups) {
            let label = scope.backup.spec.volume_group_snapshot_label_key.as_str();
            let grouped = |item: &Item| {
                item.head.labels.get(label).is_some_and(|value| groups.contains(&group_digest(&namespace, value)))
            };
            pick(resource, Some(&namespace), grouped, &env, intake).await?;
        }
    }
    Ok(())
}

/// The claims of pods and the volumes of claims that are not known. Names are not kept: the few objects of which something
/// is missing are read again.
async fn missing(new: Range<usize>, intake: &ActionLaneIntake) -> Result<BTreeSet<ObjectKey>, StageError> {
    let scope = &intake.scope;
    let can = |resource| scope.find("", resource).is_some_and(|r| !scope.filter.excludes_additional(r));
    let collects_claims =
        scope.find("", "persistentvolumeclaims").is_some_and(|r| scope.filter.collects(r).is_ok() && can(&r.resource));
    let has_volumes = can("persistentvolumes");
    let mut out = BTreeSet::new();
    for number in new {
        let Some(record) = intake.index.records().get(number) else { continue };
        let lacks = match &record.facts {
            RelationFacts::Pod { claims, .. } => {
                collects_claims && claims.iter().any(|claim| !intake.index.knows(claim))
            }
            RelationFacts::Claim { volume: Some(volume), .. } => has_volumes && !intake.index.knows(volume),
            RelationFacts::Claim { .. } | RelationFacts::Other => false,
        };
        if !lacks {
            continue;
        }
        if intake.env.operation.cancel.is_cancelled() {
            return Err(StageError::OperationEnded);
        }
        let Some(item) = intake.read(number).await else { continue };
        let keys = match &record.facts {
            RelationFacts::Pod { .. } => {
                let pod = view::<PodView>(&item.body).unwrap_or_default();
                pod.needs(item.head.namespace.as_deref().unwrap_or_default())
            }
            _ => view::<ClaimView>(&item.body).and_then(|claim| claim.bound_to().map(volume_key)).into_iter().collect(),
        };
        let is_wanted = |key: &ObjectKey| {
            scope.catalog.find(&key.resource).is_some_and(|resource| {
                scope.lane.takes(resource)
                    && scope.can_include(resource, key.namespace.as_deref())
                    && !intake.index.knows(&key.digest())
            })
        };
        out.extend(keys.into_iter().filter(is_wanted));
    }
    Ok(out)
}
