//! `velero.io/service-account`: the cluster role bindings of a service account (velero: pkg/backup/itemblock.go,
//! pkg/backup/actions).

use crate::actions::read::{key, text};
use async_trait::async_trait;
use lifeboat_action::{ActionError, ActionScope, BackupItemAction, BackupItemInput, BackupItemOutput};
use lifeboat_api::Backup;
use lifeboat_object::{Item, ObjectKey};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// Stands for an object in large sets ([`ObjectKey::digest`]).
pub(crate) type Digest = [u8; 16];

/// Stands for a service account in large sets.
pub(crate) fn account(namespace: &str, name: &str) -> Digest {
    key("", "serviceaccounts", Some(namespace), name).digest()
}

/// A cluster role binding reduced to what is needed once it is known which service accounts were saved. Its object is
/// not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// Its service accounts.
    accounts: Box<[Digest]>,
    name: Box<str>,
    role: Box<str>,
}

impl Binding {
    /// The facts of a cluster role binding; `None` when it names no service account.
    pub(crate) fn of(binding: &Value) -> Option<Self> {
        let subjects = binding.get("subjects").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let accounts = subjects.iter().filter(|s| text(s, "/kind") == "ServiceAccount");
        let accounts: Box<[_]> = accounts.map(|s| account(text(s, "/namespace"), text(s, "/name"))).collect();
        let (name, role) = (text(binding, "/metadata/name").into(), text(binding, "/roleRef/name").into());
        (!accounts.is_empty()).then_some(Self { accounts, name, role })
    }

    /// Returns true if `is_ours` holds for one of its service accounts.
    pub(crate) fn binds(&self, is_ours: impl Fn(&Digest) -> bool) -> bool {
        self.accounts.iter().any(is_ours)
    }

    /// Itself, and its cluster role.
    fn keys(&self) -> impl Iterator<Item = ObjectKey> {
        let of_rbac = |resource, name: &str| key("rbac.authorization.k8s.io", resource, None, name);
        let role = (!self.role.is_empty()).then(|| of_rbac("clusterroles", &self.role));
        std::iter::once(of_rbac("clusterrolebindings", &self.name)).chain(role)
    }
}

/// The cluster role bindings of a backup, by their service accounts.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    all: Vec<Binding>,
    by_account: HashMap<Digest, Vec<u32>>,
}

impl Bindings {
    pub(crate) fn add(&mut self, binding: Binding) {
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        for account in &binding.accounts {
            let numbers = self.by_account.entry(*account).or_default();
            if numbers.last() != Some(&number) {
                numbers.push(number);
            }
        }
        self.all.push(binding);
    }

    /// The bindings of a service account, and their cluster roles.
    pub(crate) fn of(&self, account: &Digest) -> Vec<ObjectKey> {
        let numbers = self.by_account.get(account).map(Vec::as_slice).unwrap_or_default();
        numbers.iter().filter_map(|number| self.all.get(*number as usize)).flat_map(Binding::keys).collect()
    }
}

/// Names the cluster role bindings of a service account and their roles; the account stays as it is.
pub(crate) struct ServiceAccount {
    pub(crate) bindings: Arc<Bindings>,
}

#[async_trait]
impl BackupItemAction for ServiceAccount {
    fn name(&self) -> &str {
        "velero.io/service-account"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["serviceaccounts"])
    }

    async fn execute(&self, input: BackupItemInput<'_>) -> Result<BackupItemOutput, ActionError> {
        let (namespace, name) = (text(&input.item, "/metadata/namespace"), text(&input.item, "/metadata/name"));
        let additional_items = self.bindings.of(&account(namespace, name));
        Ok(BackupItemOutput { additional_items, ..BackupItemOutput::unchanged(input.item) })
    }

    fn named_if_unchanged(&self, item: &Item, _: &Backup) -> Option<Vec<ObjectKey>> {
        let namespace = item.head.namespace.as_deref().unwrap_or_default();
        Some(self.bindings.of(&account(namespace, &item.head.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(keys: &[ObjectKey]) -> Vec<String> {
        keys.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_service_account_has_its_bindings_and_their_roles() {
        let mut bindings = Bindings::default();
        let account_of = |kind, name| json!({"kind": kind, "name": name, "namespace": "shop"});
        for (name, role, subjects) in [
            (
                "read",
                "reader",
                vec![
                    account_of("User", "web"),
                    account_of("ServiceAccount", "web"),
                    account_of("ServiceAccount", "web"),
                ],
            ),
            ("odd", "", vec![account_of("ServiceAccount", "web")]),
            ("db", "writer", vec![account_of("ServiceAccount", "db")]),
        ] {
            let binding = json!({"metadata": {"name": name}, "roleRef": {"name": role}, "subjects": subjects});
            bindings.add(Binding::of(&binding).unwrap());
        }
        let rbac = "rbac.authorization.k8s.io";
        let expected = ["clusterrolebindings", "clusterroles", "clusterrolebindings"];
        let expected: Vec<String> =
            expected.iter().zip(["read", "reader", "odd"]).map(|(t, n)| format!("{t}.{rbac}/{n}")).collect();
        assert_eq!(names(&bindings.of(&account("shop", "web"))), expected);
        assert_eq!(names(&bindings.of(&account("other", "web"))), [""; 0]);
        for none in [json!({}), json!({"subjects": "odd"}), json!({"subjects": [{"kind": "User", "name": "web"}]})] {
            assert_eq!(Binding::of(&none), None, "{none}");
        }
    }

    #[test]
    fn what_is_kept_of_a_binding_does_not_grow_with_its_object() {
        let binding = json!({"metadata": {"name": "b", "annotations": {"a": "x".repeat(1 << 20)}}, "roleRef": {"name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "a".repeat(1 << 20), "namespace": "shop"}]});
        let Binding { accounts, name, role } = Binding::of(&binding).unwrap();
        assert_eq!((accounts.len(), &*name, &*role), (1, "b", "reader"));
    }
}
