//! Lists of a store that cannot be changed: read page by page, while they are written.

use crate::client::{Api, config_map, names};
use async_trait::async_trait;
use lifeboat_object::ObjectKey;
use lifeboat_sandbox::{
    ListPage, ListQuery, ObjectStore, Sandbox, SandboxOptions, ServedTypes, StoreError, StoredObject,
};
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// The pages that were asked for: the start of each, its limit, and the revision.
type Asked = Arc<Mutex<Vec<(usize, usize, Option<u64>)>>>;

/// ConfigMaps by number, which cannot be read from one on.
struct Numbers {
    count: usize,
    broken_from: usize,
    asked: Asked,
    types: Arc<ServedTypes>,
    revision: watch::Sender<u64>,
}

fn name(number: usize) -> String {
    format!("m{number:05}")
}

#[async_trait]
impl ObjectStore for Numbers {
    fn read_only(&self) -> Option<&str> {
        Some("these are numbers")
    }

    fn types(&self) -> Arc<ServedTypes> {
        self.types.clone()
    }

    fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    async fn get(&self, _: &ObjectKey) -> Result<Option<Arc<StoredObject>>, StoreError> {
        Ok(None)
    }

    async fn list(&self, query: &ListQuery) -> Result<ListPage, StoreError> {
        let from = query.after.as_ref().map_or(0, |(_, name)| name[1..].parse::<usize>().unwrap() + 1);
        self.asked.lock().unwrap().push((from, query.limit, query.revision));
        let limit = if query.limit == 0 { usize::MAX } else { query.limit };
        let to = from.saturating_add(limit).min(self.count);
        if to > self.broken_from {
            return Err(StoreError::Unavailable("the disk is gone".to_owned()));
        }
        let object = |number: usize| {
            let key = ObjectKey::new(query.resource.clone(), Some("shop"), name(number));
            let mut object = config_map(&name(number));
            object["metadata"]["namespace"] = "shop".into();
            Arc::new(StoredObject::new(key, 7, &object))
        };
        Ok(ListPage { objects: (from..to).map(object).collect(), revision: 7, more: to < self.count })
    }
}

async fn serve(count: usize, broken_from: usize) -> (Sandbox, Api, Asked) {
    let asked = Asked::default();
    let revision = watch::Sender::new(7);
    let store = Numbers { count, broken_from, asked: asked.clone(), types: Arc::default(), revision };
    let sandbox = Sandbox::start_over(SandboxOptions::for_tests(), Arc::new(store)).await.unwrap();
    let api = Api::open_only(&sandbox.kubeconfig()).await;
    (sandbox, api, asked)
}

#[tokio::test]
async fn a_list_without_limit_is_read_by_pages_of_one_revision() {
    let (sandbox, api, asked) = serve(1_200, usize::MAX).await;
    let pages = vec![(0, 500, None), (500, 500, Some(7)), (1_000, 500, Some(7))];
    let (_, list) = api.get("/api/v1/configmaps").await;
    assert_eq!(list["metadata"], json!({"resourceVersion": "7"}));
    assert_eq!(names(&list), (0..1_200).map(name).collect::<Vec<_>>());
    assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), pages);

    let mut watch = api.watch("/api/v1/configmaps?watch=1").await;
    let told: Vec<(String, String)> = (0..1_200).map(|n| ("ADDED".to_owned(), name(n))).collect();
    assert_eq!(watch.told(1_200).await, told);
    assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), pages);

    // Whoever asks for pages gets those.
    let (_, list) = api.get("/api/v1/configmaps?limit=700").await;
    assert_eq!(names(&list).len(), 700);
    let token = list["metadata"]["continue"].as_str().unwrap();
    assert_eq!(names(&api.get(&format!("/api/v1/configmaps?limit=700&continue={token}")).await.1).len(), 500);
    assert_eq!(*asked.lock().unwrap(), [(0, 700, None), (700, 700, Some(7))]);
    sandbox.shutdown().await;
}

#[tokio::test]
async fn a_list_that_cannot_be_read_to_its_end_is_broken_off() {
    let (sandbox, api, _) = serve(1_200, 1_000).await;
    assert!(api.is_cut_off("/api/v1/configmaps").await);
    let mut watch = api.watch("/api/v1/configmaps?watch=1").await;
    assert_eq!(watch.told(1_000).await.len(), 1_000);
    let error = watch.next().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(500)));
    assert_eq!(watch.next().await, None);
    sandbox.shutdown().await;

    // What fails before anything is written is refused.
    let (sandbox, api, _) = serve(1_200, 0).await;
    let (code, status) = api.get("/api/v1/configmaps").await;
    assert_eq!((code, &status["message"]), (500, &json!("the disk is gone")));
    sandbox.shutdown().await;
}
