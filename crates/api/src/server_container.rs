//! The container of a pod that runs the server.

use serde_json::Value;

/// Velero's program, and the last part of its image's name.
const PROGRAM: &str = "velero";

/// The container of the server in a pod or the template of one: the one that is known to run it, else the first.
#[must_use]
pub fn server_container(pod: &Value) -> &Value {
    known_server_container(pod).unwrap_or(&pod["spec"]["containers"][0])
}

/// The container that is known to run a server of Velero, or of ours, which goes by the same name.
#[must_use]
pub fn known_server_container(pod: &Value) -> Option<&Value> {
    pod["spec"]["containers"].as_array().into_iter().flatten().find(|container| is_server(container))
}

/// Returns true if a container is given the command `server`, and its program or its image has Velero's name. The words
/// are looked at one by one, because a shell may stand before them.
fn is_server(container: &Value) -> bool {
    let given = ["command", "args"].into_iter().filter_map(|field| container[field].as_array()).flatten();
    let words: Vec<&str> = given.filter_map(Value::as_str).flat_map(str::split_whitespace).collect();
    let Some(at) = words.iter().position(|word| *word == "server") else { return false };
    // The node agent has a command of this name too, and none of a server's work.
    if words[..at].contains(&"node-agent") {
        return false;
    }
    let image = container["image"].as_str().unwrap_or_default();
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    let image = image.rsplit('/').next().unwrap_or_default();
    words[..at].iter().any(|word| word.rsplit('/').next() == Some(PROGRAM)) || image.split(':').next() == Some(PROGRAM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_server_is_known_by_what_it_runs() {
        let container =
            |image: &str, command: Value, args: Value| json!({"image": image, "command": command, "args": args});
        let none = Value::Null;
        for (container, expected) in [
            // As Velero's installer and its Helm chart write it.
            (container("velero/velero:v1.18.2", json!(["/velero"]), json!(["server", "--features="])), true),
            // Of a mirror, under another name, by digest, by the image's own command.
            (container("example.com/oadp-rhel9@sha256:0", json!(["/velero"]), json!(["server"])), true),
            (container("example.com:5000/mirror/velero@sha256:0", none.clone(), json!(["server"])), true),
            (container("example.com:5000/mirror/velero:v1@sha256:0", none.clone(), json!(["server"])), true),
            (container("velero", none.clone(), json!(["--log-level", "debug", "server"])), true),
            (container("x", json!(["/velero", "server"]), none.clone()), true),
            (container("x", json!(["/bin/sh", "-c"]), json!(["exec /velero server --features="])), true),
            // Not a server, or not Velero's.
            (container("velero/velero:v1.18.2", json!(["/velero"]), json!(["node-agent", "server"])), false),
            (container("velero/velero:v1.18.2", json!(["/velero"]), json!(["backup", "create", "b"])), false),
            (container("velero/velero:v1.18.2", none.clone(), none.clone()), false),
            (container("example.com/shop:v1", json!(["/shop"]), json!(["server"])), false),
            (container("example.com/velero/ui:v1", none.clone(), json!(["server"])), false),
            (container("example.com:5000/lifeboat", json!(["/lifeboat"]), json!(["server"])), false),
            (none.clone(), false),
        ] {
            assert_eq!(is_server(&container), expected, "{container}");
        }
    }

    #[test]
    fn the_container_known_for_the_server_counts_or_the_first_one() {
        let proxy = json!({"image": "proxy:1"});
        let server = json!({"image": "example.com/lifeboat:1", "command": ["/velero"], "args": ["server"]});
        let unknown = json!({"image": "example.com/lifeboat:1"});
        for (containers, expected) in [
            (json!([proxy, server]), "example.com/lifeboat:1"),
            (json!([unknown, proxy]), "example.com/lifeboat:1"),
            (json!([proxy, unknown]), "proxy:1"),
        ] {
            let template = json!({"spec": {"containers": containers}});
            assert_eq!(server_container(&template)["image"], expected, "{template}");
        }
        assert_eq!(server_container(&Value::Null), &Value::Null);
    }
}
