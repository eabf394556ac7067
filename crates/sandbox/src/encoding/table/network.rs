//! Services, endpoints, ingresses and addresses.

use super::duration::age;
use super::field::{first, first_text, joined, list, load_balancer, name, number, optional, text, text_or};
use super::selector::{labels, selector};
use jiff::Timestamp;
use serde_json::Value;

/// So many hosts, ports or addresses are shown.
const SHOWN: usize = 3;

/// Name, type, cluster IP, external IP, ports, age; selector.
pub(super) fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let ip = first_text([&spec["clusterIPs"][0], &spec["clusterIP"]]);
    let ports: Vec<String> = list(&spec["ports"]).iter().map(port).collect();
    vec![
        name(object),
        text(&spec["type"]).into(),
        text_or(&ip.into(), "<none>"),
        external_ip(object).into(),
        text_or(&ports.join(",").into(), "<none>"),
        age(object, now),
        labels(&spec["selector"]).into(),
    ]
}

fn port(port: &Value) -> String {
    let (number_of, protocol) = (number(&port["port"]), text(&port["protocol"]));
    match number(&port["nodePort"]) {
        node @ 1.. => format!("{number_of}:{node}/{protocol}"),
        _ => format!("{number_of}/{protocol}"),
    }
}

fn external_ip(object: &Value) -> String {
    let spec = &object["spec"];
    let external = joined(list(&spec["externalIPs"]));
    match text(&spec["type"]) {
        "ClusterIP" | "NodePort" if external.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => external,
        "LoadBalancer" => match (load_balancer(&object["status"]), external) {
            (balanced, external) if balanced.is_empty() && external.is_empty() => "<pending>".to_owned(),
            (balanced, external) if external.is_empty() => balanced,
            (balanced, external) if balanced.is_empty() => external,
            (balanced, external) => format!("{balanced},{external}"),
        },
        "ExternalName" => text(&spec["externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// Name, endpoints, age.
pub(super) fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    let subsets = list(&object["subsets"]);
    let count = subsets.iter().map(count_of_subset).fold(0, usize::saturating_add);
    let found = || first(subsets.iter().flat_map(of_subset), count, SHOWN, ",");
    let shown = if subsets.is_empty() { "<none>".to_owned() } else { found() };
    vec![name(object), shown.into(), age(object, now)]
}

/// Each address with each port, or alone where there are no ports.
fn of_subset(subset: &Value) -> impl Iterator<Item = String> {
    let addresses = || list(&subset["addresses"]).iter().map(|address| text(&address["ip"]));
    let ports = list(&subset["ports"]);
    let alone = addresses().filter(|_| ports.is_empty()).map(str::to_owned);
    let of_port = move |port: &Value| {
        let port = number(&port["port"]);
        addresses().map(move |ip| if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") })
    };
    alone.chain(ports.iter().flat_map(of_port))
}

/// The number of texts that [`of_subset`] gives.
fn count_of_subset(subset: &Value) -> usize {
    list(&subset["addresses"]).len().saturating_mul(list(&subset["ports"]).len().max(1))
}

/// Name, address type, ports, endpoints, age.
pub(super) fn endpoint_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let port = |port: &Value| match (port["port"].as_i64(), port["name"].as_str()) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".to_owned(),
    };
    let ports = list(&object["ports"]);
    let addresses = || list(&object["endpoints"]).iter().flat_map(|endpoint| list(&endpoint["addresses"]));
    let texts = addresses().map(|address| text(address).to_owned());
    vec![
        name(object),
        text(&object["addressType"]).into(),
        text_or(&first(ports.iter().map(port), ports.len(), SHOWN, ",").into(), "<unset>"),
        text_or(&first(texts, addresses().count(), SHOWN, ",").into(), "<unset>"),
        age(object, now),
    ]
}

/// Name, class, hosts, address, ports, age.
pub(super) fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let ports = if list(&spec["tls"]).is_empty() { "80" } else { "80, 443" };
    vec![
        name(object),
        optional(&spec["ingressClassName"], "<none>"),
        hosts(list(&spec["rules"])).into(),
        load_balancer(&object["status"]).into(),
        ports.into(),
        age(object, now),
    ]
}

/// The hosts of the rules, or a star for any.
fn hosts(rules: &[Value]) -> String {
    let mut shown = Vec::new();
    let mut is_cut = false;
    for rule in rules {
        // compat: a rule without a host that follows three hosts counts as one more.
        is_cut |= shown.len() == SHOWN;
        let host = text(&rule["host"]);
        if !is_cut && !host.is_empty() {
            shown.push(host);
        }
    }
    match (shown.is_empty(), is_cut) {
        (true, _) => "*".to_owned(),
        (false, false) => shown.join(","),
        (false, true) => format!("{} + {} more...", shown.join(","), rules.len() - SHOWN),
    }
}

/// Name, controller, parameters, age.
pub(super) fn ingress_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let parameters = &spec["parameters"];
    let shown = if parameters.is_object() {
        let group = parameters["apiGroup"].as_str().map_or(String::new(), |group| format!(".{group}"));
        format!("{}{group}/{}", text(&parameters["kind"]), text(&parameters["name"]))
    } else {
        "<none>".to_owned()
    };
    vec![name(object), text(&spec["controller"]).into(), shown.into(), age(object, now)]
}

/// Name, pod selector, age.
pub(super) fn network_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), selector(&object["spec"]["podSelector"]).into(), age(object, now)]
}

/// Name, ranges, age.
pub(super) fn service_cidr(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), joined(list(&object["spec"]["cidrs"])).into(), age(object, now)]
}

/// Name, parent, age.
pub(super) fn ip_address(object: &Value, now: Timestamp) -> Vec<Value> {
    let parent = &object["spec"]["parentRef"];
    let shown = if parent.is_object() {
        let part = |before: &str, field: &str| match text(&parent[field]) {
            "" => String::new(),
            value => format!("{before}{value}"),
        };
        let resource = format!("{}{}", text(&parent["resource"]), part(".", "group")).to_lowercase();
        format!("{resource}{}/{}", part("/", "namespace"), text(&parent["name"]))
    } else {
        "<none>".to_owned()
    };
    // compat: the server declares two columns and fills three.
    vec![name(object), shown.into(), age(object, now)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_endpoints_no_more_are_made_than_are_shown() {
        // All of them would be ten thousand million texts.
        let many = |field: &str, value: Value| vec![json!({field: value}); 100_000];
        let subset = json!({"addresses": many("ip", json!("10.0.0.1")), "ports": many("port", json!(80))});
        let object = json!({"metadata": {"name": "e"}, "subsets": [{"addresses": [{"ip": "::1"}]}, subset]});
        let shown = "::1,10.0.0.1:80,10.0.0.1:80 + 9999999998 more...";
        assert_eq!(endpoints(&object, Timestamp::UNIX_EPOCH), [json!("e"), json!(shown), json!("<unknown>")]);
    }
}
