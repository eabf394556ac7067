//! Types made by CustomResourceDefinitions.

use crate::types::builtin;
use crate::types::served::{Column, CustomType};
use lifeboat_object::ApiResource;
use serde_json::{Map, Value, json};

impl CustomType {
    /// The types that a CustomResourceDefinition serves, one for each served version; none if it is not understood.
    #[must_use]
    pub fn of_definition(crd: &Value) -> Vec<Self> {
        let spec = &crd["spec"];
        let names = &spec["names"];
        let (Some(group), Some(plural), Some(kind)) =
            (spec["group"].as_str(), names["plural"].as_str(), names["kind"].as_str())
        else {
            return Vec::new();
        };
        let singular = names["singular"].as_str().map_or_else(|| kind.to_lowercase(), str::to_owned);
        versions(crd)
            .filter(|v| v["served"].as_bool().unwrap_or(false))
            .filter_map(|v| {
                let resource = ApiResource {
                    group: group.to_owned(),
                    version: v["name"].as_str()?.to_owned(),
                    resource: plural.to_owned(),
                    kind: kind.to_owned(),
                    singular: singular.clone(),
                    short_names: strings(&names["shortNames"]),
                    categories: strings(&names["categories"]),
                    namespaced: spec["scope"] == "Namespaced",
                    verbs: builtin::usual_verbs(),
                    subresources: subresources(&v["subresources"]),
                    preferred: false,
                };
                let columns =
                    v["additionalPrinterColumns"].as_array().into_iter().flatten().filter_map(column).collect();
                Some(Self { resource, columns })
            })
            .collect()
    }
}

/// An entry of `additionalPrinterColumns`; `None` if it lacks a field that a column needs.
fn column(value: &Value) -> Option<Column> {
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let (name, json_path) = (text("name"), text("jsonPath"));
    (!name.is_empty() && !json_path.is_empty()).then(|| Column {
        name,
        json_path,
        r#type: text("type"),
        format: text("format"),
        description: text("description"),
        priority: value["priority"].as_i64().unwrap_or(0),
    })
}

/// Says that a CustomResourceDefinition is established, as the controllers of a real server would within a moment.
pub(crate) fn establish(crd: &mut Value, now: &str) {
    let mut names = crd["spec"]["names"].clone();
    let kind = names["kind"].as_str().unwrap_or_default().to_owned();
    if let Some(names) = names.as_object_mut() {
        names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
        names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
    }
    if crd["spec"]["names"].is_object() {
        crd["spec"]["names"] = names.clone();
    }
    let mut stored: Vec<Value> = crd["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    for version in versions(crd).filter(|v| v["storage"].as_bool().unwrap_or(false)) {
        if !stored.contains(&version["name"]) {
            stored.push(version["name"].clone());
        }
    }
    let since = |kind: &str| {
        let conditions = crd["status"]["conditions"].as_array();
        let old = conditions.into_iter().flatten().find(|c| c["type"] == kind && c["status"] == "True");
        old.map_or_else(|| now.into(), |c| c["lastTransitionTime"].clone())
    };
    let conditions = json!([
        {"type": "NamesAccepted", "status": "True", "lastTransitionTime": since("NamesAccepted"),
         "reason": "NoConflicts", "message": "no conflicts found"},
        {"type": "Established", "status": "True", "lastTransitionTime": since("Established"),
         "reason": "InitialNamesAccepted", "message": "the initial names have been accepted"},
    ]);
    let mut status = Map::new();
    status.insert("acceptedNames".to_owned(), names);
    status.insert("conditions".to_owned(), conditions);
    status.insert("storedVersions".to_owned(), stored.into());
    if let Some(crd) = crd.as_object_mut() {
        crd.insert("status".to_owned(), status.into());
    }
}

/// The schema of a version, as the definition has it.
pub(crate) fn schema<'a>(crd: &'a Value, version: &str) -> Option<&'a Value> {
    versions(crd).find(|v| v["name"] == version).map(|v| &v["schema"]["openAPIV3Schema"])
}

fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    crd["spec"]["versions"].as_array().into_iter().flatten()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

fn subresources(value: &Value) -> Vec<String> {
    let Some(map) = value.as_object() else { return Vec::new() };
    ["status", "scale"].into_iter().filter(|name| map.contains_key(*name)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn served_versions_become_types_and_conditions_keep_their_time() {
        let mut crd = json!({"spec": {"group": "example.com", "scope": "Cluster",
            "names": {"plural": "gadgets", "kind": "Gadget", "shortNames": ["gd"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                          "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
                                                       {"name": "Broken"}]},
                         {"name": "v0", "served": false, "storage": false}]}});
        let resource = ApiResource {
            group: "example.com".into(),
            version: "v1".into(),
            resource: "gadgets".into(),
            kind: "Gadget".into(),
            singular: "gadget".into(),
            short_names: vec!["gd".into()],
            categories: vec![],
            namespaced: false,
            verbs: builtin::usual_verbs(),
            subresources: vec!["status".into()],
            preferred: false,
        };
        let size = Column {
            name: "Size".into(),
            json_path: ".spec.size".into(),
            r#type: "integer".into(),
            format: String::new(),
            description: String::new(),
            priority: 1,
        };
        assert_eq!(CustomType::of_definition(&crd), [CustomType { resource, columns: vec![size] }]);
        establish(&mut crd, "t1");
        let first = crd.clone();
        establish(&mut crd, "t2");
        assert_eq!(crd, first);
        assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
        assert_eq!(crd["status"]["acceptedNames"]["listKind"], "GadgetList");
        for broken in [json!({}), json!([]), json!({"spec": {"versions": 3}}), Value::Null] {
            assert_eq!(CustomType::of_definition(&broken), []);
        }
    }
}
