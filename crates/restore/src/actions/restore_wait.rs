//! The init container by which a pod waits for the files of its volumes
//! (velero: pkg/restore/actions/pod_volume_restore_action.go, pkg/cmd/velero-restore-helper). Pure.

use lifeboat_api::well_known::RESTORE_WAIT;
use lifeboat_object::Quantity;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The program of the container.
const COMMAND: &str = "/velero-restore-helper";
/// The folder in which the container has the volumes.
const MOUNTS: &str = "/restores/";
/// The fields of the security context of a container.
const SECURITY_FIELDS: [&str; 12] = [
    "allowPrivilegeEscalation",
    "appArmorProfile",
    "capabilities",
    "privileged",
    "procMount",
    "readOnlyRootFilesystem",
    "runAsGroup",
    "runAsNonRoot",
    "runAsUser",
    "seLinuxOptions",
    "seccompProfile",
    "windowsOptions",
];

/// The settings of the container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitSettings {
    /// The data of the ConfigMap that configures it.
    pub(crate) config: BTreeMap<String, String>,
    /// The image of the server; empty when it is not known.
    pub(crate) server_image: String,
    /// The version of the server, for an image without a tag.
    pub(crate) server_version: String,
}

impl WaitSettings {
    /// The container for a pod with these volumes to be filled.
    ///
    /// # Errors
    /// That no image is known, for people.
    pub(crate) fn container(&self, pod: &Value, volumes: &[&str], restore_uid: &str) -> Result<Value, String> {
        let field = |path: &str| json!({"valueFrom": {"fieldRef": {"fieldPath": path}}});
        let env = [("POD_NAMESPACE", "metadata.namespace"), ("POD_NAME", "metadata.name")].map(|(name, path)| {
            let mut one = field(path);
            one["name"] = name.into();
            one
        });
        let mounts = volumes.iter().map(|volume| json!({"name": volume, "mountPath": format!("{MOUNTS}{volume}")}));
        let command = self.get("command").unwrap_or(COMMAND);
        Ok(json!({
            "name": RESTORE_WAIT,
            "image": self.image()?,
            "command": [command],
            "args": [restore_uid],
            "env": env,
            "volumeMounts": mounts.collect::<Vec<_>>(),
            "resources": self.resources(),
            "securityContext": self.security_context(pod),
        }))
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.config.get(key).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    fn image(&self) -> Result<String, String> {
        let Some(image) = self.get("image").filter(|image| image.contains('/')) else {
            return match self.server_image.as_str() {
                "" => Err("the image of its init container restore-wait is not known: name one in a ConfigMap with the label \
                           velero.io/pod-volume-restore"
                    .to_owned()),
                image => Ok(image.to_owned()),
            };
        };
        let has_tag = image.rsplit('/').next().is_some_and(|last| last.contains(':'));
        let version = if self.server_version.is_empty() { "latest" } else { &self.server_version };
        Ok(if has_tag { image.to_owned() } else { format!("{image}:{version}") })
    }

    fn resources(&self) -> Value {
        let given = |key: &str, default: &'static str| self.get(key).unwrap_or(default);
        let of = |key: [&str; 2], default: &'static str| key.map(|key| given(key, default));
        let [cpu, memory] = [of(["cpuRequest", "cpuLimit"], "100m"), of(["memRequest", "memLimit"], "128Mi")];
        let fits = |[request, limit]: [&str; 2]| {
            let parsed = Quantity::parse(request).zip(Quantity::parse(limit));
            parsed.is_some_and(|(request, limit)| limit.is_zero() || !request.exceeds(limit))
        };
        // compat: one bad value ignores all four.
        let [cpu, memory] = if fits(cpu) && fits(memory) { [cpu, memory] } else { [["100m"; 2], ["128Mi"; 2]] };
        let mut out = json!({});
        for (n, kind) in ["requests", "limits"].into_iter().enumerate() {
            for (name, amounts) in [("cpu", cpu), ("memory", memory)] {
                if Quantity::parse(amounts[n]).is_some_and(|amount| !amount.is_zero()) {
                    out[kind][name] = amounts[n].into();
                }
            }
        }
        out
    }

    /// The context of the ConfigMap, else that of the first container of the pod, else one that follows from the pod's.
    fn security_context(&self, pod: &Value) -> Value {
        if let Some(configured) = self.configured_context() {
            return configured;
        }
        let first = &pod["spec"]["containers"][0]["securityContext"];
        if first.is_object() {
            return first.clone();
        }
        let mut context = json!({
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
            "runAsUser": 1000,
            "runAsNonRoot": true,
        });
        let of_pod = &pod["spec"]["securityContext"];
        for field in ["runAsUser", "runAsGroup"] {
            if let Some(id) = of_pod[field].as_i64() {
                context[field] = id.into();
            }
        }
        if of_pod["runAsUser"] == 0 {
            match of_pod["runAsNonRoot"].as_bool() {
                Some(is_not_root) => context["runAsNonRoot"] = is_not_root.into(),
                None => drop(context.as_object_mut().and_then(|context| context.remove("runAsNonRoot"))),
            }
        }
        context
    }

    /// The context that the ConfigMap gives; `None` when it gives none that can be read.
    fn configured_context(&self) -> Option<Value> {
        let mut context = Map::new();
        for (key, field) in [("secCtxRunAsUser", "runAsUser"), ("secCtxRunAsGroup", "runAsGroup")] {
            if let Some(text) = self.get(key) {
                context.insert(field.to_owned(), text.parse::<i64>().ok()?.into());
            }
        }
        if let Some(text) = self.get("secCtxAllowPrivilegeEscalation") {
            context.insert("allowPrivilegeEscalation".to_owned(), text.parse::<bool>().ok()?.into());
        }
        if let Some(text) = self.get("secCtx") {
            let Value::Object(given) = serde_saphyr::from_str::<Value>(text).ok()? else { return None };
            if given.keys().any(|field| !SECURITY_FIELDS.contains(&field.as_str())) {
                return None;
            }
            context.extend(given);
        }
        (!context.is_empty()).then_some(context.into())
    }
}

/// The volumes for which a pod waits, by their names in it.
pub(crate) fn awaited_volumes(pod: &Value) -> BTreeSet<&str> {
    let containers = pod["spec"]["initContainers"].as_array().into_iter().flatten();
    let waits = containers.filter(|container| container["name"] == RESTORE_WAIT);
    let mounts = waits.filter_map(|container| container["volumeMounts"].as_array()).flatten();
    let is_awaited = |mount: &&Value| mount["mountPath"].as_str().is_some_and(|path| path.starts_with(MOUNTS));
    mounts.filter(is_awaited).filter_map(|mount| mount["name"].as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(config: &[(&str, &str)]) -> WaitSettings {
        WaitSettings {
            config: config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            server_image: "ghcr.io/x/lifeboat:1.0".into(),
            server_version: "v1.0".into(),
        }
    }

    fn of(config: &[(&str, &str)], pod: &Value, field: &str) -> Value {
        settings(config).container(pod, &["data"], "u").unwrap()[field].clone()
    }

    #[test]
    fn a_pod_waits_in_a_container_of_veleros_shape() {
        let expected = json!({
            "name": "restore-wait", "image": "ghcr.io/x/lifeboat:1.0", "command": ["/velero-restore-helper"], "args": ["uid-1"],
            "env": [{"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "volumeMounts": [{"name": "data", "mountPath": "/restores/data"}, {"name": "cache", "mountPath": "/restores/cache"}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "100m", "memory": "128Mi"}},
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"}, "runAsUser": 1000, "runAsNonRoot": true},
        });
        assert_eq!(settings(&[]).container(&json!({}), &["data", "cache"], "uid-1"), Ok(expected));
        let none = WaitSettings::default().container(&json!({}), &[], "u").unwrap_err();
        assert!(none.starts_with("the image of its init container restore-wait is not known"), "{none}");
    }

    #[test]
    fn image_command_and_resources_are_configured() {
        let pod = json!({});
        for (given, expected) in [
            ("reg.io/help:2", "reg.io/help:2"),
            ("reg.io:5000/help", "reg.io:5000/help:v1.0"),
            ("help:2", "ghcr.io/x/lifeboat:1.0"),
        ] {
            assert_eq!(of(&[("image", given)], &pod, "image"), expected, "{given}");
        }
        assert_eq!(of(&[("command", "/bin/wait")], &pod, "command"), json!(["/bin/wait"]));
        let both = |cpu: [&str; 2], memory: [&str; 2]| json!({"requests": {"cpu": cpu[0], "memory": memory[0]}, "limits": {"cpu": cpu[1], "memory": memory[1]}});
        let default = both(["100m"; 2], ["128Mi"; 2]);
        for (given, expected) in [
            (&[("cpuRequest", "50m"), ("memLimit", "1Gi")][..], both(["50m", "100m"], ["128Mi", "1Gi"])),
            (&[("cpuRequest", "200m")], default.clone()),
            (&[("memRequest", "much"), ("cpuLimit", "1")], default),
            (&[("cpuRequest", "0"), ("cpuLimit", "0"), ("memLimit", "0")], json!({"requests": {"memory": "128Mi"}})),
        ] {
            assert_eq!(of(given, &pod, "resources"), expected, "{given:?}");
        }
    }

    #[test]
    fn the_security_context_comes_from_configuration_container_or_pod() {
        let first = json!({"spec": {"containers": [{"securityContext": {"runAsUser": 7}}], "securityContext": {"runAsUser": 8}}});
        let of_pod = |context: Value| json!({"spec": {"containers": [{}], "securityContext": context}});
        let default = |change: Value| {
            let mut context = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"}, "runAsUser": 1000, "runAsNonRoot": true});
            lifeboat_patch::merge(&mut context, &change);
            context
        };
        let none: &[(&str, &str)] = &[];
        for (config, pod, expected) in [
            (&[("secCtxRunAsUser", "5")][..], first.clone(), json!({"runAsUser": 5})),
            (
                &[
                    ("secCtxRunAsUser", "5"),
                    ("secCtxAllowPrivilegeEscalation", "true"),
                    ("secCtx", "{runAsUser: 6, privileged: false}"),
                ],
                first.clone(),
                json!({"runAsUser": 6, "allowPrivilegeEscalation": true, "privileged": false}),
            ),
            (&[("secCtx", "{runAsUsr: 6}")], first.clone(), json!({"runAsUser": 7})),
            (&[("secCtxRunAsUser", "five")], first.clone(), json!({"runAsUser": 7})),
            (none, first, json!({"runAsUser": 7})),
            (
                none,
                of_pod(json!({"runAsUser": 8, "runAsGroup": 9, "fsGroup": 1})),
                default(json!({"runAsUser": 8, "runAsGroup": 9})),
            ),
            (none, of_pod(json!({"runAsUser": 0})), default(json!({"runAsUser": 0, "runAsNonRoot": null}))),
            (
                none,
                of_pod(json!({"runAsUser": 0, "runAsNonRoot": false})),
                default(json!({"runAsUser": 0, "runAsNonRoot": false})),
            ),
            (none, of_pod(json!({"fsGroup": 1})), default(json!({}))),
        ] {
            assert_eq!(of(config, &pod, "securityContext"), expected, "{config:?} {pod}");
        }
    }
}
