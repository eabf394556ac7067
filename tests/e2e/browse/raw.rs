//! The answers of an API server to reads, as they are before kubectl formats them.
//!
//! Accepted differences, and the reasons for them:
//! - resource versions of lists and bookmarks: a backup has one of its own;
//! - how many objects remain, and bookmarks now and then: servers need not tell;
//! - version and kind of the objects of a list, which a cluster leaves out for built-in types: a backup has them, byte
//!   for byte;
//! - versions of a group, verbs and subresources: each type is served in the version in which it was saved, and can be
//!   read and not changed;
//! - the words about requests that make no sense, not how they are refused.

use lifeboat_testbed::Kubectl;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The paths that are compared: lists and pages, selectors, a watch, documents of discovery, and requests that are
/// refused.
const PATHS: [&str; 23] = [
    "/api/v1/namespaces/storefront/configmaps",
    "/api/v1/namespaces/storefront/configmaps?limit=2",
    "/api/v1/namespaces/storefront/configmaps?limit=500",
    "/api/v1/namespaces/none/configmaps",
    "/api/v1/pods?fieldSelector=status.phase%3DSucceeded",
    "/api/v1/pods?labelSelector=app+in+%28web%2Ctill%29%2C%21none",
    "/api/v1/secrets?fieldSelector=type%21%3DOpaque%2Cmetadata.namespace%3Dstorefront",
    "/apis/tea.example.org/v1/catalogs",
    "/apis/tea.example.org/v1/namespaces/storefront/catalogs/spring",
    "/apis/tea.example.org/v1alpha1/regions?limit=1",
    "/api/v1/namespaces/storefront/configmaps?watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    "/api",
    "/api/v1",
    "/apis/apps/v1",
    "/apis/tea.example.org/v1",
    "/api/v1/namespaces/storefront/configmaps/none",
    "/api/v1/namespaces/storefront/nonesuch",
    "/apis/nonesuch.example.org/v1",
    "/apis/apps/v1beta1/deployments",
    "/api/v1/configmaps?labelSelector=a+b",
    "/api/v1/configmaps?fieldSelector=data.a%3Db",
    "/api/v1/configmaps?limit=1&continue=nonsense",
    "/apis/tea.example.org/v1/catalogs?limit=x",
];

/// The paths to which two servers give different answers, and where these differ first.
pub(super) fn differences(one: &Kubectl, other: &Kubectl) -> Vec<String> {
    let differs = |path: &&str| {
        let (one, other) = (answer(one, path), answer(other, path));
        difference(&one, &other).map(|difference| format!("{path}: {difference}"))
    };
    PATHS.iter().filter_map(differs).collect()
}

/// An answer, or the error that kubectl tells.
fn answer(kubectl: &Kubectl, path: &str) -> Value {
    match kubectl.try_run(&["get", "--raw", path]) {
        // A watch is a line of JSON for each event.
        Ok(text) => {
            let values = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
            values.filter(|value| !is_late_bookmark(value)).map(comparable).collect()
        }
        Err(e) => {
            let told = e.to_string();
            let kind = told.split_once("(BadRequest): ").map(|(before, _)| format!("{before}(BadRequest)"));
            kind.unwrap_or(told).into()
        }
    }
}

/// Where two values differ first, and what is there.
fn difference(one: &Value, other: &Value) -> Option<String> {
    let below = |key: &str, found: String| format!("/{key}{found}");
    match (one, other) {
        (Value::Object(one_map), Value::Object(other_map)) => {
            let keys: BTreeSet<&String> = one_map.keys().chain(other_map.keys()).collect();
            keys.into_iter().find_map(|key| difference(&one[key], &other[key]).map(|found| below(key, found)))
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pairs = one.iter().zip(other).enumerate();
            pairs.into_iter().find_map(|(at, (one, other))| difference(one, other).map(|d| below(&at.to_string(), d)))
        }
        (Value::Array(one), Value::Array(other)) => Some(format!(" has {} and {} elements", one.len(), other.len())),
        _ => (one != other).then(|| format!(" is {one} and {other}")),
    }
}

/// Without what is the server's own.
fn comparable(mut value: Value) -> Value {
    let of_server = if value["type"] == "BOOKMARK" { Some("/object/metadata") } else { None };
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    let of_server = of_server.or(is_list.then_some("/metadata"));
    if let Some(metadata) = of_server.and_then(|at| value.pointer_mut(at)).and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
        metadata.remove("remainingItemCount");
        // Custom resources have it on the last page too, and empty.
        if metadata.remove("continue").is_some_and(|token| token != "") {
            metadata.insert("continue".to_owned(), json!("a token"));
        }
    }
    for item in value.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(item) = item.as_object_mut() {
            item.retain(|field, _| field != "apiVersion" && field != "kind");
        }
    }
    if let Some(types) = value.get_mut("resources").and_then(Value::as_array_mut) {
        types.retain(|one| one["name"].as_str().is_some_and(|name| !name.contains('/')) && can_be_listed(one));
        for one in types.iter_mut().filter_map(Value::as_object_mut) {
            one.retain(|field, _| field != "verbs" && field != "storageVersionHash");
        }
    }
    if value["kind"] == "APIVersions" {
        value["serverAddressByClientCIDRs"] = Value::Null;
    }
    if value["kind"] == "APIResourceList" {
        // A cluster leaves it out for the core group.
        value["apiVersion"] = Value::Null;
    }
    value
}

/// Bookmarks come when a server likes; only the one behind the objects that were there has its place.
fn is_late_bookmark(value: &Value) -> bool {
    value["type"] == "BOOKMARK" && value["object"]["metadata"]["annotations"].is_null()
}

fn can_be_listed(one: &Value) -> bool {
    one["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|verb| verb == "list"))
}
