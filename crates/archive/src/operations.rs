//! Asynchronous operations of objects, as they stand in `<name>-itemoperations.json.gz` (velero: pkg/itemoperation,
//! pkg/controller/backup_operations_controller.go).

use lifeboat_api::OperationStatus;
use lifeboat_object::{GroupResource, ObjectKey};
use serde::{Deserialize, Serialize};

/// An operation that an action has begun for an object that was saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupOperation {
    /// The operation as it was begun.
    pub spec: BackupOperationSpec,
    /// Its progress.
    #[serde(default)]
    pub status: OperationStatus,
}

/// The facts about an operation of a backup that do not change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupOperationSpec {
    /// Name of the backup.
    pub backup_name: String,
    /// Its UID.
    #[serde(rename = "backupUID")]
    pub backup_uid: String,
    /// Name of the action that has begun it, and knows its progress.
    pub backup_item_action: String,
    /// The object.
    pub resource_identifier: ResourceIdentifier,
    /// The action's name for it.
    #[serde(rename = "operationID")]
    pub operation_id: String,
    /// Objects that are saved again when it has ended. Go writes none as `null`.
    pub post_operation_items: Option<Vec<ResourceIdentifier>>,
}

/// An operation that an action has begun for an object that was restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreOperation {
    /// The operation as it was begun.
    pub spec: RestoreOperationSpec,
    /// Its progress.
    #[serde(default)]
    pub status: OperationStatus,
}

/// The facts about an operation of a restore that do not change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreOperationSpec {
    /// Name of the restore.
    pub restore_name: String,
    /// Its UID.
    #[serde(rename = "restoreUID")]
    pub restore_uid: String,
    /// Name of the action that has begun it, and knows its progress.
    pub restore_item_action: String,
    /// The object.
    pub resource_identifier: ResourceIdentifier,
    /// The action's name for it.
    #[serde(rename = "operationID")]
    pub operation_id: String,
}

/// An object by its type and name. Go writes the fields by their names, which begin with capitals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ResourceIdentifier {
    /// API group; empty for the core.
    pub group: String,
    /// Type, such as `pods`.
    pub resource: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl From<&ObjectKey> for ResourceIdentifier {
    fn from(key: &ObjectKey) -> Self {
        Self {
            group: key.resource.group.to_string(),
            resource: key.resource.resource.to_string(),
            namespace: key.namespace.as_deref().unwrap_or_default().to_owned(),
            name: key.name.to_string(),
        }
    }
}

impl From<&ResourceIdentifier> for ObjectKey {
    fn from(id: &ResourceIdentifier) -> Self {
        let namespace = Some(id.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        Self::new(GroupResource::new(&id.group, &id.resource), namespace, id.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;

    fn round_trip<T: DeserializeOwned + Serialize>(text: &str) {
        let read: Vec<T> = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }

    /// Taken from files that Velero 1.18 has written, all but the identifiers.
    #[test]
    fn operations_are_written_as_velero_writes_them() {
        round_trip::<BackupOperation>(
            r#"[{"spec":{"backupName":"csi1","backupUID":"9a59","backupItemAction":"velero.io/csi-volumesnapshot-backupper","resourceIdentifier":{"Group":"snapshot.storage.k8s.io","Resource":"volumesnapshots","Namespace":"vol","Name":"velero-blk-55nbb"},"operationID":"vol/velero-blk-55nbb/2026-11-21T09:32:02Z","postOperationItems":[{"Group":"snapshot.storage.k8s.io","Resource":"volumesnapshotcontents","Namespace":"","Name":"snapcontent-8ec9"}]},"status":{"phase":"Completed","created":"2026-11-21T09:32:02Z","started":"2026-11-21T09:32:02Z","updated":"2026-11-21T09:32:08Z"}},{"spec":{"backupName":"b","backupUID":"u","backupItemAction":"example.com/x","resourceIdentifier":{"Group":"","Resource":"pods","Namespace":"n","Name":"p"},"operationID":"1","postOperationItems":null},"status":{"phase":"Failed","error":"no","nCompleted":3,"nTotal":7,"operationUnits":"Byte","description":"d"}}]"#,
        );
        round_trip::<RestoreOperation>(
            r#"[{"spec":{"restoreName":"r","restoreUID":"u","restoreItemAction":"velero.io/csi-pvc-restorer","resourceIdentifier":{"Group":"","Resource":"persistentvolumeclaims","Namespace":"n","Name":"c"},"operationID":"dd-1"},"status":{"phase":"InProgress","created":"2026-11-21T09:32:02Z"}}]"#,
        );
    }

    #[test]
    fn identifiers_are_keys() {
        for namespace in [None, Some("n")] {
            let key = ObjectKey::new(GroupResource::new("g", "things"), namespace, "x");
            assert_eq!(ObjectKey::from(&ResourceIdentifier::from(&key)), key);
        }
    }
}
