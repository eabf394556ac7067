//! Events of a mover on its resource.
//!
//! There is one Event for each reason, updated in place, so that a long transfer leaves no thousands of them.

use super::failure::cut;
use super::resource::MoverResource;
use bytes::Bytes;
use lifeboat_api::{GROUP, Time};
use lifeboat_client::Client;
use lifeboat_cluster::{ClusterError, MergePatch, WriteBody};
use lifeboat_object::ApiResource;
use lifeboat_operation::Clock;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// The reason of an Event about differences that are no failure: owners that could not be set, files that changed.
pub(super) const WARNING: &str = "Data-Path-Warning";

/// The most bytes of a message (the API server takes 1024).
const LONGEST: usize = 1000;
/// The most bytes of the resource's name in the name of an Event.
const NAME: usize = 170;
/// The longest time for one Event.
const PATIENCE: Duration = Duration::from_secs(20);

/// Writes Events on one resource.
pub(super) struct Events<'a> {
    client: &'a Client,
    clock: &'a Clock,
    object: Value,
    /// The start of the names of its Events.
    prefix: String,
    /// The number of times that each was written.
    counts: Mutex<BTreeMap<&'static str, u32>>,
}

impl<'a> Events<'a> {
    pub(super) fn on<R: MoverResource>(client: &'a Client, clock: &'a Clock, resource: &R) -> Self {
        let meta = resource.meta();
        let object = json!({
            "apiVersion": format!("{GROUP}/{}", R::VERSION), "kind": R::KIND, "namespace": meta.namespace,
            "name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version,
        });
        let name = meta.name.get(..NAME).unwrap_or(&meta.name);
        let prefix = format!("{name}.{}", meta.uid);
        Self { client, clock, object, prefix, counts: Mutex::default() }
    }

    /// Writes the Event of a reason, or updates it. One that cannot be written is told in the log: the termination message holds.
    pub(super) async fn tell(&self, reason: &'static str, message: &str) {
        let count = {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(reason).or_default();
            *count += 1;
            *count
        };
        let message = cut(message, LONGEST);
        match timeout(PATIENCE, self.write(reason, &message, count)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, reason, "an Event cannot be written"),
            Err(_) => tracing::warn!(reason, "an Event was not written within {} s", PATIENCE.as_secs()),
        }
    }

    async fn write(&self, reason: &str, message: &str, count: u32) -> Result<(), ClusterError> {
        let events = ApiResource::new("", "v1", "events", "Event");
        let namespace = Some(self.client.namespace.as_str());
        let name = format!("{}.{}", self.prefix, reason.to_ascii_lowercase());
        let now = Time::new((self.clock)());
        let is_bad = matches!(reason, WARNING | lifeboat_mover::protocol::reason::FAILED);
        let change = json!({
            "message": message, "lastTimestamp": now, "count": count, "type": if is_bad { "Warning" } else { "Normal" },
        });
        let patch = async || {
            let patch = MergePatch::of(Bytes::from(change.to_string()));
            self.client.cluster.patch(&events, namespace, &name, patch).await.map(drop)
        };
        if count > 1 {
            match patch().await {
                Err(e) if e.is_not_found() => {}
                done => return done,
            }
        }
        let mut event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": self.client.namespace},
            "involvedObject": self.object, "reason": reason, "firstTimestamp": now,
            "source": {"component": "lifeboat-mover"}, "reportingComponent": "lifeboat-mover",
        });
        if let (Some(event), Some(change)) = (event.as_object_mut(), change.as_object()) {
            event.extend(change.clone());
        }
        let body = WriteBody::of(Bytes::from(event.to_string()));
        match self.client.cluster.create(&events, namespace, &name, body).await {
            // That of a pod before this one.
            Err(e) if e.is_already_exists() => patch().await,
            done => done.map(drop),
        }
    }
}
