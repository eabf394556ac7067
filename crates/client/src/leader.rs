//! Finds out which server of a namespace leads.

use crate::Client;
use jiff::{SignedDuration, Timestamp};
use lifeboat_cluster::ClusterError;
use lifeboat_object::ApiResource;
use serde_json::Value;

/// Name of the Lease by which the servers of a namespace agree on a leader.
pub const SERVER_LEASE: &str = "lifeboat-server";

impl Client {
    /// The pod of the server that leads in this namespace, by the name that its identity begins with; `None` when none
    /// does.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn leading_pod(&self) -> Result<Option<String>, ClusterError> {
        Ok(pod_of(&self.lease().await?))
    }

    /// [`Client::leading_pod`], unless it has not renewed its Lease for twice as long as that holds, by this clock.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn living_leading_pod(&self, now: Timestamp) -> Result<Option<String>, ClusterError> {
        let lease = self.lease().await?;
        Ok(pod_of(&lease).filter(|_| is_living(&lease, now)))
    }

    /// Reads the Lease; gives null when there is none.
    async fn lease(&self) -> Result<Value, ClusterError> {
        let leases = ApiResource::new("coordination.k8s.io", "v1", "leases", "Lease");
        let found = self.cluster.get(&leases, Some(&self.namespace), SERVER_LEASE).await?;
        Ok(found.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
    }
}

fn pod_of(lease: &Value) -> Option<String> {
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    Some(name_of(holder)).filter(|pod| !pod.is_empty()).map(str::to_owned)
}

/// Returns true if the leader still lives. A Lease that is only a little late counts: the clocks of two machines
/// differ.
fn is_living(lease: &Value, now: Timestamp) -> bool {
    let spec = &lease["spec"];
    let renewed = spec["renewTime"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let seconds = spec["leaseDurationSeconds"].as_i64().unwrap_or_default().clamp(0, i64::from(i32::MAX));
    let end = renewed.and_then(|renewed| renewed.checked_add(SignedDuration::from_secs(2 * seconds)).ok());
    end.is_some_and(|end| now <= end)
}

/// The name in a holder's identity: the instance behind it has no underscore.
fn name_of(holder: &str) -> &str {
    holder.rsplit_once('_').map_or(holder, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_has_not_renewed_its_lease_for_long_leads_no_more() {
        let lease =
            |renewed: &str, seconds: i64| json!({"spec": {"renewTime": renewed, "leaseDurationSeconds": seconds}});
        let now: Timestamp = "2026-11-22T12:00:30Z".parse().unwrap();
        for (lease, expected) in [
            (lease("2026-11-22T12:00:00.000000Z", 15), true),
            (lease("2026-11-22T11:59:59.000000Z", 15), false),
            (lease("2026-11-22T12:05:00.000000Z", 15), true),
            (lease("yesterday", 15), false),
            (json!({}), false),
            (lease("2026-11-22T12:00:00Z", i64::MAX), true),
        ] {
            assert_eq!(is_living(&lease, now), expected, "{lease}");
        }
    }

    #[test]
    fn the_name_of_a_holder_is_what_people_call_it() {
        for (holder, name) in
            [("velero-5d8f_1f0e-2a", "velero-5d8f"), ("a_b_1f0e", "a_b"), ("velero-5d8f", "velero-5d8f")]
        {
            assert_eq!(name_of(holder), name);
        }
    }
}
