//! Contents of previews.

use super::*;
use crate::stub::{RestoreFixture, Scripted, backup, config_map, key};
use lifeboat_action::RestoreItemOutput;
use lifeboat_bucket::{Measured, MeasuredCall, Memory, Meter};
use lifeboat_select::RulesText;
use lifeboat_store::Store;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::timeout;

#[tokio::test]
async fn deviations_from_the_request_are_warnings_of_objects_and_no_errors() {
    let action = Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))));
    let mut ground = RestoreFixture::new(&[config_map("a")], &action).await;
    let text = "version: v1
resourceModifierRules:
- conditions: {groupResource: configmaps}
  strategicPatches: [{patchData: 'data: {k: new}'}]
- conditions: {groupResource: configmaps}
  patches: [{operation: remove, path: /data/gone}]
";
    let document = RulesText { source: "rules".to_owned(), text: text.to_owned() };
    ground.request.settings.resource_modifiers = Some(document);
    let (sender, mut items) = mpsc::channel(16);
    preview(&ground.request, &ground.env, sender).await.unwrap();
    let mut found = None;
    while let Some(item) = items.recv().await {
        found = found.or((item.key.name == "a").then_some(item));
    }
    let item = found.unwrap();
    assert_eq!((item.errors.len(), item.warnings.len()), (1, 1), "{item:?}");
    assert!(item.errors[0].starts_with("rule 2: "), "{item:?}");
    assert!(item.warnings[0].starts_with("rule 1: the cluster does not say how lists of ConfigMap"), "{item:?}");
}

#[tokio::test]
async fn what_comes_along_comes_once_and_behind_all_that_it_needs() {
    let action = Scripted::new(|item, _| {
        let needs: &[&str] = match item["metadata"]["name"].as_str() {
            Some("a") => &["b", "c"],
            Some("b") => &["c", "d"],
            Some("c") => &["b"],
            _ => &[],
        };
        let additional_items = needs.iter().map(|name| key("configmaps", name)).collect();
        Ok(RestoreItemOutput { additional_items, ..RestoreItemOutput::with(item) })
    });
    let mut selected = config_map("a");
    selected["metadata"]["labels"] = json!({"app": "web"});
    let objects = [selected, config_map("b"), config_map("c"), config_map("d"), config_map("e")];
    let mut ground = RestoreFixture::new(&objects, &Arc::new(action.pure())).await;
    let labels = serde_json::from_value(json!({"matchLabels": {"app": "web"}})).unwrap();
    ground.request.restore.spec.label_selector = Some(labels);
    let (sender, mut items) = mpsc::channel(16);
    preview(&ground.request, &ground.env, sender).await.unwrap();
    let mut told = Vec::new();
    while let Some(item) = items.recv().await {
        told.push(item.key.to_string());
    }
    // The first that is told brings its namespace with it. What needs itself, over others, comes when it is met.
    let expected =
        ["namespaces/shop", "configmaps/shop/c", "configmaps/shop/d", "configmaps/shop/b", "configmaps/shop/a"];
    assert_eq!(told, expected);
}

/// Number of reads from a bucket.
#[derive(Debug, Default)]
struct Reads(AtomicUsize);

impl Meter for Reads {
    fn ended(&self, call: &MeasuredCall<'_>) {
        self.0.fetch_add(usize::from(call.operation == "get"), Ordering::Relaxed);
    }
}

/// Previews these objects of a backup. Returns the keys in the preview, the number of objects that it leaves out, and
/// the number of its reads from the bucket. Objects are selected when their names begin with `web`, and all ConfigMaps
/// need the objects that `needs` returns.
async fn told_and_read(
    mut objects: Vec<Value>,
    needs: impl Fn(&str) -> Vec<String> + Send + Sync + 'static,
) -> (Vec<String>, u64, usize) {
    for object in &mut objects {
        let is_selected = object["metadata"]["name"].as_str().unwrap().starts_with("web");
        object["metadata"]["labels"] = json!({"selected": is_selected.to_string()});
    }
    let action = Scripted::new(move |item, _| {
        let needs = needs(item["metadata"]["name"].as_str().unwrap());
        let additional_items = needs.iter().map(|name| key("configmaps", name)).collect();
        Ok(RestoreItemOutput { additional_items, ..RestoreItemOutput::with(item) })
    });
    let mut ground = RestoreFixture::new(&[], &Arc::new(action.pure())).await;
    let reads = Arc::new(Reads::default());
    let bucket = Measured::new(Arc::new(Memory::default()), Arc::clone(&reads) as _);
    ground.env.store = backup(Store::new(Arc::new(bucket)), &objects).await;
    let labels = serde_json::from_value(json!({"matchLabels": {"selected": "true"}})).unwrap();
    ground.request.restore.spec.label_selector = Some(labels);
    let (sender, mut items) = mpsc::channel(2 * objects.len());
    let before = reads.0.load(Ordering::Relaxed);
    let end = preview(&ground.request, &ground.env, sender).await.unwrap();
    let mut told = Vec::new();
    while let Some(item) = items.recv().await {
        told.push(item.key.to_string());
    }
    (told, end.left_out.values().sum(), reads.0.load(Ordering::Relaxed) - before)
}

/// More objects than wait for each other, with three digits each.
fn many() -> impl Iterator<Item = String> {
    (0..100).map(|number| format!("{number:03}"))
}

#[tokio::test]
async fn what_comes_along_with_many_objects_is_read_together() {
    let each = |kind: &'static str| many().map(move |number| format!("{kind}-{number}"));
    let shared = ["shared", "base"].map(str::to_owned).into_iter();
    let names = shared.chain(["volume", "web", "claim"].into_iter().flat_map(each));
    let objects: Vec<Value> = names.map(|name| config_map(&name)).collect();
    let (alone, left_out, reads_alone) = told_and_read(objects.clone(), |_| Vec::new()).await;
    assert_eq!((alone.len(), left_out), (101, 202), "the selected ones, and their namespace: {alone:?}");
    let needs = |name: &str| match name.split_once('-') {
        Some(("web", number)) => vec![format!("claim-{number}"), "shared".to_owned()],
        Some(("claim", number)) => vec![format!("volume-{number}")],
        None if name == "shared" => vec!["base".to_owned()],
        _ => Vec::new(),
    };
    let (told, left_out, reads) = told_and_read(objects, needs).await;
    let with = |number: String| {
        let shared: &[&str] = if number == "000" { &["base", "shared"] } else { &[] };
        let own = [format!("volume-{number}"), format!("claim-{number}")];
        let all = own.into_iter().chain(shared.iter().map(|name| (*name).to_owned())).chain([format!("web-{number}")]);
        all.map(|name| format!("configmaps/shop/{name}"))
    };
    let expected: Vec<String> = ["namespaces/shop".to_owned()].into_iter().chain(many().flat_map(with)).collect();
    assert_eq!((told, left_out), (expected, 0));
    // Once for what the objects of a round need, and once for what that needs; of such rounds there are two.
    assert_eq!(reads - reads_alone, 4);
}

#[tokio::test]
async fn namespaces_that_come_for_what_is_in_them_are_read_together() {
    let object = |number: String| {
        let mut object = config_map(&format!("web-{number}"));
        object["metadata"]["namespace"] = number.into();
        object
    };
    let namespace = |name: String| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let objects: Vec<Value> = many().map(object).collect();
    let (told, left_out, reads_without) = told_and_read(objects.clone(), |_| Vec::new()).await;
    assert_eq!((told.len(), left_out), (200, 0));
    let objects = objects.into_iter().chain(many().map(namespace)).collect();
    let (with, left_out, reads) = told_and_read(objects, |_| Vec::new()).await;
    assert_eq!((with, left_out, reads - reads_without), (told, 0, 1));
}

#[tokio::test]
async fn a_preview_that_is_cancelled_is_no_whole_one() {
    let objects: Vec<Value> = (0..40).map(|n| config_map(&format!("c{n:02}"))).collect();
    let ground =
        RestoreFixture::new(&objects, &Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))))).await;
    let (sender, mut items) = mpsc::channel(1);
    let receive = async {
        let first = items.recv().await;
        ground.env.operation.cancel.cancel();
        let mut more = 0;
        while items.recv().await.is_some() {
            more += 1;
        }
        (first.is_some(), more)
    };
    let (end, (any, more)) = tokio::join!(preview(&ground.request, &ground.env, sender), receive);
    assert!(matches!(end, Err(RestoreError::Cancelled)), "{end:?}");
    assert!(any && more < 39, "{more}");
}

#[tokio::test]
async fn what_is_asked_for_one_object_goes_on_while_another_one_is_told() {
    let objects = [config_map("a"), config_map("b")];
    let mut ground =
        RestoreFixture::new(&objects, &Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))))).await;
    ground.request.restore.spec.included_resources = vec!["configmaps".to_owned()];
    // The namespace is asked for because of `b`, which is there, and its answer comes when `a` waits for it, too.
    ground.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    ground.put(config_map("b"));
    ground.slow("/api/v1/namespaces/shop/configmaps/a", Duration::from_millis(100));
    ground.slow("/api/v1/namespaces/shop", Duration::from_millis(400));
    let (sender, mut items) = mpsc::channel(16);
    let ended = timeout(Duration::from_secs(60), preview(&ground.request, &ground.env, sender)).await;
    ended.expect("no preview waits for what another one has stopped asking for").unwrap();
    let mut told = Vec::new();
    while let Some(item) = items.recv().await {
        told.push((item.key.to_string(), item.planned));
    }
    let expected = [("configmaps/shop/a", Planned::Create), ("configmaps/shop/b", Planned::Unchanged)];
    assert_eq!(told, expected.map(|(key, planned)| (key.to_owned(), planned)));
}
