//! Patches that leave out immutable fields. When the API server refuses a patch because of fields that cannot be
//! changed, it is sent again without these, so that the other changes are made.

use crate::object::identity_fields::remove_restore_labels;
use bytes::Bytes;
use lifeboat_cluster::{ApiStatus, Cause, Cluster, ClusterError, MergePatch};
use lifeboat_object::ApiResource;
use serde_json::{Map, Value};

/// Most requests for one patch; each has some fields less than the one before.
const ATTEMPTS: usize = 8;
/// Most fields that are tested one by one, where the API server names only the field that contains them.
const ASKED: usize = 32;

/// A merge patch of an object.
#[derive(Clone, Copy)]
pub(crate) struct ToPatch<'a> {
    pub(crate) resource: &'a ApiResource,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) patch: &'a Value,
    /// Set when the API server is only asked, by a dry run.
    pub(crate) is_dry: bool,
}

/// Fields and labels that were left out of a patch so that the API server took it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptBack {
    /// Fields that cannot be changed, such as `spec.selector`.
    pub(crate) fields: Vec<String>,
    /// Messages of the API server about these fields.
    pub(crate) why: Vec<String>,
    /// The labels of the restore, with which the object would be too large.
    pub(crate) labels: bool,
}

impl KeptBack {
    /// Describes, for people, the fields that stay as they are and the reasons; `None` when all are changed.
    pub(crate) fn told(&self) -> Option<String> {
        let (fields, why) = (self.fields.join(", "), self.why.join("; "));
        (!fields.is_empty()).then(|| format!("{fields} cannot be changed ({why})"))
    }
}

impl ToPatch<'_> {
    /// Sends the patch, or as much of it as the API server takes. A bare patch is not sent.
    ///
    /// # Errors
    /// [`ClusterError`] of the whole patch; nothing is changed then.
    pub(crate) async fn send(self, cluster: &Cluster) -> Result<KeptBack, ClusterError> {
        let mut patch = self.patch.clone();
        let mut kept = KeptBack::default();
        let mut first = None;
        for _ in 0..ATTEMPTS {
            let error = match self.send_as(&patch, cluster).await {
                Ok(()) => return Ok(kept),
                Err(e) => e,
            };
            let is_lighter = if error.is_too_large() && !kept.labels {
                remove_restore_labels(&mut patch);
                kept.labels = true;
                true
            } else {
                self.leave_out(&mut patch, &error, &mut kept, cluster).await
            };
            let first = first.get_or_insert(error);
            if !is_lighter || is_bare(&patch) {
                break;
            }
            tracing::debug!(name = self.name, refusal = %first, fields = ?kept.fields, "sent again without what cannot be changed");
        }
        match first {
            Some(error) => Err(error),
            None => Ok(kept),
        }
    }

    async fn send_as(self, patch: &Value, cluster: &Cluster) -> Result<(), ClusterError> {
        let Self { resource, namespace, name, is_dry, .. } = self;
        let body = Bytes::from(patch.to_string());
        match is_dry {
            true => cluster.dry_run_patch(resource, namespace, name, body).await,
            false => cluster.patch(resource, namespace, name, MergePatch::of(body)).await.map(drop),
        }
    }

    /// Removes the fields from a patch because of which it was refused; `false` when none of the fields that the API
    /// server names is in it.
    async fn leave_out(self, patch: &mut Value, error: &ClusterError, kept: &mut KeptBack, cluster: &Cluster) -> bool {
        let mut is_lighter = false;
        for cause in error.status().map(fixed).unwrap_or_default() {
            let Some(path) = place(patch, &cause.field) else { continue };
            let names = match at(patch, &path) {
                // The API server names what the fields are in, some of which it may take.
                Some(Value::Object(map)) if map.len() > 1 && path.len() == 1 && map.len() <= ASKED => {
                    map.keys().cloned().collect()
                }
                _ => Vec::new(),
            };
            let mut refused = Vec::new();
            for name in names {
                let one: Vec<String> = path.iter().cloned().chain([name]).collect();
                if self.is_refused(&one, patch, cluster).await {
                    refused.push(one);
                }
            }
            if refused.is_empty() {
                refused.push(path);
            }
            for one in &refused {
                remove(patch, one);
                kept.fields.push(one.join("."));
            }
            if !kept.why.contains(&cause.message) {
                kept.why.push(cause.message);
            }
            is_lighter = true;
        }
        is_lighter
    }

    /// Returns true if the API server refuses a patch of this field alone.
    async fn is_refused(self, path: &[String], patch: &Value, cluster: &Cluster) -> bool {
        let mut one = at(patch, path).cloned().unwrap_or_default();
        for name in path.iter().rev() {
            one = Value::Object(Map::from_iter([(name.clone(), one)]));
        }
        let body = Bytes::from(one.to_string());
        let asked = cluster.dry_run_patch(self.resource, self.namespace, self.name, body).await;
        asked.is_err_and(|e| e.status().is_some_and(|status| status.code == 422))
    }
}

/// The fields that cannot be changed, by the answer of an API server.
fn fixed(status: &ApiStatus) -> Vec<Cause> {
    match status.code {
        422 => status.causes.iter().filter(|cause| is_fixed(cause)).cloned().collect(),
        // A class that does not let its volumes grow.
        403 if status.message.contains("pvc can be resized") => {
            vec![Cause { field: "spec.resources.requests".to_owned(), message: status.message.clone() }]
        }
        _ => Vec::new(),
    }
}

/// Returns true if the API server says that a field cannot be changed to the wanted value.
fn is_fixed(cause: &Cause) -> bool {
    const SAID: [&str; 7] = [
        "immutable",
        "Forbidden",
        "may not change",
        "may not be changed",
        "cannot be changed",
        "cannot change",
        "may not be updated",
    ];
    SAID.iter().any(|said| cause.message.contains(said))
}

/// The path in a patch that corresponds to a field of an object, such as `spec.ports` for `spec.ports[0].nodePort`: a
/// patch holds lists as a whole, and the closest parent in the patch counts for a field that is not in it. `None` when
/// the patch has no such part, or it is one that every patch has.
fn place(patch: &Value, field: &str) -> Option<Vec<String>> {
    let mut path: Vec<String> = Vec::new();
    let mut here = patch;
    for name in names(field) {
        let Some(next) = here.as_object().and_then(|map| map.get(&name)) else { break };
        path.push(name);
        here = next;
    }
    let is_of_all = path.len() == 1 && path[0] == "metadata";
    (!path.is_empty() && !is_of_all).then_some(path)
}

/// The names of a field's path, up to the first list: `spec.template`, `metadata.annotations[a.b/c]`.
fn names(field: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = field;
    while !rest.is_empty() {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if !name.is_empty() {
            out.push(name.to_owned());
        }
        rest = match after.strip_prefix('[') {
            Some(inner) => {
                let (key, after) = inner.split_once(']').unwrap_or((inner, ""));
                if key.parse::<usize>().is_ok() {
                    return out;
                }
                out.push(key.trim_matches('"').to_owned());
                after
            }
            None => after,
        };
        rest = rest.strip_prefix('.').unwrap_or(rest);
    }
    out
}

fn at<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

/// Removes a field, and parents that hold nothing else.
fn remove(value: &mut Value, path: &[String]) {
    let Some(map) = value.as_object_mut() else { return };
    let Some((name, rest)) = path.split_first() else { return };
    if !rest.is_empty()
        && let Some(inner) = map.get_mut(name)
    {
        remove(inner, rest);
        if !inner.as_object().is_some_and(Map::is_empty) {
            return;
        }
    }
    map.remove(name);
}

/// Returns true if a patch holds nothing beyond what every patch of a restore has: its labels, and the revision that it
/// is for.
fn is_bare(patch: &Value) -> bool {
    let mut patch = patch.clone();
    remove_restore_labels(&mut patch);
    for name in ["uid", "resourceVersion"] {
        remove(&mut patch, &["metadata".to_owned(), name.to_owned()]);
    }
    patch
        .as_object()
        .is_none_or(|map| map.iter().all(|(name, inner)| name == "metadata" && *inner == Value::Object(Map::new())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_field_that_the_api_server_names_is_found_in_the_patch() {
        let patch = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"a.b/c": "1"}},
            "spec": {"selector": {"matchLabels": {"x": "y"}}, "ports": [1]}, "data": null});
        for (field, expected) in [
            ("spec.selector", Some("spec/selector")),
            ("spec.selector.matchLabels", Some("spec/selector/matchLabels")),
            ("spec.ports[0].nodePort", Some("spec/ports")),
            ("spec.clusterIPs[0]", Some("spec")),
            ("spec", Some("spec")),
            ("data", Some("data")),
            ("metadata.annotations[a.b/c]", Some("metadata/annotations/a.b/c")),
            ("immutable", None),
            ("metadata.resourceVersion", None),
            ("", None),
        ] {
            assert_eq!(place(&patch, field).map(|path| path.join("/")).as_deref(), expected, "{field}");
        }
    }

    #[test]
    fn removing_a_field_drops_emptied_parents_and_may_leave_the_patch_bare() {
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        let mut patch = json!({"metadata": {"labels": {"velero.io/backup-name": "b", "velero.io/restore-name": "r"}, "uid": "u"},
            "spec": {"a": {"b": 1}, "c": 2}});
        for (field, is_last, expected) in [
            ("spec.a.b", false, json!({"c": 2})),
            ("spec.none.b", false, json!({"c": 2})),
            ("spec.c", true, Value::Null),
        ] {
            remove(&mut patch, &path(field));
            assert_eq!((is_bare(&patch), patch["spec"].clone()), (is_last, expected), "{field}");
        }
        assert!(!is_bare(&json!({"metadata": {"labels": {"velero.io/backup-name": "b", "mine": "x"}}})));
    }

    #[test]
    fn only_what_cannot_be_changed_is_left_out() {
        let cause = |message: &str| Cause { field: "spec".to_owned(), message: message.to_owned() };
        for (message, expected) in [
            ("Invalid value: \"x\": field is immutable", true),
            ("Forbidden: spec is immutable after creation except resources.requests", true),
            ("Forbidden: pod updates may not change fields other than `spec.containers[*].image`", true),
            ("Invalid value: \"10.0.0.1\": may not change once set", true),
            ("Invalid value: {}: cannot change roleRef", true),
            ("Invalid value: -1: must be greater than or equal to 0", false),
            ("Required value", false),
        ] {
            assert_eq!(is_fixed(&cause(message)), expected, "{message}");
        }
        let grown = "persistentvolumeclaims \"data\" is forbidden: only dynamically provisioned pvc can be resized and the storageclass \
                     that provisions the pvc must support resize";
        let fields = |code, message: &str| {
            let causes = vec![cause("field is immutable"), cause("Required value")];
            let status = ApiStatus { code, message: message.to_owned(), causes, ..ApiStatus::default() };
            fixed(&status).into_iter().map(|cause| cause.field).collect::<Vec<_>>()
        };
        assert_eq!(fields(422, "it is invalid"), ["spec"]);
        assert_eq!(fields(403, grown), ["spec.resources.requests"]);
        assert_eq!(fields(403, "exceeded quota"), [""; 0]);
    }
}
