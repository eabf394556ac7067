//! What stands in the way when something is there already: what is found out before anything is changed, and what is
//! removed so that an apply can do its work.

use super::apply::{FIELD_MANAGER, address, found};
use super::differ::fixed;
use super::flags::InstallArgs;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use lifeboat_cluster::{Cluster, PatchKind};
use serde_json::{Value, json};
use std::io::Write;

/// What is to be done about an object that is there.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Nothing, before its turn comes.
    Fine,
    /// It is made anew: nobody can change to whose rights a binding refers.
    Replace,
    /// It cannot become what is asked for, so nothing at all is changed.
    Refuse(String),
}

/// Looks at all that is there and refuses before anything is changed; gives the bindings that have to be replaced.
pub(super) async fn look<'a>(cluster: &Cluster, objects: &'a [Value], args: &InstallArgs) -> Result<Vec<&'a Value>> {
    let mut replaced = Vec::new();
    for wanted in objects.iter().filter(|object| is_binding(object) || object["kind"] == "Deployment") {
        let Some(found) = found(cluster, wanted).await? else { continue };
        match verdict(&found, wanted, args) {
            Verdict::Fine => {}
            Verdict::Replace => replaced.push(wanted),
            Verdict::Refuse(why) => bail!("nothing was changed: {why}"),
        }
    }
    Ok(replaced)
}

fn verdict(found: &Value, wanted: &Value, args: &InstallArgs) -> Verdict {
    let kind = wanted["kind"].as_str().unwrap_or_default();
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
    if is_binding(wanted) && found["roleRef"] != wanted["roleRef"] {
        if args.apply {
            return Verdict::Replace;
        }
        // The other way round the server has less than it needs, which is told with all else that was left.
        if args.least_privilege {
            return Verdict::Refuse(format!(
                "{kind} {name} gives the server {}, and it would keep these rights; with --apply it gets {}",
                role(found),
                role(wanted)
            ));
        }
    }
    match fixed(found, wanted).filter(|_| args.apply) {
        Some(differences) => Verdict::Refuse(format!(
            "{kind} {name} was not made by an installer of this kind ({differences}), and that cannot be changed; delete it \
             (kubectl delete {} {name} -n {}) and run the command again",
            kind.to_lowercase(),
            wanted["metadata"]["namespace"].as_str().unwrap_or_default()
        )),
        None => Verdict::Fine,
    }
}

fn is_binding(object: &Value) -> bool {
    matches!(object["kind"].as_str(), Some("ClusterRoleBinding" | "RoleBinding"))
}

/// The rights that a binding gives.
fn role(binding: &Value) -> String {
    let text = |field: &str| binding["roleRef"][field].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text("kind"), text("name"))
}

/// Deletes bindings and makes them anew, after the roles that they refer to. Before all else: when this fails, the
/// namespace is as it was, and the server that runs in it can be started again.
pub(super) async fn replace(cluster: &Cluster, bindings: &[&Value], objects: &[Value]) -> Result<()> {
    let mut out = std::io::stdout();
    for wanted in bindings {
        let (resource, namespace, name) = address(wanted)?;
        let title = format!("{}/{name}", resource.kind);
        writeln!(out, "{title}: attempting to replace resource, for it to refer to {}", role(wanted))?;
        for role in objects.iter().filter(|object| is_role_of(object, wanted)) {
            apply(cluster, role).await?;
        }
        cluster.delete(&resource, namespace, name).await?;
        apply(cluster, wanted).await.with_context(|| {
            format!("{title} was deleted and could not be made anew, so that the server is without rights")
        })?;
        writeln!(out, "{title}: replaced")?;
    }
    Ok(())
}

fn is_role_of(object: &Value, binding: &Value) -> bool {
    object["kind"] == binding["roleRef"]["kind"] && object["metadata"]["name"] == binding["roleRef"]["name"]
}

async fn apply(cluster: &Cluster, object: &Value) -> Result<()> {
    let (resource, namespace, name) = address(object)?;
    let body = Bytes::from(object.to_string());
    cluster.apply(&resource, namespace, name, body, FIELD_MANAGER).await?;
    Ok(())
}

/// Removes what stands against an object that is to be applied, where an apply would not: it removes no field of somebody
/// else's.
pub(super) async fn clear(cluster: &Cluster, object: &Value, restricted: bool) -> Result<()> {
    if object["kind"] != "Deployment" {
        return Ok(());
    }
    let Some(found) = found(cluster, object).await? else { return Ok(()) };
    if let Some(patch) = cleared(&found, object, restricted) {
        let (resource, namespace, name) = address(object)?;
        let patch = Bytes::from(patch.to_string());
        cluster.patch(&resource, namespace, name, None, PatchKind::Merge, patch).await?;
    }
    Ok(())
}

/// The merge patch that makes way for a Deployment, when one is needed.
fn cleared(found: &Value, deployment: &Value, restricted: bool) -> Option<Value> {
    let mut patch = json!({});
    // Bounds for rolling updates, which the API server puts into what Velero installs.
    let strategy = &deployment["spec"]["strategy"]["type"];
    if strategy == "Recreate" && !found["spec"]["strategy"]["rollingUpdate"].is_null() {
        patch["spec"]["strategy"] = json!({"type": strategy, "rollingUpdate": null});
    }
    // Plugins that Velero has installed: a restricted namespace would refuse their containers, and the whole pod with them.
    let containers = |deployment: &Value| deployment["spec"]["template"]["spec"]["initContainers"].clone();
    let (there, wanted) = (containers(found), containers(deployment));
    let is_wanted =
        |container: &&Value| wanted.as_array().into_iter().flatten().any(|wanted| wanted["name"] == container["name"]);
    let there = there.as_array().map(Vec::as_slice).unwrap_or_default();
    let kept: Vec<&Value> = there.iter().filter(is_wanted).collect();
    if restricted && kept.len() < there.len() {
        patch["spec"]["template"]["spec"]["initContainers"] = json!(kept);
    }
    (patch != json!({})).then_some(patch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::objects::{Plan, objects};
    use crate::install::tests::parse;

    #[test]
    fn what_stands_in_the_way_is_found_first() {
        let all = |flags: &str| {
            let args = parse(flags);
            objects(&Plan { args: &args, namespace: "n", secret: None, authority: None })
        };
        let of = |flags: &str, kind: &str| all(flags).into_iter().find(|object| object["kind"] == kind).unwrap();
        let chart = json!({"kind": "Deployment", "spec": {"selector": {"matchLabels": {"name": "velero"}}}});
        let (plain, less) = (of("", "ClusterRoleBinding"), of("--least-privilege", "ClusterRoleBinding"));
        let own = of("--least-privilege", "RoleBinding");
        let deployment = of("", "Deployment");
        let refuse = |why: &str| Verdict::Refuse(why.to_owned());
        for (flags, found, wanted, expected) in [
            ("", &plain, &plain, Verdict::Fine),
            ("--apply", &plain, &plain, Verdict::Fine),
            ("--least-privilege", &less, &less, Verdict::Fine),
            ("--least-privilege --apply", &plain, &less, Verdict::Replace),
            ("--apply", &less, &plain, Verdict::Replace),
            ("", &less, &plain, Verdict::Fine),
            ("--least-privilege", &own, &own, Verdict::Fine),
            ("--least-privilege --apply", &json!({"roleRef": {"name": "another"}}), &own, Verdict::Replace),
            (
                "--least-privilege",
                &plain,
                &less,
                refuse(
                    "ClusterRoleBinding velero-n gives the server ClusterRole/cluster-admin, and it would keep these \
                     rights; with --apply it gets ClusterRole/velero-n",
                ),
            ),
            ("--apply", &deployment, &deployment, Verdict::Fine),
            ("", &chart, &deployment, Verdict::Fine),
            (
                "--apply",
                &chart,
                &deployment,
                refuse(
                    "Deployment velero was not made by an installer of this kind (no selector.matchLabels.deploy), and \
                     that cannot be changed; delete it (kubectl delete deployment velero -n n) and run the command again",
                ),
            ),
        ] {
            assert_eq!(verdict(found, wanted, &parse(flags)), expected, "{flags}: {found}");
        }
        let all = all("--least-privilege");
        let roles: Vec<_> = all.iter().filter(|object| is_role_of(object, &less)).map(|o| o["kind"].clone()).collect();
        assert_eq!(roles, ["ClusterRole"]);
        assert_eq!(
            (role(&own), all.iter().filter(|object| is_role_of(object, &own)).count()),
            ("Role/velero".into(), 1)
        );
    }

    #[test]
    fn bounds_of_rolling_updates_make_way() {
        let deployment = |strategy: Value| json!({"spec": {"strategy": strategy}});
        let bounds = json!({"maxSurge": "25%"});
        let rolling = deployment(json!({"type": "RollingUpdate", "rollingUpdate": bounds}));
        let recreate = deployment(json!({"type": "Recreate"}));
        assert_eq!(
            cleared(&rolling, &recreate, false),
            Some(json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}}))
        );
        assert_eq!(cleared(&recreate, &recreate, false), None);
        assert_eq!(cleared(&rolling, &deployment(json!({"type": "RollingUpdate"})), false), None);
    }

    #[test]
    fn plugins_that_a_restricted_namespace_refuses_make_way() {
        let deployment = |names: &[&str]| {
            let containers: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"spec": {"strategy": {"type": "Recreate"}, "template": {"spec": {"initContainers": containers}}}})
        };
        let patch = |names: &[&str]| {
            let containers: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"spec": {"template": {"spec": {"initContainers": containers}}}})
        };
        let none = json!({"spec": {"strategy": {"type": "Recreate"}}});
        assert_eq!(cleared(&deployment(&["a", "b"]), &deployment(&["b"]), true), Some(patch(&["b"])));
        assert_eq!(cleared(&deployment(&["a"]), &none, true), Some(patch(&[])));
        assert_eq!(cleared(&deployment(&["a"]), &none, false), None);
        assert_eq!(cleared(&deployment(&["a"]), &deployment(&["a", "b"]), true), None);
        assert_eq!(cleared(&none, &none, true), None);
    }
}
