//! The forms in which objects are answered.

use crate::stored::StoredObject;
use bytes::{BufMut, Bytes, BytesMut};
use jiff::Timestamp;
use lifeboat_object::ApiResource;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A form, chosen by the `Accept` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The objects.
    Full,
    /// Only their metadata.
    Metadata,
    /// Rows for people.
    Table,
}

/// What the `Accept` header admits, the client's order first.
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
    pub(crate) fn form(&self) -> Option<Form> {
        self.0.iter().find_map(|(form, version)| match (form.as_str(), version.as_str()) {
            ("", _) => Some(Form::Full),
            ("PartialObjectMetadata" | "PartialObjectMetadataList", "v1") => Some(Form::Metadata),
            ("Table", "v1") => Some(Form::Table),
            _ => None,
        })
    }

    /// Whether aggregated discovery is admitted before the legacy one.
    pub(crate) fn is_aggregated(&self) -> bool {
        let mut forms = self.0.iter().take_while(|(form, _)| !form.is_empty());
        forms.any(|(form, version)| form == "APIGroupDiscoveryList" && version == "v2")
    }
}

/// Renders objects of one type for one request.
#[derive(Clone, Debug)]
pub(crate) struct Renderer {
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) form: Form,
    pub(crate) now: Timestamp,
    /// What a row of a table holds: `None`, `Metadata` or `Object`.
    pub(crate) include: String,
}

#[derive(Deserialize)]
struct OnlyMetadata {
    #[serde(default)]
    metadata: Map<String, Value>,
}

impl Renderer {
    /// One object as an answer, or as the object of a watch event.
    pub(crate) fn object(&self, object: &StoredObject) -> Bytes {
        match self.form {
            Form::Full => self.full(object),
            Form::Metadata => self.metadata(object).to_string().into(),
            Form::Table => {
                let list = json!({"resourceVersion": object.revision.to_string()});
                json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list,
                       "columnDefinitions": columns(), "rows": [self.row(object)]})
                .to_string()
                .into()
            }
        }
    }

    /// A bookmark's object.
    pub(crate) fn bookmark(&self, revision: u64, is_initial_end: bool) -> Value {
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if is_initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        match self.form {
            Form::Full => {
                json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata})
            }
            Form::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            Form::Table => json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": revision.to_string()}, "columnDefinitions": [],
                "rows": [{"cells": [], "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                                                  "metadata": metadata}}]}),
        }
    }

    /// What precedes the elements of a list.
    pub(crate) fn list_start(&self, revision: u64, continue_token: &str) -> String {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if !continue_token.is_empty() {
            metadata["continue"] = continue_token.into();
        }
        match self.form {
            Form::Full => format!(
                r#"{{"kind":"{}List","apiVersion":"{}","metadata":{metadata},"items":["#,
                self.resource.kind,
                self.resource.api_version()
            ),
            Form::Metadata => format!(
                r#"{{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{metadata},"items":["#
            ),
            Form::Table => format!(
                r#"{{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{metadata},"columnDefinitions":{},"rows":["#,
                columns()
            ),
        }
    }

    /// Appends one element of a list.
    pub(crate) fn element(&self, object: &StoredObject, out: &mut BytesMut) {
        match self.form {
            Form::Full => out.put(self.full(object)),
            Form::Metadata => out.put(self.metadata(object).to_string().as_bytes()),
            Form::Table => out.put(self.row(object).to_string().as_bytes()),
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

    fn row(&self, object: &StoredObject) -> Value {
        let metadata = self.metadata(object);
        let age = metadata["metadata"]["creationTimestamp"]
            .as_str()
            .and_then(|t| t.parse::<Timestamp>().ok())
            .map_or_else(|| "<unknown>".to_owned(), |t| age(self.now.as_second() - t.as_second()));
        let cells = json!([object.key.name, age]);
        match self.include.as_str() {
            "None" => json!({"cells": cells}),
            "Object" => {
                let object: Value = serde_json::from_slice(&self.full(object)).unwrap_or_default();
                json!({"cells": cells, "object": object})
            }
            _ => json!({"cells": cells, "object": metadata}),
        }
    }
}

fn columns() -> Value {
    let column = |name: &str, format: &str, description: &str| json!({"name": name, "type": "string", "format": format, "description": description, "priority": 0});
    json!([
        column("Name", "name", "The name of the object, unique among those of its type in its namespace."),
        column("Age", "", "The time since the object was created."),
    ])
}

/// A duration in the words of kubectl.
fn age(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let pair = |a: i64, unit: &str, b: i64, below: &str| {
        if b == 0 { format!("{a}{unit}") } else { format!("{a}{unit}{b}{below}") }
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_headers() {
        for (header, form) in [
            ("", Some(Form::Full)),
            ("*/*", Some(Form::Full)),
            ("application/json", Some(Form::Full)),
            ("application/vnd.kubernetes.protobuf,application/json", Some(Form::Full)),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Some(Form::Table),
            ),
            ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json", Some(Form::Metadata)),
            ("application/json; as=Unknown; v=v1", None),
        ] {
            assert_eq!(Accept::parse(header).unwrap().form(), form, "{header}");
        }
        assert_eq!(Accept::parse("application/vnd.kubernetes.protobuf"), None);
        let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        assert!(Accept::parse(discovery).unwrap().is_aggregated());
        assert!(!Accept::parse("application/json").unwrap().is_aggregated());
    }

    #[test]
    fn ages() {
        for (seconds, text) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (660, "11m"),
            (10_800, "3h"),
            (11_400, "3h10m"),
            (90_000, "25h"),
            (176_400, "2d1h"),
            (864_000, "10d"),
            (70_000_000, "2y80d"),
            (400_000_000, "12y"),
        ] {
            assert_eq!(age(seconds), text);
        }
    }
}
