//! Fetches what belongs to saved objects, did not come with the lists, and is known only when all of them went through
//! (velero: pkg/backup/item_collector.go, pkg/backup/backup.go): objects that no action looks at, definitions, and
//! namespaces.

use crate::action_lane::fetch::{ItemReceiver, named, pick, tell_absent};
use crate::action_lane::save::Worker;
use crate::action_lane::save_report::AdditionalItem;
use crate::collect::tally::Tally;
use crate::env::Env;
use crate::fast_lane::FastLane;
use crate::request::scope::Scope;
use crate::stage_error::StageError;
use lifeboat_object::{Item, ObjectKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Name of this stage in messages.
pub(crate) const FETCHING: &str = "fetching related objects";
/// Rounds in which these objects bring further ones.
const ROUNDS: usize = 16;

/// Both lanes at their end, so that objects that come late can take either.
pub(crate) struct RelatedItems {
    pub(crate) scope: Arc<Scope>,
    pub(crate) env: Env,
    pub(crate) tally: Arc<Tally>,
    pub(crate) pass: FastLane,
    pub(crate) worker: Worker,
    /// Objects that are being fetched.
    asked: BTreeMap<ObjectKey, AdditionalItem>,
}

impl ItemReceiver for RelatedItems {
    async fn take(&mut self, item: Item) -> Result<(), StageError> {
        self.tally.came(1);
        self.env.operation.progress.found(1);
        let must_include = self.asked.get(&item.key()).is_some_and(|additional_item| additional_item.must_include);
        if self.scope.lane.takes(&item.resource) {
            self.worker.found(item, must_include).await?;
        } else if let Some(entry) = self.pass.take(item, must_include) {
            self.worker.out.take(entry).await?;
        }
        Ok(())
    }

    fn absent(&mut self, key: ObjectKey) {
        if let Some(additional_item) = self.asked.get(&key) {
            tell_absent(&key, &additional_item.parent, &self.env);
        }
    }

    fn unread(&mut self, _: ObjectKey) {}
}

impl RelatedItems {
    pub(crate) fn new(pass: FastLane, worker: Worker) -> Self {
        let context = worker.context();
        let (scope, env, tally) = (Arc::clone(&context.scope), context.env.clone(), Arc::clone(&context.tally));
        Self { scope, env, tally, pass, worker, asked: BTreeMap::new() }
    }

    /// Fetches all of it.
    pub(crate) async fn run(&mut self) -> Result<(), StageError> {
        let mut defined = BTreeSet::new();
        for _ in 0..ROUNDS {
            self.additional_items().await?;
            self.definitions(&mut defined).await?;
            if self.worker.report.additional_items.is_empty() {
                break;
            }
        }
        self.namespaces().await?;
        self.additional_items().await
    }

    /// The objects that actions have named and that are still to be fetched.
    async fn additional_items(&mut self) -> Result<(), StageError> {
        let scope = Arc::clone(&self.scope);
        let is_open = |key: &ObjectKey, additional_item: &AdditionalItem| {
            let found = scope.catalog.find(&key.resource);
            !self.pass.has_seen(key)
                && found.is_none_or(|r| additional_item.must_include || scope.can_include(r, key.namespace.as_deref()))
        };
        let mut asked = std::mem::take(&mut self.worker.report.additional_items);
        asked.retain(|key, additional_item| is_open(key, additional_item));
        self.asked = asked;
        let keys: Vec<ObjectKey> = self.asked.keys().cloned().collect();
        let env = self.env.clone();
        named(keys, &scope, &env, self).await
    }

    /// The definitions of the custom resources that were saved.
    async fn definitions(&mut self, defined: &mut BTreeSet<String>) -> Result<(), StageError> {
        let (scope, env) = (Arc::clone(&self.scope), self.env.clone());
        let Some(resource) = scope.find("apiextensions.k8s.io", "customresourcedefinitions") else { return Ok(()) };
        if scope.filter.lists_all_of(resource) || scope.filter.excludes_additional(resource) {
            return Ok(());
        }
        let used = self.pass.used.types.iter().chain(&self.worker.report.used.types);
        // Definitions of built-in types do not exist; a name without a dot is one.
        let new: BTreeSet<String> = used.filter(|t| t.contains('.') && !defined.contains(*t)).cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        pick(resource, None, |item| new.contains(&item.head.name), &env, self).await?;
        defined.extend(new);
        Ok(())
    }

    /// The namespaces themselves, known since before the lists.
    async fn namespaces(&mut self) -> Result<(), StageError> {
        let scope = Arc::clone(&self.scope);
        let Some(resource) = scope.find("", "namespaces") else { return Ok(()) };
        if scope.filter.collects(resource).is_err() {
            return Ok(());
        }
        // Which of them hold something is known by now: a namespace itself changes nothing about it.
        let (pass, report) = (&self.pass.used.namespaces, &self.worker.report.used.namespaces);
        let is_used = |name: &String| pass.contains(name) || report.contains(name);
        let tracked =
            scope.namespaces.iter().filter(|n| scope.filter.tracks_namespace(&n.facts, is_used(&n.facts.name)));
        let items: Vec<Item> = tracked.filter_map(|n| n.item.clone()).collect();
        for item in items {
            self.take(item).await?;
        }
        Ok(())
    }
}
