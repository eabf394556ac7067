//! The objects that kubectl sends as protobuf beyond the simplest ones: what a number means in which message stands in a table of
//! text, made of the tags of the types of Kubernetes 1.34. Fields that it does not have are left out, as an older server does.

use crate::encoding::wire::{Wire, entry, parts, text};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The fields of each message.
static MESSAGES: LazyLock<HashMap<&str, Vec<MessageField>>> =
    LazyLock::new(|| include_str!("messages.txt").lines().filter_map(message).collect());

/// The objects that may be sent: their group and version, kind and message.
const OBJECTS: [(&str, &str, &str); 15] = [
    ("apps/v1", "Deployment", "apps/v1.Deployment"),
    ("autoscaling/v1", "HorizontalPodAutoscaler", "autoscaling/v1.HorizontalPodAutoscaler"),
    ("autoscaling/v2", "HorizontalPodAutoscaler", "autoscaling/v2.HorizontalPodAutoscaler"),
    ("batch/v1", "CronJob", "batch/v1.CronJob"),
    ("batch/v1", "Job", "batch/v1.Job"),
    ("networking.k8s.io/v1", "Ingress", "networking/v1.Ingress"),
    ("policy/v1", "PodDisruptionBudget", "policy/v1.PodDisruptionBudget"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "rbac/v1.ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "rbac/v1.ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "Role", "rbac/v1.Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rbac/v1.RoleBinding"),
    ("scheduling.k8s.io/v1", "PriorityClass", "scheduling/v1.PriorityClass"),
    ("v1", "Pod", "core/v1.Pod"),
    ("v1", "ResourceQuota", "core/v1.ResourceQuota"),
    ("v1", "Service", "core/v1.Service"),
];

/// A field of a message.
struct MessageField {
    number: u64,
    name: &'static str,
    /// The letters of its form, or the name of its message.
    form: &'static str,
    is_list: bool,
    /// Its fields stand in the message that it is of.
    is_inline: bool,
}

/// A line of the table; `None` for one that is none.
fn message(line: &'static str) -> Option<(&'static str, Vec<MessageField>)> {
    let (name, fields) = line.split_once(' ').filter(|_| !line.starts_with('#'))?;
    Some((name, fields.split(' ').filter_map(field).collect()))
}

fn field(text: &'static str) -> Option<MessageField> {
    let mut parts = text.splitn(3, ':');
    let (number, name, form) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    let (is_list, is_inline) = (form.ends_with('*'), form.starts_with('~'));
    Some(MessageField { number, name, form: form.trim_matches(['*', '~']), is_list, is_inline })
}

/// The fields of an object of this kind; `None` when it is broken, or of a kind that is not known here.
pub(crate) fn read(api_version: &str, kind: &str, bytes: &[u8]) -> Option<Map<String, Value>> {
    let mut objects = OBJECTS.iter().filter(|(version, name, _)| (*version, *name) == (api_version, kind));
    read_message(objects.next()?.2, bytes)
}

/// The table has no message that holds itself, so this ends.
fn read_message(name: &str, bytes: &[u8]) -> Option<Map<String, Value>> {
    let fields = MESSAGES.get(name)?;
    let mut object = Map::new();
    for part in parts(bytes) {
        let (number, wire) = part?;
        let Some(field) = fields.iter().find(|field| field.number == number) else { continue };
        let name = field.name.to_owned();
        match (field.form, wire) {
            ("tm" | "bm" | "qm", Wire::Bytes(bytes)) => {
                let (key, value) = entry(bytes)?;
                let value = match field.form {
                    "tm" => text(value)?,
                    "bm" => STANDARD.encode(value).into(),
                    _ => quantity(value)?,
                };
                object.entry(name).or_insert_with(|| Map::new().into()).as_object_mut()?.insert(key, value);
            }
            (inner, Wire::Bytes(bytes)) if field.is_inline => object.extend(read_message(inner, bytes)?),
            // An element of a list is there, also an empty one: the core group of a role is an empty text.
            ("t", Wire::Bytes(b"")) if field.is_list => push(&mut object, name, "".into())?,
            ("n", Wire::Number(0)) if field.is_list => push(&mut object, name, 0.into())?,
            (form, wire) => match value(form, wire)? {
                Some(value) if field.is_list => push(&mut object, name, value)?,
                Some(value) => drop(object.insert(name, value)),
                None => {}
            },
        }
    }
    Some(object)
}

fn push(object: &mut Map<String, Value>, name: String, value: Value) -> Option<()> {
    object.entry(name).or_insert_with(|| Value::Array(Vec::new())).as_array_mut()?.push(value);
    Some(())
}

/// A value of this form; nothing for what Go sends for an absent one.
fn value(form: &str, wire: Wire<'_>) -> Option<Option<Value>> {
    Some(match (form, wire) {
        ("t", Wire::Bytes(b"")) | ("n" | "f", Wire::Number(0)) => None,
        ("t", Wire::Bytes(bytes)) => Some(text(bytes)?),
        ("n" | "N", Wire::Number(number)) => Some(number.cast_signed().into()),
        ("f" | "F", Wire::Number(number)) => Some((number != 0).into()),
        ("b", Wire::Bytes(bytes)) => Some(STANDARD.encode(bytes).into()),
        ("T", Wire::Bytes(bytes)) => time(bytes)?,
        ("Q", Wire::Bytes(bytes)) => Some(quantity(bytes)?),
        ("I", Wire::Bytes(bytes)) => Some(number_or_text(bytes)?),
        (name, Wire::Bytes(bytes)) => Some(read_message(name, bytes)?.into()),
        (_, Wire::Number(_)) => return None,
    })
}

fn quantity(bytes: &[u8]) -> Option<Value> {
    for part in parts(bytes) {
        if let (1, Wire::Bytes(bytes)) = part? {
            return text(bytes);
        }
    }
    Some("0".into())
}

/// Seconds and nanoseconds; the zero of Go, which has neither, is no time.
fn time(bytes: &[u8]) -> Option<Option<Value>> {
    let mut seconds = 0;
    for part in parts(bytes) {
        if let (1, Wire::Number(number)) = part? {
            seconds = number.cast_signed();
        }
    }
    let at = Timestamp::from_second(seconds).ok()?;
    Some((seconds != 0).then(|| at.to_string().into()))
}

/// Its type, and then a number or a text.
fn number_or_text(bytes: &[u8]) -> Option<Value> {
    let (mut is_text, mut number, mut said) = (false, 0, Value::String(String::new()));
    for part in parts(bytes) {
        match part? {
            (1, Wire::Number(kind)) => is_text = kind == 1,
            (2, Wire::Number(value)) => number = value.cast_signed(),
            (3, Wire::Bytes(bytes)) => said = text(bytes)?,
            _ => {}
        }
    }
    Some(if is_text { said } else { number.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
    }

    fn number(of: u8, value: u8) -> Vec<u8> {
        vec![of << 3, value]
    }

    #[test]
    fn every_form_of_the_table_is_known() {
        let forms = ["t", "n", "N", "f", "F", "b", "T", "Q", "I", "tm", "bm", "qm"];
        let all = MESSAGES.values().flatten();
        let unknown: Vec<&str> =
            all.map(|field| field.form).filter(|form| !forms.contains(form) && !MESSAGES.contains_key(form)).collect();
        assert_eq!(unknown, [""; 0]);
        let missing: Vec<&str> =
            OBJECTS.iter().map(|(_, _, name)| *name).filter(|name| !MESSAGES.contains_key(name)).collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn a_deployment_that_kubectl_creates() {
        let port = [number(3, 80), bytes(4, b"")].concat();
        let probe =
            [bytes(1, &bytes(2, &bytes(2, &[number(1, 1), bytes(3, b"http")].concat()))), number(2, 5)].concat();
        let limits = bytes(1, &[bytes(1, b"cpu"), bytes(2, &bytes(1, b"1"))].concat());
        let container =
            [bytes(1, b"web"), bytes(2, b"i:1"), bytes(6, &port), bytes(8, &limits), bytes(10, &probe)].concat();
        let pod = [bytes(2, &container), number(11, 0)].concat();
        let template = [bytes(1, &bytes(8, b"")), bytes(2, &pod)].concat();
        let raw = [
            bytes(1, &bytes(1, b"web")),
            bytes(2, &[number(1, 0), bytes(3, &template), number(5, 0), number(15, 1)].concat()),
        ];
        let expected = json!({"metadata": {"name": "web"}, "spec": {"replicas": 0, "template": {"metadata": {}, "spec": {"containers": [
            {"name": "web", "image": "i:1", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}},
                "livenessProbe": {"httpGet": {"port": "http"}, "initialDelaySeconds": 5}}]}}}});
        assert_eq!(read("apps/v1", "Deployment", &raw.concat()).map(Value::from), Some(expected));
        assert_eq!(read("apps/v1", "Other", b""), None);
    }

    #[test]
    fn the_core_group_of_a_role_is_an_empty_text() {
        let rule = [bytes(1, b"get"), bytes(2, b""), bytes(3, b"pods")].concat();
        let role = read("rbac.authorization.k8s.io/v1", "Role", &bytes(2, &rule));
        let expected = json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]});
        assert_eq!(role.map(Value::from), Some(expected));
    }

    proptest! {
        #[test]
        fn nothing_panics(raw in prop::collection::vec(any::<u8>(), 0..80)) {
            for (version, kind, _) in OBJECTS {
                let _ = read(version, kind, &raw);
            }
        }
    }
}
