//! Selection of objects of an open backup, for the commands that print and write them.

use anyhow::{Context, Result, bail};
use lifeboat_browse::BackupStore;
use lifeboat_object::{GroupResource, types_named};
use lifeboat_patch::hide_secret;
use lifeboat_sandbox::{ListQuery, ObjectStore, Selector};
use serde_json::Value;

/// Objects that are read at once.
const PAGE: usize = 500;

/// The types that a word names, as kubectl takes it.
pub(super) fn types_of(store: &BackupStore, word: &str) -> Result<Vec<GroupResource>> {
    let served = store.types();
    // One word may name a type in several groups: those that the backup has are meant.
    let held = types_named(word, served.all().filter(|found| store.holds(&found.group_resource())));
    let meant = if held.is_empty() { types_named(word, served.all()) } else { held };
    if meant.is_empty() {
        bail!("no type is called {word:?}; the command without get or extract lists those of the backup");
    }
    Ok(meant.into_iter().map(|found| found.group_resource()).collect())
}

/// The objects of a type in pages, by namespace and name.
pub(super) struct ObjectPages<'a> {
    store: &'a BackupStore,
    query: ListQuery,
    ended: bool,
}

impl<'a> ObjectPages<'a> {
    /// All of a type, of one namespace, or of one name.
    pub(super) fn of(
        store: &'a BackupStore,
        resource: GroupResource,
        namespace: Option<String>,
        name: Option<&str>,
    ) -> Result<Self> {
        let named = name.map_or_else(String::new, |name| format!("metadata.name={name}"));
        let selector = Selector::parse(&resource.resource, "", &named)?;
        let query = ListQuery { resource, namespace, selector, after: None, limit: PAGE, revision: None };
        Ok(Self { store, query, ended: false })
    }

    /// The next ones; nothing at the end. Values of Secrets are hidden unless they are asked for.
    pub(super) async fn next(&mut self, show_secrets: bool) -> Result<Vec<Value>> {
        if self.ended {
            return Ok(Vec::new());
        }
        // A page of a list may be empty only at the end: no selector but the name thins it out.
        let page = self.store.list(&self.query).await.with_context(|| format!("read {}", self.query.resource))?;
        self.ended = !page.more;
        self.query.after = page.objects.last().map(|last| {
            let key = &last.key;
            (key.namespace.clone().unwrap_or_default(), key.name.clone())
        });
        let read = |body: &[u8]| -> Result<Value> {
            let mut object: Value = serde_json::from_slice(body)?;
            if !show_secrets && self.query.resource.is_secrets() {
                hide_secret(&mut object);
            }
            Ok(object)
        };
        page.objects.iter().map(|object| read(&object.body).with_context(|| format!("read {}", object.key))).collect()
    }
}
