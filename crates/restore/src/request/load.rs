//! Loads the documents that a restore names (velero: internal/resourcepolicies, internal/resourcemodifiers).

use crate::request::modifier::{Modifiers, NotModifiers};
use crate::request::settings::{Settings, ValidationErrors};
use crate::state::env::Env;
use crate::walk::versions::VersionPriorities;
use lifeboat_api::Restore;
use lifeboat_cluster::{Cluster, ConfigMapError};
use lifeboat_object::ResultScope;
use lifeboat_select::{PolicyUse, ResourcePolicies, RulesText};

/// Loads the resource modifiers of a restore: those that it names, or the default ones of the server. An error in the
/// default ones is a warning, and the restore goes on without them.
///
/// # Errors
/// Returns the errors in the modifiers that the restore names.
pub(crate) async fn modifiers(
    restore: &Restore,
    settings: &Settings,
    env: &Env,
) -> Result<Modifiers, ValidationErrors> {
    let namespace = &restore.metadata.namespace;
    let spec = &restore.spec;
    match (&spec.resource_modifier, &settings.resource_modifiers) {
        (Some(_), Some(document)) => Err(ValidationErrors(vec![format!(
            "resource modifiers are given twice, as a ConfigMap and in {}: give one",
            document.source
        )])),
        (None, Some(RulesText { source, text })) => parsed(source, text).map_err(|e| ValidationErrors(vec![e])),
        (Some(reference), None) if reference.kind.eq_ignore_ascii_case("configmap") => {
            read(namespace, &reference.name, &env.cluster).await.map_err(|e| ValidationErrors(vec![e]))
        }
        (Some(reference), None) => {
            let text = format!(
                "resource modifiers are in ConfigMaps only: the {} {} is not read, and nothing is modified",
                reference.kind, reference.name
            );
            env.operation.journal.warn(&ResultScope::Velero, text);
            Ok(Modifiers::default())
        }
        (None, None) => {
            let default = &settings.default_resource_modifiers;
            if default.is_empty() || spec.skip_default_resource_modifier == Some(true) {
                return Ok(Modifiers::default());
            }
            Ok(read(namespace, default, &env.cluster).await.unwrap_or_else(|why| {
                env.operation
                    .journal
                    .warn(&ResultScope::Velero, format!("the default resource modifiers are not used: {why}"));
                Modifiers::default()
            }))
        }
    }
}

/// Checks the ConfigMap with the resource modifiers of restores that name none.
///
/// # Errors
/// Returns the error in the ConfigMap, with which no restore would be modified.
pub async fn check_modifiers(namespace: &str, name: &str, cluster: &Cluster) -> Result<(), String> {
    read(namespace, name, cluster).await.map(drop)
}

async fn read(namespace: &str, name: &str, cluster: &Cluster) -> Result<Modifiers, String> {
    let source = format!("configmap {namespace}/{name}");
    let text = cluster.config_map_text(namespace, name).await.map_err(|e| match e {
        ConfigMapError::NotOneKey(_) => {
            format!("Error in parsing resource modifiers provided in {source}: illegal resource modifiers {namespace}/{name} configmap: {e}")
        }
        _ => format!("failed to get resource modifiers {source}: {e}"),
    })?;
    parsed(&source, &text)
}

fn parsed(source: &str, text: &str) -> Result<Modifiers, String> {
    Modifiers::parse(text).map_err(|e| match e {
        NotModifiers::Undecoded(_) => format!("Error in parsing resource modifiers provided in {source}: {e}"),
        NotModifiers::Invalid(_) => format!("Validation error in resource modifiers provided in {source}: {e}"),
    })
}

/// The ConfigMap with the versions in which objects are restored, and its key
/// (velero: pkg/restore/prioritize_group_version.go).
const VERSIONS: (&str, &str) = ("enableapigroupversions", "restoreResourcesVersionPriority");

/// The versions in which the user wants objects to be restored, where the feature for it is on. A ConfigMap that cannot be read
/// is an error, because other versions than the wanted ones would be restored without it; one that is not there is none. Lines that
/// say nothing are warnings.
///
/// # Errors
/// Returns the reason why the ConfigMap cannot be read, or an error when versions are given while the feature is
/// off.
pub(crate) async fn version_priorities(
    restore: &Restore,
    settings: &Settings,
    env: &Env,
) -> Result<VersionPriorities, ValidationErrors> {
    let ((name, key), namespace) = (VERSIONS, &restore.metadata.namespace);
    let (source, text) = match (&settings.version_priorities, settings.features.api_group_versions) {
        (None, false) => return Ok(VersionPriorities::default()),
        (Some(RulesText { source, .. }), false) => {
            return Err(ValidationErrors(vec![format!(
                "the API versions in {source} count only with the feature EnableAPIGroupVersions (--features): switch it on, or leave \
                 them out"
            )]));
        }
        (Some(RulesText { source, text }), true) => (source.clone(), text.clone()),
        (None, true) => {
            let source = format!("ConfigMap {namespace}/{name}");
            let found = env.cluster.config_map_value(namespace, name, key).await;
            let text =
                found.map_err(|e| ValidationErrors(vec![format!("choosing API version to restore: {source}: {e}")]))?;
            (source, text.unwrap_or_default())
        }
    };
    let (priorities, passed_over) = VersionPriorities::parse(&text);
    for number in passed_over {
        let text =
            format!("line {number} of the API versions in {source} is passed over: it is not TYPE=VERSION,VERSION");
        env.operation.journal.warn(&ResultScope::Velero, text);
    }
    Ok(priorities)
}

/// The filter policies of a restore.
///
/// # Errors
/// Returns the errors in the policies.
pub(crate) async fn policies(
    restore: &Restore,
    settings: &Settings,
    env: &Env,
) -> Result<Option<ResourcePolicies>, ValidationErrors> {
    let found = match (&restore.spec.resource_policy, &settings.resource_policies) {
        (Some(_), Some(document)) => {
            let source = &document.source;
            Err(format!("resource policies are given twice, as a ConfigMap and in {source}: give one"))
        }
        (None, Some(RulesText { source, text })) => checked(source, text),
        (Some(reference), None) if reference.kind.eq_ignore_ascii_case("configmap") => {
            let (namespace, name) = (&restore.metadata.namespace, &reference.name);
            let source = format!("ConfigMap {namespace}/{name}");
            match env.cluster.config_map_text(namespace, name).await {
                Ok(text) => checked(&source, &text),
                Err(e @ ConfigMapError::NotOneKey(_)) => Err(format!(
                    "fail to read the ResourcePolicies from {source}: illegal resource policies {namespace}/{name} configmap: {e}"
                )),
                Err(e) => Err(format!("fail to get ResourcePolicies {namespace}/{name} ConfigMap: {e}")),
            }
        }
        (Some(reference), None) => {
            Err(format!("invalid ResourcePolicy kind {:?}, only \"configmap\" is supported", reference.kind))
        }
        (None, None) => return Ok(None),
    };
    found.map(Some).map_err(|why| ValidationErrors(vec![why]))
}

fn checked(source: &str, text: &str) -> Result<ResourcePolicies, String> {
    ResourcePolicies::parse(text, PolicyUse::Restore).map_err(|e| e.told(source, PolicyUse::Restore))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_versions;
