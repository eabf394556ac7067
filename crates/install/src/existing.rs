//! Looks at the objects that are there already, before anything is changed.

use crate::binding::{is_binding, role};
use crate::differ::{fixed, is_workload};
use crate::error::InstallError;
use crate::installation::Installation;
use crate::objects::refusing_profile;
use crate::single::found;
use lifeboat_cluster::Cluster;
use serde_json::Value;

/// The treatment of an object that is there.
#[derive(Debug, PartialEq, Eq)]
enum ExistingTreatment {
    /// The object is sent as it is.
    Fine,
    /// Delete it and make it anew: the role that a binding refers to cannot be changed.
    Replace,
    /// Refuse the installation: the object cannot become the one that is asked for.
    Refuse(String),
}

/// Finds the bindings in the cluster that [`replace_bindings`](crate::replace_bindings) has to make anew, and refuses when an
/// object in the cluster stands in the way. `apply` says that the objects in the cluster are going to be changed.
///
/// It only reads, and may be dropped at any time.
///
/// # Errors
/// [`InstallError::InTheWay`] when an object cannot become the one that is asked for, and failures to read.
pub async fn bindings_to_replace<'a>(
    cluster: &Cluster,
    installation: &Installation,
    objects: &'a [Value],
    apply: bool,
) -> Result<Vec<&'a Value>, InstallError> {
    let mut replaced = Vec::new();
    for wanted in
        objects.iter().filter(|object| is_binding(object) || is_workload(object) || object["kind"] == "Namespace")
    {
        let Some(found) = found(cluster, wanted).await? else { continue };
        match verdict(&found, wanted, installation, apply) {
            ExistingTreatment::Fine => {}
            ExistingTreatment::Replace => replaced.push(wanted),
            ExistingTreatment::Refuse(why) => return Err(InstallError::InTheWay(why)),
        }
    }
    Ok(replaced)
}

fn verdict(found: &Value, wanted: &Value, installation: &Installation, apply: bool) -> ExistingTreatment {
    let kind = wanted["kind"].as_str().unwrap_or_default();
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
    if is_binding(wanted) && found["roleRef"] != wanted["roleRef"] {
        if apply {
            return ExistingTreatment::Replace;
        }
        // The other way round the server has less than it needs, which is told with all else that was left.
        if installation.least_privilege {
            return ExistingTreatment::Refuse(format!(
                "{kind} {name} gives the server {}, and it would keep these rights; with --apply it gets {}",
                role(found),
                role(wanted)
            ));
        }
    }
    if kind == "Namespace"
        && installation.has_node_agent()
        && !apply
        && let Some(profile) = refusing_profile(found)
    {
        return ExistingTreatment::Refuse(format!(
            "the namespace {name} holds its pods to the profile {profile}, and that refuses those of the node agent, which run as \
             root and see folders of their node; with --apply it gets the profile privileged"
        ));
    }
    match fixed(found, wanted).filter(|_| apply) {
        Some(differences) => ExistingTreatment::Refuse(format!(
            "{kind} {name} was not made by an installer of this kind ({differences}), and that cannot be changed; delete it \
             (kubectl delete {} {name} -n {}) and run the command again",
            kind.to_lowercase(),
            wanted["metadata"]["namespace"].as_str().unwrap_or_default()
        )),
        None => ExistingTreatment::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::objects;
    use serde_json::json;

    #[test]
    fn what_stands_in_the_way_is_found_first() {
        let installation =
            |least_privilege| Installation { namespace: "n".into(), least_privilege, ..Installation::default() };
        let of = |least_privilege, kind: &str| {
            objects(&installation(least_privilege)).into_iter().find(|object| object["kind"] == kind).unwrap()
        };
        let chart = json!({"kind": "Deployment", "spec": {"selector": {"matchLabels": {"name": "velero"}}}});
        let (plain, less) = (of(false, "ClusterRoleBinding"), of(true, "ClusterRoleBinding"));
        let own = of(true, "RoleBinding");
        let deployment = of(false, "Deployment");
        let (keep, change) = (false, true);
        let refuse = |why: &str| ExistingTreatment::Refuse(why.to_owned());
        for (least_privilege, apply, found, wanted, expected) in [
            (false, keep, &plain, &plain, ExistingTreatment::Fine),
            (false, change, &plain, &plain, ExistingTreatment::Fine),
            (true, keep, &less, &less, ExistingTreatment::Fine),
            (true, change, &plain, &less, ExistingTreatment::Replace),
            (false, change, &less, &plain, ExistingTreatment::Replace),
            (false, keep, &less, &plain, ExistingTreatment::Fine),
            (true, keep, &own, &own, ExistingTreatment::Fine),
            (true, change, &json!({"roleRef": {"name": "another"}}), &own, ExistingTreatment::Replace),
            (
                true,
                keep,
                &plain,
                &less,
                refuse(
                    "ClusterRoleBinding velero-n gives the server ClusterRole/cluster-admin, and it would keep these \
                     rights; with --apply it gets ClusterRole/velero-n",
                ),
            ),
            (false, change, &deployment, &deployment, ExistingTreatment::Fine),
            (false, keep, &chart, &deployment, ExistingTreatment::Fine),
            (
                false,
                change,
                &chart,
                &deployment,
                refuse(
                    "Deployment velero was not made by an installer of this kind (no selector.matchLabels.deploy), and \
                     that cannot be changed; delete it (kubectl delete deployment velero -n n) and run the command again",
                ),
            ),
        ] {
            let given = verdict(found, wanted, &installation(least_privilege), apply);
            assert_eq!(given, expected, "{least_privilege} {apply}: {found}");
        }
    }

    #[test]
    fn a_node_agent_is_refused_where_its_pods_would_be() {
        let namespace = |profile: &str| json!({"kind": "Namespace", "metadata": {"labels": {"pod-security.kubernetes.io/enforce": profile}}});
        let told = |profile: &str, node_agent, apply| {
            let installation = Installation { namespace: "n".into(), node_agent, ..Installation::default() };
            verdict(&namespace(profile), &objects(&installation)[0], &installation, apply)
        };
        let refused = |profile: &str| {
            ExistingTreatment::Refuse(format!(
                "the namespace n holds its pods to the profile {profile}, and that refuses those of the node agent, which run \
                 as root and see folders of their node; with --apply it gets the profile privileged"
            ))
        };
        assert_eq!(told("restricted", true, false), refused("restricted"));
        assert_eq!(told("baseline", true, false), refused("baseline"));
        for (profile, node_agent, apply) in
            [("restricted", true, true), ("restricted", false, false), ("privileged", true, false), ("", true, false)]
        {
            assert_eq!(told(profile, node_agent, apply), ExistingTreatment::Fine, "{profile} {node_agent} {apply}");
        }
    }
}
