//! Treatment of an object whose action fails.

use super::*;
use crate::stub::{Scripted, config_map, key};
use jiff::Timestamp;
use lifeboat_action::ActionScope;
use lifeboat_operation::Operation;
use std::path::PathBuf;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Applies an action that fails with these errors, of which the last is repeated. Returns the object, the number of
/// calls, and the seconds.
async fn applied(errors: Vec<Option<ActionError>>) -> (Result<Value, String>, usize, u64) {
    let begun = Instant::now();
    let action = Arc::new(Scripted::new(move |item, before| match &errors[before.min(errors.len() - 1)] {
        Some(error) => Err(error.clone()),
        None => Ok(RestoreItemOutput::with(item)),
    }));
    let applied = applied_by(&action).await.map(|applied| applied.item);
    let applied = applied.map_err(|e| match e {
        PrepareError::Failed(why) | PrepareError::ForNow(why) => why,
        PrepareError::Fatal(why) => format!("fatal: {why}"),
        PrepareError::Stopped => "stopped".to_owned(),
    });
    (applied, action.asked().len(), begun.elapsed().as_secs())
}

async fn applied_by(action: &Arc<Scripted>) -> Result<Applied, PrepareError> {
    let restore = Arc::new(Restore::default());
    let operation = Operation::new(Arc::new(|| Timestamp::UNIX_EPOCH), "restore=velero/r", PathBuf::new());
    let operations = Operations::new(Arc::clone(&restore), &operation);
    let stop = Arc::new(Stop::with(&CancellationToken::new()));
    let scope = ObjectScope::resolve(ScopeText::default(), &Catalog::default()).unwrap();
    let all = vec![Resolved { action: Arc::clone(action) as _, scope }];
    let actions = Actions { all, restore, stop };
    let object = config_map("a");
    actions.apply(&key("configmaps", "a"), object.clone(), &object, ActionSelection::All(&operations)).await
}

#[tokio::test(start_paused = true)]
async fn an_action_is_retried_and_its_last_error_is_reported_for_the_object() {
    let (passing, gone) = (ActionError::passing("busy"), ActionError::gone("killed"));
    let error = |why: &str| Err(format!("error preparing configmaps/shop/a: the action test/scripted failed: {why}"));
    let object = || Ok(config_map("a"));
    assert_eq!(applied(vec![None]).await, (object(), 1, 0));
    assert_eq!(applied(vec![Some(passing.clone()), None]).await, (object(), 2, 1));
    let again = "busy; it was asked again for a minute: run the restore again when the reason is gone";
    assert_eq!(applied(vec![Some(passing)]).await, (error(again), 8, 60));
    assert_eq!(applied(vec![Some(ActionError::item("odd"))]).await, (error("odd"), 1, 0));
    assert_eq!(applied(vec![Some(gone.clone()), None]).await, (object(), 2, 1));
    assert_eq!(applied(vec![Some(gone)]).await, (error("killed; it was started anew and asked once more"), 2, 1));
    let ends = "fatal: the action test/scripted says that none of its calls can succeed, asked about configmaps/shop/a: no licence";
    assert_eq!(applied(vec![Some(ActionError::fatal("no licence"))]).await, (Err(ends.to_owned()), 1, 0));
}

#[tokio::test]
async fn an_action_that_panics_is_an_error_of_the_object() {
    let action = Arc::new(Scripted::new(|_, _| panic!("at the {}", "disco")));
    let Err(PrepareError::Failed(why)) = applied_by(&action).await else { panic!("it failed") };
    let expected = "error preparing configmaps/shop/a: the action test/scripted failed: it panicked: at the disco";
    assert_eq!(why, expected);
}

#[test]
fn the_annotation_of_an_answer_is_taken_off_whatever_it_says() {
    let annotation = well_known::ANNOTATION_RESTORE_MUST_INCLUDE;
    for (value, more, expected) in [("true", false, true), ("false", false, false), ("true", true, true)] {
        let mut item = config_map("a");
        item["metadata"]["annotations"][annotation] = value.into();
        let mut left = config_map("a");
        if more {
            item["metadata"]["annotations"]["mine"] = "x".into();
            left["metadata"]["annotations"]["mine"] = "x".into();
        }
        assert_eq!((take_must_include(&mut item), item), (expected, left));
    }
    let mut odd = Value::from("text");
    assert!(!take_must_include(&mut odd) && !take_must_include(&mut config_map("a")));
}

/// Applies actions of these scopes to an object in the namespace `copy` of the cluster; each adds a label. Returns the
/// labels.
async fn labels_by(scopes: Vec<ActionScope>, key: &ObjectKey, object: Value) -> Vec<String> {
    let types = [("configmaps", "ConfigMap", true), ("persistentvolumes", "PersistentVolume", false)];
    let types = types.map(|(name, kind, namespaced)| {
        Arc::new(lifeboat_object::ApiResource { namespaced, ..lifeboat_object::ApiResource::new("", "v1", name, kind) })
    });
    let catalog = Catalog::new(types.into(), vec![]);
    let restore = Arc::new(Restore::default());
    let labelling = |(number, scope): (usize, ActionScope)| -> Arc<dyn RestoreItemAction> {
        let action = Scripted::new(move |mut item, _| {
            item["metadata"]["labels"][format!("by-{number}")] = "x".into();
            Ok(RestoreItemOutput::with(item))
        });
        Arc::new(action.scoped(scope))
    };
    let actions = scopes.into_iter().enumerate().map(labelling).collect();
    let stop = Arc::new(Stop::with(&CancellationToken::new()));
    let operation = Operation::new(Arc::new(|| Timestamp::UNIX_EPOCH), "restore=velero/r", PathBuf::new());
    let operations = Operations::new(Arc::clone(&restore), &operation);
    let actions = Actions::resolve(actions, &catalog, restore, stop).unwrap();
    let applied = actions.apply(key, object.clone(), &object, ActionSelection::All(&operations)).await.unwrap();
    labels(&applied.item).into_keys().collect()
}

#[tokio::test]
async fn selectors_of_actions_see_the_object_as_earlier_actions_left_it() {
    let selecting = |selector: &str| ActionScope { label_selector: selector.to_owned(), ..ActionScope::default() };
    let scopes = ["", "by-0", "!by-0", "by-3", "by-1=x"].map(selecting);
    let labels = labels_by(scopes.into(), &key("configmaps", "a"), config_map("a")).await;
    assert_eq!(labels, ["by-0", "by-1", "by-4"]);
}

#[tokio::test]
async fn the_namespaces_of_an_action_are_tested_on_the_one_in_the_cluster() {
    let namespaces = |included: &[&str], excluded: &[&str]| ActionScope {
        included_namespaces: included.iter().map(|one| (*one).to_owned()).collect(),
        excluded_namespaces: excluded.iter().map(|one| (*one).to_owned()).collect(),
        ..ActionScope::default()
    };
    let scopes = || {
        vec![
            namespaces(&["copy"], &[]),
            namespaces(&["shop"], &[]),
            namespaces(&[], &["copy"]),
            namespaces(&[], &["shop"]),
        ]
    };
    let target = ObjectKey { namespace: Some("copy".to_owned()), ..key("configmaps", "a") };
    // The object is in the namespace of the backup still.
    assert_eq!(labels_by(scopes(), &target, config_map("a")).await, ["by-0", "by-3"]);
    let volume = ObjectKey { namespace: None, ..key("persistentvolumes", "v") };
    let object = serde_json::json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}});
    let all = [scopes(), vec![ActionScope::default()]].concat();
    // An action that is limited to namespaces is for none of them.
    assert_eq!(labels_by(all, &volume, object).await, ["by-4"]);
}
