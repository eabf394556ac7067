//! The forms in which objects are answered.

use crate::encoding::table_writer::{Include, TableWriter};
use crate::store::stored::StoredObject;
use bytes::{BufMut, Bytes, BytesMut};
use lifeboat_object::ApiResource;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A form, chosen by the `Accept` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenderForm {
    /// The objects.
    Full,
    /// Only their metadata.
    Metadata,
    /// Rows for people.
    Table,
}

/// The forms that the `Accept` header admits, in the client's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accept(Vec<(String, String)>);

impl Accept {
    /// Reads the header; an absent or empty one admits JSON. Entries are (`as`, version of it).
    pub(crate) fn parse(header: &str) -> Option<Self> {
        if header.trim().is_empty() {
            return Some(Self(vec![Default::default()]));
        }
        let mut found = Vec::new();
        for part in header.split(',') {
            let mut parameters = part.split(';').map(str::trim);
            let media = parameters.next().unwrap_or_default();
            if !["application/json", "application/*", "*/*"].contains(&media) {
                continue;
            }
            let (mut form, mut version) = (String::new(), String::new());
            for (key, value) in parameters.filter_map(|p| p.split_once('=')) {
                match key {
                    "as" => value.clone_into(&mut form),
                    "v" => value.clone_into(&mut version),
                    _ => {}
                }
            }
            found.push((form, version));
        }
        if found.is_empty() { None } else { Some(Self(found)) }
    }

    /// The first admitted form that this server has.
    pub(crate) fn form(&self) -> Option<RenderForm> {
        self.0.iter().find_map(|(form, version)| match (form.as_str(), version.as_str()) {
            ("", _) => Some(RenderForm::Full),
            ("PartialObjectMetadata" | "PartialObjectMetadataList", "v1") => Some(RenderForm::Metadata),
            ("Table", "v1") => Some(RenderForm::Table),
            _ => None,
        })
    }

    /// Returns true if aggregated discovery is admitted before the legacy form.
    pub(crate) fn is_aggregated(&self) -> bool {
        let mut forms = self.0.iter().take_while(|(form, _)| !form.is_empty());
        forms.any(|(form, version)| form == "APIGroupDiscoveryList" && version == "v2")
    }
}

/// The form of the objects in a response.
#[derive(Clone)]
pub(crate) enum RenderOutput {
    Full,
    Metadata,
    Table(TableWriter),
}

/// Renders objects of one type for one request.
#[derive(Clone)]
pub(crate) struct Renderer {
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) output: RenderOutput,
}

#[derive(Deserialize)]
struct OnlyMetadata {
    #[serde(default)]
    metadata: Map<String, Value>,
}

impl Renderer {
    /// Renders an object, for a response or an event of a watch.
    pub(crate) fn object(&self, object: &StoredObject) -> Bytes {
        match &self.output {
            RenderOutput::Full => self.full(object),
            RenderOutput::Metadata => self.metadata(object).to_string().into(),
            RenderOutput::Table(table) => {
                let metadata = json!({"resourceVersion": object.revision.to_string()});
                table.table(&metadata, &self.row(table, object)).to_string().into()
            }
        }
    }

    /// A bookmark's object.
    pub(crate) fn bookmark(&self, revision: u64, is_initial_end: bool) -> Value {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if is_initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object =
            json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata});
        match &self.output {
            RenderOutput::Full => object,
            RenderOutput::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            RenderOutput::Table(table) => {
                // Whoever asks for rows alone has to be told of the end nevertheless.
                let is_lost = is_initial_end && table.include == Include::None;
                let include = if is_lost { Include::Metadata } else { table.include };
                let metadata = json!({"resourceVersion": revision.to_string()});
                table.table(&metadata, &table.row(object, include))
            }
        }
    }

    /// Leaves the columns, which the first table has declared, out of later ones.
    pub(crate) fn stop_declaring(&mut self) {
        if let RenderOutput::Table(table) = &mut self.output {
            table.declares = false;
        }
    }

    /// The text before the elements of a list.
    pub(crate) fn list_start(&self, revision: u64, continue_token: &str) -> String {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if !continue_token.is_empty() {
            metadata["continue"] = continue_token.into();
        }
        match &self.output {
            RenderOutput::Full => format!(
                r#"{{"kind":"{}List","apiVersion":"{}","metadata":{metadata},"items":["#,
                self.resource.kind,
                self.resource.api_version()
            ),
            RenderOutput::Metadata => format!(
                r#"{{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{metadata},"items":["#
            ),
            RenderOutput::Table(table) => format!(
                r#"{{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{metadata},"columnDefinitions":{},"rows":["#,
                table.columns()
            ),
        }
    }

    /// Appends one element of a list.
    pub(crate) fn element(&self, object: &StoredObject, out: &mut BytesMut) {
        match &self.output {
            RenderOutput::Full => out.put(self.full(object)),
            RenderOutput::Metadata => out.put(self.metadata(object).to_string().as_bytes()),
            RenderOutput::Table(table) => out.put(self.row(table, object).to_string().as_bytes()),
        }
    }

    fn full(&self, object: &StoredObject) -> Bytes {
        let api_version = self.resource.api_version();
        if object.api_version == api_version {
            return object.body.clone();
        }
        // Written in another version: as with `conversion: None` only the name of the version changes.
        let mut value = object.value();
        value["apiVersion"] = api_version.into();
        value.to_string().into()
    }

    fn metadata(&self, object: &StoredObject) -> Value {
        let only: Option<OnlyMetadata> = serde_json::from_slice(&object.body).ok();
        let metadata = only.map(|o| o.metadata).unwrap_or_default();
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
    }

    fn row(&self, table: &TableWriter, object: &StoredObject) -> Value {
        let value = serde_json::from_slice(&self.full(object)).unwrap_or_default();
        table.row(value, table.include)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_headers() {
        for (header, form) in [
            ("", Some(RenderForm::Full)),
            ("*/*", Some(RenderForm::Full)),
            ("application/json", Some(RenderForm::Full)),
            ("application/vnd.kubernetes.protobuf,application/json", Some(RenderForm::Full)),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Some(RenderForm::Table),
            ),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
                Some(RenderForm::Metadata),
            ),
            ("application/json; as=Unknown; v=v1", None),
        ] {
            assert_eq!(Accept::parse(header).unwrap().form(), form, "{header}");
        }
        assert_eq!(Accept::parse("application/vnd.kubernetes.protobuf"), None);
        let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        assert!(Accept::parse(discovery).unwrap().is_aggregated());
        assert!(!Accept::parse("application/json").unwrap().is_aggregated());
    }
}
