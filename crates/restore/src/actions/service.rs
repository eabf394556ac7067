//! `velero.io/service` (velero: pkg/restore/actions): removes addresses and ports that the cluster had allocated, and
//! keeps those that a user chose.

use super::edit::{list_mut, original_namespace, remove, text};
use lifeboat_action::{ActionError, RestoreItemInput, RestoreItemOutput};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Clears cluster addresses, and node ports that were not chosen.
///
/// Under a namespace mapping the original may still hold its ports, so chosen ones are cleared there too, as Velero
/// documents; `preserveNodePorts` keeps all.
pub(super) fn restore(input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
    let namespace = original_namespace(&input);
    let spec = &input.restore.spec;
    let is_mapped = spec.namespace_mapping.get(namespace).is_some_and(|target| target != namespace);
    let mut item = input.item;
    clear_addresses(&mut item);
    if spec.preserve_node_ports != Some(true) && item["spec"]["type"] != "ExternalName" {
        let chosen = if is_mapped {
            ChosenNodePorts::default()
        } else {
            ChosenNodePorts::read(&input.item_from_backup["metadata"])?
        };
        clear_ports(&mut item, &chosen);
    }
    Ok(RestoreItemOutput::with(item))
}

/// A headless service stays one.
fn clear_addresses(item: &mut Value) {
    let cluster_ip = &item["spec"]["clusterIP"];
    if (cluster_ip.is_string() || cluster_ip.is_null()) && cluster_ip != "None" {
        remove(item, "/spec", "clusterIP");
        remove(item, "/spec", "clusterIPs");
    }
}

fn clear_ports(item: &mut Value, chosen: &ChosenNodePorts) {
    for port in list_mut(item, "/spec/ports").into_iter().flatten() {
        if !chosen.is_chosen(port) {
            remove(port, "", "nodePort");
        }
    }
    let spec = &item["spec"];
    let has_health_check = spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local";
    if has_health_check && !chosen.health_check {
        remove(item, "/spec", "healthCheckNodePort");
    }
}

/// The node ports that a person chose. The default is none.
#[derive(Debug, Default, PartialEq, Eq)]
struct ChosenNodePorts {
    /// Names of ports.
    names: BTreeSet<String>,
    /// Node ports of ports without a name.
    numbers: BTreeSet<u64>,
    /// Ports by number and protocol.
    managed: BTreeSet<(u64, String)>,
    /// True when the user chose the port for health checks.
    health_check: bool,
}

impl ChosenNodePorts {
    /// Reads what `kubectl apply` left behind, or else `managedFields`.
    fn read(metadata: &Value) -> Result<Self, ActionError> {
        let mut chosen = Self::default();
        let managed: Vec<&Value> = metadata["managedFields"]
            .as_array()
            .map(|entries| entries.iter().map(|e| &e["fieldsV1"]["f:spec"]).collect())
            .unwrap_or_default();
        match metadata["annotations"][LAST_APPLIED].as_str() {
            Some(applied) => chosen.read_applied(applied)?,
            None => managed.iter().for_each(|spec| chosen.read_managed(&spec["f:ports"])),
        }
        chosen.health_check |= managed.iter().any(|spec| spec.get("f:healthCheckNodePort").is_some());
        Ok(chosen)
    }

    fn read_applied(&mut self, applied: &str) -> Result<(), ActionError> {
        let applied: Option<Map<String, Value>> = serde_json::from_str(applied)
            .map_err(|e| ActionError::item(format!("cannot read the annotation {LAST_APPLIED}: {e}")))?;
        let applied = Value::from(applied.unwrap_or_default());
        for port in applied["spec"]["ports"].as_array().into_iter().flatten() {
            let node_port = number(&port["nodePort"]);
            if node_port > 0 {
                match text(port, "name") {
                    "" => self.numbers.insert(node_port),
                    name => self.names.insert(name.to_owned()),
                };
            }
        }
        self.health_check = number(&applied["spec"]["healthCheckNodePort"]) > 0;
        Ok(())
    }

    /// Keys are such as `k:{"port":80,"protocol":"TCP"}`.
    fn read_managed(&mut self, ports: &Value) {
        for (key, fields) in ports.as_object().into_iter().flatten() {
            let Some(key) = key.strip_prefix("k:").and_then(|k| serde_json::from_str::<Value>(k).ok()) else {
                continue;
            };
            if fields.get("f:nodePort").is_some() {
                self.managed.insert(port_key(&key));
            }
        }
    }

    fn is_chosen(&self, port: &Value) -> bool {
        let by_apply = match text(port, "name") {
            "" => self.numbers.contains(&number(&port["nodePort"])),
            name => self.names.contains(name),
        };
        by_apply || self.managed.contains(&port_key(port))
    }
}

/// Key of a port: its number and protocol, which is TCP by default.
fn port_key(port: &Value) -> (u64, String) {
    (number(&port["port"]), port["protocol"].as_str().unwrap_or("TCP").to_owned())
}

/// A port as number or as text; 0 for anything else.
fn number(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.parse().unwrap_or_default(),
        // Writers with floats only write 30080.0; the cast saturates.
        other => other.as_u64().or_else(|| other.as_f64().map(|f| f as u64)).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{run, run_from, run_in, with_mapping};
    use super::*;
    use lifeboat_api::{Restore, RestoreSpec};
    use serde_json::json;

    fn service(spec: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "shop"}, "spec": spec})
    }

    fn applied(spec: &Value) -> Value {
        json!({"annotations": {(LAST_APPLIED): json!({"spec": spec}).to_string()}})
    }

    fn managed(fields: &Value) -> Value {
        json!({"managedFields": [{"manager": "other", "fieldsV1": {"f:metadata": {}}}, {"manager": "m", "fieldsV1": {"f:spec": fields}}, {"manager": "bare"}]})
    }

    /// Restores the spec of a service with this metadata.
    fn restored(metadata: &Value, spec: &Value, restore_spec: RestoreSpec) -> Result<Value, String> {
        let mut item = service(spec);
        for (key, value) in metadata.as_object().unwrap() {
            item["metadata"][key] = value.clone();
        }
        let given = Restore { spec: restore_spec, ..Restore::default() };
        let output = run_in(restore, &item, &given).map_err(|e| e.to_string())?;
        let mut expected = item;
        expected["spec"] = output.item["spec"].clone();
        assert_eq!(output, RestoreItemOutput::with(expected));
        Ok(output.item["spec"].clone())
    }

    #[test]
    fn addresses_go_but_for_headless_services() {
        let rest = json!({"loadBalancerIP": "1.2.3.4", "externalIPs": ["5.6.7.8"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"});
        let with = |extra: Value| {
            let mut spec = rest.clone();
            spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            spec
        };
        let headless = with(json!({"clusterIP": "None", "clusterIPs": ["None"]}));
        let odd = with(json!({"clusterIP": 5, "clusterIPs": [5]}));
        let cases = [
            (with(json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd::1"]})), &rest),
            (with(json!({"clusterIP": "", "clusterIPs": []})), &rest),
            (with(json!({"clusterIPs": ["10.0.0.1"]})), &rest),
            (with(json!({"type": "ExternalName", "clusterIP": "10.0.0.1"})), &with(json!({"type": "ExternalName"}))),
            (headless.clone(), &headless),
            (odd.clone(), &odd),
        ];
        for (spec, expected) in cases {
            assert_eq!(run(restore, &service(&spec)).unwrap(), RestoreItemOutput::with(service(expected)));
        }
    }

    #[test]
    fn node_ports_that_nobody_chose_go() {
        let spec = |web: Option<u64>, tls: Option<u64>, dns: Option<u64>| {
            let mut ports = json!([{"name": "web", "port": 80, "protocol": "TCP", "x": 1}, {"name": "tls", "port": 443, "protocol": "TCP"},
                {"name": "dns", "port": 443, "protocol": "UDP"}]);
            for (index, node_port) in [web, tls, dns].into_iter().enumerate() {
                if let Some(node_port) = node_port {
                    ports[index]["nodePort"] = node_port.into();
                }
            }
            json!({"type": "NodePort", "ports": ports})
        };
        let all = spec(Some(30080), Some(30443), Some(30444));
        let none = spec(None, None, None);
        let port = |key: &str| json!({"f:ports": {".": {}, (key): {".": {}, "f:nodePort": {}, "f:port": {}}}});
        let mut both = applied(&json!({"ports": [{"name": "tls", "nodePort": 30443}]}));
        both["managedFields"] = managed(&port(r#"k:{"port":80,"protocol":"TCP"}"#))["managedFields"].clone();
        let cases = [
            ("nothing known", json!({}), &none),
            (
                "applied",
                applied(&json!({"ports": [{"name": "web", "nodePort": 30080}, {"name": "tls"}]})),
                &spec(Some(30080), None, None),
            ),
            (
                "applied as text",
                applied(&json!({"ports": [{"name": "web", "nodePort": "30080"}]})),
                &spec(Some(30080), None, None),
            ),
            (
                "applied as float",
                applied(&json!({"ports": [{"name": "web", "nodePort": 30080.0}]})),
                &spec(Some(30080), None, None),
            ),
            (
                "applied as zero",
                applied(&json!({"ports": [{"name": "web", "nodePort": 0}, {"name": "tls", "nodePort": "0"}]})),
                &none,
            ),
            (
                "applied as junk",
                applied(&json!({"ports": [{"name": "web", "nodePort": "x"}, 5, {"name": {}, "nodePort": {}}]})),
                &none,
            ),
            ("applied without ports", applied(&json!({"ports": "x"})), &none),
            ("applied null", json!({"annotations": {(LAST_APPLIED): "null"}}), &none),
            ("applied before managed", both, &spec(None, Some(30443), None)),
            ("managed", managed(&port(r#"k:{"port":443,"protocol":"UDP"}"#)), &spec(None, None, Some(30444))),
            (
                "managed, spaced",
                managed(&port(r#"k:{ "protocol": "TCP", "port": 443 }"#)),
                &spec(None, Some(30443), None),
            ),
            ("managed, no protocol", managed(&port(r#"k:{"port":80}"#)), &spec(Some(30080), None, None)),
            (
                "managed, no node port",
                managed(&json!({"f:ports": {r#"k:{"port":80,"protocol":"TCP"}"#: {"f:port": {}}}})),
                &none,
            ),
            (
                "managed, junk",
                managed(&json!({"f:ports": {"k:{": {"f:nodePort": {}}, "80": {"f:nodePort": {}}}})),
                &none,
            ),
        ];
        for (what, metadata, expected) in cases {
            assert_eq!(restored(&metadata, &all, RestoreSpec::default()), Ok(expected.clone()), "{what}");
            let keep = RestoreSpec { preserve_node_ports: Some(true), ..RestoreSpec::default() };
            assert_eq!(restored(&metadata, &all, keep), Ok(all.clone()), "{what}, preserved");
            let drop = RestoreSpec { preserve_node_ports: Some(false), ..RestoreSpec::default() };
            assert_eq!(restored(&metadata, &all, drop), Ok(expected.clone()), "{what}, not preserved");
            let mapped = with_mapping(&[("shop", "copy")]).spec;
            assert_eq!(restored(&metadata, &all, mapped), Ok(none.clone()), "{what}, mapped");
        }
    }

    #[test]
    fn ports_without_a_name_are_known_by_their_node_port() {
        let metadata = applied(&json!({"ports": [{"port": 80, "nodePort": 30080}, {"name": "", "nodePort": 30081}]}));
        let spec = json!({"ports": [{"port": 80, "nodePort": 30080}, {"name": "", "port": 81, "nodePort": 30081}, {"port": 82, "nodePort": 30082}, "odd"]});
        let expected = json!({"ports": [{"port": 80, "nodePort": 30080}, {"name": "", "port": 81, "nodePort": 30081}, {"port": 82}, "odd"]});
        assert_eq!(restored(&metadata, &spec, RestoreSpec::default()), Ok(expected));
    }

    #[test]
    fn chosen_ports_are_cleared_only_where_the_namespace_changes() {
        let metadata = applied(&json!({"ports": [{"name": "web", "nodePort": 30080}]}));
        let with = json!({"type": "NodePort", "ports": [{"name": "web", "nodePort": 30080}]});
        let without = json!({"type": "NodePort", "ports": [{"name": "web"}]});
        let kept = RestoreSpec { preserve_node_ports: Some(true), ..with_mapping(&[("shop", "copy")]).spec };
        let cases = [
            (with_mapping(&[("shop", "copy")]).spec, &without),
            (with_mapping(&[("shop", "shop")]).spec, &with),
            (with_mapping(&[("other", "copy")]).spec, &with),
            (kept, &with),
        ];
        for (restore_spec, expected) in cases {
            assert_eq!(restored(&metadata, &with, restore_spec), Ok(expected.clone()));
        }
    }

    #[test]
    fn the_health_check_port_goes_unless_chosen() {
        let spec = |kind: &str, policy: &str| json!({"type": kind, "externalTrafficPolicy": policy, "healthCheckNodePort": 31000});
        let balancer = spec("LoadBalancer", "Local");
        let without = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"});
        let owned = managed(&json!({"f:healthCheckNodePort": {}}));
        let mut zero_but_owned = applied(&json!({"healthCheckNodePort": 0}));
        zero_but_owned["managedFields"] = owned["managedFields"].clone();
        let mapped = with_mapping(&[("shop", "copy")]).spec;
        let kept = RestoreSpec { preserve_node_ports: Some(true), ..RestoreSpec::default() };
        let plain = RestoreSpec::default();
        let cases = [
            (json!({}), &balancer, &plain, &without),
            (json!({}), &balancer, &kept, &balancer),
            (applied(&json!({"healthCheckNodePort": 31000})), &balancer, &plain, &balancer),
            (applied(&json!({"healthCheckNodePort": 0})), &balancer, &plain, &without),
            (owned.clone(), &balancer, &plain, &balancer),
            (zero_but_owned, &balancer, &plain, &balancer),
            (owned, &balancer, &mapped, &without),
            (json!({}), &spec("LoadBalancer", "Cluster"), &plain, &spec("LoadBalancer", "Cluster")),
            (json!({}), &spec("NodePort", "Local"), &plain, &spec("NodePort", "Local")),
        ];
        for (metadata, spec, restore_spec, expected) in cases {
            assert_eq!(restored(&metadata, spec, restore_spec.clone()), Ok(expected.clone()), "{metadata}");
        }
    }

    #[test]
    fn an_unreadable_last_applied_configuration_fails_where_it_matters() {
        let spec = json!({"type": "NodePort", "ports": [{"nodePort": 30080}]});
        let external = json!({"type": "ExternalName", "externalName": "x", "ports": [{"nodePort": 30080}]});
        let kept = RestoreSpec { preserve_node_ports: Some(true), ..RestoreSpec::default() };
        for text in ["{", "", "[]", "5"] {
            let metadata = json!({"annotations": {(LAST_APPLIED): text}});
            let failure = restored(&metadata, &spec, RestoreSpec::default()).unwrap_err();
            let why = serde_json::from_str::<Option<Map<String, Value>>>(text).unwrap_err();
            assert_eq!(failure, format!("cannot read the annotation {LAST_APPLIED}: {why}"));
            assert_eq!(restored(&metadata, &external, RestoreSpec::default()), Ok(external.clone()));
            assert_eq!(restored(&metadata, &spec, kept.clone()), Ok(spec.clone()));
        }
    }

    #[test]
    fn owners_are_read_from_the_backup() {
        // The engine takes them from the item, which is created without.
        let item = service(&json!({"ports": [{"port": 80, "nodePort": 30080}]}));
        let mut backup = item.clone();
        backup["metadata"]["managedFields"] =
            managed(&json!({"f:ports": {r#"k:{"port":80,"protocol":"TCP"}"#: {"f:nodePort": {}}}}))["managedFields"]
                .clone();
        let output = run_from(restore, &item, &backup, &Restore::default()).unwrap();
        assert_eq!(output, RestoreItemOutput::with(item));
    }
}
