//! The exchange between engine and actions, from the lists to the entries of the archive.

use super::fixture::{
    ScriptedOutput, WalkCase, WalkResult, case, failed, key, list, name, not_found, object, read, scripted, status,
};
use async_trait::async_trait;
use lifeboat_action::{ActionError, ActionScope, BackupItemAction, BackupItemInput, BackupItemOutput, ItemBlockAction};
use lifeboat_api::{Backup, OperationPhase, OperationStatus};
use lifeboat_archive::operations::{BackupOperation, BackupOperationSpec};
use lifeboat_object::ObjectKey;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Three things: what `test/scripted` says of the second one, and what comes of it.
#[tokio::test(start_paused = true)]
async fn an_error_of_an_action_is_that_of_its_kind() {
    let things = ["things/x", "things/y", "things/z"];
    let all = WalkResult { saved: list(&things), ..WalkResult::default() };
    let without = |why: &str| WalkResult {
        saved: list(&["things/x", "things/z"]),
        errors: vec![failed("things/y", &format!("test/scripted: {why}"))],
        ..WalkResult::default()
    };
    let refused =
        WalkResult { refusal: Some(format!("test/scripted {}: no licence", key("things/y"))), ..WalkResult::default() };
    type Says = fn(usize) -> Result<(), ActionError>;
    let table: Vec<(&str, Says, WalkResult)> = vec![
        ("none", |_| Ok(()), all),
        (
            "one that passes",
            |before| if before < 3 { Err(ActionError::passing("busy")) } else { Ok(()) },
            WalkResult { saved: list(&things), ..WalkResult::default() },
        ),
        ("one that could pass and does not", |_| Err(ActionError::passing("busy")), without("busy")),
        ("one of the object", |_| Err(ActionError::item("odd")), without("odd")),
        ("one that ends the operation", |_| Err(ActionError::fatal("no licence")), refused),
        (
            "a process that is started again",
            |before| if before == 0 { Err(ActionError::gone("killed")) } else { Ok(()) },
            WalkResult { saved: list(&things), ..WalkResult::default() },
        ),
        ("a process that always ends", |_| Err(ActionError::gone("killed")), without("killed")),
        ("a panic", |_| panic!("at the {}", "disco"), without("it panicked: at the disco")),
    ];
    for (what, says, expected) in table {
        let action = scripted(&["things.example.com"], move |object, before| {
            let said = if name(&object) == "y" { says(before) } else { Ok(()) };
            said.map(|()| BackupItemOutput::unchanged(object))
        });
        let (mut seen, bodies) = case(vec![action]).walk(&things.map(|id| (id, json!({})))).await;
        if seen.refusal.is_some() {
            // What was saved until then is not in any backup.
            seen.saved.clear();
        }
        assert_eq!(seen, expected, "{what}");
        for (id, body) in bodies {
            let (_, name) = id.split_once('/').unwrap();
            let sent = object(name, json!({})).to_string();
            let expected = format!(r#"{{"apiVersion":"example.com/v1","kind":"Thing",{}"#, &sent[1..]);
            assert_eq!(body, expected, "the bytes that the API server has sent");
        }
    }
}

#[tokio::test]
async fn an_action_sees_earlier_changes_but_is_chosen_by_the_listed_object() {
    let first = scripted(&["things.example.com"], |mut object, _| {
        object["metadata"]["labels"] = json!({"quiet": "yes"});
        Ok(BackupItemOutput::changed(object))
    });
    let second = scripted(&["things.example.com"], |mut object, _| {
        object["spec"]["seen"] = object["metadata"]["labels"]["quiet"].clone();
        Ok(BackupItemOutput::changed(object))
    });
    let third = scripted(&["parts.example.com"], |_, _| Err(ActionError::item("it is not for this one")));
    let (seen, bodies) = case(vec![first, second, third]).walk(&[("things/x", json!({}))]).await;
    assert_eq!(seen, WalkResult { saved: list(&["things/x"]), ..WalkResult::default() });
    let expected = r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"annotations":{},"labels":{"quiet":"yes"},"name":"x","namespace":"a"},"spec":{"n":1.5,"seen":"yes"}}"#;
    assert_eq!(bodies["things/x"], expected);
}

#[tokio::test]
async fn an_answer_that_is_no_object_is_an_error_of_the_object() {
    let action = scripted(&["things.example.com"], |object, _| {
        Ok(BackupItemOutput::changed(if name(&object) == "x" { Value::Null } else { object }))
    });
    let (seen, _) = case(vec![action]).walk(&[("things/x", json!({})), ("things/y", json!({}))]).await;
    let error = failed("things/x", "test/scripted answered with no object");
    assert_eq!(seen, WalkResult { saved: list(&["things/y"]), errors: vec![error], ..WalkResult::default() });
}

#[tokio::test]
async fn an_action_leaves_an_object_out_and_no_further_one_is_called() {
    let skips = scripted(&["things.example.com"], |mut object, _| {
        if name(&object) == "x" {
            object["metadata"]["annotations"]["velero.io/skip-from-backup"] = "".into();
        }
        let additional_items = vec![key("things/y")];
        Ok(BackupItemOutput { additional_items, ..BackupItemOutput::changed(object) })
    });
    let further = scripted(&["things.example.com"], |object, _| match name(&object) {
        "x" => Err(ActionError::item("it was called")),
        _ => Ok(BackupItemOutput::unchanged(object)),
    });
    let (seen, _) = case(vec![skips, further]).walk(&[("things/x", json!({})), ("things/y", json!({}))]).await;
    let why = "1 things.example.com: an action leaves it out (annotation velero.io/skip-from-backup)";
    assert_eq!(seen, WalkResult { saved: list(&["things/y"]), left_out: list(&[why]), ..WalkResult::default() });
}

/// Names the objects in the annotation `names` as additional items.
fn names_others() -> Arc<dyn BackupItemAction> {
    scripted(&["things.example.com", "parts.example.com"], |object, _| {
        if object["metadata"]["annotations"]["fails"] == "yes" {
            return Err(ActionError::item("odd"));
        }
        let names = object["metadata"]["annotations"]["names"].as_str().unwrap_or_default().to_owned();
        let additional_items = names.split(' ').filter(|id| !id.is_empty()).map(key).collect();
        Ok(BackupItemOutput { additional_items, ..BackupItemOutput::unchanged(object) })
    })
}

#[tokio::test]
async fn additional_items_come_before_their_object_which_fails_with_them() {
    let plain = || json!({});
    let names = |names: &str| json!({"names": names});
    let child_failed = |id: &str| format!("{}, which test/scripted saves with it, failed", key(id));
    let ok = |saved: &[&str]| WalkResult { saved: list(saved), ..WalkResult::default() };
    type Objects = Vec<(&'static str, Value)>;
    type Answers = Vec<(u16, String)>;
    let table: Vec<(&str, Objects, Answers, WalkResult)> = vec![
        (
            "they come with the lists, and have further ones",
            vec![("things/x", names("parts/p")), ("parts/q", plain()), ("parts/p", names("parts/q"))],
            vec![],
            ok(&["parts/q", "parts/p", "things/x"]),
        ),
        (
            "one is of a type that no action looks at",
            vec![("things/x", names("plains/o")), ("plains/o", plain())],
            vec![],
            ok(&["plains/o", "things/x"]),
        ),
        (
            "one did not come with the lists",
            vec![("things/x", names("parts/p"))],
            vec![read("Part", "p", json!({}))],
            ok(&["parts/p", "things/x"]),
        ),
        (
            "one of a type that no action looks at did not come with the lists",
            vec![("things/x", names("plains/o"))],
            vec![read("Plain", "o", json!({}))],
            ok(&["things/x", "plains/o"]),
        ),
        (
            "they name each other",
            vec![("things/x", names("parts/p")), ("parts/p", names("things/x"))],
            vec![],
            ok(&["parts/p", "things/x"]),
        ),
        ("one names itself", vec![("things/x", names("things/x"))], vec![], ok(&["things/x"])),
        (
            "there is no such object",
            vec![("things/x", names("parts/p"))],
            vec![status(404)],
            WalkResult { warnings: vec![not_found("parts/p", "things/x")], ..ok(&["things/x"]) },
        ),
        (
            "there is no such object, of a type that no action looks at",
            vec![("things/x", names("plains/o"))],
            vec![status(404)],
            WalkResult { warnings: vec![not_found("plains/o", "things/x")], ..ok(&["things/x"]) },
        ),
        (
            "the cluster has no such type",
            vec![("things/x", names("unheard/o"))],
            vec![],
            WalkResult { warnings: vec![not_found("unheard/o", "things/x")], ..ok(&["things/x"]) },
        ),
        (
            "one fails, and with it all that need it; the others go on",
            vec![
                ("things/x", names("parts/p")),
                ("things/y", names("things/x")),
                ("things/z", plain()),
                ("parts/p", json!({"fails": "yes"})),
            ],
            vec![],
            WalkResult {
                errors: vec![
                    failed("parts/p", "test/scripted: odd"),
                    failed("things/x", &child_failed("parts/p")),
                    failed("things/y", &child_failed("things/x")),
                ],
                ..ok(&["things/z"])
            },
        ),
        (
            "one may not be read",
            vec![("things/x", names("parts/p")), ("things/y", plain())],
            vec![status(403)],
            WalkResult {
                errors: vec![
                    " resource: /parts.example.com name: /p message: /Error getting related items error: /cannot get parts.example.com/a/p: HTTP 403"
                        .to_owned(),
                    failed("things/x", &child_failed("parts/p")),
                ],
                ..ok(&["things/y"])
            },
        ),
        (
            "one is labelled",
            vec![("things/x", names("parts/p"))],
            vec![read("Part", "p", json!({"velero.io/exclude-from-backup": "true"}))],
            WalkResult {
                left_out: list(&["1 parts.example.com: labelled velero.io/exclude-from-backup=true"]),
                ..ok(&["things/x"])
            },
        ),
    ];
    for (what, objects, answers, expected) in table {
        let (mut seen, _) = WalkCase { answers, ..case(vec![names_others()]) }.walk(&objects).await;
        if what == "one is of a type that no action looks at" {
            // The lanes do not wait for each other.
            seen.saved.sort();
        }
        assert_eq!(seen, expected, "{what}");
    }
}

#[tokio::test]
async fn additional_items_end_sixty_four_deep() {
    let names: Vec<String> = (0..70).map(|n| format!("things/t{n:02}")).collect();
    let objects = |count: usize| -> Vec<(&str, Value)> {
        let next = |n: usize| if n + 1 < count { names[n + 1].clone() } else { String::new() };
        (0..count).map(|n| (names[n].as_str(), json!({"names": next(n)}))).collect()
    };
    let (seen, _) = case(vec![names_others()]).walk(&objects(65)).await;
    let expected = names[..65].iter().rev().cloned().collect();
    assert_eq!(seen, WalkResult { saved: expected, ..WalkResult::default() });

    let (seen, _) = case(vec![names_others()]).walk(&objects(70)).await;
    let why = "it is an additional item of an additional item, and so on, 64 deep, and has further ones";
    assert_eq!((seen.errors.len(), &seen.errors[0]), (65, &failed("things/t64", why)));
    assert_eq!(seen.saved, names[65..].iter().rev().cloned().collect::<Vec<_>>(), "the others have their own turns");
}

#[tokio::test]
async fn what_an_action_must_have_is_saved_whatever_the_filters_say() {
    let must = "backup.velero.io/must-include-additional-items";
    let action = || {
        scripted(&["things.example.com", "parts.example.com"], move |mut object, _| {
            if name(&object) != "x" {
                return Ok(BackupItemOutput::unchanged(object));
            }
            object["metadata"]["annotations"][must] = "true".into();
            let additional_items = vec![key("parts/p"), key("plains/o")];
            Ok(BackupItemOutput { additional_items, ..BackupItemOutput::changed(object) })
        })
    };
    let label = || json!({"velero.io/exclude-from-backup": "true"});
    let answers = vec![read("Part", "p", label()), read("Plain", "o", label())];
    let (seen, bodies) =
        WalkCase { answers, ..case(vec![action()]) }.walk(&[("things/x", json!({"other": "1"}))]).await;
    assert_eq!(seen, WalkResult { saved: list(&["parts/p", "things/x", "plains/o"]), ..WalkResult::default() });
    let saved: Value = serde_json::from_str(&bodies["things/x"]).unwrap();
    assert_eq!(saved["metadata"]["annotations"], json!({"other": "1"}), "what was said to the engine is not saved");

    let deleting = |kind: &str, name: &str| {
        let metadata = json!({"name": name, "namespace": "a", "deletionTimestamp": "2026-11-21T07:33:54Z"});
        (200, json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": metadata}).to_string())
    };
    let answers = vec![deleting("Part", "p"), deleting("Plain", "o")];
    let (seen, _) = WalkCase { answers, ..case(vec![action()]) }.walk(&[("things/x", json!({}))]).await;
    let left_out = list(&["1 parts.example.com: it is being deleted", "1 plains.example.com: it is being deleted"]);
    let warnings = list(&[
        "2 objects were being deleted when the backup looked at them, and are not in it: parts.example.com/a/p, \
                           plains.example.com/a/o",
    ]);
    assert_eq!(seen, WalkResult { saved: list(&["things/x"]), warnings, left_out, ..WalkResult::default() });
}

#[tokio::test]
async fn operations_are_recorded_with_their_objects() {
    let action = scripted(&["things.example.com"], |object, _| {
        let operation_id = if name(&object) == "x" { "op-1" } else { "" }.to_owned();
        let post_operation_items = vec![key("parts/p")];
        Ok(BackupItemOutput { operation_id, post_operation_items, ..BackupItemOutput::unchanged(object) })
    });
    let (seen, _) = case(vec![action]).walk(&[("things/x", json!({})), ("things/y", json!({}))]).await;
    let operation = BackupOperation {
        spec: BackupOperationSpec {
            backup_name: String::new(),
            backup_uid: String::new(),
            backup_item_action: "test/scripted".to_owned(),
            resource_identifier: (&key("things/x")).into(),
            operation_id: "op-1".to_owned(),
            post_operation_items: Some(vec![(&key("parts/p")).into()]),
        },
        status: OperationStatus {
            phase: Some(OperationPhase::New),
            created: Some(lifeboat_api::Time::new(jiff::Timestamp::UNIX_EPOCH)),
            ..OperationStatus::default()
        },
    };
    assert_eq!(
        seen,
        WalkResult { saved: list(&["things/x", "things/y"]), operations: vec![operation], ..WalkResult::default() }
    );
}

/// Waits in one object until all the others were called.
struct Patient {
    others: Notify,
    called: Mutex<BTreeSet<String>>,
}

#[async_trait]
impl BackupItemAction for Patient {
    fn name(&self) -> &str {
        "test/patient"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["things.example.com"])
    }

    async fn execute(&self, input: BackupItemInput<'_>) -> ScriptedOutput {
        if name(&input.item) == "x" {
            self.others.notified().await;
        } else {
            let mut called = self.called.lock().unwrap();
            called.insert(name(&input.item).to_owned());
            if called.len() == 50 {
                self.others.notify_one();
            }
        }
        Ok(BackupItemOutput::unchanged(input.item))
    }
}

#[tokio::test]
async fn an_object_that_waits_for_its_action_holds_up_no_other() {
    let patient: Arc<dyn BackupItemAction> = Arc::new(Patient { others: Notify::new(), called: Mutex::default() });
    let ids: Vec<String> = (0..50).map(|n| format!("things/t{n}")).collect();
    let mut objects = vec![("things/x", json!({}))];
    objects.extend(ids.iter().map(|id| (id.as_str(), json!({}))));
    let (mut seen, _) = WalkCase { workers: 2, ..case(vec![patient]) }.walk(&objects).await;
    let mut expected: Vec<String> = objects.iter().map(|(id, _)| (*id).to_owned()).collect();
    expected.sort();
    seen.saved.sort();
    assert_eq!(seen, WalkResult { saved: expected, ..WalkResult::default() });
}

/// Never answers, and is cancelled as soon as it is asked.
struct Silent(CancellationToken);

#[async_trait]
impl BackupItemAction for Silent {
    fn name(&self) -> &str {
        "test/silent"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["things.example.com"])
    }

    async fn execute(&self, _: BackupItemInput<'_>) -> ScriptedOutput {
        self.0.cancel();
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_cancel_ends_the_wait_for_an_action() {
    let cancel = CancellationToken::new();
    let silent: Arc<dyn BackupItemAction> = Arc::new(Silent(cancel.clone()));
    let objects = ["things/x", "things/y"].map(|id| (id, json!({})));
    let (seen, _) = WalkCase { cancel, ..case(vec![silent]) }.walk(&objects).await;
    assert_eq!(seen, WalkResult { refusal: Some("no action".to_owned()), ..WalkResult::default() });
}

/// Says of `x` what belongs to it, and fails for `y`.
struct Relates;

#[async_trait]
impl ItemBlockAction for Relates {
    fn name(&self) -> &str {
        "test/relates"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["things.example.com"])
    }

    async fn related_items(&self, item: &Value, _: &Backup) -> Result<Vec<ObjectKey>, ActionError> {
        match name(item) {
            "x" => Ok(vec![key("parts/p"), key("things/gone"), key("plains/o")]),
            "y" => Err(ActionError::item("odd")),
            _ => Ok(Vec::new()),
        }
    }
}

#[tokio::test]
async fn what_belongs_into_a_block_is_fetched_and_an_error_of_that_is_told() {
    let nothing = scripted(&["parts.example.com"], |object, _| Ok(BackupItemOutput::unchanged(object)));
    let mut case = case(vec![nothing]);
    case.actions.item_block = vec![Arc::new(Relates)];
    // In the order of their keys: part, thing, and in the end what no action looks at.
    case.answers = vec![read("Part", "p", json!({})), status(404), read("Plain", "o", json!({}))];
    let (seen, _) = case.walk(&[("things/y", json!({})), ("things/x", json!({}))]).await;
    let error =
        " resource: /things.example.com name: /y message: /Error getting related items error: /test/relates: odd";
    let expected = WalkResult {
        saved: list(&["things/y", "things/x", "parts/p", "plains/o"]),
        errors: list(&[error]),
        warnings: vec![not_found("things/gone", "things/x")],
        ..WalkResult::default()
    };
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn what_memory_has_no_room_for_waits_on_disk_or_is_read_again() {
    let objects = ["things/x", "things/y", "things/z"].map(|id| (id, json!({})));
    let size = object("x", json!({})).to_string().len();
    let unchanged = || scripted(&["things.example.com"], |object, _| Ok(BackupItemOutput::unchanged(object)));
    let (seen, on_disk) = WalkCase { room: size, ..case(vec![unchanged()]) }.walk(&objects).await;
    assert_eq!(seen, WalkResult { saved: list(&["things/x", "things/y", "things/z"]), ..WalkResult::default() });
    let (_, in_memory) = case(vec![unchanged()]).walk(&objects).await;
    assert_eq!(on_disk, in_memory);

    let answers = vec![read("Thing", "y", json!({})), status(404)];
    let (mut seen, _) = WalkCase { room: size, scratch: "/nonexistent".into(), answers, ..case(vec![unchanged()]) }
        .walk(&objects)
        .await;
    let waits = "objects cannot wait in /nonexistent, so some are read again when their turn comes: ";
    assert_eq!(seen.warnings.iter().filter(|text| text.starts_with(waits)).count(), 1, "{seen:?}");
    seen.warnings.clear();
    let gone = failed("things/z", "it was deleted while it waited for its turn");
    assert_eq!(
        seen,
        WalkResult { saved: list(&["things/x", "things/y"]), errors: vec![gone], ..WalkResult::default() }
    );
}
