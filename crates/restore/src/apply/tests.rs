//! What becomes of an object whose action fails.

use super::*;
use crate::stub::{Scripted, config_map, key};
use jiff::Timestamp;
use lifeboat_operation::Operation;
use std::path::PathBuf;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What an object becomes when its action fails so, the last time for ever: how often it was asked, and the seconds.
async fn applied(errors: Vec<Option<ActionError>>) -> (Result<Value, String>, usize, u64) {
    let begun = Instant::now();
    let action = Arc::new(Scripted::new(move |item, before| match &errors[before.min(errors.len() - 1)] {
        Some(error) => Err(error.clone()),
        None => Ok(RestoreItemOutput::with(item)),
    }));
    let applied = applied_by(&action).await.map(|applied| applied.item);
    let applied = applied.map_err(|e| match e {
        Unprepared::Failed(why) => why,
        Unprepared::Fatal(why) => format!("fatal: {why}"),
        Unprepared::Stopped => "stopped".to_owned(),
    });
    (applied, action.asked().len(), begun.elapsed().as_secs())
}

async fn applied_by(action: &Arc<Scripted>) -> Result<Applied, Unprepared> {
    let restore = Arc::new(Restore::default());
    let operation = Operation::new(Arc::new(|| Timestamp::UNIX_EPOCH), "restore=velero/r", PathBuf::new());
    let operations = Operations::new(Arc::clone(&restore), &operation);
    let stop = Arc::new(Stop::with(&CancellationToken::new()));
    let scope = ObjectScope::resolve(ScopeText::default(), &Catalog::default()).unwrap();
    let all = vec![Resolved { action: Arc::clone(action) as _, scope }];
    let actions = Actions { all, restore, stop };
    let object = config_map("a");
    actions.apply(&key("configmaps", "a"), object.clone(), &object, Ask::All(&operations)).await
}

#[tokio::test(start_paused = true)]
async fn an_action_that_fails_for_a_while_is_asked_again_and_what_stays_is_an_error_of_the_object() {
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
    let Err(Unprepared::Failed(why)) = applied_by(&action).await else { panic!("it failed") };
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
