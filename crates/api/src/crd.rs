//! The CustomResourceDefinitions of the kinds (velero: config/crd).

use crate::schema::FieldType;
use crate::{
    Backup, BackupRepository, BackupStorageLocation, DataDownload, DataUpload, DeleteBackupRequest, DownloadRequest,
    GROUP, PodVolumeBackup, PodVolumeRestore, Restore, Schedule, ServerStatusRequest, VolumeSnapshotLocation,
};
use serde_json::{Value, json};

/// The group, version and names of a kind, by which a client addresses its objects.
pub trait Resource {
    /// Kind, such as `Backup`.
    const KIND: &'static str;
    /// Resource name, such as `backups`.
    const PLURAL: &'static str;
    /// Version in the group [`GROUP`].
    const VERSION: &'static str;

    /// Group and version.
    #[must_use]
    fn api_version() -> String {
        format!("{GROUP}/{}", Self::VERSION)
    }

    /// Reads an object out of its JSON. One function for each kind, which is compiled with this crate: each crate that reads
    /// objects would otherwise have a reader of its own, compiled as little as it is.
    ///
    /// # Errors
    /// JSON that is no object of this kind.
    fn from_json(bytes: &[u8]) -> serde_json::Result<Self>
    where
        Self: Sized;
}

/// The definitions of all thirteen kinds as `apiextensions.k8s.io/v1` objects, sorted by name.
#[must_use]
pub fn crds() -> Vec<Value> {
    vec![
        crd::<BackupRepository>(&[], Some(&[AGE, Column::text("Repository Type", ".spec.repositoryType")])),
        crd::<Backup>(&[], None),
        crd::<BackupStorageLocation>(
            &["bsl"],
            Some(&[
                Column::text("Phase", ".status.phase"),
                Column::date("Last Validated", ".status.lastValidationTime"),
                AGE,
                Column::flag("Default", ".spec.default"),
            ]),
        ),
        crd::<DataDownload>(&[], Some(&[STATUS, STARTED, BYTES_DONE, TOTAL_BYTES, STORAGE_LOCATION, AGE, NODE])),
        crd::<DataUpload>(
            &[],
            Some(&[STATUS, STARTED, BYTES_DONE, TOTAL_BYTES, INCREMENTAL_BYTES, STORAGE_LOCATION, AGE, NODE]),
        ),
        crd::<DeleteBackupRequest>(&[], Some(&[Column::text("BackupName", ".spec.backupName"), STATUS])),
        crd::<DownloadRequest>(&[], None),
        crd::<PodVolumeBackup>(
            &[],
            Some(&[
                STATUS,
                STARTED,
                BYTES_DONE,
                TOTAL_BYTES,
                INCREMENTAL_BYTES,
                STORAGE_LOCATION,
                AGE,
                // compat: always blank, the status has no such field.
                NODE,
                Column::text("Uploader", ".spec.uploaderType"),
            ]),
        ),
        crd::<PodVolumeRestore>(
            &[],
            Some(&[
                STATUS,
                STARTED,
                BYTES_DONE,
                TOTAL_BYTES,
                STORAGE_LOCATION,
                AGE,
                NODE,
                Column::text("Uploader Type", ".spec.uploaderType"),
            ]),
        ),
        crd::<Restore>(&[], None),
        crd::<Schedule>(
            &[],
            Some(&[
                STATUS,
                Column::text("Schedule", ".spec.schedule"),
                Column::date("LastBackup", ".status.lastBackup"),
                AGE,
                Column::flag("Paused", ".spec.paused"),
            ]),
        ),
        crd::<ServerStatusRequest>(&["ssr"], None),
        crd::<VolumeSnapshotLocation>(&["vsl"], None),
    ]
}

/// A column of `kubectl get`.
struct Column {
    name: &'static str,
    path: &'static str,
    kind: &'static str,
    format: Option<&'static str>,
    priority: i64,
}

impl Column {
    const fn new(name: &'static str, path: &'static str, kind: &'static str) -> Self {
        Self { name, path, kind, format: None, priority: 0 }
    }

    const fn text(name: &'static str, path: &'static str) -> Self {
        Self::new(name, path, "string")
    }

    const fn date(name: &'static str, path: &'static str) -> Self {
        Self::new(name, path, "date")
    }

    const fn flag(name: &'static str, path: &'static str) -> Self {
        Self::new(name, path, "boolean")
    }

    const fn bytes(name: &'static str, path: &'static str) -> Self {
        Self { format: Some("int64"), ..Self::new(name, path, "integer") }
    }

    fn to_json(&self) -> Value {
        let mut column = json!({"name": self.name, "jsonPath": self.path, "type": self.kind});
        if let Some(format) = self.format {
            column["format"] = json!(format);
        }
        if self.priority != 0 {
            column["priority"] = json!(self.priority);
        }
        column
    }
}

const STATUS: Column = Column::text("Status", ".status.phase");
const STARTED: Column = Column::date("Started", ".status.startTimestamp");
const BYTES_DONE: Column = Column::bytes("Bytes Done", ".status.progress.bytesDone");
const TOTAL_BYTES: Column = Column::bytes("Total Bytes", ".status.progress.totalBytes");
const INCREMENTAL_BYTES: Column =
    Column { priority: 10, ..Column::bytes("Incremental Bytes", ".status.incrementalBytes") };
const STORAGE_LOCATION: Column = Column::text("Storage Location", ".spec.backupStorageLocation");
const AGE: Column = Column::date("Age", ".metadata.creationTimestamp");
const NODE: Column = Column::text("Node", ".status.node");

/// The definition of a kind; without `columns`, `kubectl get` shows name and age.
fn crd<R: Resource + FieldType>(short_names: &[&str], columns: Option<&[Column]>) -> Value {
    let mut names = json!({
        "kind": R::KIND,
        "listKind": format!("{}List", R::KIND),
        "plural": R::PLURAL,
        "singular": R::KIND.to_lowercase(),
    });
    if !short_names.is_empty() {
        names["shortNames"] = json!(short_names);
    }
    let mut version = json!({
        "name": R::VERSION,
        "served": true,
        "storage": true,
        "schema": {"openAPIV3Schema": R::schema()},
    });
    // Velero's definitions with columns also say that there are no subresources, the others leave that open. It
    // means the same: status is written with the object.
    if let Some(columns) = columns {
        version["additionalPrinterColumns"] = columns.iter().map(Column::to_json).collect();
        version["subresources"] = json!({});
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{GROUP}", R::PLURAL), "labels": {"component": "velero"}},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use std::collections::BTreeSet;
    use std::fmt::Debug;

    fn golden_schema(plural: &str) -> Value {
        let path = format!("{}/tests/golden/crds/{plural}.{GROUP}.json", env!("CARGO_MANIFEST_DIR"));
        let crd: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
    }

    /// Compares `value` with `schema`: collects wrong types, and fields that only one of them has.
    fn compare(schema: &Value, value: &Value, path: &str, wrong: &mut BTreeSet<String>) {
        let fits = match schema["type"].as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "integer" => value.is_i64(),
            "boolean" => value.is_boolean(),
            other => panic!("unknown type {other}"),
        };
        if !fits {
            wrong.insert(format!("{path}: {value} is no {}", schema["type"]));
        }
        if let Some(words) = schema["enum"].as_array()
            && !words.contains(value)
        {
            wrong.insert(format!("{path}: {value} is not allowed"));
        }
        for (at, item) in value.as_array().into_iter().flatten().enumerate() {
            compare(&schema["items"], item, &format!("{path}[{at}]"), wrong);
        }
        if schema["x-kubernetes-preserve-unknown-fields"] == true {
            return;
        }
        let (known, nothing) = (schema["properties"].as_object(), serde_json::Map::new());
        let fields = value.as_object().unwrap_or(&nothing);
        for (name, field) in fields {
            let path = format!("{path}.{name}");
            match known.and_then(|known| known.get(name)).or(schema.get("additionalProperties")) {
                Some(schema) => compare(schema, field, &path, wrong),
                None => drop(wrong.insert(format!("{path}: only in the type"))),
            }
        }
        for name in known.into_iter().flatten().map(|(name, _)| name).filter(|name| !fields.contains_key(*name)) {
            wrong.insert(format!("{path}.{name}: only in the schema"));
        }
    }

    /// Checks a kind against a schema, with a full object, and that the object is read back as it was written.
    fn differences<R>(schema: &Value) -> Vec<String>
    where
        R: Resource + FieldType + Serialize + DeserializeOwned + PartialEq + Debug,
    {
        let full = R::full();
        let value = serde_json::to_value(&full).unwrap();
        assert_eq!(serde_json::from_value::<R>(value.clone()).unwrap(), full, "{}", R::KIND);
        let mut wrong = BTreeSet::new();
        compare(schema, &value, "", &mut wrong);
        wrong.into_iter().map(|text| format!("{}{text}", R::KIND)).collect()
    }

    fn all_differences(schema: impl Fn(&str) -> Value) -> Vec<String> {
        macro_rules! all {
            ($($kind:ident)*) => {
                [$(differences::<$kind>(&schema($kind::PLURAL))),*].concat()
            };
        }
        all!(Backup BackupRepository BackupStorageLocation DataDownload DataUpload DeleteBackupRequest DownloadRequest
            PodVolumeBackup PodVolumeRestore Restore Schedule ServerStatusRequest VolumeSnapshotLocation)
    }

    /// Fields that main has and Velero 1.18.2 has not: read, and written when set, but not in the definitions.
    const LATER: [&str; 7] = [
        "Backup.spec.backupType: only in the type",
        "DataDownload.spec.targetVolume.fsType: only in the type",
        "DataUpload.spec.parentSnapshot: only in the type",
        "DataUpload.spec.sourceFSType: only in the type",
        "DownloadRequest.status.message: only in the type",
        "PodVolumeBackup.spec.parentSnapshot: only in the type",
        "Schedule.spec.template.backupType: only in the type",
    ];

    /// Fields that Lifeboat's definitions have: those of Velero 1.18.2 drop them.
    const OURS: [&str; 21] = [
        "Backup.spec.allowUnprotected: only in the type",
        "Backup.spec.cancel: only in the type",
        "Backup.spec.metadata.annotations: only in the type",
        "Backup.spec.volumeGroupFallback: only in the type",
        "Backup.status.attempt: only in the type",
        "Backup.status.unprotectedVolumes: only in the type",
        "Restore.spec.allowRecreate: only in the type",
        "Restore.spec.cancel: only in the type",
        "Restore.spec.existingResourcePolicyOverrides: only in the type",
        "Restore.spec.planDigest: only in the type",
        "Restore.spec.prune: only in the type",
        "Restore.spec.resourcePolicy: only in the type",
        "Restore.spec.restoreOwnerReferences: only in the type",
        "Restore.spec.skipDefaultResourceModifier: only in the type",
        "Restore.status.attempt: only in the type",
        "Schedule.spec.retention: only in the type",
        "Schedule.spec.template.allowUnprotected: only in the type",
        "Schedule.spec.template.cancel: only in the type",
        "Schedule.spec.template.metadata.annotations: only in the type",
        "Schedule.spec.template.volumeGroupFallback: only in the type",
        "Schedule.status.message: only in the type",
    ];

    /// A null is read like an absent field, whether the definition allows it or an old store holds it.
    fn assert_reads_null<R: Resource + FieldType + Serialize + DeserializeOwned + Default + PartialEq + Debug>() {
        let mut value = serde_json::to_value(R::full()).unwrap();
        for part in ["spec", "status"] {
            value[part].as_object_mut().unwrap().values_mut().for_each(|field| *field = Value::Null);
        }
        assert_eq!(serde_json::from_value::<R>(value).unwrap(), R::default());
    }

    #[test]
    fn nulls_are_absent_fields() {
        macro_rules! all {
            ($($kind:ident)*) => {
                $(assert_reads_null::<$kind>();)*
            };
        }
        all!(Backup BackupRepository BackupStorageLocation DataDownload DataUpload DeleteBackupRequest DownloadRequest
            PodVolumeBackup PodVolumeRestore Restore Schedule ServerStatusRequest VolumeSnapshotLocation);
    }

    /// Puts a field that nobody knows into each object of this schema.
    fn with_unknown(value: &mut Value, schema: &Value) {
        for item in value.as_array_mut().into_iter().flatten() {
            with_unknown(item, &schema["items"]);
        }
        let Some(fields) = value.as_object_mut() else { return };
        for (name, field) in fields.iter_mut() {
            with_unknown(field, schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]));
        }
        if schema["properties"].is_object() {
            let unknown = r#"{"list": [{"a": null, "b": false}], "digits": 0.10000000000000000000001, "number": 7}"#;
            fields.insert("ofLater".to_owned(), serde_json::from_str(unknown).unwrap());
        }
    }

    fn assert_keeps_unknown<R: Resource + FieldType + Serialize + DeserializeOwned>() {
        let mut value = serde_json::to_value(R::full()).unwrap();
        with_unknown(&mut value, &R::schema().into());
        assert!(value["spec"]["ofLater"].is_object() || value["status"]["ofLater"].is_object(), "{value}");
        let read: R = serde_json::from_str(&value.to_string()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), value, "{}", R::KIND);
    }

    #[test]
    fn fields_that_are_not_known_are_written_back() {
        macro_rules! all {
            ($($kind:ident)*) => {
                $(assert_keeps_unknown::<$kind>();)*
            };
        }
        all!(Backup BackupRepository BackupStorageLocation DataDownload DataUpload DeleteBackupRequest DownloadRequest
            PodVolumeBackup PodVolumeRestore Restore Schedule ServerStatusRequest VolumeSnapshotLocation);
    }

    #[test]
    fn types_have_the_fields_of_velero() {
        let mut expected = [LATER.as_slice(), &OURS].concat();
        expected.sort_unstable();
        assert_eq!(all_differences(golden_schema), expected);
    }

    #[test]
    fn types_have_the_fields_of_the_definitions() {
        let crds = crds();
        let of_kind = |plural: &str| {
            let crd = crds.iter().find(|crd| crd["spec"]["names"]["plural"] == plural).unwrap();
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
        };
        assert_eq!(all_differences(of_kind), LATER);
    }

    /// An object of which nothing is known is read, and written with what Go writes: required fields and structs.
    fn empty<R: Resource + Serialize + DeserializeOwned>() -> Value {
        let read: R = serde_json::from_value(json!({
            "kind": R::KIND, "apiVersion": R::api_version(), "metadata": null, "spec": {}, "status": null,
        }))
        .unwrap();
        serde_json::to_value(read).unwrap()
    }

    #[test]
    fn empty_objects_are_written_as_go_does() {
        let backup_spec = json!({
            "metadata": {}, "ttl": "0s", "hooks": {}, "csiSnapshotTimeout": "0s", "itemOperationTimeout": "0s",
        });
        assert_eq!(
            empty::<Backup>(),
            json!({
                "kind": "Backup", "apiVersion": "velero.io/v1", "metadata": {}, "spec": backup_spec, "status": {},
            })
        );
        assert_eq!(empty::<Schedule>()["spec"], json!({"template": backup_spec, "schedule": ""}));
        assert_eq!(
            empty::<PodVolumeBackup>(),
            json!({
                "kind": "PodVolumeBackup", "apiVersion": "velero.io/v1", "metadata": {},
                "spec": {"node": "", "pod": {}, "volume": "", "backupStorageLocation": "", "repoIdentifier": ""},
                "status": {"progress": {}},
            })
        );
        assert_eq!(
            empty::<DataUpload>(),
            json!({
                "kind": "DataUpload", "apiVersion": "velero.io/v2alpha1", "metadata": {},
                "spec": {
                    "snapshotType": "", "sourcePVC": "", "backupStorageLocation": "", "sourceNamespace": "",
                    "operationTimeout": "0s",
                },
                "status": {"progress": {}},
            })
        );
    }
}
