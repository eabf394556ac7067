//! Fields of resources as the cluster's definitions have them: a Velero after 1.18 adds some, and may require them.
//!
//! A field that this program knows is written where the definition has it, and nowhere else: other definitions drop or
//! refuse it.

use crate::method::child::resource_type;
use bytes::Bytes;
use lifeboat_api::{DataDownload, DataUpload, PodVolumeRestore, Resource};
use lifeboat_cluster::Cluster;
use lifeboat_object::ApiResource;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// A field of a spec that definitions after 1.18 have.
struct LaterField {
    kind: &'static str,
    /// The object in the spec that has it; `None` for the spec itself.
    within: Option<&'static str>,
    name: &'static str,
    /// Its value; null where it is not known, and the field is left out.
    value: fn(&Value) -> Value,
}

/// All of them. A restore into a new volume has no type, a VolumeSnapshot is in the namespace of its claim, and the
/// code that makes an upload knows the type of the file system.
const LATER_FIELDS: [LaterField; 4] = [
    LaterField { kind: DataDownload::KIND, within: None, name: "restoreType", value: |_| "".into() },
    LaterField { kind: PodVolumeRestore::KIND, within: None, name: "restoreType", value: |_| "".into() },
    LaterField {
        kind: DataUpload::KIND,
        within: Some("csiSnapshot"),
        name: "volumeSnapshotNamespace",
        value: |spec| spec["sourceNamespace"].clone(),
    },
    LaterField {
        kind: DataUpload::KIND,
        within: None,
        name: "sourceFSType",
        value: |spec| spec["sourceFSType"].clone(),
    },
];

/// The looks for a definition that the API server does not answer, with a pause between two.
const LOOKS: u32 = 3;
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);

/// The schema of a spec; `None` where it cannot be read.
type KnownSchema = Option<Arc<Value>>;

/// The definitions of the cluster, each read once for a backup or restore.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    /// The schemas of specs by the names of their types.
    schemas: Arc<Mutex<BTreeMap<&'static str, KnownSchema>>>,
}

impl Definitions {
    /// The body of a resource that is to be made, with the fields of the cluster's definition.
    ///
    /// # Errors
    /// The definition requires what this program does not know, or the resource cannot be written: for people.
    pub(crate) async fn body_of<R: Resource + Serialize>(
        &self,
        cluster: &Cluster,
        resource: &R,
    ) -> Result<Bytes, String> {
        let mut value =
            serde_json::to_value(resource).map_err(|e| format!("cannot write an object of {}: {e}", R::PLURAL))?;
        let schema = self.schema_of::<R>(cluster).await?;
        fit(R::KIND, &mut value["spec"], schema.as_deref().unwrap_or(&Value::Null))?;
        Ok(Bytes::from(value.to_string()))
    }

    /// Makes a resource from its body. When that fails, the cluster may have another definition than at the first look:
    /// it is read again, and a body that differs is tried once.
    ///
    /// # Errors
    /// The reason for people.
    pub(crate) async fn make<R, T, F>(
        &self,
        cluster: &Cluster,
        resource: &R,
        make: impl Fn(Bytes) -> F,
    ) -> Result<T, String>
    where
        R: Resource + Serialize,
        F: Future<Output = Result<T, String>>,
    {
        let body = self.body_of(cluster, resource).await?;
        let why = match make(body.clone()).await {
            Ok(made) => return Ok(made),
            Err(why) => why,
        };
        self.schemas.lock().await.remove(R::PLURAL);
        match self.body_of(cluster, resource).await {
            Ok(other) if other != body => make(other).await,
            Ok(_) => Err(why),
            Err(unknown) => Err(format!("{why}; {unknown}")),
        }
    }

    /// The schema of the spec of a kind. Who may not read it, and a cluster that has none, are treated as Velero 1.18.
    async fn schema_of<R: Resource>(&self, cluster: &Cluster) -> Result<KnownSchema, String> {
        let mut schemas = self.schemas.lock().await;
        if let Some(known) = schemas.get(R::PLURAL) {
            return Ok(known.clone());
        }
        let definitions =
            ApiResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition");
        let name = format!("{}.{}", R::PLURAL, resource_type::<R>().group);
        let mut looks = 1;
        let found = loop {
            match cluster.get(&definitions, None, &name).await {
                Ok(body) => break body.and_then(|body| serde_json::from_slice::<Value>(&body).ok()),
                Err(e) if e.can_pass() && looks < LOOKS => tokio::time::sleep(BETWEEN_LOOKS).await,
                // A body without the fields of a later Velero would be refused, or do something else.
                Err(e) if e.can_pass() => {
                    return Err(format!(
                        "cannot read the definition {name}, which says what fields its objects have: {e}"
                    ));
                }
                // The API server itself says which fields are missing.
                Err(_) => break None,
            }
            looks += 1;
        };
        let schema = found.and_then(|found| schema_of_spec(&found, R::VERSION)).map(Arc::new);
        schemas.insert(R::PLURAL, schema.clone());
        Ok(schema)
    }
}

/// The schema of the spec in a version of a CustomResourceDefinition.
fn schema_of_spec(definition: &Value, version: &str) -> Option<Value> {
    let versions = definition["spec"]["versions"].as_array()?;
    let version = versions.iter().find(|one| one["name"] == version)?;
    let schema = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
    schema.is_object().then(|| schema.clone())
}

/// Gives a spec those of the later fields that a schema has, and no others. A schema that is null has none.
///
/// # Errors
/// The required fields that are still missing, for people.
fn fit(kind: &str, spec: &mut Value, schema: &Value) -> Result<(), String> {
    for LaterField { within, name, value, .. } in LATER_FIELDS.iter().filter(|field| field.kind == kind) {
        let value = value(spec);
        let (target, schema) = match within {
            Some(within) => (spec.get_mut(*within), &schema["properties"][*within]),
            None => (Some(&mut *spec), schema),
        };
        let Some(target) = target.and_then(Value::as_object_mut) else { continue };
        if !schema["properties"][*name].is_object() {
            target.remove(*name);
        } else if !value.is_null() && !target.contains_key(*name) {
            target.insert((*name).to_owned(), value);
        }
    }
    let mut missing = Vec::new();
    add_missing(&mut missing, "spec", spec, schema);
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the cluster's definition of {kind} requires {}, which this version does not know, so none was made: upgrade Lifeboat, or install the definitions of \
         this version with `lifeboat install --crds-only --apply`",
        missing.join(", ")
    ))
}

/// Adds the paths of required fields that an object lacks. The API server fills in those with a default.
fn add_missing(missing: &mut Vec<String>, path: &str, object: &Value, schema: &Value) {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for name in required {
        if object.get(name).is_none() && schema["properties"][name].get("default").is_none() {
            missing.push(format!("{path}.{name}"));
        }
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(object) = object.get(name).filter(|object| object.is_object()) {
            add_missing(missing, &format!("{path}.{name}"), object, schema);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::{PodVolumeBackup, crds};
    use serde_json::json;

    /// The schema of the spec of a kind, after a change.
    fn schema<R: Resource>(change: impl FnOnce(&mut Value)) -> Value {
        let name = format!("{}.velero.io", R::PLURAL);
        let definition = crds().into_iter().find(|one| one["metadata"]["name"] == name).unwrap();
        let mut schema = schema_of_spec(&definition, R::VERSION).unwrap();
        change(&mut schema);
        schema
    }

    fn require(schema: &mut Value, name: &str) {
        schema["properties"][name] = json!({"type": "string"});
        if !schema["required"].is_array() {
            schema["required"] = json!([]);
        }
        schema["required"].as_array_mut().unwrap().push(json!(name));
    }

    fn upload() -> Value {
        let mut upload = DataUpload::default();
        upload.spec.source_namespace = "shop".to_owned();
        upload.spec.csi_snapshot = Some(lifeboat_api::CsiSnapshotSpec::default());
        serde_json::to_value(upload).unwrap()["spec"].take()
    }

    fn spec<R: Resource + Serialize + Default>() -> Value {
        serde_json::to_value(R::default()).unwrap()["spec"].take()
    }

    #[test]
    fn the_definitions_of_velero_1_18_get_no_new_fields() {
        let kinds = [
            (DataUpload::KIND, upload(), schema::<DataUpload>(|_| {})),
            (DataDownload::KIND, spec::<DataDownload>(), schema::<DataDownload>(|_| {})),
            (PodVolumeRestore::KIND, spec::<PodVolumeRestore>(), schema::<PodVolumeRestore>(|_| {})),
            (PodVolumeBackup::KIND, spec::<PodVolumeBackup>(), schema::<PodVolumeBackup>(|_| {})),
        ];
        for (kind, before, schema) in kinds {
            let mut fitted = before.clone();
            assert_eq!((fit(kind, &mut fitted, &schema), fitted), (Ok(()), before), "{kind}");
        }
    }

    #[test]
    fn fields_that_a_newer_definition_has_or_requires_are_written() {
        let newer = schema::<DataUpload>(|schema| {
            require(&mut schema["properties"]["csiSnapshot"], "volumeSnapshotNamespace");
        });
        let mut fitted = upload();
        fit(DataUpload::KIND, &mut fitted, &newer).unwrap();
        assert_eq!(fitted["csiSnapshot"]["volumeSnapshotNamespace"], "shop");
        fitted["csiSnapshot"].as_object_mut().unwrap().remove("volumeSnapshotNamespace");
        assert_eq!(fitted, upload());
        // It is written too where it is not required.
        let newer = schema::<DataDownload>(|schema| schema["properties"]["restoreType"] = json!({"type": "string"}));
        let (mut fitted, before) = (spec::<DataDownload>(), spec::<DataDownload>());
        fit(DataDownload::KIND, &mut fitted, &newer).unwrap();
        assert_eq!(fitted.as_object_mut().unwrap().remove("restoreType"), Some(json!("")));
        assert_eq!(fitted, before);
        let newer = schema::<PodVolumeRestore>(|schema| require(schema, "restoreType"));
        let mut fitted = spec::<PodVolumeRestore>();
        fit(PodVolumeRestore::KIND, &mut fitted, &newer).unwrap();
        assert_eq!(fitted["restoreType"], "");
    }

    #[test]
    fn an_upload_names_its_file_system_where_the_definition_has_a_field() {
        let mut xfs = upload();
        xfs["sourceFSType"] = json!("xfs");
        let newer = schema::<DataUpload>(|schema| schema["properties"]["sourceFSType"] = json!({"type": "string"}));
        let older = schema::<DataUpload>(|_| {});
        for (given, schema, expected) in [
            (&xfs, &newer, &xfs),
            (&upload(), &newer, &upload()),
            (&xfs, &older, &upload()),
            // The definition cannot be read.
            (&xfs, &Value::Null, &upload()),
        ] {
            let mut fitted = given.clone();
            fit(DataUpload::KIND, &mut fitted, schema).unwrap();
            assert_eq!(&fitted, expected);
        }
    }

    #[test]
    fn an_unknown_required_field_is_told_unless_it_has_a_default() {
        let newer = schema::<DataUpload>(|schema| {
            require(schema, "quantum");
            require(schema, "filled");
            schema["properties"]["filled"]["default"] = json!("x");
            require(&mut schema["properties"]["csiSnapshot"], "spin");
        });
        let expected = "the cluster's definition of DataUpload requires spec.quantum, spec.csiSnapshot.spin, which this version does not know, so none was \
                        made: upgrade Lifeboat, or install the definitions of this version with `lifeboat install --crds-only --apply`";
        assert_eq!(fit(DataUpload::KIND, &mut upload(), &newer), Err(expected.to_owned()));
    }

    #[test]
    fn a_definition_without_the_version_says_nothing() {
        let none = json!({"spec": {"versions": [{"name": "v1", "schema": {}}]}});
        assert_eq!(
            [schema_of_spec(&none, "v1"), schema_of_spec(&none, "v2"), schema_of_spec(&json!({}), "v1")],
            [None, None, None]
        );
    }
}
