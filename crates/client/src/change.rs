//! Changes of objects that others write at the same time.

use crate::{Client, Object};
use lifeboat_cluster::ClusterError;

/// The number of attempts at one change: the server writes the status of some objects once a second.
const TRIES: u32 = 8;

/// The outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeResult<T> {
    /// It was made; the object as stored.
    Made(T),
    /// There was nothing to change in this object.
    Nothing(T),
    /// There is no such object.
    Missing,
    /// Others have changed the object each time meanwhile; so many times it was tried.
    Conflicts(u32),
}

impl Client {
    /// Changes an object in its current state: reads it, asks `change` for the new state (`None` to leave it
    /// unchanged), and writes that. When others have changed it meanwhile, it is read and `change` is asked anew: eight
    /// times in all, after which it gives [`ChangeResult::Conflicts`].
    ///
    /// # Errors
    /// The errors of `change`, and [`ClusterError`].
    pub async fn change_as_it_is<T: Object, E: From<ClusterError>>(
        &self,
        name: &str,
        mut change: impl FnMut(&T) -> Result<Option<T>, E>,
    ) -> Result<ChangeResult<T>, E> {
        for _ in 0..TRIES {
            let Some(before) = self.get::<T>(name).await? else { return Ok(ChangeResult::Missing) };
            let Some(after) = change(&before)? else { return Ok(ChangeResult::Nothing(before)) };
            match self.change(&before, &after).await {
                Err(e) if e.is_conflict() => {}
                stored => return Ok(ChangeResult::Made(stored?)),
            }
        }
        Ok(ChangeResult::Conflicts(TRIES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::is_refused;
    use lifeboat_api::Backup;
    use lifeboat_cluster::{Cluster, ConnectOptions};
    use lifeboat_testbed::scripted_api_server;
    use serde_json::{Value, json};
    use tokio::task::JoinSet;

    type Answer = (u16, Value);

    fn backup(version: &str, cancel: bool) -> Value {
        let metadata = json!({"name": "b", "namespace": "velero", "resourceVersion": version});
        json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": metadata, "spec": {"cancel": cancel}})
    }

    fn status(code: u16, reason: &str) -> Answer {
        (code, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}))
    }

    /// Cancels a backup while the API server answers like this. Gives the outcome, and the versions that `change` was
    /// asked about.
    async fn cancelled(answers: Vec<Answer>) -> (Result<ChangeResult<Backup>, ClusterError>, Vec<String>) {
        let mut tasks = JoinSet::new();
        let answers = answers.into_iter().map(|(code, body)| (code, body.to_string())).collect();
        let kubeconfig = scripted_api_server(&mut tasks, answers).await.unwrap();
        let options = ConnectOptions { kubeconfig: Some(kubeconfig.path().to_owned()), ..ConnectOptions::default() };
        let client = Client { cluster: Cluster::connect(&options).await.unwrap(), namespace: "velero".to_owned() };
        let mut asked = Vec::new();
        let cancel = |before: &Backup| {
            asked.push(before.metadata.resource_version.clone());
            let mut after = before.clone();
            after.spec.cancel = true;
            Ok::<_, ClusterError>((!before.spec.cancel).then_some(after))
        };
        let change = client.change_as_it_is("b", cancel).await;
        (change, asked)
    }

    #[tokio::test]
    async fn each_state_is_asked_anew_what_to_change_and_the_outcome_is_told() {
        let read = |text: Value| serde_json::from_value::<Backup>(text).unwrap();
        let faster = |version: &str| [(200, backup(version, false)), status(409, "Conflict")];
        for (answers, expected, versions) in [
            (
                [&faster("1")[..], &[(200, backup("2", false)), (200, backup("3", true))]].concat(),
                ChangeResult::Made(read(backup("3", true))),
                vec!["1", "2"],
            ),
            (
                [&faster("1")[..], &[(200, backup("2", true))]].concat(),
                ChangeResult::Nothing(read(backup("2", true))),
                vec!["1", "2"],
            ),
            ([&faster("1")[..], &[status(404, "NotFound")]].concat(), ChangeResult::Missing, vec!["1"]),
            ((0..8).flat_map(|_| faster("1")).collect(), ChangeResult::Conflicts(8), vec!["1"; 8]),
        ] {
            let (change, asked) = cancelled(answers).await;
            assert_eq!(change.unwrap(), expected);
            assert_eq!(asked, versions, "{expected:?}");
        }
        let (refused, _) = cancelled(vec![(200, backup("1", false)), status(403, "Forbidden")]).await;
        assert!(refused.is_err_and(|e| is_refused(&e)));
    }
}
