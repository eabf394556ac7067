//! The types that a restore defines, until discovery names them: an API server does so some time after a definition is
//! established, and each version of a group in its own time.

use crate::state::env::Env;
use crate::state::wait::{Waited, poll};
use lifeboat_cluster::ClusterError;
use lifeboat_object::{Catalog, GroupResource};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// The types that were defined, each in every version in which it is served.
#[derive(Debug, Default)]
pub(crate) struct Defined {
    served: Mutex<BTreeSet<(GroupResource, String)>>,
}

impl Defined {
    /// Notes the types that an established definition serves.
    pub(crate) fn note(&self, definition: &Value) {
        let spec = &definition["spec"];
        let (Some(group), Some(plural)) = (spec["group"].as_str(), spec["names"]["plural"].as_str()) else { return };
        let versions = spec["versions"].as_array().into_iter().flatten();
        let served = versions.filter(|one| one["served"] == true).filter_map(|one| one["name"].as_str());
        let mut all = self.served();
        all.extend(served.map(|version| (GroupResource::new(group, plural), version.to_owned())));
    }

    /// The types that the catalog does not serve yet, for people.
    fn missing_in(&self, catalog: &Catalog) -> Vec<String> {
        let all = self.served();
        let missing = all.iter().filter(|(resource, version)| catalog.find_version(resource, version).is_none());
        missing.map(|(resource, version)| format!("{resource} in {version}")).collect()
    }

    /// Asks the cluster for its types until all that were defined are among them, for this long at most. Returns the types,
    /// and those that are missing all the same.
    ///
    /// # Errors
    /// The cluster does not answer.
    pub(crate) async fn discover(&self, time: Duration, env: &Env) -> Result<(Catalog, Vec<String>), ClusterError> {
        let until = Instant::now() + time;
        let waited = poll(
            || until,
            &env.operation.cancel,
            || async {
                let catalog = env.cluster.discover().await?;
                Ok(self.missing_in(&catalog).is_empty().then_some(catalog))
            },
        );
        match waited.await {
            Waited::Done(catalog) => Ok((catalog, vec![])),
            Waited::Failed(e) => Err(e),
            Waited::TimedOut | Waited::Cancelled => {
                let catalog = env.cluster.discover().await?;
                let missing = self.missing_in(&catalog);
                Ok((catalog, missing))
            }
        }
    }

    fn served(&self) -> std::sync::MutexGuard<'_, BTreeSet<(GroupResource, String)>> {
        self.served.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::ApiResource;
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn a_type_is_missing_in_each_version_that_is_served_and_not_named() {
        let defined = Defined::default();
        defined.note(&json!({"spec": {"group": "example.com", "names": {"plural": "widgets"}, "versions": [
            {"name": "v1", "served": true}, {"name": "v2", "served": true}, {"name": "v3", "served": false}]}}));
        defined.note(&json!({"spec": {"group": "example.com"}}));
        let catalog = |versions: &[&str]| {
            let types = versions.iter().map(|one| Arc::new(ApiResource::new("example.com", *one, "widgets", "Widget")));
            Catalog::new(types.collect(), vec![])
        };
        assert_eq!(defined.missing_in(&catalog(&[])), ["widgets.example.com in v1", "widgets.example.com in v2"]);
        assert_eq!(defined.missing_in(&catalog(&["v2"])), ["widgets.example.com in v1"]);
        assert_eq!(defined.missing_in(&catalog(&["v1", "v2"])), [""; 0]);
    }
}
