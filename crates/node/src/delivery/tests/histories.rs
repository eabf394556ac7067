//! Deliveries with two agents, the controllers of Kubernetes between their steps, and people who delete the target.

use super::{delivery, objects};
use crate::delivery::{DeliveryStep, DeliveryView, is_being_deleted, next_delivery_step, remade_volume};
use crate::kube::{text, uid};
use crate::transfer::Delivery;
use lifeboat_api::TargetVolumeSpec;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Clone)]
struct World {
    volumes: BTreeMap<String, Value>,
    claim: Option<Value>,
    target: Option<Value>,
    has_pod: bool,
    is_attached: bool,
    version: u64,
}

fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        object.clone_from(patch);
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (name, value) in fields {
        match value.is_null() {
            true => drop(object.as_object_mut().unwrap().remove(name)),
            false => merge(&mut object[name.as_str()], value),
        }
    }
}

fn is_of(volume: &Value, claim: &Value) -> bool {
    let (reference, meta) = (&volume["spec"]["claimRef"], &claim["metadata"]);
    reference["namespace"] == meta["namespace"]
        && reference["name"] == meta["name"]
        && (reference["uid"].is_null() || reference["uid"] == meta["uid"])
}

impl World {
    fn new(is_remade: bool) -> (Self, Delivery) {
        let mut of = objects();
        of.volume["spec"]["csi"] = json!({"volumeHandle": "vol-1"});
        let mut claim = of.claim.take().unwrap();
        claim["metadata"]["namespace"] = json!("velero");
        claim["metadata"]["uid"] = json!("claim-uid");
        if is_remade {
            of.volume["spec"]["volumeMode"] = json!("Block");
        }
        let remade = is_remade.then(|| remade_volume(&of.volume, &of.target, "pvc-dd".into(), "ext4"));
        let volumes = BTreeMap::from([("pv-1".to_owned(), of.volume)]);
        let (claim, target) = (Some(claim), Some(of.target));
        (Self { volumes, claim, target, has_pod: true, is_attached: true, version: 100 }, delivery(remade))
    }

    fn see<T>(&self, delivery: &Delivery, look: impl FnOnce(&DeliveryView<'_>) -> T) -> T {
        let target_spec =
            TargetVolumeSpec { pvc: "data".into(), namespace: "shop".into(), ..TargetVolumeSpec::default() };
        look(&DeliveryView {
            target_spec: &target_spec,
            delivery,
            target_uid: &delivery.target_uid,
            volume: self.volumes.get("pv-1"),
            remade: self.volumes.get("pvc-dd"),
            restore_claim: self.claim.as_ref(),
            target: self.target.as_ref(),
            has_pod: self.has_pod,
            is_attached: self.is_attached,
        })
    }

    fn next_version(&mut self) -> Value {
        self.version += 1;
        json!(self.version.to_string())
    }

    /// Does a step of an agent that has seen the cluster like this: what has changed since is refused.
    fn act(&mut self, seen: &Self, step: DeliveryStep) {
        let version = self.next_version();
        match step {
            DeliveryStep::PatchVolume(patch) => {
                let name = if seen.volumes.contains_key("pvc-dd") { "pvc-dd" } else { "pv-1" };
                if let Some(volume) = self.volumes.get_mut(name)
                    && volume["metadata"]["resourceVersion"] == patch["metadata"]["resourceVersion"]
                {
                    merge(volume, &patch);
                    volume["metadata"]["resourceVersion"] = version;
                }
            }
            DeliveryStep::PatchTarget(patch) => {
                if let Some(target) = &mut self.target
                    && target["metadata"]["resourceVersion"] == patch["metadata"]["resourceVersion"]
                {
                    merge(target, &patch);
                    target["metadata"]["resourceVersion"] = version;
                }
            }
            DeliveryStep::RemovePod => self.has_pod = false,
            DeliveryStep::RemoveClaim => {
                if let Some(claim) = &mut self.claim {
                    claim["metadata"]["deletionTimestamp"] = json!("2026-11-28T12:00:00Z");
                }
            }
            DeliveryStep::CreateVolume(mut made) => {
                made["metadata"]["resourceVersion"] = version;
                self.volumes.entry("pvc-dd".to_owned()).or_insert(made);
            }
            DeliveryStep::RemoveVolume => {
                if let Some(volume) = self.volumes.get_mut("pv-1")
                    && volume["metadata"]["resourceVersion"] == seen.volumes["pv-1"]["metadata"]["resourceVersion"]
                {
                    volume["metadata"]["deletionTimestamp"] = json!("2026-11-28T12:00:00Z");
                    volume["metadata"]["resourceVersion"] = version;
                }
            }
            DeliveryStep::Wait(_) | DeliveryStep::Done | DeliveryStep::Failed(_) => {}
        }
    }

    /// Removes what was made for a download that has failed, and keeps its bytes.
    fn clean_up(&mut self, delivery: &Delivery) {
        let version = self.next_version();
        if let Some(volume) = self.volumes.get_mut("pv-1")
            && volume["spec"]["claimRef"]["namespace"] == "velero"
        {
            volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Retain");
            volume["metadata"]["resourceVersion"] = version.clone();
        }
        if let Some(remade) = &delivery.remade
            && self.volumes.get("pv-1").is_none_or(is_being_deleted)
        {
            let mut made = remade.manifest.clone();
            made["metadata"]["resourceVersion"] = version;
            self.volumes.entry("pvc-dd".to_owned()).or_insert(made);
        }
        self.has_pod = false;
        if let Some(claim) = &mut self.claim {
            claim["metadata"]["deletionTimestamp"] = json!("2026-11-28T12:00:00Z");
        }
    }

    /// Does what the controllers of Kubernetes do in time.
    fn control(&mut self) {
        self.is_attached &= self.has_pod;
        if !self.has_pod && self.claim.as_ref().is_some_and(is_being_deleted) {
            self.claim = None;
        }
        let version = self.next_version();
        let claims: Vec<Value> = [&self.claim, &self.target].into_iter().flatten().cloned().collect();
        self.volumes.retain(|_, volume| {
            let is_used = claims.iter().any(|claim| is_of(volume, claim));
            let policy = text(volume, &["spec", "persistentVolumeReclaimPolicy"]);
            assert!(is_used || policy == "Retain", "the bytes in the storage would be deleted: {volume}");
            !is_being_deleted(volume) || is_used
        });
        let Some(target) = &mut self.target else { return };
        for (name, volume) in &mut self.volumes {
            let wanted = text(target, &["spec", "volumeName"]);
            let has_mode = volume["spec"]["volumeMode"] != "Block";
            if is_of(volume, target) && has_mode && (wanted.is_empty() || wanted == name) {
                volume["spec"]["claimRef"]["uid"] = target["metadata"]["uid"].clone();
                target["spec"]["volumeName"] = json!(name);
                target["status"]["phase"] = json!("Bound");
                target["metadata"]["resourceVersion"] = version.clone();
                volume["metadata"]["resourceVersion"] = version.clone();
            }
        }
    }

    /// Deletes the target, and makes another one of its name.
    fn replace_target(&mut self) {
        let version = self.next_version();
        let mut another = objects().target;
        another["metadata"]["uid"] = json!("another-uid");
        another["metadata"]["resourceVersion"] = version;
        self.target = Some(another);
    }
}

/// Plays one history, and gives its last step.
fn play(is_remade: bool, seed: u64) -> DeliveryStep {
    let (mut world, delivery) = World::new(is_remade);
    let mut random = seed.wrapping_mul(2).wrapping_add(1);
    let mut choose = move |of: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % of
    };
    let mut seen = world.clone();
    let is_lost_after = choose(60);
    for turn in 0..2000 {
        let is_bound = world.target.as_ref().is_some_and(|target| target["status"]["phase"] == "Bound");
        if turn == is_lost_after && seed.is_multiple_of(2) && !is_bound {
            match choose(2) {
                0 => world.target = None,
                _ => world.replace_target(),
            }
        }
        match choose(4) {
            0 => world.control(),
            // This agent was stopped between its look and its step.
            1 => {
                let step = seen.see(&delivery, next_delivery_step);
                world.act(&seen, step);
                seen = world.clone();
            }
            _ => match world.see(&delivery, next_delivery_step) {
                DeliveryStep::Done => return DeliveryStep::Done,
                end @ DeliveryStep::Failed(_) => {
                    if let Some(kept) = world.see(&delivery, |view| view.volume_to_keep().cloned()) {
                        world.act(&world.clone(), DeliveryStep::CreateVolume(kept));
                    }
                    // An agent that was stopped before its step does it now.
                    let step = seen.see(&delivery, next_delivery_step);
                    world.act(&seen, step);
                    world.clean_up(&delivery);
                    for _ in 0..2 {
                        world.control();
                    }
                    assert_eq!(world.volumes.len(), 1, "one PersistentVolume has the bytes, seed {seed}: {end:?}");
                    return end;
                }
                step => world.act(&world.clone(), step),
            },
        }
        assert!(world.volumes.len() <= 1, "two PersistentVolumes have the same bytes, seed {seed}");
        let mut reserved = world.volumes.values().map(|volume| text(volume, &["spec", "claimRef", "uid"]));
        assert!(reserved.all(|uid| uid != "another-uid"), "another claim gets the bytes, seed {seed}");
        if let Some(target) = world.target.as_ref().filter(|target| uid(target) == "another-uid") {
            assert_eq!(text(target, &["spec", "volumeName"]), "", "seed {seed}");
        }
    }
    panic!("it does not end, seed {seed}");
}

#[test]
fn a_delivery_ends_well_with_two_agents_and_controllers_between_them() {
    for seed in (1..2000).step_by(2) {
        for is_remade in [false, true] {
            assert_eq!(play(is_remade, seed), DeliveryStep::Done, "seed {seed}");
        }
    }
}

#[test]
fn a_delivery_whose_target_is_lost_at_any_time_keeps_the_bytes() {
    for seed in (0..2000).step_by(2) {
        for is_remade in [false, true] {
            let end = play(is_remade, seed);
            assert!(matches!(end, DeliveryStep::Done | DeliveryStep::Failed(_)), "seed {seed}: {end:?}");
        }
    }
}
