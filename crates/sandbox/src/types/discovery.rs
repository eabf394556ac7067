//! The documents of discovery.

use crate::types::served::ServedTypes;
use lifeboat_object::ApiResource;
use serde_json::{Value, json};

/// `/api` for clients that do not aggregate.
pub(crate) fn core_versions(address: &str) -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"],
           "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]})
}

/// `/apis` for clients that do not aggregate.
pub(crate) fn groups(types: &ServedTypes) -> Value {
    let groups: Vec<Value> = named_groups(types).map(|(group, versions)| group_body(group, &versions)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`.
pub(crate) fn group(types: &ServedTypes, name: &str) -> Option<Value> {
    let (_, versions) = named_groups(types).find(|(group, _)| *group == name)?;
    let mut body = group_body(name, &versions);
    body["kind"] = "APIGroup".into();
    body["apiVersion"] = "v1".into();
    Some(body)
}

fn named_groups(types: &ServedTypes) -> impl Iterator<Item = (&str, Vec<&str>)> {
    types.groups().into_iter().filter(|(group, _)| !group.is_empty())
}

fn group_body(name: &str, versions: &[&str]) -> Value {
    let entry = |version: &&str| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({"name": name, "versions": versions.iter().map(entry).collect::<Vec<_>>(),
           "preferredVersion": versions.first().map(entry)})
}

/// `/api/v1`, `/apis/GROUP/VERSION`.
pub(crate) fn resources(types: &ServedTypes, group: &str, version: &str) -> Option<Value> {
    let mut found = Vec::new();
    for r in types.all().filter(|r| r.group == group && r.version == version) {
        found.push(resource_body(r));
        found.extend(r.subresources.iter().map(|name| {
            let (kind, verbs) = subresource(r, name);
            let mut body = json!({"name": format!("{}/{name}", r.resource), "singularName": "",
                "namespaced": r.namespaced, "kind": kind["kind"], "verbs": verbs});
            if kind["group"] != r.group && kind["version"] != "" {
                body["group"] = kind["group"].clone();
                body["version"] = kind["version"].clone();
            }
            body
        }));
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let list =
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": found});
    (!found.is_empty()).then_some(list)
}

fn resource_body(r: &ApiResource) -> Value {
    let mut body = json!({"name": r.resource, "singularName": r.singular, "namespaced": r.namespaced, "kind": r.kind,
                          "verbs": r.verbs});
    if !r.short_names.is_empty() {
        body["shortNames"] = r.short_names.clone().into();
    }
    if !r.categories.is_empty() {
        body["categories"] = r.categories.clone().into();
    }
    body
}

/// `/api` or `/apis`, aggregated.
pub(crate) fn aggregated(types: &ServedTypes, is_core: bool) -> Value {
    let items: Vec<Value> = types
        .groups()
        .into_iter()
        .filter(|(group, _)| group.is_empty() == is_core)
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions.iter().map(|v| aggregated_version(types, group, v)).collect();
            let metadata = if is_core { json!({}) } else { json!({"name": group}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_version(types: &ServedTypes, group: &str, version: &str) -> Value {
    let of_version = types.all().filter(|r| r.group == group && r.version == version);
    let resources: Vec<Value> = of_version.map(|r| aggregated_resource(r, types.is_custom(r))).collect();
    json!({"version": version, "freshness": "Current", "resources": resources})
}

fn aggregated_resource(r: &ApiResource, is_custom: bool) -> Value {
    // The real server names group and version of custom types only.
    let kind = if is_custom {
        json!({"group": r.group, "version": r.version, "kind": r.kind})
    } else {
        json!({"group": "", "version": "", "kind": r.kind})
    };
    let mut body = json!({
        "resource": r.resource, "responseKind": kind, "scope": if r.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": r.singular, "verbs": r.verbs,
    });
    if !r.short_names.is_empty() {
        body["shortNames"] = r.short_names.clone().into();
    }
    if !r.categories.is_empty() {
        body["categories"] = r.categories.clone().into();
    }
    if !r.subresources.is_empty() {
        let each = r.subresources.iter().map(|name| {
            let (mut kind, verbs) = subresource(r, name);
            if is_custom && kind["version"] == "" {
                kind["group"] = r.group.clone().into();
                kind["version"] = r.version.clone().into();
            }
            json!({"subresource": name, "responseKind": kind, "verbs": verbs})
        });
        body["subresources"] = each.collect();
    }
    body
}

/// The kind and verbs of a subresource.
fn subresource(r: &ApiResource, name: &str) -> (Value, Value) {
    let (group, version, kind) = match (r.resource.as_str(), name) {
        (_, "scale") => ("autoscaling", "v1", "Scale"),
        (_, "eviction") => ("policy", "v1", "Eviction"),
        (_, "token") => ("authentication.k8s.io", "v1", "TokenRequest"),
        (_, "binding") => ("", "", "Binding"),
        (_, "attach") => ("", "", "PodAttachOptions"),
        (_, "exec") => ("", "", "PodExecOptions"),
        (_, "portforward") => ("", "", "PodPortForwardOptions"),
        ("nodes", "proxy") => ("", "", "NodeProxyOptions"),
        ("pods", "proxy") => ("", "", "PodProxyOptions"),
        ("services", "proxy") => ("", "", "ServiceProxyOptions"),
        _ => ("", "", r.kind.as_str()),
    };
    let verbs = match name {
        "attach" | "exec" | "portforward" => json!(["create", "get"]),
        "binding" | "eviction" | "token" => json!(["create"]),
        "finalize" => json!(["update"]),
        "log" => json!(["get"]),
        "proxy" => json!(["create", "delete", "get", "patch", "update"]),
        _ => json!(["get", "patch", "update"]),
    };
    (json!({"group": group, "version": version, "kind": kind}), verbs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resources are compared as a set: the real server's order within a version is its own.
    fn sorted(mut document: Value) -> Value {
        for item in document["items"].as_array_mut().unwrap() {
            for version in item["versions"].as_array_mut().unwrap() {
                let resources = version["resources"].as_array_mut().unwrap();
                resources.sort_by_key(|r| r["resource"].to_string());
                for verbs in resources.iter_mut().map(|r| r["verbs"].as_array_mut().unwrap()) {
                    verbs.sort_by_key(Value::to_string);
                }
            }
        }
        document
    }

    #[test]
    fn built_in_types_are_those_of_a_real_server() {
        for (golden, is_core) in
            [(include_str!("../../tests/golden/api.json"), true), (include_str!("../../tests/golden/apis.json"), false)]
        {
            let golden: Value = serde_json::from_str(golden).unwrap();
            assert_eq!(sorted(aggregated(&ServedTypes::default(), is_core)), sorted(golden));
        }
    }

    #[test]
    fn legacy_documents() {
        let types = ServedTypes::default();
        assert_eq!(
            group(&types, "autoscaling").unwrap(),
            json!({"kind": "APIGroup", "apiVersion": "v1", "name": "autoscaling",
                   "versions": [{"groupVersion": "autoscaling/v2", "version": "v2"},
                                {"groupVersion": "autoscaling/v1", "version": "v1"}],
                   "preferredVersion": {"groupVersion": "autoscaling/v2", "version": "v2"}})
        );
        assert_eq!(group(&types, ""), None);
        assert_eq!(
            resources(&types, "batch", "v1").unwrap()["resources"][1],
            json!({"name": "cronjobs/status", "singularName": "", "namespaced": true, "kind": "CronJob",
                   "verbs": ["get", "patch", "update"]})
        );
        assert_eq!(resources(&types, "batch", "v2"), None);
    }
}
