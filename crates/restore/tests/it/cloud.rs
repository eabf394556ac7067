//! A storage in memory in which volumes are made from snapshots, and a scripted snapshotter of one of its locations.

use crate::trip::Trip;
use async_trait::async_trait;
use lifeboat_action::{ActionError, LocatedSnapshotter, VolumeFacts, VolumeRequest, VolumeSnapshotter};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Scripted outcome of a call.
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

/// The snapshotter `test/cloud` of one location.
pub(crate) struct Cloud {
    location: &'static str,
    treatments: Mutex<Fates>,
    trip: Mutex<Arc<Trip>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    volumes: BTreeMap<String, VolumeRequest>,
    calls: Vec<String>,
    made: usize,
}

impl Cloud {
    pub(crate) fn new(location: &'static str) -> Arc<Self> {
        let treatments: Fates = Box::new(|_, _, _| Fate::Good);
        Arc::new(Self { location, treatments: Mutex::new(treatments), trip: Mutex::default(), state: Mutex::default() })
    }

    pub(crate) fn located(self: &Arc<Self>) -> LocatedSnapshotter {
        LocatedSnapshotter { location: self.location.to_owned(), snapshotter: Arc::clone(self) as _ }
    }

    /// Lets what is decided so become of calls from now on.
    pub(crate) fn let_be(&self, treatments: impl Fn(&str, &str, usize) -> Fate + Send + Sync + 'static) {
        *self.treatments.lock().unwrap() = Box::new(treatments);
    }

    /// Counts the steps of the process that calls it from now on.
    pub(crate) fn count_steps(&self, trip: &Arc<Trip>) {
        *self.trip.lock().unwrap() = Arc::clone(trip);
    }

    /// Requests for volumes, by volume.
    pub(crate) fn requests(&self) -> BTreeMap<String, VolumeRequest> {
        self.state.lock().unwrap().volumes.clone()
    }

    /// The snapshots, by volume.
    pub(crate) fn volumes(&self) -> BTreeMap<String, String> {
        self.requests().into_iter().map(|(id, request)| (id, request.snapshot_id)).collect()
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
            (self.treatments.lock().unwrap())(name, subject, before)
        };
        let trip = Arc::clone(&self.trip.lock().unwrap());
        trip.step().await;
        let done = match &fate {
            Fate::Fails(error) => return Err(error.clone()),
            Fate::Panics => panic!("out of order"),
            Fate::Hangs => std::future::pending().await,
            _ => effect(&mut self.state.lock().unwrap()),
        };
        trip.step().await;
        match fate {
            Fate::FailsAfter(error) => Err(error),
            Fate::HangsAfter => std::future::pending().await,
            _ => Ok(done),
        }
    }
}

#[async_trait]
impl VolumeSnapshotter for Cloud {
    fn name(&self) -> &str {
        "test/cloud"
    }

    async fn volume_id(&self, _: &Value) -> Result<Option<String>, ActionError> {
        Ok(None)
    }

    async fn volume_facts(&self, _: &str, _: &str) -> Result<VolumeFacts, ActionError> {
        Ok(VolumeFacts::default())
    }

    async fn create_snapshot(&self, _: &str, _: &str, _: &BTreeMap<String, String>) -> Result<String, ActionError> {
        Err(ActionError::item("a restore takes no snapshots"))
    }

    async fn create_volume(&self, request: &VolumeRequest) -> Result<String, ActionError> {
        self.call("create_volume", &request.snapshot_id, |state| {
            state.made += 1;
            let id = format!("made-{}", state.made);
            state.volumes.insert(id.clone(), request.clone());
            id
        })
        .await
    }

    async fn set_volume_id(&self, mut volume: Value, id: &str) -> Result<Value, ActionError> {
        let name = volume["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.call("set_volume_id", &name, move |_| {
            volume["spec"]["awsElasticBlockStore"]["volumeID"] = id.into();
            // A type of Go has these.
            volume["status"] = serde_json::json!({});
            volume["metadata"]["creationTimestamp"] = Value::Null;
            if let Some(other) = volume["metadata"]["annotations"]["test/other-name"].as_str().map(str::to_owned) {
                volume["metadata"]["name"] = other.into();
            }
            volume
        })
        .await
    }

    async fn delete_snapshot(&self, _: &str) -> Result<(), ActionError> {
        Err(ActionError::item("a restore deletes no snapshots"))
    }
}
