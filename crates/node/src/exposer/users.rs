//! The pods that use the volume of a transfer: as which user they do that, and where they may run. Pure, but for the list of pods.

use crate::config::MoverSecurity;
use crate::exposer::common::Exposer;
use crate::exposer::error::ExposeError;
use crate::exposer::mover_user::MoverUser;
use crate::kube::text;
use crate::resources;
use lifeboat_api::well_known::LABEL_READER_OF_BACKUP;
use lifeboat_volume::facts::claim_of_volume;
use serde_json::Value;

impl Exposer<'_> {
    /// The pods that mount a claim, by name; none is asked for where nothing depends on them.
    pub(super) async fn pods_of_claim(&self, namespace: &str, claim: &str) -> Result<Vec<Value>, ExposeError> {
        let mut pods = self.kube.list(resources::pods(), Some(namespace), "", "").await?;
        // A reader pod only holds the claim: neither its user nor its node says anything about the volume.
        pods.retain(|pod| {
            volume_name_of_claim(pod, claim).is_some() && pod["metadata"]["labels"][LABEL_READER_OF_BACKUP].is_null()
        });
        pods.sort_by(|a, b| text(a, &["metadata", "name"]).cmp(text(b, &["metadata", "name"])));
        Ok(pods)
    }

    /// The user as which the mover of a claim runs, by the pods that mount it; `None` for user 0. Of a restore they may come later.
    pub(super) fn user_of_claim(
        &self,
        [namespace, claim]: [&str; 2],
        pods: &[Value],
        is_backup: bool,
    ) -> Result<Option<MoverUser>, ExposeError> {
        let pods: Vec<(&Value, &str)> =
            pods.iter().filter_map(|pod| Some((pod, volume_name_of_claim(pod, claim)?))).collect();
        let refused = |why| if is_backup { ExposeError::Refused(why) } else { ExposeError::Waits(why) };
        self.mover_user(&format!("the claim {namespace}/{claim}"), &pods).map_err(refused)
    }

    /// The user as which the mover of a volume runs, by the pods that have the volume under these names; `None` for user 0.
    ///
    /// # Errors
    /// Nothing says it, for people.
    pub(super) fn mover_user(&self, what: &str, pods: &[(&Value, &str)]) -> Result<Option<MoverUser>, String> {
        let security = self.config.security;
        if !security.is_restricted {
            return Ok(None);
        }
        let found = pods.iter().find_map(|(pod, volume)| user_of(pod, volume));
        let why = || {
            format!(
                "movers.podSecurity is restricted, and nothing says as which user the mover of {what} runs: no pod that mounts it has a \
                 runAsUser other than 0; set movers.runAsUser in the ConfigMap of the node agent"
            )
        };
        chosen(security, found).map(Some).ok_or_else(why)
    }
}

/// The user of the configuration, or else the one that was found.
fn chosen(security: MoverSecurity, found: Option<MoverUser>) -> Option<MoverUser> {
    match (security.user, found) {
        (Some(user), found) => {
            let group = security.group.unwrap_or(user);
            let groups = found.map(|found| [vec![found.group], found.groups].concat()).unwrap_or_default();
            Some(MoverUser { user, group, groups: groups.into_iter().filter(|other| *other != group).collect() })
        }
        (None, Some(found)) => Some(MoverUser { group: security.group.unwrap_or(found.group), ..found }),
        (None, None) => None,
    }
}

/// The name of the volume by which a pod has a claim.
pub(super) fn volume_name_of_claim<'a>(pod: &'a Value, claim: &str) -> Option<&'a str> {
    let (name, volumes) = (text(pod, &["metadata", "name"]), pod["spec"]["volumes"].as_array()?);
    let mut volumes = volumes.iter();
    let found = volumes.find(|volume| claim_of_volume(name, volume).as_deref() == Some(claim))?;
    Some(text(found, &["name"]))
}

/// The user as which a pod uses one of its volumes, where it says so and is not user 0.
fn user_of(pod: &Value, volume: &str) -> Option<MoverUser> {
    if !pod["metadata"]["labels"][LABEL_READER_OF_BACKUP].is_null() {
        return None;
    }
    let of_pod = &pod["spec"]["securityContext"];
    let containers = pod["spec"]["containers"].as_array()?;
    let mounts = |container: &&Value| {
        let mounts = ["volumeMounts", "volumeDevices"].map(|field| container[field].as_array());
        mounts.into_iter().flatten().flatten().any(|mount| mount["name"] == volume)
    };
    let first = containers.iter().find(mounts)?;
    let id = |field: &str| first["securityContext"][field].as_i64().or_else(|| of_pod[field].as_i64());
    let user = id("runAsUser").filter(|user| *user > 0)?;
    let fs_group = of_pod["fsGroup"].as_i64();
    let group = fs_group.or_else(|| id("runAsGroup")).unwrap_or(user);
    let more = of_pod["supplementalGroups"].as_array().into_iter().flatten().filter_map(Value::as_i64);
    let mut groups: Vec<i64> = id("runAsGroup").into_iter().chain(more).filter(|other| *other != group).collect();
    groups.dedup();
    Some(MoverUser { user, group, groups })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(of_pod: Value, of_container: Value) -> Value {
        json!({"metadata": {"name": "db-0"}, "spec": {
            "securityContext": of_pod,
            "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "own", "ephemeral": {}}],
            "containers": [
                {"name": "other", "securityContext": {"runAsUser": 7}},
                {"name": "db", "volumeMounts": [{"name": "d"}], "securityContext": of_container},
            ],
        }})
    }

    #[test]
    fn a_volume_is_owned_by_the_user_of_the_container_that_mounts_it() {
        let user = |user, group, groups: &[i64]| Some(MoverUser { user, group, groups: groups.to_vec() });
        for (of_pod, of_container, expected) in [
            (json!({}), json!({}), None),
            (json!({"runAsUser": 0}), json!({}), None),
            (json!({"runAsUser": 70}), json!({"runAsUser": 0}), None),
            (json!({"runAsUser": 70}), json!({}), user(70, 70, &[])),
            (json!({"runAsUser": 70, "runAsGroup": 71}), json!({"runAsUser": 80}), user(80, 71, &[])),
            (
                json!({"runAsUser": 70, "runAsGroup": 71, "fsGroup": 72, "supplementalGroups": [73]}),
                json!({}),
                user(70, 72, &[71, 73]),
            ),
        ] {
            assert_eq!(user_of(&pod(of_pod.clone(), of_container.clone()), "d"), expected, "{of_pod} {of_container}");
        }
        let of = pod(json!({}), json!({}));
        assert_eq!(
            ["data", "db-0-own", "other"].map(|claim| volume_name_of_claim(&of, claim)),
            [Some("d"), Some("own"), None]
        );
    }

    #[test]
    fn the_configuration_goes_before_what_pods_say() {
        let found = MoverUser { user: 70, group: 72, groups: vec![71] };
        let security = |user, group| MoverSecurity { is_restricted: true, user, group, has_own_users: false };
        let user = |user, group, groups: &[i64]| Some(MoverUser { user, group, groups: groups.to_vec() });
        assert_eq!(chosen(security(None, None), None), None);
        assert_eq!(chosen(security(None, None), Some(found.clone())), Some(found.clone()));
        assert_eq!(chosen(security(None, Some(9)), Some(found.clone())), user(70, 9, &[71]));
        assert_eq!(chosen(security(Some(8), None), None), user(8, 8, &[]));
        assert_eq!(chosen(security(Some(8), Some(72)), Some(found)), user(8, 72, &[71]));
    }
}
