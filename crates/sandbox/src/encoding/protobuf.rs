//! The bodies that kubectl sends as protobuf whatever the server speaks: those of its `create` commands, such as `create namespace`
//! and, since 1.32, `create deployment`, and of `auth can-i`. All others are refused with 415.

use crate::encoding::messages;
use crate::encoding::wire::{Wire, entry, parts, text};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Prefix of every body, before the envelope.
const MAGIC: &[u8] = b"k8s\0";

type Message = &'static [(u64, &'static str, FieldForm)];

#[derive(Clone, Copy)]
enum FieldForm {
    Text,
    Number,
    Flag,
    TextMap,
    BytesMap,
    Texts,
    One(Message),
    Many(Message),
}

const OWNER: Message = &[
    (1, "kind", FieldForm::Text),
    (3, "name", FieldForm::Text),
    (4, "uid", FieldForm::Text),
    (5, "apiVersion", FieldForm::Text),
    (6, "controller", FieldForm::Flag),
    (7, "blockOwnerDeletion", FieldForm::Flag),
];
const METADATA: Message = &[
    (1, "name", FieldForm::Text),
    (2, "generateName", FieldForm::Text),
    (3, "namespace", FieldForm::Text),
    (5, "uid", FieldForm::Text),
    (6, "resourceVersion", FieldForm::Text),
    (11, "labels", FieldForm::TextMap),
    (12, "annotations", FieldForm::TextMap),
    (13, "ownerReferences", FieldForm::Many(OWNER)),
    (14, "finalizers", FieldForm::Texts),
];
const ONLY_METADATA: Message = &[(1, "metadata", FieldForm::One(METADATA))];
const CONFIG_MAP: Message = &[
    (1, "metadata", FieldForm::One(METADATA)),
    (2, "data", FieldForm::TextMap),
    (3, "binaryData", FieldForm::BytesMap),
    (4, "immutable", FieldForm::Flag),
];
const SECRET: Message = &[
    (1, "metadata", FieldForm::One(METADATA)),
    (2, "data", FieldForm::BytesMap),
    (3, "type", FieldForm::Text),
    (5, "immutable", FieldForm::Flag),
];
const RESOURCE_ATTRIBUTES: Message = &[
    (1, "namespace", FieldForm::Text),
    (2, "verb", FieldForm::Text),
    (3, "group", FieldForm::Text),
    (4, "version", FieldForm::Text),
    (5, "resource", FieldForm::Text),
    (6, "subresource", FieldForm::Text),
    (7, "name", FieldForm::Text),
];
const ACCESS: Message = &[
    (1, "resourceAttributes", FieldForm::One(RESOURCE_ATTRIBUTES)),
    (2, "nonResourceAttributes", FieldForm::One(&[(1, "path", FieldForm::Text), (2, "verb", FieldForm::Text)])),
];
const ACCESS_REVIEW: Message = &[(1, "metadata", FieldForm::One(METADATA)), (2, "spec", FieldForm::One(ACCESS))];
const RULES_REVIEW: Message =
    &[(1, "metadata", FieldForm::One(METADATA)), (2, "spec", FieldForm::One(&[(1, "namespace", FieldForm::Text)]))];
const DELETE_OPTIONS: Message = &[
    (1, "gracePeriodSeconds", FieldForm::Number),
    (2, "preconditions", FieldForm::One(&[(1, "uid", FieldForm::Text), (2, "resourceVersion", FieldForm::Text)])),
    (3, "orphanDependents", FieldForm::Flag),
    (4, "propagationPolicy", FieldForm::Text),
    (5, "dryRun", FieldForm::Texts),
];

/// The object in a body; `None` when it is broken or of a kind that is not known here.
pub(crate) fn decode(body: &[u8]) -> Option<Value> {
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for part in parts(body.strip_prefix(MAGIC)?) {
        match part? {
            (1, Wire::Bytes(types)) => {
                let types = read(types, &[(1, "apiVersion", FieldForm::Text), (2, "kind", FieldForm::Text)])?;
                types.get("apiVersion").and_then(Value::as_str).unwrap_or_default().clone_into(&mut api_version);
                types.get("kind").and_then(Value::as_str).unwrap_or_default().clone_into(&mut kind);
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let message = match (api_version.as_str(), kind.as_str()) {
        ("v1", "Namespace" | "ServiceAccount") | ("authentication.k8s.io/v1", "SelfSubjectReview") => ONLY_METADATA,
        ("v1", "ConfigMap") => CONFIG_MAP,
        ("v1", "Secret") => SECRET,
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview") => ACCESS_REVIEW,
        ("authorization.k8s.io/v1", "SelfSubjectRulesReview") => RULES_REVIEW,
        (_, "DeleteOptions") => DELETE_OPTIONS,
        _ => &[],
    };
    let mut object = match message {
        [] => messages::read(&api_version, &kind, raw)?,
        message => read(raw, message)?,
    };
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Some(object.into())
}

/// Empty texts are what Go sends for absent ones.
fn read(bytes: &[u8], message: Message) -> Option<Map<String, Value>> {
    let mut object = Map::new();
    for part in parts(bytes) {
        let (number, wire) = part?;
        let Some((_, name, field)) = message.iter().find(|(n, _, _)| *n == number) else { continue };
        let name = (*name).to_owned();
        match (field, wire) {
            (FieldForm::Text, Wire::Bytes(b"")) => {}
            (FieldForm::Text, Wire::Bytes(b)) => drop(object.insert(name, text(b)?)),
            (FieldForm::Number, Wire::Number(n)) => drop(object.insert(name, n.into())),
            (FieldForm::Flag, Wire::Number(n)) => drop(object.insert(name, (n != 0).into())),
            (FieldForm::One(inner), Wire::Bytes(b)) => drop(object.insert(name, read(b, inner)?.into())),
            (FieldForm::Many(inner), Wire::Bytes(b)) => push(&mut object, name, read(b, inner)?.into())?,
            (FieldForm::Texts, Wire::Bytes(b)) => push(&mut object, name, text(b)?)?,
            (FieldForm::TextMap | FieldForm::BytesMap, Wire::Bytes(b)) => {
                let (key, value) = entry(b)?;
                let value = match field {
                    FieldForm::TextMap => text(value)?,
                    _ => STANDARD.encode(value).into(),
                };
                object.entry(name).or_insert_with(|| Map::new().into()).as_object_mut()?.insert(key, value);
            }
            _ => return None,
        }
    }
    Some(object)
}

fn push(object: &mut Map<String, Value>, name: String, value: Value) -> Option<()> {
    object.entry(name).or_insert_with(|| Value::Array(Vec::new())).as_array_mut()?.push(value);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
    }

    fn body(kind: &str, raw: &[u8]) -> Vec<u8> {
        let types = [bytes(1, b"v1"), bytes(2, kind.as_bytes())].concat();
        [MAGIC, &bytes(1, &types), &bytes(2, raw), &bytes(3, b""), &bytes(4, b"")].concat()
    }

    #[test]
    fn a_config_map() {
        let metadata = [bytes(1, b"x"), bytes(2, b""), bytes(14, b"e.com/f")].concat();
        let entry = |key: &[u8], value: &[u8]| [bytes(1, key), bytes(2, value)].concat();
        let raw = [bytes(1, &metadata), bytes(2, &entry(b"a", b"1")), bytes(3, &entry(b"b", b"\xff")), vec![4 << 3, 1]];
        assert_eq!(
            decode(&body("ConfigMap", &raw.concat())),
            Some(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "finalizers": ["e.com/f"]},
                        "data": {"a": "1"}, "binaryData": {"b": "/w=="}, "immutable": true}))
        );
        assert_eq!(decode(&body("Node", b"")), None);
        assert_eq!(decode(b"{}"), None);
    }

    proptest! {
        #[test]
        fn nothing_panics(raw in prop::collection::vec(any::<u8>(), 0..60), kind in "Secret|DeleteOptions|ConfigMap") {
            let _ = (decode(&raw), decode(&body(&kind, &raw)));
        }
    }
}
