//! Tells what the server would do, and why it does nothing with the rest.

#[cfg(test)]
mod table;

use super::codes;
use super::key::{Key, Subject};
use super::memory::Memory;
use super::plan::{PlanInput, ServerPlan, plan};
use super::wait::Reason;
use super::words::{does, moment, waits_for};
use crate::options::{Options, ServerClock};
use crate::world::{Meta, MirrorChange, MirroredKind, World};
use jiff::Timestamp;
use lifeboat_api::NamespacedName;
use lifeboat_api::{BackupPhase, DeleteBackupRequestPhase, RestorePhase};
use lifeboat_client::Client;
use lifeboat_cluster::{ClusterError, ListRequest};
use lifeboat_reconcile::{MirrorEvent, TaskKey};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;

/// The plan of the server for all resources of its namespace, with reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The pod that leads by the Lease, and works on what is in progress; none when the Lease names none.
    pub leader: Option<String>,
    /// Steps that would be begun at once.
    pub steps: Vec<ExplainedStep>,
    /// Objects with which nothing would be begun yet.
    pub waits: Vec<ExplainedWait>,
    /// Numbers of the objects at rest for good, by kind and phase.
    pub at_rest: Vec<AtRest>,
    /// When something is due next, if nothing changes.
    pub wake: Option<Timestamp>,
}

/// A step that would be begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedStep {
    /// The kind of the object.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its phase.
    pub state: String,
    /// The code of the step, for programs: one word, which stays the same.
    pub reason: &'static str,
    /// The same for people.
    pub does: String,
}

/// An object that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedWait {
    /// The kind of the object.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its phase.
    pub state: String,
    /// The code of the reason for which it waits, for programs: one word, which stays the same.
    pub reason: &'static str,
    /// The same for people.
    pub waits_for: String,
    /// Until when, where that is known.
    pub until: Option<Timestamp>,
}

/// Objects with which the server has nothing to do, nor will have, unless a user or another program changes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AtRest {
    /// Their kind.
    pub kind: &'static str,
    /// Their phase.
    pub phase: String,
    /// Their number.
    pub count: usize,
}

/// Explains the steps that the server would begin if it looked at all resources of its namespace now, and why the
/// others wait. Reads only: one list of each kind, one after the other, and the Lease.
///
/// Assumes the likeliest for facts that only a running server knows: where one leads, it works on all that is in
/// progress, and has validated the locations as they are; nothing has failed.
///
/// # Errors
/// [`ClusterError`] of a list, or of the Lease.
pub async fn explain(client: &Client, options: &Options, clock: &ServerClock) -> Result<Explanation, ClusterError> {
    let mut world = World::default();
    for kind in MirroredKind::ALL {
        let mut list = client.cluster.list(ListRequest::all(kind.resource()).in_namespace(client.namespace.clone()));
        let mut all = Vec::new();
        while let Some(bodies) = list.next().await? {
            all.extend(bodies);
        }
        world.see(MirrorChange { kind: *kind, what: MirrorEvent::All(all) });
    }
    world.cluster = client.cluster.uid().await?;
    // A leader that died holds nothing: the server that is explained would take up its work.
    let leader = client.living_leading_pod((clock.0)()).await?;
    Ok(explained(&world, options, leader, (clock.0)()))
}

/// Explains the steps for all objects of this world when this pod leads, and why the others wait.
pub(super) fn explained(world: &World, options: &Options, leader: Option<String>, now: Timestamp) -> Explanation {
    let now = (now, Instant::now());
    let memory = if leader.is_some() { Memory::likely(world, now.1) } else { Memory::default() };
    let running = if leader.is_some() { in_progress(world) } else { Vec::new() };
    let plan = plan(PlanInput { world, options, memory: &memory, now, explain: true }, running.iter());
    let states: BTreeMap<(MirroredKind, &NamespacedName), String> =
        world.all().map(|(kind, key, phase)| ((kind, key), state(kind, phase))).collect();
    let state_of = |subject: &Subject| states.get(&subject.object()).cloned().unwrap_or_default();
    let waits = plan.waits.iter().map(|wait| {
        let (kind, key) = wait.subject.object();
        let waits_for = match (&wait.why, &leader) {
            (Reason::Runs(_), Some(leader)) => {
                format!("its end: it is worked on by the leader {leader}, or taken up by the next one")
            }
            (why, _) => waits_for(why, now),
        };
        let until = match &wait.why {
            Reason::Due(at) => Some(*at),
            Reason::Failed { until, .. } | Reason::Paused(until) | Reason::FirstSync { until, .. } => {
                Some(moment(*until, now))
            }
            _ => None,
        };
        ExplainedWait {
            kind: kind.word(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            state: state_of(&wait.subject),
            reason: codes::of_wait(&wait.why),
            waits_for,
            until,
        }
    });
    let steps = plan.work.iter().map(|work| {
        let object = work.key.object();
        let (kind, key) = object.object();
        ExplainedStep {
            kind: kind.word(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            state: state_of(&object),
            reason: codes::of_step(&work.step),
            does: does(&work.step),
        }
    });
    Explanation {
        steps: steps.collect(),
        waits: waits.collect(),
        at_rest: at_rest(world, &plan),
        wake: plan.wake.into_iter().chain(plan.retry.map(|at| moment(at, now))).min(),
        leader,
    }
}

/// The phase, in the word that tables have for none.
fn state(kind: MirroredKind, phase: &str) -> String {
    match (kind, phase) {
        (MirroredKind::BackupStorageLocation, "") => "Unknown".to_owned(),
        (_, "") => "New".to_owned(),
        (_, phase) => phase.to_owned(),
    }
}

/// Work that a leader is likely to be at.
fn in_progress(world: &World) -> Vec<Key> {
    let mut keys: BTreeMap<Subject, Key> = BTreeMap::new();
    let mut add = |key: Key| {
        keys.entry(key.subject()).or_insert(key);
    };
    let runs = |phase: &str| phase == BackupPhase::InProgress.as_str() || phase == RestorePhase::InProgress.as_str();
    for (kind, key, phase) in world.all() {
        match kind {
            MirroredKind::Backup if runs(phase) => add(Key::Backup(key.clone())),
            MirroredKind::Restore if runs(phase) => add(Key::Restore(key.clone())),
            _ => {}
        }
    }
    let begun = |phase| phase == Some(DeleteBackupRequestPhase::InProgress);
    for request in world.delete_requests.iter().filter(|request| begun(request.status.phase)) {
        add(Key::Deletion { backup: request.beside(&request.spec.backup_name), request: request.key() });
    }
    keys.into_values().collect()
}

/// Counts the objects for which the plan has neither a step nor a reason to wait.
fn at_rest(world: &World, plan: &ServerPlan) -> Vec<AtRest> {
    let mut moving: BTreeSet<Subject> = plan.work.iter().map(|work| work.key.object()).collect();
    moving.extend(plan.waits.iter().map(|wait| wait.subject.clone()));
    let moving: BTreeSet<(MirroredKind, &NamespacedName)> = moving.iter().map(Subject::object).collect();
    let mut counts: BTreeMap<(MirroredKind, String), usize> = BTreeMap::new();
    for (kind, key, phase) in world.all() {
        if !moving.contains(&(kind, key)) {
            *counts.entry((kind, state(kind, phase))).or_default() += 1;
        }
    }
    let rows = counts.into_iter();
    rows.map(|((kind, phase), count)| AtRest { kind: kind.word(), phase, count }).collect()
}
