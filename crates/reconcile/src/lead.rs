//! Lets one process at a time lead, by a Lease, with the times and the caution of client-go.
//!
//! A Lease is free when its holder has not renewed it for its duration. Each process measures that by its own clock, from
//! when it saw the Lease change, because the times in a Lease come from another machine.

use bytes::Bytes;
use jiff::Timestamp;
use lifeboat_cluster::{Cluster, ClusterError, MergePatch, WriteBody};
use lifeboat_object::ApiResource;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The longest time between two renewals of a Lease, and between two reads by a process that waits for it.
const LONGEST_RETRY: Duration = Duration::from_secs(2);

/// The times of a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    /// After so long without renewal another process may take the Lease.
    pub duration: Duration,
    /// After so long without renewal the leader gives up.
    pub deadline: Duration,
    /// The time between two renewals, and between two reads by a process that waits.
    pub retry: Duration,
}

impl LeaseTimes {
    /// Times for a Lease of this duration, in client-go's proportions: 15, 10 and 2 seconds. The retry of a
    /// longer Lease stays at two seconds, so that one that is given back is soon taken.
    #[must_use]
    pub fn lasting(duration: Duration) -> Self {
        Self { duration, deadline: duration * 2 / 3, retry: (duration * 2 / 15).min(LONGEST_RETRY) }
    }
}

/// The Lease could not be renewed in time, or another one has it: this process must do nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease was lost: another server may lead now, so this one ends")]
pub struct LostLease;

/// Interval at which [`Leadership::until_ended`] checks that the leadership still holds.
const LOOK: Duration = Duration::from_millis(250);

/// The right to act, as long as it holds.
#[derive(Clone, Debug)]
pub struct Leadership {
    /// Milliseconds of the boot clock until which it holds.
    until: Arc<AtomicU64>,
}

/// Time since the machine was started. Unlike the clock of timers it goes on while the machine sleeps, and others take
/// the Lease.
fn boot_time() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

impl Leadership {
    /// Refuses when this process does not lead any more. To be asked just before each act that cannot be taken back.
    ///
    /// # Errors
    /// [`LostLease`] when the leadership has ended.
    pub fn check(&self) -> Result<(), LostLease> {
        self.check_at(boot_time())
    }

    fn check_at(&self, now: Duration) -> Result<(), LostLease> {
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        if now < self.until.load(Ordering::Acquire) { Ok(()) } else { Err(LostLease) }
    }

    /// Ends the leadership for good.
    pub fn lose(&self) {
        self.until.store(0, Ordering::Release);
    }

    /// Waits until the leadership has ended, for whatever reason.
    pub async fn until_ended(&self) {
        while self.check().is_ok() {
            sleep(LOOK).await;
        }
    }

    /// Lets the leadership hold for this long, counted from a moment of the boot clock.
    fn extend(&self, since: Duration, holds: Duration) {
        let until = since + holds;
        self.until.store(u64::try_from(until.as_millis()).unwrap_or(u64::MAX), Ordering::Release);
    }
}

impl Leadership {
    /// The leadership of a process without competitors: it holds until [`Leadership::lose`].
    #[must_use]
    pub fn for_ever() -> Self {
        Self { until: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    /// A leadership that has ended.
    #[must_use]
    pub fn lost() -> Self {
        Self { until: Arc::default() }
    }
}

/// A process that leads, or waits to lead.
#[derive(Clone)]
pub struct Candidate {
    /// The cluster that has the Lease.
    pub cluster: Cluster,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The labels of a Lease that this process creates.
    pub labels: BTreeMap<String, String>,
    /// The identity of this process: name and instance, in the form of client-go. Two processes of one name never lead
    /// together.
    pub holder: String,
    /// The times of the Lease.
    pub times: LeaseTimes,
    /// Tells the time.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Candidate {
    /// Waits until this process leads; `None` when it is told to stop before.
    pub async fn acquire(&self, cancel: &CancellationToken) -> Option<Leadership> {
        // The record as it was last seen, and when it was seen to change.
        let mut seen: Option<(Value, Instant)> = None;
        loop {
            let began = boot_time();
            match self.take_if_free(&mut seen).await {
                Ok(true) => {
                    let leadership = Leadership { until: Arc::default() };
                    leadership.extend(began, self.times.deadline);
                    return Some(leadership);
                }
                Ok(false) => {}
                Err(e) => tracing::warn!(error = %e, "the lease cannot be read or written, trying again"),
            }
            tokio::select! {
                () = sleep(self.times.retry) => {}
                () = cancel.cancelled() => return None,
            }
        }
    }

    /// Renews the Lease until that fails for longer than the deadline, or until another process has it. Then ends the
    /// leadership at once, before its time is over.
    pub async fn renew_until_lost(&self, leadership: &Leadership) -> LostLease {
        let lost = self.renewed(leadership).await;
        leadership.lose();
        lost
    }

    async fn renewed(&self, leadership: &Leadership) -> LostLease {
        let mut renewed = Instant::now();
        let mut held = None;
        loop {
            sleep(self.times.retry).await;
            let (began, boot) = (Instant::now(), boot_time());
            let left = self.times.deadline.saturating_sub(renewed.elapsed());
            match timeout(left, self.renew(&mut held)).await {
                Ok(Ok(true)) => {
                    // Counted from before the request: the server has written the Lease after that.
                    leadership.extend(boot, self.times.deadline);
                    renewed = began;
                }
                Ok(Ok(false)) => return LostLease,
                Ok(Err(e)) => tracing::warn!(error = %e, "the lease could not be renewed"),
                Err(_) => return LostLease,
            }
            if leadership.check().is_err() {
                return LostLease;
            }
        }
    }

    /// Gives the Lease back, so that the next process need not wait for its end.
    pub async fn release(&self, leadership: &Leadership) {
        if leadership.check().is_ok() {
            let gone = json!({"holderIdentity": "", "leaseDurationSeconds": 1});
            if let Ok(Some(lease)) = self.read().await
                && lease["spec"]["holderIdentity"] == self.holder.as_str()
            {
                let _ = self.write(&lease, gone).await;
            }
        }
    }

    /// Takes the Lease when it is free; gives whether this process has it then.
    async fn take_if_free(&self, seen: &mut Option<(Value, Instant)>) -> Result<bool, ClusterError> {
        let Some(lease) = self.read().await? else { return self.create().await };
        let spec = &lease["spec"];
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        let since = match seen {
            Some((known, since)) if known == spec => *since,
            _ => {
                let now = Instant::now();
                *seen = Some((spec.clone(), now));
                now
            }
        };
        let lasts = Duration::from_secs(spec["leaseDurationSeconds"].as_u64().unwrap_or(0));
        if !holder.is_empty() && holder != self.holder && since.elapsed() < lasts {
            return Ok(false);
        }
        let changed = holder != self.holder;
        let transitions = spec["leaseTransitions"].as_u64().unwrap_or(0) + u64::from(changed);
        let mut record = self.record();
        record["leaseTransitions"] = transitions.into();
        if changed {
            record["acquireTime"] = record["renewTime"].clone();
        }
        Ok(self.write(&lease, record).await?.is_some())
    }

    /// Renews the Lease upon the state that the last write of this process left. That takes one request, unless another client
    /// has changed the Lease meanwhile.
    async fn renew(&self, held: &mut Option<Value>) -> Result<bool, ClusterError> {
        if let Some(lease) = held.take()
            && let Some(stored) = self.write(&lease, self.record()).await?
        {
            *held = Some(stored);
            return Ok(true);
        }
        let Some(lease) = self.read().await? else { return Ok(false) };
        if lease["spec"]["holderIdentity"] != self.holder.as_str() {
            return Ok(false);
        }
        *held = self.write(&lease, self.record()).await?;
        Ok(held.is_some())
    }

    fn record(&self) -> Value {
        json!({
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.times.duration.as_secs().max(1),
            "renewTime": micro_time((self.now)()),
        })
    }

    async fn read(&self) -> Result<Option<Value>, ClusterError> {
        let found = self.cluster.get(&leases(), Some(&self.namespace), &self.name).await?;
        Ok(found.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    async fn create(&self) -> Result<bool, ClusterError> {
        let mut spec = self.record();
        spec["acquireTime"] = spec["renewTime"].clone();
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": self.labels},
            "spec": spec,
        });
        let body = Bytes::from(lease.to_string());
        match self.cluster.create(&leases(), Some(&self.namespace), &self.name, WriteBody::of(body)).await {
            Ok(_) => Ok(true),
            Err(e) if e.is_already_exists() => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Writes the Lease and gives it as stored; `None` when another client was faster.
    async fn write(&self, lease: &Value, spec: Value) -> Result<Option<Value>, ClusterError> {
        let patch = json!({"metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]}, "spec": spec});
        let patch = Bytes::from(patch.to_string());
        match self.cluster.patch(&leases(), Some(&self.namespace), &self.name, MergePatch::of(patch)).await {
            Ok(stored) => Ok(serde_json::from_slice(&stored).ok()),
            Err(e) if e.is_conflict() || e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// `MicroTime` of Kubernetes: six digits, always.
fn micro_time(at: Timestamp) -> String {
    format!("{at:.6}")
}

fn leases() -> ApiResource {
    ApiResource::new("coordination.k8s.io", "v1", "leases", "Lease")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::api_server;
    use tokio::task::JoinSet;

    #[test]
    fn a_long_lease_is_looked_at_as_often_as_one_of_15_seconds() {
        let milliseconds = [3, 15, 3600].map(|seconds| {
            let times = LeaseTimes::lasting(Duration::from_secs(seconds));
            [times.duration, times.deadline, times.retry].map(|time| time.as_millis())
        });
        assert_eq!(milliseconds, [[3000, 2000, 400], [15_000, 10_000, 2000], [3_600_000, 2_400_000, 2000]]);
    }

    #[test]
    fn leadership_ends_by_itself() {
        let leadership = Leadership::lost();
        assert_eq!(leadership.check(), Err(LostLease));
        let at = Duration::from_secs;
        leadership.extend(at(100), at(10));
        assert_eq!(leadership.check_at(at(109)), Ok(()));
        assert_eq!(leadership.check_at(at(110)), Err(LostLease));
        leadership.extend(boot_time(), at(3600));
        assert_eq!(leadership.check(), Ok(()));
    }

    #[tokio::test]
    async fn who_sees_another_one_lead_acts_no_more() {
        let spec = json!({"holderIdentity": "one_2", "leaseDurationSeconds": 15});
        let lease = json!({"metadata": {"name": "l", "resourceVersion": "1"}, "spec": spec});
        let mut tasks = JoinSet::new();
        let candidate = Candidate {
            cluster: api_server(&mut tasks, vec![(200, lease)]).await,
            namespace: "velero".into(),
            name: "l".into(),
            labels: BTreeMap::new(),
            // Of the same name.
            holder: "one_1".into(),
            times: LeaseTimes { retry: Duration::from_millis(1), ..LeaseTimes::lasting(Duration::from_secs(15)) },
            now: Arc::new(Timestamp::now),
        };
        let leadership = Leadership::for_ever();
        candidate.renew_until_lost(&leadership).await;
        assert_eq!(leadership.check(), Err(LostLease));
        // Nor does it take the Lease for its own.
        assert!(!candidate.take_if_free(&mut None).await.unwrap());
    }

    #[test]
    fn times_have_six_digits() {
        let text = |t: &str| micro_time(t.parse().unwrap());
        assert_eq!(text("2026-11-22T01:02:03Z"), "2026-11-22T01:02:03.000000Z");
        assert_eq!(text("2026-11-22T01:02:03.1234567Z"), "2026-11-22T01:02:03.123456Z");
    }
}
