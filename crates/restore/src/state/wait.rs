//! Waits for the cluster, with a deadline and a cancellation.

use crate::state::env::Env;
use backon::{BackoffBuilder, ExponentialBuilder};
use lifeboat_cluster::ClusterError;
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// The first pause between questions; each one after it is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The outcome of a wait.
#[derive(Debug)]
pub(crate) enum Waited<T> {
    /// The awaited value came.
    Done(T),
    /// The cluster refused to answer.
    Failed(ClusterError),
    /// The deadline passed.
    TimedOut,
    /// The operation was cancelled.
    Cancelled,
}

/// The time that all waits of one kind in a restore have together.
#[derive(Debug)]
pub(crate) struct WaitBudget {
    time: Duration,
    until: OnceLock<Instant>,
}

impl WaitBudget {
    pub(crate) fn new(time: Duration) -> Self {
        Self { time, until: OnceLock::new() }
    }

    /// When it is over; the first wait sets that.
    pub(crate) fn until(&self) -> Instant {
        *self.until.get_or_init(|| Instant::now() + self.time)
    }

    /// Returns the share of a wait that begins then.
    pub(crate) fn from(&self, since: Instant) -> WaitShare {
        match self.until().saturating_duration_since(since) {
            Duration::ZERO => WaitShare::Nothing(self.time),
            some => WaitShare::Some(some),
        }
    }
}

/// The share of a wait in the time that all waits of its kind have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitShare {
    /// This much.
    Some(Duration),
    /// It begins when this time of all of them is over.
    Nothing(Duration),
}

/// Asks again, at first quickly and then every second, until there is an answer or the deadline has passed. The deadline is
/// asked for when there is something to wait for.
pub(crate) async fn poll<T, F>(
    deadline: impl Fn() -> Instant,
    cancel: &CancellationToken,
    mut ask: impl FnMut() -> F,
) -> Waited<T>
where
    F: Future<Output = Result<Option<T>, ClusterError>>,
{
    let pauses = ExponentialBuilder::default().with_min_delay(FIRST_PAUSE).with_max_delay(LONGEST_PAUSE);
    for pause in pauses.without_max_times().build() {
        match ask().await {
            Ok(Some(done)) => return Waited::Done(done),
            Ok(None) => {}
            Err(e) => return Waited::Failed(e),
        }
        if Instant::now() + pause > deadline() {
            return Waited::TimedOut;
        }
        tokio::select! {
            () = cancel.cancelled() => return Waited::Cancelled,
            () = sleep(pause) => {}
        }
    }
    // The pauses do not end.
    Waited::TimedOut
}

/// Waits until a resource definition is established and its names are accepted. Returns it as it is then.
pub(crate) async fn established(
    resource: &ApiResource,
    name: &str,
    timeout: Duration,
    env: &Env,
) -> Result<Value, String> {
    let until = Instant::now() + timeout;
    let waited = poll(
        || until,
        &env.operation.cancel,
        || async {
            let body = env.cluster.get(resource, None, name).await?;
            Ok(body.map(|b| serde_json::from_slice(&b).unwrap_or_default()).filter(is_established))
        },
    );
    match waited.await {
        Waited::Done(definition) => Ok(definition),
        Waited::Failed(e) => Err(format!("error verifying the CRD {name} is ready to use: {e}")),
        Waited::TimedOut => Err(format!(
            "error verifying the CRD {name} is ready to use: it is not established after {} s",
            timeout.as_secs()
        )),
        Waited::Cancelled => Err("the restore was cancelled".to_owned()),
    }
}

fn is_established(definition: &Value) -> bool {
    let is_true = |kind: &str| {
        definition["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|c| c["type"] == kind && c["status"] == "True"))
    };
    is_true("Established") && is_true("NamesAccepted")
}
