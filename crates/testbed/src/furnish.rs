//! The objects that controllers make in each new namespace.

use crate::api_client::ApiClient;
use crate::pause::pause;
use anyhow::{Result, bail};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time within which controllers make what each namespace has. They share two cores with other control planes, which take
/// all of them while definitions are new.
const FURNISHED: Duration = Duration::from_secs(120);

/// The time after which a controller is taken to have missed that an object is gone.
const MISSED: Duration = Duration::from_secs(20);

/// Types and names of these objects.
const OBJECTS: [(&str, &str); 2] = [("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")];

/// Waits until namespaces have a service account and the certificate of the cluster's authority: a test that lists a namespace would
/// see them or not, as fast as a controller is. The log of the controllers is shown where they do not come.
pub(crate) fn until_furnished(client: &ApiClient, namespaces: &[&str], log: &Path) -> Result<()> {
    let begun = Instant::now();
    for (resource, name) in OBJECTS {
        for namespace in namespaces {
            loop {
                let refused = match client.get(resource, name, namespace) {
                    Ok(Some(_)) => break,
                    Ok(None) => String::new(),
                    Err(e) => format!("{e:#}"),
                };
                // Who may not look has to wait by other means.
                if refused.contains("403 Forbidden") {
                    break;
                }
                if begun.elapsed() > MISSED {
                    furnish(client, namespace, resource, name)?;
                }
                if begun.elapsed() > FURNISHED {
                    let log = std::fs::read_to_string(log).unwrap_or_default();
                    let last: Vec<&str> = log.lines().rev().take(40).collect();
                    let (seconds, last) = (FURNISHED.as_secs(), last.join("\n"));
                    bail!("{namespace} has no {resource}/{name} after {seconds} s: {refused}\n{last}");
                }
                pause();
            }
        }
    }
    Ok(())
}

/// Makes the object of a controller in a namespace that lacks it. A controller that has missed the deletion of one, when its
/// control plane was put back, takes it for there and never makes it again.
fn furnish(client: &ApiClient, namespace: &str, resource: &str, name: &str) -> Result<()> {
    if let Some(model) = client.get(resource, name, "kube-system")? {
        // One that is there by now is refused.
        let _ = client.create(&copy_for(&model, namespace));
    }
    Ok(())
}

/// The object that a controller makes in a namespace, as it stands in another one.
fn copy_for(object: &Value, namespace: &str) -> Value {
    let mut copy = object.clone();
    let annotations = &object["metadata"]["annotations"];
    copy["metadata"] = serde_json::json!({"name": object["metadata"]["name"], "namespace": namespace});
    if annotations.is_object() {
        copy["metadata"]["annotations"] = annotations.clone();
    }
    copy
}

/// The namespaces among new objects.
pub(crate) fn namespaces_in(object: &Value) -> Vec<&str> {
    let items = object["items"].as_array().filter(|_| object["kind"] == "List");
    let all = items.map_or(std::slice::from_ref(object), Vec::as_slice);
    let namespaces = all.iter().filter(|one| one["kind"] == "Namespace");
    namespaces.filter_map(|one| one["metadata"]["name"].as_str()).collect()
}

/// The namespaces that kubectl says it has created or applied, by the lines that it prints.
pub(crate) fn namespaces_printed(printed: &str) -> Vec<&str> {
    let made = printed.lines().filter_map(|line| line.strip_prefix("namespace/")?.split_once(' '));
    made.filter(|(_, done)| matches!(*done, "created" | "serverside-applied")).map(|(name, _)| name).collect()
}
