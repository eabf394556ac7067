//! Tests of the actions of plugins as engines see them.

use crate::bed::{Bed, journal};
use crate::object::{backup, pod, restore};
use lifeboat_action::{
    ActionError, ActionScope, Actions, BackupItemInput, BackupItemOutput, OperationProgress, RestoreItemInput,
    RestoreItemOutput,
};
use lifeboat_object::{GroupResource, ObjectKey};
use serde_json::json;
use std::time::Duration;

/// All kinds of actions, in both versions.
const ALL: &str = "BackupItemAction=a.io/old BackupItemActionV2=a.io/new RestoreItemAction=a.io/old RestoreItemActionV2=a.io/new \
                   DeleteItemAction=a.io/a ItemBlockAction=a.io/a";

async fn of(bed: &Bed) -> Actions {
    bed.discover().await.unwrap().actions(&journal("b")).await.unwrap()
}

fn deployment(name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new("apps", "deployments"), Some("shop"), name)
}

fn far() -> OperationProgress {
    OperationProgress {
        n_completed: 3,
        n_total: 7,
        operation_units: "Bytes".to_owned(),
        description: "o1".to_owned(),
        updated: Some("2026-06-21T00:00:00Z".parse().unwrap()),
        ..OperationProgress::default()
    }
}

#[tokio::test]
async fn a_backup_item_action_v1_is_one_of_version_2_without_operations() {
    let bed = Bed::new().with("p", ALL, "");
    let actions = of(&bed).await;
    let [old, new] = &actions.backup_item[..] else { panic!("{actions:?}") };
    assert_eq!((old.name(), new.name()), ("a.io/old", "a.io/new"));

    let nightly = backup();
    let input = || BackupItemInput { item: pod("change=yes"), backup: &nightly };
    let mut changed = pod("change=yes");
    changed["metadata"]["labels"]["changed"] = "yes".into();
    let expected = BackupItemOutput { additional_items: vec![deployment("web")], ..BackupItemOutput::changed(changed) };
    assert_eq!(old.execute(input()).await.unwrap(), expected);
    let expected = BackupItemOutput {
        operation_id: "operation of Backup nightly".to_owned(),
        post_operation_items: vec![deployment("later")],
        ..expected
    };
    assert_eq!(new.execute(input()).await.unwrap(), expected);
    let unchanged = new.execute(BackupItemInput { item: pod("none"), backup: &backup() }).await.unwrap();
    assert_eq!((unchanged.is_changed, unchanged.item), (false, pod("none")));
    // The same object, written in another way.
    let same = new.execute(BackupItemInput { item: pod("sleep=1"), backup: &backup() }).await.unwrap();
    assert!(!same.is_changed);

    let none = ActionError::item("Plugin does not support asynchronous operations");
    assert_eq!(old.progress("o1", &backup()).await, Err(none));
    assert_eq!(old.cancel("o1", &backup()).await, Ok(()));
    assert_eq!(new.progress("o1", &backup()).await, Ok(far()));
    assert_eq!(new.progress("silent", &backup()).await, Ok(OperationProgress::default()));
    bed.forget();
    assert_eq!(new.cancel("o1", &backup()).await, Ok(()));
    assert_eq!(bed.diary(), ["Cancel BackupItemActionV2 a.io/new o1"]);
}

#[tokio::test]
async fn a_restore_item_action_v1_is_one_of_version_2_without_operations() {
    let bed = Bed::new().with("p", ALL, "");
    let actions = of(&bed).await;
    let [old, new] = &actions.restore_item[..] else { panic!("{actions:?}") };
    let mut from_backup = pod("");
    from_backup["metadata"]["name"] = "as-it-was".into();
    let again = restore();
    let input = |order: &str| RestoreItemInput { item: pod(order), item_from_backup: &from_backup, restore: &again };
    let mut changed = pod("change=yes");
    changed["metadata"]["labels"]["changed"] = "yes".into();
    let expected = RestoreItemOutput { additional_items: vec![deployment("web")], ..RestoreItemOutput::with(changed) };
    assert_eq!(old.execute(input("change=yes")).await.unwrap(), expected);
    bed.forget();
    let expected = RestoreItemOutput {
        wait_for_additional_items: Some(Duration::new(90, 5)),
        operation_id: "operation of Restore again".to_owned(),
        ..expected
    };
    assert_eq!(new.execute(input("change=yes")).await.unwrap(), expected);
    assert_eq!(bed.diary(), ["Execute RestoreItemActionV2 a.io/new", "in the backup: \"as-it-was\""]);
    assert!(old.execute(input("skip-it")).await.unwrap().skip);
    // It restores the object itself, and is not done yet.
    let skipped = new.execute(input("skip-it")).await.unwrap();
    assert_eq!((skipped.skip, skipped.operation_id.as_str()), (true, "operation of Restore again"));

    let none = ActionError::item("Plugin does not support asynchronous operations");
    assert_eq!(old.progress("o1", &restore()).await, Err(none));
    assert_eq!(old.cancel("o1", &restore()).await, Ok(()));
    assert_eq!(old.are_additional_items_ready(&[deployment("web")], &restore()).await, Ok(true));
    assert_eq!(new.progress("o1", &restore()).await, Ok(far()));
    assert_eq!(new.are_additional_items_ready(&[deployment("web")], &restore()).await, Ok(false));
    assert_eq!(new.are_additional_items_ready(&[deployment("ready")], &restore()).await, Ok(true));
    bed.forget();
    assert_eq!(new.cancel("o1", &restore()).await, Ok(()));
    assert_eq!(bed.diary(), ["Cancel RestoreItemActionV2 a.io/new o1"]);
}

#[tokio::test]
async fn delete_and_item_block_actions_are_called() {
    let bed = Bed::new().with("p", ALL, "");
    let actions = of(&bed).await;
    let (delete, block) = (&actions.delete_item[0], &actions.item_block[0]);
    assert_eq!((delete.name(), block.name()), ("a.io/a", "a.io/a"));
    assert_eq!(delete.execute(&pod("none"), &backup()).await, Ok(()));
    let failed = Err(ActionError::item("rpc error: code = Unknown desc = no luck"));
    assert_eq!(delete.execute(&pod("fail=no luck"), &backup()).await, failed);
    assert_eq!(block.related_items(&pod("none"), &backup()).await, Ok(vec![deployment("web")]));
}

#[tokio::test]
async fn actions_are_asked_for_their_scope_once_an_operation_in_order() {
    let bed = Bed::new()
        .with("a", "BackupItemAction=a.io/1 BackupItemAction=a.io/both BackupItemActionV2=a.io/both", "")
        .with("b", "RestoreItemAction=b.io/everything ObjectStore=b.io/s", "")
        .with("c", "ObjectStore=c.io/s", "");
    let host = bed.discover().await.unwrap();
    bed.forget();
    let actions = host.actions(&journal("b")).await.unwrap();
    let asked = ["BackupItemAction a.io/1", "BackupItemActionV2 a.io/both", "RestoreItemAction b.io/everything"]
        .map(|action| format!("AppliesTo {action}"));
    assert_eq!((bed.diary(), bed.started().len()), (asked.to_vec(), 2));
    let scope = ActionScope {
        included_resources: vec!["pods".to_owned()],
        excluded_resources: vec!["secrets".to_owned()],
        included_namespaces: vec!["shop".to_owned()],
        excluded_namespaces: vec!["kube-*".to_owned()],
        label_selector: "asked-by=a.io-both".to_owned(),
    };
    let names: Vec<&str> = actions.backup_item.iter().map(|action| action.name()).collect();
    assert_eq!(names, ["a.io/1", "a.io/both"]);
    assert_eq!(actions.backup_item[1].applies_to(), scope);
    assert_eq!(actions.restore_item[0].applies_to(), ActionScope::default());

    bed.forget();
    host.actions(&journal("c")).await.unwrap();
    assert_eq!((bed.diary(), bed.started().len()), (asked.to_vec(), 0), "the processes are the same");
}

#[tokio::test]
async fn an_operation_does_not_begin_without_an_action() {
    let bed = Bed::new().with("p", "BackupItemAction=a.io/a", "applies-badly");
    let error = bed.discover().await.unwrap().actions(&journal("b")).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the BackupItemAction a.io/a does not say what it applies to: rpc error: code = Unknown desc = it cannot say"
    );
    let bed = Bed::new().with("p", "BackupItemAction=a.io/a", "");
    let host = bed.discover().await.unwrap();
    std::fs::remove_file(bed.program("p")).unwrap();
    let error = host.actions(&journal("b")).await.unwrap_err().to_string();
    let program = bed.program("p");
    assert!(error.starts_with(&format!("the plugin {} cannot be started: No such file", program.display())), "{error}");
}

#[tokio::test]
async fn an_answer_that_is_no_object_is_an_error_of_the_object() {
    let bed = Bed::new().with("p", ALL, "");
    let actions = of(&bed).await;
    for (order, why) in [("nothing", "nothing at all"), ("no-kind", "it has no kind")] {
        let answer = actions.backup_item[0].execute(BackupItemInput { item: pod(order), backup: &backup() }).await;
        let expected = format!("the plugin a.io/old has answered what is no object: {why}");
        assert_eq!(answer, Err(ActionError::item(expected)));
        let input =
            RestoreItemInput { item: pod(order), item_from_backup: &json!({"metadata": {}}), restore: &restore() };
        let answer = actions.restore_item[1].execute(input).await;
        let expected = format!("the plugin a.io/new has answered what is no object: {why}");
        assert_eq!(answer, Err(ActionError::item(expected)));
    }
}

#[tokio::test]
async fn numbers_of_objects_keep_their_digits() {
    let bed = Bed::new().with("p", ALL, "");
    let actions = of(&bed).await;
    let mut item = pod("change=yes");
    item["spec"] = serde_json::from_str(r#"{"a":1,"b":9007199254740993,"c":0.10,"d":18446744073709551615}"#).unwrap();
    let answer =
        actions.backup_item[0].execute(BackupItemInput { item: item.clone(), backup: &backup() }).await.unwrap();
    assert_eq!(answer.item["spec"].to_string(), item["spec"].to_string());
}
