//! `velero.io/secret`: skips generated tokens of service accounts and empties those that a user created: tokens belong
//! to one cluster.

use super::edit::{original_namespace, remove_keys, text};
use super::known;
use async_trait::async_trait;
use lifeboat_action::{ActionError, ActionScope, RestoreItemAction, RestoreItemInput, RestoreItemOutput};
use lifeboat_api::Restore;
use lifeboat_cluster::{Cluster, ListRequest};
use lifeboat_object::Head;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// Leaves out the tokens that the cluster makes by itself and empties those that a person asked for, so that they are
/// filled anew (velero: pkg/restore/actions).
pub(super) struct Secret {
    cluster: Cluster,
    /// Names of service accounts by namespace. Accounts are restored before secrets, so asking once is enough.
    accounts: Mutex<HashMap<String, Accounts>>,
}

type Accounts = Arc<OnceCell<BTreeSet<String>>>;

impl Secret {
    pub(super) fn new(cluster: Cluster) -> Self {
        Self { cluster, accounts: Mutex::default() }
    }

    async fn accounts(&self, namespace: &str) -> Result<Accounts, ActionError> {
        let cell = {
            let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(accounts.entry(namespace.to_owned()).or_default())
        };
        cell.get_or_try_init(|| self.list_accounts(namespace)).await?;
        Ok(cell)
    }

    async fn list_accounts(&self, namespace: &str) -> Result<BTreeSet<String>, ActionError> {
        let mut list = self
            .cluster
            .list(ListRequest::all(known::service_accounts()).in_namespace(namespace.to_owned()).metadata_only());
        let mut names = BTreeSet::new();
        while let Some(bodies) = list.next().await.map_err(|e| ActionError::item(e.to_string()))? {
            for body in bodies {
                names.extend(Head::parse(&body).ok().map(|head| head.name));
            }
        }
        Ok(names)
    }
}

#[async_trait]
impl RestoreItemAction for Secret {
    fn name(&self) -> &str {
        "velero.io/secret"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["secrets"])
    }

    fn is_pure(&self) -> bool {
        true
    }

    fn only_detaches(&self, _: &Restore) -> bool {
        true
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
        if text(&input.item, "type") != "kubernetes.io/service-account-token" {
            return Ok(RestoreItemOutput::with(input.item));
        }
        // compat: accounts of the namespace that the secret came from, not of the one it goes to, so under a mapping a
        // generated token whose old namespace is gone comes back empty and is filled anew.
        let namespace = original_namespace(&input);
        if namespace.is_empty() {
            return Ok(without_token(input.item));
        }
        let accounts = self.accounts(namespace).await?;
        let name = text(&input.item["metadata"], "name");
        if accounts.get().is_some_and(|accounts| is_generated(name, accounts)) {
            return Ok(RestoreItemOutput::skip());
        }
        Ok(without_token(input.item))
    }
}

/// Returns true if a secret is named like the token that the cluster makes for one of the accounts.
fn is_generated(secret: &str, accounts: &BTreeSet<String>) -> bool {
    // Account names may hold the separator themselves.
    secret.match_indices("-token-").any(|(at, _)| accounts.contains(&secret[..at]))
}

/// The token and the account's UID are of the old cluster.
fn without_token(mut item: Value) -> RestoreItemOutput {
    remove_keys(&mut item, "/metadata", "annotations", &["kubernetes.io/service-account.uid"]);
    remove_keys(&mut item, "", "data", &["token", "ca.crt"]);
    RestoreItemOutput::with(item)
}

#[cfg(test)]
mod tests {
    use super::super::test_server::{FixedResponse, TestServer};
    use super::super::tests::input;
    use super::*;
    use lifeboat_api::Restore;
    use serde_json::json;

    const TOKEN: &str = "kubernetes.io/service-account-token";

    fn secret(namespace: &str, name: &str, kind: &str) -> Value {
        json!({"kind": "Secret", "metadata": {"name": name, "namespace": namespace,
            "annotations": {"kubernetes.io/service-account.name": "web", "kubernetes.io/service-account.uid": "u"}},
            "data": {"token": "dA==", "ca.crt": "Yw==", "namespace": "c2hvcA=="}, "type": kind})
    }

    fn emptied(namespace: &str, name: &str) -> Value {
        json!({"kind": "Secret", "metadata": {"name": name, "namespace": namespace,
            "annotations": {"kubernetes.io/service-account.name": "web"}}, "data": {"namespace": "c2hvcA=="}, "type": TOKEN})
    }

    #[tokio::test]
    async fn tokens_of_live_accounts_are_left_out_and_others_emptied() {
        let account = |name: &str| json!({"metadata": {"name": name}});
        let server = TestServer::start(vec![
            FixedResponse::list(
                "/api/v1/namespaces/shop/serviceaccounts?",
                &[account("web"), account("my-token-user")],
            ),
            FixedResponse::list("/api/v1/namespaces/empty/serviceaccounts?", &[]),
        ])
        .await;
        let action = Secret::new(server.cluster.clone());
        let restore = Restore::default();
        let cases = [
            (secret("shop", "web-token-abcde", TOKEN), RestoreItemOutput::skip()),
            (secret("shop", "my-token-user-token-x", TOKEN), RestoreItemOutput::skip()),
            (secret("shop", "my-token-x", TOKEN), RestoreItemOutput::with(emptied("shop", "my-token-x"))),
            (secret("shop", "web-token", TOKEN), RestoreItemOutput::with(emptied("shop", "web-token"))),
            (secret("empty", "web-token-abcde", TOKEN), RestoreItemOutput::with(emptied("empty", "web-token-abcde"))),
            (
                secret("shop", "web-token-abcde", "Opaque"),
                RestoreItemOutput::with(secret("shop", "web-token-abcde", "Opaque")),
            ),
        ];
        for (item, expected) in cases {
            assert_eq!(action.execute(input(&item, &restore)).await.unwrap(), expected);
        }
        let paths: Vec<_> =
            ["shop", "empty"].map(|ns| format!("/api/v1/namespaces/{ns}/serviceaccounts?limit=50")).into();
        assert_eq!(server.requests(), paths);
    }

    #[tokio::test]
    async fn the_secret_fails_when_accounts_cannot_be_listed() {
        let path = "/api/v1/namespaces/shop/serviceaccounts?";
        let server = TestServer::start(vec![FixedResponse::status(path, 403, "Forbidden", "you may not")]).await;
        let action = Secret::new(server.cluster.clone());
        let restore = Restore::default();
        let item = secret("shop", "web-token-abcde", TOKEN);
        for _ in 0..2 {
            assert_eq!(
                action.execute(input(&item, &restore)).await.unwrap_err().to_string(),
                "cannot list serviceaccounts in namespace shop: you may not"
            );
        }
        assert_eq!(server.requests().len(), 2);
    }

    #[test]
    fn maps_that_end_empty_go() {
        let item = json!({"metadata": {"name": "s", "annotations": {"kubernetes.io/service-account.uid": "u"}}, "data": {"token": "t", "ca.crt": "c"}, "type": TOKEN});
        let expected = json!({"metadata": {"name": "s"}, "type": TOKEN});
        assert_eq!(without_token(item), RestoreItemOutput::with(expected));
        let odd = json!({"metadata": 1, "data": "token", "type": TOKEN});
        assert_eq!(without_token(odd.clone()), RestoreItemOutput::with(odd));
    }
}
