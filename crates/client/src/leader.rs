//! Which server leads.

use crate::Client;
use lifeboat_cluster::ClusterError;
use lifeboat_object::ApiResource;
use serde_json::Value;

/// Name of the Lease by which the servers of a namespace agree who leads.
pub const SERVER_LEASE: &str = "lifeboat-server";

impl Client {
    /// The pod of the server that leads in this namespace, by the name that its identity begins with; `None` when none
    /// does.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn leading_pod(&self) -> Result<Option<String>, ClusterError> {
        let leases = ApiResource::new("coordination.k8s.io", "v1", "leases", "Lease");
        let Some(bytes) = self.cluster.get(&leases, Some(&self.namespace), SERVER_LEASE).await? else {
            return Ok(None);
        };
        let lease: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        Ok(Some(name_of(holder)).filter(|pod| !pod.is_empty()).map(str::to_owned))
    }
}

/// The name in a holder's identity: the instance behind it has no underscore.
fn name_of(holder: &str) -> &str {
    holder.rsplit_once('_').map_or(holder, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_holder_is_what_people_call_it() {
        for (holder, name) in
            [("velero-5d8f_1f0e-2a", "velero-5d8f"), ("a_b_1f0e", "a_b"), ("velero-5d8f", "velero-5d8f")]
        {
            assert_eq!(name_of(holder), name);
        }
    }
}
