use super::*;
use crate::actions::test_server::{FixedResponse, TestServer};
use lifeboat_action::Actions;
use lifeboat_object::GroupResource;
use lifeboat_operation::Operation;
use lifeboat_store::Store;
use serde_json::{Value, json};
use std::sync::Arc;

const RULES: &str = "version: v1
resourceModifierRules: [{conditions: {groupResource: configmaps}, mergePatches: [{patchData: 'data: {a: b}'}]}]";

/// A cluster with these ConfigMaps in the namespace `velero`, by name with their data.
async fn with(config_maps: &[(&str, Value)]) -> (TestServer, Env) {
    let answer = |(name, data): &(&str, Value)| {
        let metadata = json!({"name": name, "namespace": "velero"});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        FixedResponse::object(format!("/api/v1/namespaces/velero/configmaps/{name}"), &object)
    };
    started(config_maps.iter().map(answer).collect()).await
}

async fn started(answers: Vec<FixedResponse>) -> (TestServer, Env) {
    let server = TestServer::start(answers).await;
    let clock = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
    let operation = Operation::new(clock, "restore=velero/r", std::env::temp_dir());
    let (cluster, store) = (server.cluster.clone(), Store::in_memory());
    (server, Env { cluster, store, actions: Actions::default(), operation })
}

fn restore(spec: Value) -> Restore {
    let mut restore = Restore::default();
    restore.metadata.namespace = "velero".to_owned();
    restore.spec = serde_json::from_value(spec).unwrap();
    restore
}

fn modifier(kind: &str, name: &str) -> Value {
    json!({"resourceModifier": {"kind": kind, "name": name}})
}

/// Loads modifiers. Returns true if they change anything, or the errors; and the warnings.
async fn modified(spec: Value, default: &str, env: &Env) -> (Result<bool, Vec<String>>, Vec<String>) {
    let settings = Settings { default_resource_modifiers: default.to_owned(), ..Settings::default() };
    let found = modifiers(&restore(spec), &settings, env).await;
    let found = found.map(|found| found.may_change(&GroupResource::new("", "configmaps"))).map_err(|e| e.0);
    let results = env.operation.journal.close().results;
    assert_eq!(results.errors.messages().count(), 0);
    (found, results.warnings.messages().map(str::to_owned).collect())
}

#[tokio::test]
async fn the_named_config_map_counts_then_the_default_one_unless_skipped() {
    let good = json!({"any": RULES});
    for (spec, default, expected, asked) in [
        (modifier("ConfigMap", "own"), "", true, Some("own")),
        (modifier("configmap", "own"), "default", true, Some("own")),
        (json!({}), "default", true, Some("default")),
        (json!({"skipDefaultResourceModifier": false}), "default", true, Some("default")),
        (json!({"skipDefaultResourceModifier": true}), "default", false, None),
        (json!({}), "", false, None),
    ] {
        let (server, env) = with(&[("own", good.clone()), ("default", good.clone())]).await;
        assert_eq!(modified(spec.clone(), default, &env).await, (Ok(expected), vec![]), "{spec} {default}");
        let asked = asked.map(|name| format!("/api/v1/namespaces/velero/configmaps/{name}"));
        assert_eq!(server.requests(), Vec::from_iter(asked), "{spec} {default}");
    }
}

#[tokio::test]
async fn modifiers_in_another_kind_are_ignored_and_disable_the_default_ones() {
    let (server, env) = with(&[("own", json!({"a": RULES})), ("default", json!({"a": RULES}))]).await;
    let told = "resource modifiers are in ConfigMaps only: the Secret own is not read, and nothing is modified";
    assert_eq!(modified(modifier("Secret", "own"), "default", &env).await, (Ok(false), vec![told.to_owned()]));
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn broken_modifiers_refuse_the_restore_but_broken_default_ones_only_warn() {
    let illegal = |count: usize| {
        format!(
            "Error in parsing resource modifiers provided in configmap velero/m: illegal resource modifiers velero/m configmap: it must \
             have exactly one key in its data, and has {count}"
        )
    };
    for (data, expected) in [
        (None, "failed to get resource modifiers configmap velero/m: there is no such ConfigMap".to_owned()),
        (Some(json!({})), illegal(0)),
        (Some(json!({"a": RULES, "b": RULES})), illegal(2)),
        (
            Some(json!({"a": "version: v2"})),
            "Validation error in resource modifiers provided in configmap velero/m: unsupported resource modifier version v2"
                .to_owned(),
        ),
    ] {
        let config_maps: Vec<_> = data.into_iter().map(|data| ("m", data)).collect();
        let (_server, env) = with(&config_maps).await;
        let found = modified(modifier("ConfigMap", "m"), "", &env).await;
        assert_eq!(found, (Err(vec![expected.clone()]), vec![]));
        let told = format!("the default resource modifiers are not used: {expected}");
        assert_eq!(modified(json!({}), "m", &env).await, (Ok(false), vec![told]));
    }
    let (_server, env) = with(&[("m", json!({"a": "rules: ["}))]).await;
    let (found, _) = modified(modifier("ConfigMap", "m"), "", &env).await;
    let begins = "Error in parsing resource modifiers provided in configmap velero/m: failed to decode yaml data into resource \
                  modifiers, err: ";
    assert!(found.clone().unwrap_err()[0].starts_with(begins), "{found:?}");
}

#[tokio::test]
async fn what_is_wrong_with_the_resource_policies_of_a_restore_refuses_it() {
    let policies = |kind: &str| restore(json!({"resourcePolicy": {"kind": kind, "name": "p"}}));
    let illegal = |count: usize| {
        format!(
            "fail to read the ResourcePolicies from ConfigMap velero/p: illegal resource policies velero/p configmap: it must have exactly \
             one key in its data, and has {count}"
        )
    };
    for (data, expected) in [
        (None, "fail to get ResourcePolicies velero/p ConfigMap: there is no such ConfigMap".to_owned()),
        (Some(json!({})), illegal(0)),
        (Some(json!({"a": "version: v1", "b": "version: v1"})), illegal(2)),
        (
            Some(json!({"a": "version: v1\nvolumePolicies: []"})),
            "fail to validate ResourcePolicies in ConfigMap velero/p: volumePolicies are not supported for restore (line 2)"
                .to_owned(),
        ),
    ] {
        let config_maps: Vec<_> = data.into_iter().map(|data| ("p", data)).collect();
        let (_server, env) = with(&config_maps).await;
        let found = super::policies(&policies("ConfigMap"), &Settings::default(), &env).await;
        assert_eq!(found.map(drop).unwrap_err(), ValidationErrors(vec![expected]));
    }
    let (_server, env) = with(&[("p", json!({"any": "version: v1"}))]).await;
    let found = |kind: &'static str| {
        let (restore, env) = (policies(kind), env.clone());
        async move { super::policies(&restore, &Settings::default(), &env).await.map(|found| found.is_some()) }
    };
    assert_eq!(found("CONFIGMAP").await, Ok(true));
    let wrong = "invalid ResourcePolicy kind \"Secret\", only \"configmap\" is supported";
    assert_eq!(found("Secret").await, Err(ValidationErrors(vec![wrong.to_owned()])));
}

#[tokio::test]
async fn unreadable_versions_refuse_the_restore_where_the_feature_is_on() {
    let path = "/api/v1/namespaces/velero/configmaps/enableapigroupversions";
    let (server, env) = started(vec![FixedResponse::status(path, 403, "Forbidden", "not yours")]).await;
    let mut settings = Settings::default();
    let restore = restore(json!({}));
    assert_eq!(version_priorities(&restore, &settings, &env).await, Ok(VersionPriorities::default()));
    assert_eq!(server.requests(), Vec::<String>::new());
    settings.features.api_group_versions = true;
    let ValidationErrors(errors) = version_priorities(&restore, &settings, &env).await.unwrap_err();
    let begins = "choosing API version to restore: ConfigMap velero/enableapigroupversions: ";
    assert!(errors.len() == 1 && errors[0].starts_with(begins) && errors[0].contains("not yours"), "{errors:?}");

    let data = json!({"restoreResourcesVersionPriority": "widgets.example.com=v2"});
    let (_server, env) = with(&[("enableapigroupversions", data)]).await;
    let expected = VersionPriorities::parse("widgets.example.com=v2").0;
    assert_eq!(version_priorities(&restore, &settings, &env).await, Ok(expected));
    let (_server, env) = with(&[]).await;
    assert_eq!(version_priorities(&restore, &settings, &env).await, Ok(VersionPriorities::default()));
}
