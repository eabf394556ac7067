//! The pod of a mover, and its Secret. Pure.

use super::killed::MOST_ATTEMPTS;
use super::rights::{GRACE_SECONDS, RESTORE_CAPABILITIES, container_security};
use super::settings::{ClaimToFill, MoverPodSettings};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use lifeboat_api::well_known::{
    ANNOTATION_MOVER_DEADLINE, LABEL_MOVER_OF_RESTORE, LABEL_RESTORE_UID, SCRATCH_FOLDER, VARIABLE_SCRATCH,
};
use lifeboat_api::{Restore, Time, label_value};
use lifeboat_object::ApiResource;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The program in the image.
const PROGRAM: &str = "/velero";
/// The folder in which a mover has the files of its Secret.
pub const SECRET_AT: &str = "/repository";
/// The file of the Secret with the password of the repository.
pub const PASSWORD: &str = "password";
/// The volume that is filled, as the pod has it.
const VOLUME_AT: &str = "/volume";
/// The objects of one mover.
pub(super) struct MoverObjects<'a> {
    /// The name of both.
    pub(super) name: &'a str,
    pub(super) claim: &'a ClaimToFill<'a>,
    pub(super) restore: &'a Restore,
    pub(super) settings: &'a MoverPodSettings,
}

impl MoverObjects<'_> {
    fn metadata(&self, [kind, name, uid]: [&str; 3]) -> Value {
        let (claim, restore) = (self.claim, &self.restore.metadata);
        json!({
            "name": self.name, "namespace": claim.namespace,
            "labels": {LABEL_MOVER_OF_RESTORE: label_value(&restore.name), LABEL_RESTORE_UID: restore.uid},
            "annotations": {ANNOTATION_MOVER_DEADLINE: self.deadline().to_string()},
            "ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}],
        })
    }

    /// The longest time of one pod. The kubelet ends it then, also where nobody looks at it any more.
    fn longest_run(&self) -> Duration {
        self.settings.start_timeout + self.claim.timeout
    }

    /// The time after which the restore has given up all pods of the claim.
    fn deadline(&self) -> Time {
        let attempts = u32::try_from(MOST_ATTEMPTS).unwrap_or(u32::MAX);
        let longest = SignedDuration::try_from(self.longest_run().saturating_mul(attempts));
        let longest = longest.unwrap_or(SignedDuration::MAX);
        Time::new(self.claim.now.saturating_add(longest).unwrap_or(self.claim.now))
    }

    /// The Secret with the password of the repository, and the credentials of the bucket. It goes with the pod of this UID.
    pub(super) fn secret(&self, pod_uid: &str) -> Value {
        let files = self.settings.files.0.iter().map(|(name, bytes)| (name.clone(), STANDARD.encode(bytes).into()));
        let data: Map<String, Value> = files.collect();
        let metadata = self.metadata(["Pod", self.name, pod_uid]);
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data})
    }

    /// The pod.
    pub(super) fn pod(&self) -> Value {
        let Self { claim, settings, .. } = self;
        let mut container = json!({
            "name": "mover", "image": settings.image, "command": [PROGRAM], "args": self.arguments(),
            "env": [{"name": VARIABLE_SCRATCH, "value": SCRATCH_FOLDER}],
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": container_security(&RESTORE_CAPABILITIES),
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
        let metadata = self.metadata(["PersistentVolumeClaim", claim.name, claim.uid]);
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {
            "containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": GRACE_SECONDS,
            "activeDeadlineSeconds": self.longest_run().as_secs().max(1),
            "automountServiceAccountToken": false, "enableServiceLinks": false,
            "securityContext": {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [
                {"name": "repository", "secret": {"secretName": self.name, "defaultMode": 0o400}},
                {"name": "scratch", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}},
                {"name": "volume", "persistentVolumeClaim": {"claimName": claim.name}},
            ],
        }});
        claim.placement.set(&mut pod["spec"]);
        pod
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
pub(crate) fn pods() -> ApiResource {
    ApiResource::new("", "v1", "pods", "Pod")
}

/// The type of Secrets.
pub(super) fn secrets() -> ApiResource {
    ApiResource::new("", "v1", "secrets", "Secret")
}

#[cfg(test)]
mod tests {
    use super::super::placement::MoverPlacement;
    use super::super::settings::SecretFiles;
    use super::*;
    use crate::restore_plan::RepositoryCopy;

    #[test]
    fn a_mover_has_its_claim_and_secret_and_no_other_rights() {
        let mut restore = Restore::default();
        (restore.metadata.name, restore.metadata.uid) = ("back".to_owned(), "u-1".to_owned());
        let copy = RepositoryCopy { namespace: "shop".into(), snapshot_id: "k1".into() };
        let settings = MoverPodSettings {
            image: "example.io/lifeboat:1".to_owned(),
            bucket: "s3://b?region=r".to_owned(),
            start_timeout: Duration::from_secs(40),
            files: SecretFiles([("password".to_owned(), b"secret".to_vec())].into()),
        };
        let claim = ClaimToFill {
            namespace: "new",
            name: "data",
            uid: "c-1",
            is_block: false,
            copy: &copy,
            timeout: Duration::from_secs(60),
            placement: &MoverPlacement::of_pod(&json!({"spec": {"nodeSelector": {"disk": "fast"}}})),
            now: "2026-11-28T12:00:00Z".parse().unwrap(),
        };
        let objects = |claim: &ClaimToFill<'_>| {
            let objects = MoverObjects { name: "back-1", claim, restore: &restore, settings: &settings };
            (objects.secret("p-1"), objects.pod())
        };
        let (secret, pod) = objects(&claim);
        let metadata = |owner: Value| {
            json!({"name": "back-1", "namespace": "new", "ownerReferences": [owner],
                "labels": {"lifeboat.io/mover-of-restore": "back", "velero.io/restore-uid": "u-1"},
                "annotations": {"lifeboat.io/mover-deadline": "2026-11-28T12:05:00Z"}})
        };
        let owner =
            |kind: &str, name: &str, uid: &str| json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid});
        let expected = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata(owner("Pod", "back-1", "p-1")),
            "data": {"password": "c2VjcmV0"}});
        assert_eq!(secret, expected);
        assert_eq!(pod["metadata"], metadata(owner("PersistentVolumeClaim", "data", "c-1")));
        assert_eq!(
            pod["spec"]["containers"][0]["securityContext"],
            json!({
                "allowPrivilegeEscalation": false, "privileged": false, "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "MKNOD"]},
            })
        );
        let limits = ["activeDeadlineSeconds", "terminationGracePeriodSeconds", "nodeSelector"];
        assert_eq!(limits.map(|field| pod["spec"][field].clone()), [json!(100), json!(1), json!({"disk": "fast"})]);
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
