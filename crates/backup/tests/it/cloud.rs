//! A storage with snapshots, and the snapshotter of a location in it, which fails as it is told.

use crate::trip::Trip;
use async_trait::async_trait;
use lifeboat_action::{ActionError, LocatedSnapshotter, VolumeFacts, VolumeRequest, VolumeSnapshotter};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::sleep;

/// The outcome of a call.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// It does what it should.
    Good,
    /// It does nothing, and fails so.
    Fails(ActionError),
    /// It does what it should, and then fails so.
    FailsAfter(ActionError),
    /// It panics.
    Panics,
    /// It does nothing, and never answers.
    Hangs,
    /// It does what it should, and never answers.
    HangsAfter,
}

/// Decides about a call by its name, its subject, and how often it was made before.
type Fates = Box<dyn Fn(&str, &str, usize) -> Fate + Send + Sync>;

/// The snapshotter `test/cloud` of one location. Volumes whose names begin with that of the location are there.
pub(crate) struct Cloud {
    location: &'static str,
    states: Mutex<Fates>,
    trip: Mutex<Arc<Trip>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Volume, zone and tags by snapshot.
    snapshots: BTreeMap<String, (String, String, BTreeMap<String, String>)>,
    calls: Vec<String>,
    made: usize,
    running: usize,
    most: usize,
}

impl Cloud {
    pub(crate) fn new(location: &'static str) -> Arc<Self> {
        let states: Fates = Box::new(|_, _, _| Fate::Good);
        Arc::new(Self { location, states: Mutex::new(states), trip: Mutex::default(), state: Mutex::default() })
    }

    /// Counts the steps of the process that calls it from now on.
    pub(crate) fn count_steps(&self, trip: &Arc<Trip>) {
        *self.trip.lock().unwrap() = Arc::clone(trip);
    }

    pub(crate) fn located(self: &Arc<Self>) -> LocatedSnapshotter {
        LocatedSnapshotter { location: self.location.to_owned(), snapshotter: Arc::clone(self) as _ }
    }

    /// Lets what is decided so become of calls from now on.
    pub(crate) fn let_be(&self, states: impl Fn(&str, &str, usize) -> Fate + Send + Sync + 'static) {
        *self.states.lock().unwrap() = Box::new(states);
    }

    /// The volume and the tag of the backup's volume, by snapshot.
    pub(crate) fn snapshots(&self) -> BTreeMap<String, String> {
        let state = self.state.lock().unwrap();
        state.snapshots.iter().map(|(id, (volume, ..))| (id.clone(), volume.clone())).collect()
    }

    /// The zone and the tags of the snapshot of a volume.
    pub(crate) fn of(&self, volume: &str) -> (String, BTreeMap<String, String>) {
        let state = self.state.lock().unwrap();
        let found = state.snapshots.values().find(|(of, ..)| of == volume).unwrap();
        (found.1.clone(), found.2.clone())
    }

    /// The calls since the last time.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().calls)
    }

    /// The most calls that ran at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.state.lock().unwrap().most
    }

    async fn call<T>(
        &self,
        name: &str,
        subject: &str,
        effect: impl FnOnce(&mut State) -> T + Send,
    ) -> Result<T, ActionError> {
        let fate = {
            let mut state = self.state.lock().unwrap();
            let line = format!("{name} {subject}");
            let before = state.calls.iter().filter(|call| **call == line).count();
            state.calls.push(line);
            state.running += 1;
            state.most = state.most.max(state.running);
            (self.states.lock().unwrap())(name, subject, before)
        };
        let trip = Arc::clone(&self.trip.lock().unwrap());
        trip.step().await;
        let ended = self.fate(fate, effect).await;
        trip.step().await;
        self.state.lock().unwrap().running -= 1;
        ended
    }

    async fn fate<T>(&self, fate: Fate, effect: impl FnOnce(&mut State) -> T + Send) -> Result<T, ActionError> {
        // Long enough for others to begin.
        sleep(Duration::from_millis(1)).await;
        let effect = |fate| {
            let done = effect(&mut self.state.lock().unwrap());
            (done, fate)
        };
        match fate {
            Fate::Fails(error) => Err(error),
            Fate::Panics => panic!("out of order"),
            Fate::Hangs => std::future::pending().await,
            fate => match effect(fate) {
                (_, Fate::FailsAfter(error)) => Err(error),
                (_, Fate::HangsAfter) => std::future::pending().await,
                (done, _) => Ok(done),
            },
        }
    }
}

#[async_trait]
impl VolumeSnapshotter for Cloud {
    fn name(&self) -> &str {
        "test/cloud"
    }

    async fn volume_id(&self, volume: &Value) -> Result<Option<String>, ActionError> {
        let name = volume["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let id = volume["spec"]["awsElasticBlockStore"]["volumeID"].as_str().unwrap_or_default().to_owned();
        let is_here = id.starts_with(self.location);
        self.call("volume_id", &name, move |_| is_here.then_some(id)).await
    }

    async fn volume_facts(&self, volume: &str, zone: &str) -> Result<VolumeFacts, ActionError> {
        let iops = (zone == "zone-1").then_some(500);
        self.call("volume_facts", volume, move |_| VolumeFacts { volume_type: "fast".to_owned(), iops }).await
    }

    async fn create_snapshot(
        &self,
        volume: &str,
        zone: &str,
        tags: &BTreeMap<String, String>,
    ) -> Result<String, ActionError> {
        self.call("create_snapshot", volume, |state| {
            state.made += 1;
            let id = format!("snap-{}", state.made);
            state.snapshots.insert(id.clone(), (volume.to_owned(), zone.to_owned(), tags.clone()));
            id
        })
        .await
    }

    async fn create_volume(&self, request: &VolumeRequest) -> Result<String, ActionError> {
        Err(ActionError::item(format!("no volume of {} is made here", request.snapshot_id)))
    }

    async fn set_volume_id(&self, volume: Value, _: &str) -> Result<Value, ActionError> {
        Ok(volume)
    }

    async fn delete_snapshot(&self, snapshot: &str) -> Result<(), ActionError> {
        self.call("delete_snapshot", snapshot, |state| drop(state.snapshots.remove(snapshot))).await
    }
}
