//! Finds the objects that own claims, directly or through others: a Deployment owns the claims of ephemeral volumes
//! through its pods. The claims and their data are deleted together with such an object.

use crate::plan::guard::short;
use crate::state::env::Env;
use lifeboat_cluster::{ClusterError, ListRequest};
use lifeboat_object::{ApiResource, Catalog, GroupResource, Head, ObjectKey, chain};
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Most lists of the owners of one type in one namespace: longer chains of owners are not followed.
const LISTS: u32 = 8;

/// A UID, as a digest.
type Uid = [u8; 16];
/// `apiVersion` and `kind` of owners, and the namespace of what they own.
type OwnerScope = (String, String, Option<String>);

/// The owners of claims, and of these owners, as far as they can be seen. Takes 16 bytes for each.
#[derive(Debug, Default)]
pub(crate) struct OwnedClaims {
    owners: HashSet<Uid>,
    /// The reasons why not all owners of a namespace are known.
    unseen: BTreeMap<Option<String>, String>,
    /// Owners whose own owners are yet to be looked for.
    next: BTreeMap<OwnerScope, HashSet<Uid>>,
}

impl OwnedClaims {
    /// Looks for the claims of these namespaces, or of all, and for who owns them.
    pub(crate) async fn look(namespaces: &[Option<&str>], catalog: &Catalog, env: &Env) -> Self {
        let mut out = Self::default();
        let claims = GroupResource::new("", "persistentvolumeclaims");
        let Some(claims) = catalog.find(&claims) else { return out };
        for namespace in namespaces {
            if let Err(e) = out.list(claims, *namespace, None, env).await {
                out.unseen.insert(namespace.map(str::to_owned), chain(&e));
            }
        }
        let mut lists: BTreeMap<OwnerScope, u32> = BTreeMap::new();
        while let Some((place, wanted)) = out.next.pop_first() {
            if env.operation.cancel.is_cancelled() {
                out.unseen.insert(None, "the operation was cancelled".to_owned());
                break;
            }
            let so_many = lists.entry(place.clone()).or_default();
            *so_many += 1;
            let climbed = match *so_many <= LISTS {
                true => out.climb(&place, &wanted, catalog, env).await,
                false => Err("too many of them own each other".to_owned()),
            };
            if let Err(why) = climbed {
                let (_, kind, namespace) = place;
                out.unseen.insert(namespace, format!("the owners of kind {kind} cannot be seen: {why}"));
            }
        }
        out
    }

    /// Finds the owners of these owners.
    async fn climb(
        &mut self,
        (api_version, kind, namespace): &OwnerScope,
        wanted: &HashSet<Uid>,
        catalog: &Catalog,
        env: &Env,
    ) -> Result<(), String> {
        let api = catalog.find_kind(api_version, kind).ok_or("the cluster does not serve it")?;
        let namespace = namespace.as_deref().filter(|_| api.namespaced);
        self.list(api, namespace, Some(wanted), env).await.map_err(|e| chain(&e))
    }

    /// Notes the owners of all objects of a type in a namespace, or of these alone.
    async fn list(
        &mut self,
        api: &Arc<ApiResource>,
        namespace: Option<&str>,
        wanted: Option<&HashSet<Uid>>,
        env: &Env,
    ) -> Result<(), ClusterError> {
        let request = ListRequest::all(Arc::clone(api)).in_namespace(namespace.map(str::to_owned)).metadata_only();
        let mut list = env.cluster.list(request);
        while let Some(bodies) = list.next().await? {
            for body in bodies {
                let Ok(head) = Head::parse(&body) else { continue };
                let is_wanted = wanted.is_none_or(|wanted| wanted.contains(&short(head.uid.as_bytes())));
                if is_wanted && !head.owner_uids.is_empty() {
                    self.note(head.namespace, &body);
                }
            }
        }
        Ok(())
    }

    /// Notes the owners of an object.
    fn note(&mut self, namespace: Option<String>, body: &[u8]) {
        let Ok(Owned { metadata }) = serde_json::from_slice::<Owned>(body) else { return };
        for OwnerEntry { api_version, kind, uid } in metadata.owner_references {
            let uid = short(uid.as_bytes());
            if self.owners.insert(uid) {
                self.next.entry((api_version, kind, namespace.clone())).or_default().insert(uid);
            }
        }
    }

    /// Returns the reason why an object of this key and UID must stay; `None` when no claim would be deleted with
    /// it.
    pub(crate) fn refusal(&self, key: &ObjectKey, uid: &str) -> Option<String> {
        if self.owners.contains(&short(uid.as_bytes())) {
            return Some("it owns claims, perhaps through others".to_owned());
        }
        // What is of no namespace may own claims of each.
        let is_near =
            |namespace: &Option<String>| key.namespace.is_none() || namespace.is_none() || *namespace == key.namespace;
        let (_, why) = self.unseen.iter().find(|(namespace, _)| is_near(namespace))?;
        Some(format!("it is not known whether it owns claims: {why}"))
    }
}

#[derive(Deserialize)]
struct Owned {
    metadata: OwnedMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnedMeta {
    owner_references: Vec<OwnerEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerEntry {
    api_version: String,
    kind: String,
    uid: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::{RestoreFixture, Scripted, object};
    use lifeboat_action::RestoreItemOutput;
    use serde_json::{Value, json};

    /// An object that these own, by kind and name.
    fn owned(kind: (&str, &str), name: &str, owners: &[(&str, &str, &str)]) -> Value {
        let owners: Vec<Value> = owners
            .iter()
            .map(|(api_version, kind, uid)| json!({"apiVersion": api_version, "kind": kind, "name": "x", "uid": uid}))
            .collect();
        object(kind.0, kind.1, name, &json!({"metadata": {"ownerReferences": owners}}))
    }

    /// The reasons why a widget, a job, the job of another claim and an object of the cluster stay.
    async fn reasons(refused: Option<&'static str>) -> [Option<String>; 4] {
        let action = Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))));
        let ground = RestoreFixture::new(&[], &action).await;
        let uid = |plural: &str, name: &str| {
            let root = if plural == "pods" { "api-v1" } else { "apis-batch-v1" };
            format!("uid-of--{root}-namespaces-shop-{plural}-{name}")
        };
        let (pod, job) = (uid("pods", "p"), uid("jobs", "j"));
        ground.put(owned(("v1", "PersistentVolumeClaim"), "c", &[("v1", "Pod", &pod)]));
        ground.put(owned(("v1", "Pod"), "p", &[("batch/v1", "Job", &job)]));
        ground.put(owned(("batch/v1", "Job"), "j", &[("example.com/v2", "Widget", "w")]));
        // Its pod has no claim.
        ground.put(owned(("v1", "Pod"), "other", &[("batch/v1", "Job", "k")]));
        if let Some(path) = refused {
            ground.answer("GET", path, (403, "Forbidden"));
        }
        let catalog = ground.env.cluster.discover().await.unwrap();
        let found = OwnedClaims::look(&[Some("shop")], &catalog, &ground.env).await;
        let key = |resource: &str, namespace| ObjectKey::new(resource.parse().unwrap(), namespace, "x");
        [
            found.refusal(&key("widgets.example.com", Some("shop")), "w"),
            found.refusal(&key("jobs.batch", Some("shop")), &job),
            found.refusal(&key("jobs.batch", Some("shop")), "k"),
            found.refusal(&key("clusterroles.rbac.authorization.k8s.io", None), "r"),
        ]
    }

    #[tokio::test]
    async fn indirect_owners_of_a_claim_stay_and_so_does_all_with_unknown_owners() {
        let owns = Some("it owns claims, perhaps through others".to_owned());
        assert_eq!(reasons(None).await, [owns.clone(), owns.clone(), None, None]);
        let claims = "/api/v1/namespaces/shop/persistentvolumeclaims";
        let unknown = reasons(Some(claims)).await;
        let begins = "it is not known whether it owns claims: cannot list persistentvolumeclaims";
        assert!(unknown.iter().flatten().filter(|why| why.starts_with(begins)).count() == 4, "{unknown:?}");
        let unknown = reasons(Some("/api/v1/namespaces/shop/pods")).await;
        let begins = "it is not known whether it owns claims: the owners of kind Pod cannot be seen: ";
        assert!(unknown.iter().flatten().filter(|why| why.starts_with(begins)).count() == 4, "{unknown:?}");
    }
}
