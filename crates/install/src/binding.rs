//! Replaces bindings: the role that a binding refers to cannot be changed, so the binding is made anew.

use crate::error::InstallError;
use crate::single::{address, apply};
use crate::step::{InstallStep, StepReporter};
use lifeboat_cluster::Cluster;
use serde_json::Value;

pub(crate) fn is_binding(object: &Value) -> bool {
    matches!(object["kind"].as_str(), Some("ClusterRoleBinding" | "RoleBinding"))
}

/// The role that a binding gives, by kind and name.
pub(crate) fn role(binding: &Value) -> String {
    let text = |field: &str| binding["roleRef"][field].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text("kind"), text("name"))
}

/// Applies the roles among `objects` that the bindings refer to, then deletes each binding and makes it anew. The bindings are
/// those that [`bindings_to_replace`](crate::bindings_to_replace) has found. It runs before the other objects are sent: when it
/// fails, the namespace is as it was, and the server that runs there can be started again.
///
/// Dropped after it has deleted a binding, and before it has made the new one, it leaves the server without rights until
/// the objects are sent.
///
/// # Errors
/// [`InstallError`] at the first binding that cannot be replaced.
pub async fn replace_bindings(
    cluster: &Cluster,
    bindings: &[&Value],
    objects: &[Value],
    tell: &mut StepReporter<'_>,
) -> Result<(), InstallError> {
    for wanted in bindings {
        let (resource, namespace, name) = address(wanted)?;
        let kind = resource.kind.as_str();
        tell(InstallStep::Replacing { kind, name, role: &role(wanted) }).map_err(InstallError::Tell)?;
        for role in objects.iter().filter(|object| is_role_of(object, wanted)) {
            apply(cluster, role).await?;
        }
        cluster.delete(&resource, namespace, name).await?;
        apply(cluster, wanted).await.map_err(|cause| InstallError::WithoutRights {
            binding: format!("{kind}/{name}"),
            cause: Box::new(cause),
        })?;
        tell(InstallStep::Replaced { kind, name }).map_err(InstallError::Tell)?;
    }
    Ok(())
}

fn is_role_of(object: &Value, binding: &Value) -> bool {
    object["kind"] == binding["roleRef"]["kind"] && object["metadata"]["name"] == binding["roleRef"]["name"]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::Installation;
    use crate::objects::objects;

    #[test]
    fn a_binding_finds_the_role_that_it_gives() {
        let all = objects(&Installation { namespace: "n".into(), least_privilege: true, ..Installation::default() });
        let roles = |kind: &str| -> Vec<String> {
            let binding = all.iter().find(|object| object["kind"] == kind).unwrap();
            let roles = all.iter().filter(|object| is_role_of(object, binding));
            let found = roles.map(|role| format!("{}/{}", role["kind"], role["metadata"]["name"]).replace('"', ""));
            found.chain([role(binding)]).collect()
        };
        assert_eq!(roles("ClusterRoleBinding"), ["ClusterRole/velero-n"; 2]);
        assert_eq!(roles("RoleBinding"), ["Role/velero"; 2]);
    }
}
