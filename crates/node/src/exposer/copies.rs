//! Copies of the Secrets and ConfigMaps that drivers want beside the claim of a mover. Their names are those that storage classes say, so transfers
//! share a copy: each notes itself on it, and the last one removes it.

use crate::exposer::error::ExposeError;
use crate::kube::{Kube, ObjectName, text, uid};
use crate::resources;
use crate::transfer::{Transfer, TransferKind};
use lifeboat_api::NamespacedName;
use lifeboat_api::well_known::{ANNOTATION_PREFIX_COPIED_FOR, LABEL_BACKUP_PVC_SECRET};
use lifeboat_cluster::ClusterError;
use lifeboat_object::{ApiResource, first_names};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;

/// The beginning of the reason of a wait for others that use a copy of the same name with other data.
pub(crate) const COPY_IN_USE: &str = "it waits for the end of ";
/// The fields with the data.
const DATA: [&str; 3] = ["type", "data", "binaryData"];

/// Returns true for a transfer that was noted to wait for others that use a copy.
pub(crate) fn waits_for_copy(transfer: &Transfer) -> bool {
    is_about_copy(&transfer.message)
}

/// Returns true for the reason of a wait for others that use a copy.
pub(crate) fn is_about_copy(reason: &str) -> bool {
    reason.starts_with(COPY_IN_USE)
}

/// The UIDs of transfers that go on or still have to clean up, as far as they were seen.
pub(crate) type UnfinishedUids = Arc<HashSet<String>>;

/// A transfer that uses a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CopyUser {
    uid: String,
    /// Its kind and its name, such as `DataUpload/NAME`; empty where only the label of Velero names it.
    named: String,
}

impl CopyUser {
    fn name(&self) -> String {
        match self.named.as_str() {
            "" => format!("the transfer of a node agent of Velero with the UID {}", self.uid),
            named => named.to_owned(),
        }
    }
}

/// The relation of a transfer to the copy that is there.
#[derive(Clone, Debug, PartialEq)]
enum Sharing {
    /// It uses it already.
    Has,
    /// It notes itself on it with this patch.
    Join(Value),
    /// The copy has other data, and these transfers use it.
    InUse(Vec<CopyUser>),
    /// It is no copy for a transfer.
    Foreign,
}

fn annotation_of(transfer_uid: &str) -> String {
    format!("{ANNOTATION_PREFIX_COPIED_FOR}{transfer_uid}")
}

fn name_of(transfer: &Transfer) -> String {
    format!("{}/{}", transfer.kind.word(), transfer.meta.name)
}

/// The transfers that use a copy.
fn users_of_copy(copy: &Value) -> Vec<CopyUser> {
    let annotations = copy["metadata"]["annotations"].as_object().into_iter().flatten();
    let noted = annotations.filter_map(|(key, named)| {
        let uid = key.strip_prefix(ANNOTATION_PREFIX_COPIED_FOR)?.to_owned();
        Some(CopyUser { uid, named: named.as_str().unwrap_or_default().to_owned() })
    });
    let mut users: Vec<CopyUser> = noted.collect();
    let label = text(copy, &["metadata", "labels", LABEL_BACKUP_PVC_SECRET]);
    if !label.is_empty() && users.iter().all(|user| user.uid != label) {
        users.push(CopyUser { uid: label.to_owned(), named: String::new() });
    }
    users
}

/// The users of a copy other than this transfer, and whether it is one itself.
fn others_than(transfer: &Transfer, copy: &Value) -> (Vec<CopyUser>, bool) {
    let all = users_of_copy(copy);
    let is_own = |user: &CopyUser| user.uid == transfer.meta.uid;
    let is_user = all.iter().any(is_own);
    (all.into_iter().filter(|user| !is_own(user)).collect(), is_user)
}

fn sharing(transfer: &Transfer, found: &Value, wanted: &Value) -> Sharing {
    if text(found, &["metadata", "labels", LABEL_BACKUP_PVC_SECRET]).is_empty() {
        return Sharing::Foreign;
    }
    let is_same = DATA.iter().all(|field| found[*field] == wanted[*field]);
    let (others, is_user) = others_than(transfer, found);
    match (is_same, is_user) {
        (true, true) => Sharing::Has,
        (true, false) => Sharing::Join(json!({"metadata": {
            "resourceVersion": found["metadata"]["resourceVersion"],
            "annotations": {annotation_of(&transfer.meta.uid): name_of(transfer)},
        }})),
        // The data have changed since it came.
        (false, true) if !others.is_empty() => Sharing::Has,
        (false, _) => Sharing::InUse(others),
    }
}

/// The patch that takes a transfer off a copy, which is left to another one.
fn leave_to(next: &CopyUser, transfer: &Transfer, copy: &Value) -> Value {
    json!({"metadata": {
        "resourceVersion": copy["metadata"]["resourceVersion"],
        "labels": {LABEL_BACKUP_PVC_SECRET: next.uid},
        "annotations": {annotation_of(&transfer.meta.uid): null},
    }})
}

/// The object that a transfer wants, from that in the namespace of the volume.
fn wanted_copy(transfer: &Transfer, resource: &ApiResource, source: &Value) -> Value {
    let metadata = json!({
        "name": source["metadata"]["name"], "namespace": transfer.meta.namespace,
        "labels": {LABEL_BACKUP_PVC_SECRET: transfer.meta.uid},
        "annotations": {annotation_of(&transfer.meta.uid): name_of(transfer)},
    });
    let mut wanted = json!({"apiVersion": "v1", "kind": resource.kind, "metadata": metadata});
    for field in DATA {
        if !source[field].is_null() {
            wanted[field] = source[field].clone();
        }
    }
    wanted
}

/// Copies an object with data into the namespace of a transfer, or shares the copy that is there.
pub(crate) async fn copy(
    kube: &Kube,
    resource: &ApiResource,
    from: &NamespacedName,
    transfer: &Transfer,
    unfinished: &UnfinishedUids,
) -> Result<(), ExposeError> {
    let (name, own) = (from.name.as_str(), transfer.meta.namespace.as_str());
    let source = kube.find(resource, Some(from.namespace.as_str()), name).await?;
    let source = source.ok_or_else(|| {
        ExposeError::Refused(format!(
            "the {} {from}, which the ConfigMap of the node agent names, does not exist",
            resource.kind
        ))
    })?;
    if from.namespace == own {
        // The object itself is where the copy would be.
        return Ok(());
    }
    let wanted = wanted_copy(transfer, resource, &source);
    let of = ObjectName { resource, namespace: Some(own), name };
    if kube.create(of, &wanted).await?.is_some() {
        return Ok(());
    }
    let what = format!("the {} {own}/{name}", resource.kind);
    let found = kube.get(of).await?.filter(|found| found["metadata"]["deletionTimestamp"].is_null());
    let Some(found) = found else {
        return Err(ExposeError::Soon(format!("{what} of another transfer is being deleted")));
    };
    match sharing(transfer, &found, &wanted) {
        Sharing::Has => Ok(()),
        Sharing::Join(patch) => match kube.patch(of, &patch).await {
            Ok(_) => Ok(()),
            Err(e) if e.is_conflict() || e.is_not_found() => {
                Err(ExposeError::Soon(format!("{what} has changed meanwhile")))
            }
            Err(e) => Err(e.into()),
        },
        Sharing::InUse(others) => {
            let live = retain_live_users(kube, own, others, unfinished).await?;
            if live.is_empty() {
                kube.delete_as_read(of, &found).await?;
                return Err(ExposeError::Soon(format!("{what}, a copy that nobody uses any more, is made anew")));
            }
            let names = first_names(&live.iter().map(CopyUser::name).collect::<Vec<_>>());
            Err(ExposeError::Waits(format!("{COPY_IN_USE}{names}, for which {what} was copied with other data")))
        }
        Sharing::Foreign => Err(ExposeError::Refused(format!(
            "there is a {0} {own}/{name} that does not belong to a transfer: delete it, or give the {0} of the storage class another name, also in \
             the ConfigMap of the node agent",
            resource.kind
        ))),
    }
}

/// Takes a transfer off the copies that it uses, and removes those that no other one uses. Gives false where one has changed meanwhile.
pub(crate) async fn remove_copies(
    kube: &Kube,
    transfer: &Transfer,
    unfinished: &UnfinishedUids,
) -> Result<bool, ClusterError> {
    let own = transfer.meta.namespace.as_str();
    let mut is_done = true;
    for resource in [resources::secrets(), resources::config_maps()] {
        for copied in kube.list(resource.clone(), Some(own), LABEL_BACKUP_PVC_SECRET, "").await? {
            let (others, is_user) = others_than(transfer, &copied);
            if !is_user {
                continue;
            }
            let name = text(&copied, &["metadata", "name"]);
            let of = ObjectName { resource: &resource, namespace: Some(own), name };
            let live = retain_live_users(kube, own, others, unfinished).await?;
            let is_gone = match live.first() {
                Some(next) => kube.patch(of, &leave_to(next, transfer, &copied)).await.map(|_| true)?,
                None => kube.delete_as_read(of, &copied).await?,
            };
            is_done &= is_gone;
        }
    }
    Ok(is_done)
}

/// The users of a copy that go on, or still have to clean up.
async fn retain_live_users(
    kube: &Kube,
    namespace: &str,
    users: Vec<CopyUser>,
    unfinished: &UnfinishedUids,
) -> Result<Vec<CopyUser>, ClusterError> {
    let mut live = Vec::new();
    for user in users {
        let (kind, name) = user.named.split_once('/').unwrap_or_default();
        let kind = TransferKind::ALL.into_iter().find(|known| known.word() == kind);
        let is_live = match kind {
            Some(kind) => {
                let found = kube.find(&kind.resource(), Some(namespace), name).await?;
                found.is_some_and(|found| uid(&found) == user.uid && has_not_cleaned_up(kind, &found))
            }
            None => unfinished.contains(&user.uid) || is_live_by_uid(kube, namespace, &user.uid).await?,
        };
        if is_live {
            live.push(user);
        }
    }
    Ok(live)
}

/// Looks for a transfer that only its UID names, as on copies of node agents of Velero. It lists all, so it is asked only of one that was not
/// seen: that is gone, or so new that the mirrors lack it.
async fn is_live_by_uid(kube: &Kube, namespace: &str, transfer: &str) -> Result<bool, ClusterError> {
    for kind in [TransferKind::DataUpload, TransferKind::DataDownload] {
        let all = kube.list(kind.resource().as_ref().clone(), Some(namespace), "", "").await?;
        if let Some(found) = all.iter().find(|found| uid(found) == transfer) {
            return Ok(has_not_cleaned_up(kind, found));
        }
    }
    Ok(false)
}

/// Returns true for a transfer that has not ended, or whose clean-up has not.
fn has_not_cleaned_up(kind: TransferKind, found: &Value) -> bool {
    let transfer = Transfer::parse(kind, found.to_string().as_bytes());
    transfer.map_or(true, |transfer| !transfer.has_ended() || transfer.has_finalizer())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(name: &str) -> Transfer {
        let object = json!({
            "apiVersion": "velero.io/v2alpha1", "kind": "DataUpload",
            "metadata": {"name": name, "namespace": "velero", "uid": format!("uid-{name}")},
            "spec": {"snapshotType": "CSI", "sourcePVC": "data", "sourceNamespace": "shop", "backupStorageLocation": "default",
                "operationTimeout": "10m0s"},
        });
        Transfer::parse(TransferKind::DataUpload, object.to_string().as_bytes()).unwrap()
    }

    fn source(data: &str) -> Value {
        json!({"metadata": {"name": "key", "namespace": "shop"}, "type": "Opaque", "data": {"k": data}})
    }

    fn user(name: &str) -> CopyUser {
        CopyUser { uid: format!("uid-{name}"), named: format!("DataUpload/{name}") }
    }

    #[test]
    fn a_copy_with_the_same_data_is_shared_and_one_with_others_waited_for() {
        let (one, other) = (upload("one"), upload("other"));
        let secrets = resources::secrets();
        let mut copy = wanted_copy(&one, &secrets, &source("1"));
        copy["metadata"]["resourceVersion"] = json!("7");
        assert_eq!(users_of_copy(&copy), [user("one")]);
        let way = |transfer: &Transfer, copy: &Value, data: &str| {
            sharing(transfer, copy, &wanted_copy(transfer, &secrets, &source(data)))
        };
        assert_eq!(way(&one, &copy, "1"), Sharing::Has);
        let noted = json!({"copied-for.lifeboat.io/uid-other": "DataUpload/other"});
        let join = json!({"metadata": {"resourceVersion": "7", "annotations": noted}});
        assert_eq!(way(&other, &copy, "1"), Sharing::Join(join));
        assert_eq!(way(&other, &copy, "2"), Sharing::InUse(vec![user("one")]));
        // The data of the source have changed, and nobody else has the old ones.
        assert_eq!(way(&one, &copy, "2"), Sharing::InUse(Vec::new()));
        copy["metadata"]["annotations"]["copied-for.lifeboat.io/uid-other"] = json!("DataUpload/other");
        for transfer in [&one, &other] {
            assert_eq!(way(transfer, &copy, "2"), Sharing::Has);
        }
        assert_eq!(way(&one, &source("1"), "1"), Sharing::Foreign);
    }

    #[test]
    fn a_copy_is_left_to_the_next_and_one_of_velero_has_one_user() {
        let (one, secrets) = (upload("one"), resources::secrets());
        let mut copy = wanted_copy(&one, &secrets, &source("1"));
        copy["metadata"]["resourceVersion"] = json!("7");
        let expected = json!({"metadata": {
            "resourceVersion": "7", "labels": {"velero.io/backup-pvc-secret": "uid-other"},
            "annotations": {"copied-for.lifeboat.io/uid-one": null},
        }});
        assert_eq!(leave_to(&user("other"), &one, &copy), expected);
        let of_velero = json!({"metadata": {"labels": {"velero.io/backup-pvc-secret": "uid-other"}}});
        let its_user = CopyUser { uid: "uid-other".to_owned(), named: String::new() };
        assert_eq!(others_than(&one, &of_velero), (vec![its_user], false));
    }
}
