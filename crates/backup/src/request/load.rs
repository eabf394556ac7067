//! Loads the policies that a backup names (velero: internal/resourcepolicies).

use crate::env::Env;
use crate::request::settings::{Settings, ValidationErrors};
use crate::volumes::outcomes::ask_for_movers;
use lifeboat_api::Backup;
use lifeboat_cluster::{Cluster, ConfigMapError};
use lifeboat_object::ResultScope;
use lifeboat_select::{BackupFilter, PolicyUse, ResourcePolicies, RulesText};

/// The policies of a backup, followed by the policies for the volumes of all backups. A policy without effect is a
/// warning.
///
/// # Errors
/// [`ValidationErrors`] that say what is wrong with them.
pub(crate) async fn policies(
    backup: &Backup,
    settings: &Settings,
    env: &Env,
) -> Result<Option<ResourcePolicies>, ValidationErrors> {
    let own = own(backup, settings, env).await;
    let global = match settings.global_volume_policies.as_str() {
        "" => Ok(None),
        name => read(&backup.metadata.namespace, name, &env.cluster).await.map(Some),
    };
    let (mut own, global) = match (own, global) {
        (Ok(own), Ok(global)) => (own, global),
        (own, global) => {
            let global = global.err().map(|why| format!("the policies for all backups: {why}"));
            return Err(ValidationErrors(own.err().into_iter().chain(global).collect()));
        }
    };
    if let Some(conflict) = own.as_ref().and_then(|own| BackupFilter::conflict(&backup.spec, own)) {
        return Err(ValidationErrors(vec![conflict]));
    }
    let warn = |text: String| env.operation.journal.warn(&ResultScope::Velero, text);
    own.iter().chain(&global).flat_map(ResourcePolicies::warnings).cloned().for_each(warn);
    if let Some(global) = &global {
        own.get_or_insert_default().append_global(global).into_iter().for_each(warn);
    }
    Ok(own)
}

async fn own(backup: &Backup, settings: &Settings, env: &Env) -> Result<Option<ResourcePolicies>, String> {
    match (&backup.spec.resource_policy, &settings.resource_policies) {
        (Some(_), Some(document)) => {
            let source = &document.source;
            Err(format!("resource policies are given twice, as a ConfigMap and in {source}: give one"))
        }
        (None, Some(RulesText { source, text })) => parsed(source, text).map(Some),
        (Some(reference), None) if reference.kind.eq_ignore_ascii_case("configmap") => {
            read(&backup.metadata.namespace, &reference.name, &env.cluster).await.map(Some)
        }
        (Some(reference), None) => {
            // compat: Velero ignores it too, in silence.
            let (kind, name) = (&reference.kind, &reference.name);
            let text =
                format!("resource policies are in ConfigMaps only: the {kind} {name} is not read, and has no effect");
            env.operation.journal.warn(&ResultScope::Velero, text);
            Ok(None)
        }
        (None, None) => Ok(None),
    }
}

/// Checks a ConfigMap with resource policies of backups, such as that with the policies for the volumes of all of them; an empty name
/// is none.
///
/// # Errors
/// A message that says what is wrong with it: no backup that it counts for would be made.
pub async fn check_policies(namespace: &str, name: &str, cluster: &Cluster) -> Result<CheckedPolicies, String> {
    if name.is_empty() {
        return Ok(CheckedPolicies::default());
    }
    let policies = read(namespace, name, cluster).await?;
    Ok(CheckedPolicies { ask_for_movers: ask_for_movers(&policies) })
}

/// The properties of resource policies that can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckedPolicies {
    /// True when a rule asks for a mover of volume data, which needs a node agent: a backup that has a volume
    /// to which the rule applies is refused.
    pub ask_for_movers: bool,
}

async fn read(namespace: &str, name: &str, cluster: &Cluster) -> Result<ResourcePolicies, String> {
    let source = format!("ConfigMap {namespace}/{name}");
    let text = cluster.config_map_text(namespace, name).await.map_err(|e| match e {
        ConfigMapError::NotOneKey(_) => format!(
            "fail to read the ResourcePolicies from {source} with error illegal resource policies {namespace}/{name} configmap: {e}"
        ),
        ConfigMapError::Missing => {
            format!("fail to get ResourcePolicies {namespace}/{name} ConfigMap with error ConfigMap {name:?} not found")
        }
        ConfigMapError::Unread(_) => format!("fail to get ResourcePolicies {namespace}/{name} ConfigMap with error {e}"),
    })?;
    parsed(&source, &text)
}

fn parsed(source: &str, text: &str) -> Result<ResourcePolicies, String> {
    let parsed = ResourcePolicies::parse(text, PolicyUse::Backup);
    parsed.map(|policies| policies.from_source(source)).map_err(|e| e.told(source, PolicyUse::Backup))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{test_env, test_env_of};
    use lifeboat_testbed::scripted_api_server;
    use serde_json::json;
    use tokio::task::JoinSet;

    fn backup(kind: &str) -> Backup {
        let mut backup = Backup::default();
        backup.metadata.namespace = "velero".to_owned();
        let spec = json!({"resourcePolicy": {"kind": kind, "name": "p"}});
        backup.spec = serde_json::from_value(spec).unwrap();
        backup
    }

    #[tokio::test]
    async fn policies_outside_a_config_map_have_no_effect_which_is_a_warning() {
        // Nothing is asked of the cluster.
        let env = test_env().await;
        let found = policies(&backup("Secret"), &Settings::default(), &env).await.unwrap();
        assert!(found.is_none());
        let results = env.operation.journal.close().results;
        let warnings: Vec<&str> = results.warnings.messages().collect();
        let expected = "resource policies are in ConfigMaps only: the Secret p is not read, and has no effect";
        assert_eq!((warnings, results.errors.messages().count()), (vec![expected], 0));
    }

    #[tokio::test]
    async fn policies_for_all_backups_that_have_become_wrong_refuse_each_backup() {
        let config_map = |text: &str| {
            let object =
                json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "g"}, "data": {"a": text}});
            (200, object.to_string())
        };
        let good = "version: v1\nvolumePolicies: [{action: {type: skip}}]";
        let gone = json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"});
        let answers = vec![config_map(good), config_map("version: v2"), (404, gone.to_string())];
        let mut tasks = JoinSet::new();
        let kubeconfig = scripted_api_server(&mut tasks, answers).await.unwrap();
        let env = test_env_of(kubeconfig.path()).await;
        let settings = Settings { global_volume_policies: "g".to_owned(), ..Settings::default() };
        let mut backup = Backup::default();
        backup.metadata.namespace = "velero".to_owned();
        assert!(policies(&backup, &settings, &env).await.unwrap().is_some());
        for expected in [
            "the policies for all backups: fail to validate ResourcePolicies in ConfigMap velero/g with error incompatible version number \
             v2 with supported version v1",
            "the policies for all backups: fail to get ResourcePolicies velero/g ConfigMap with error ConfigMap \"g\" not found",
        ] {
            let refused = policies(&backup, &settings, &env).await.map(drop);
            assert_eq!(refused, Err(ValidationErrors(vec![expected.to_owned()])));
        }
    }
}
