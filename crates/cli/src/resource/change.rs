//! Changes to objects that the server writes, too.

use anyhow::{Result, bail};
use lifeboat_client::{ChangeResult, Client, Object};
use lifeboat_terminal::output::errors::missing;

/// Changes an object to the result of `to`, where `None` leaves it as it is; returns the object, and true if it was
/// changed. `goal` describes the change in errors.
pub(crate) async fn change<T: Object>(
    client: &Client,
    name: &str,
    goal: &str,
    to: impl FnMut(&T) -> Result<Option<T>>,
) -> Result<(T, bool)> {
    match client.change_as_it_is(name, to).await? {
        ChangeResult::Made(object) => Ok((object, true)),
        ChangeResult::Nothing(object) => Ok((object, false)),
        ChangeResult::Missing => Err(missing::<T>(name)),
        ChangeResult::Conflicts(tries) => bail!(
            "{}.velero.io \"{name}\" was changed by others {tries} times while it was to be {goal}: try again",
            T::PLURAL
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::Backup;
    use lifeboat_cluster::{Cluster, ConnectOptions};
    use lifeboat_testbed::scripted_api_server;
    use serde_json::{Value, json};
    use tokio::task::JoinSet;

    /// Cancels a backup while the API server gives these answers, to the reading and the writing in turn.
    async fn cancelled(answers: Vec<(u16, Value)>) -> Result<bool> {
        let mut tasks = JoinSet::new();
        let answers = answers.into_iter().map(|(code, body)| (code, body.to_string())).collect();
        let kubeconfig = scripted_api_server(&mut tasks, answers).await?;
        let options = ConnectOptions { kubeconfig: Some(kubeconfig.path().to_owned()), ..ConnectOptions::default() };
        let client = Client { cluster: Cluster::connect(&options).await?, namespace: "velero".to_owned() };
        let cancel = |before: &Backup| {
            let mut after = before.clone();
            after.spec.cancel = true;
            Ok((!before.spec.cancel).then_some(after))
        };
        Ok(change(&client, "b", "cancelled", cancel).await?.1)
    }

    #[tokio::test]
    async fn a_change_is_tried_again_as_long_as_others_write_but_not_for_ever() {
        let backup = |cancel: bool| {
            let metadata = json!({"name": "b", "namespace": "velero", "resourceVersion": "1"});
            (
                200,
                json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": metadata, "spec": {"cancel": cancel}}),
            )
        };
        let status = |code: u16, reason: &str| {
            (code, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}))
        };
        let conflicts = |times| (0..times).flat_map(|_| [backup(false), status(409, "Conflict")]);
        let made = conflicts(7).chain([backup(false), backup(true)]).collect();
        assert!(cancelled(made).await.unwrap());
        assert!(!cancelled(vec![backup(true)]).await.unwrap(), "it is so already");
        for (answers, expected) in [
            (
                conflicts(8).chain([backup(true)]).collect(),
                "backups.velero.io \"b\" was changed by others 8 times while it was to be cancelled: try again",
            ),
            (vec![status(404, "NotFound")], "backups.velero.io \"b\" not found"),
        ] {
            assert_eq!(cancelled(answers).await.unwrap_err().to_string(), expected);
        }
    }
}
