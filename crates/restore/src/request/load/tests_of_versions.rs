//! Loading of the version priorities of a restore.

use super::*;
use crate::actions::test_server::{FixedResponse, TestServer};
use jiff::Timestamp;
use lifeboat_action::Actions;
use lifeboat_api::Features;
use lifeboat_operation::Operation;
use lifeboat_store::Store;
use serde_json::json;
use std::sync::Arc;

/// Loads the version priorities from a server that has these answers. Returns them with the warnings.
async fn loaded(
    settings: Settings,
    answers: Vec<FixedResponse>,
) -> (Result<VersionPriorities, ValidationErrors>, Vec<String>) {
    let server = TestServer::start(answers).await;
    let env = Env {
        cluster: server.cluster.clone(),
        store: Store::in_memory(),
        actions: Actions::default(),
        operation: Operation::new(Arc::new(|| Timestamp::UNIX_EPOCH), "restore=velero/r", std::env::temp_dir()),
    };
    let mut restore = Restore::default();
    restore.metadata.namespace = "velero".to_owned();
    let loaded = version_priorities(&restore, &settings, &env).await;
    let warnings = env.operation.journal.close().results.warnings;
    (loaded, warnings.messages().map(str::to_owned).collect())
}

fn settings(text: Option<&str>, features: &str) -> Settings {
    let document = |text: &str| RulesText { source: "versions".to_owned(), text: text.to_owned() };
    let version_priorities = text.map(document);
    Settings { version_priorities, features: Features::parse(features), ..Settings::default() }
}

const FEATURE: &str = "EnableAPIGroupVersions";

#[tokio::test]
async fn versions_are_refused_where_they_would_not_count() {
    let (loaded, warnings) = loaded(settings(Some("a=v1"), ""), Vec::new()).await;
    let why = "the API versions in versions count only with the feature EnableAPIGroupVersions (--features): switch it on, or leave \
               them out";
    assert_eq!((loaded, warnings), (Err(ValidationErrors(vec![why.to_owned()])), vec![]));
}

#[tokio::test]
async fn a_line_of_versions_that_says_nothing_is_a_warning() {
    let text = "widgets.example.com=v1\nwidgets.example.com: v2\n";
    let expected = VersionPriorities::parse("widgets.example.com=v1").0;
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "enableapigroupversions"},
        "data": {"restoreResourcesVersionPriority": text}});
    let path = "/api/v1/namespaces/velero/configmaps/enableapigroupversions";
    for (text, answers, source) in [
        (Some(text), vec![], "versions"),
        (None, vec![FixedResponse::object(path, &config_map)], "ConfigMap velero/enableapigroupversions"),
    ] {
        let (loaded, warnings) = loaded(settings(text, FEATURE), answers).await;
        let warning = format!("line 2 of the API versions in {source} is passed over: it is not TYPE=VERSION,VERSION");
        assert_eq!((loaded, warnings), (Ok(expected.clone()), vec![warning]));
    }
}
