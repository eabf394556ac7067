//! The pod of a mover, and its Secret. Pure.

use super::settings::{ClaimToFill, MoverPodSettings};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lifeboat_api::well_known::{LABEL_MOVER_OF_RESTORE, LABEL_RESTORE_UID, SCRATCH_FOLDER, VARIABLE_SCRATCH};
use lifeboat_api::{Restore, label_value};
use lifeboat_object::ApiResource;
use serde_json::{Map, Value, json};

/// The program in the image.
const PROGRAM: &str = "/velero";
/// The seconds that a mover has to end. With none the API server forgets a pod at once, while its container may still write on a node that
/// nobody reaches.
const GRACE: u32 = 1;
/// The folder in which a mover has the files of its Secret.
pub const SECRET_AT: &str = "/repository";
/// The file of the Secret with the password of the repository.
pub const PASSWORD: &str = "password";
/// The volume that is filled, as the pod has it.
const VOLUME_AT: &str = "/volume";
/// The rights by which files of any owner are written.
const CAPABILITIES: [&str; 5] = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "MKNOD"];

/// The objects of one mover.
pub(super) struct MoverObjects<'a> {
    /// The name of both.
    pub(super) name: &'a str,
    pub(super) claim: &'a ClaimToFill<'a>,
    pub(super) restore: &'a Restore,
    pub(super) settings: &'a MoverPodSettings,
}

impl MoverObjects<'_> {
    fn metadata(&self) -> Value {
        let (claim, restore) = (self.claim, &self.restore.metadata);
        json!({
            "name": self.name, "namespace": claim.namespace,
            "labels": {LABEL_MOVER_OF_RESTORE: label_value(&restore.name), LABEL_RESTORE_UID: restore.uid},
            "ownerReferences": [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": claim.name, "uid": claim.uid}],
        })
    }

    /// The Secret with the password of the repository, and the credentials of the bucket.
    pub(super) fn secret(&self) -> Value {
        let files = self.settings.files.0.iter().map(|(name, bytes)| (name.clone(), STANDARD.encode(bytes).into()));
        let data: Map<String, Value> = files.collect();
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": self.metadata(), "type": "Opaque", "data": data})
    }

    /// The pod.
    pub(super) fn pod(&self) -> Value {
        let Self { claim, settings, .. } = self;
        let mut container = json!({
            "name": "mover", "image": settings.image, "command": [PROGRAM], "args": self.arguments(),
            "env": [{"name": VARIABLE_SCRATCH, "value": SCRATCH_FOLDER}],
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": {
                "allowPrivilegeEscalation": false, "privileged": false, "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"], "add": CAPABILITIES},
            },
        });
        let mut mounts = vec![
            json!({"name": "repository", "mountPath": SECRET_AT, "readOnly": true}),
            json!({"name": "scratch", "mountPath": SCRATCH_FOLDER}),
            json!({"name": "tmp", "mountPath": "/tmp"}),
        ];
        match claim.is_block {
            true => container["volumeDevices"] = json!([{"name": "volume", "devicePath": VOLUME_AT}]),
            false => mounts.push(json!({"name": "volume", "mountPath": VOLUME_AT})),
        }
        container["volumeMounts"] = Value::Array(mounts);
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": self.metadata(), "spec": {
            "containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": GRACE,
            "automountServiceAccountToken": false, "enableServiceLinks": false,
            "securityContext": {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [
                {"name": "repository", "secret": {"secretName": self.name, "defaultMode": 0o400}},
                {"name": "scratch", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}},
                {"name": "volume", "persistentVolumeClaim": {"claimName": claim.name}},
            ],
        }})
    }

    fn arguments(&self) -> Vec<String> {
        let Self { claim, settings, .. } = self;
        let mode = if claim.is_block { "Block" } else { "Filesystem" };
        vec![
            "data-mover".to_owned(),
            "fill".to_owned(),
            format!("--volume-path={VOLUME_AT}"),
            format!("--volume-mode={mode}"),
            format!("--bucket={}", settings.bucket),
            format!("--repository-namespace={}", claim.copy.namespace),
            format!("--snapshot={}", claim.copy.snapshot_id),
            format!("--password-file={SECRET_AT}/{PASSWORD}"),
        ]
    }
}

/// The type of pods.
pub(super) fn pods() -> ApiResource {
    ApiResource::new("", "v1", "pods", "Pod")
}

/// The type of Secrets.
pub(super) fn secrets() -> ApiResource {
    ApiResource::new("", "v1", "secrets", "Secret")
}

#[cfg(test)]
mod tests {
    use super::super::settings::SecretFiles;
    use super::*;
    use crate::restore_plan::RepositoryCopy;
    use std::time::Duration;

    #[test]
    fn a_mover_has_its_claim_and_secret_and_no_other_rights() {
        let mut restore = Restore::default();
        (restore.metadata.name, restore.metadata.uid) = ("back".to_owned(), "u-1".to_owned());
        let copy = RepositoryCopy { namespace: "shop".into(), snapshot_id: "k1".into() };
        let settings = MoverPodSettings {
            image: "example.io/lifeboat:1".to_owned(),
            bucket: "s3://b?region=r".to_owned(),
            files: SecretFiles([("password".to_owned(), b"secret".to_vec())].into()),
            ..MoverPodSettings::default()
        };
        let claim = ClaimToFill {
            namespace: "new",
            name: "data",
            uid: "c-1",
            is_block: false,
            copy: &copy,
            timeout: Duration::from_secs(60),
        };
        let objects = |claim: &ClaimToFill<'_>| {
            let objects = MoverObjects { name: "back-1", claim, restore: &restore, settings: &settings };
            (objects.secret(), objects.pod())
        };
        let (secret, pod) = objects(&claim);
        let metadata = json!({"name": "back-1", "namespace": "new",
            "labels": {"lifeboat.io/mover-of-restore": "back", "velero.io/restore-uid": "u-1"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "data", "uid": "c-1"}]});
        let expected = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": {"password": "c2VjcmV0"}});
        assert_eq!(secret, expected);
        assert_eq!(pod["metadata"], metadata);
        assert_eq!(
            pod["spec"]["containers"][0]["args"],
            json!([
                "data-mover",
                "fill",
                "--volume-path=/volume",
                "--volume-mode=Filesystem",
                "--bucket=s3://b?region=r",
                "--repository-namespace=shop",
                "--snapshot=k1",
                "--password-file=/repository/password"
            ])
        );
        assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
        assert!(!pod.to_string().contains("c2VjcmV0"));
        let (_, block) = objects(&ClaimToFill { is_block: true, ..claim });
        let container = &block["spec"]["containers"][0];
        assert_eq!(container["volumeDevices"], json!([{"name": "volume", "devicePath": "/volume"}]));
        assert!(container["volumeMounts"].as_array().unwrap().iter().all(|mount| mount["name"] != "volume"));
    }
}
