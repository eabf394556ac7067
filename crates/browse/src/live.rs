//! The changes since a backup: the backup on one side, the cluster as it is now on the other.

use crate::change::{ChangedObject, DiffCounts, Tally, compared};
use crate::diff_scope::DiffScope;
use crate::live_cluster::{LiveCluster, facts};
use crate::live_error::LiveError;
use crate::live_lists::Lists;
use crate::live_plan::{ComparedBackup, LivePlan, LiveType, ServedAs};
use crate::rows::{BATCH, BATCH_BYTES, ListPosition, Rows};
use crate::store::BackupStore;
use crate::value::object_value;
use bytes::Bytes;
use lifeboat_api::Backup;
use lifeboat_archive::tarball::entry_hash;
use lifeboat_object::{ApiResource, Item, splice_type};
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Compares a backup with a cluster, type by type, as [`Diff`](crate::Diff) does with another backup. The objects of a type come in the order
/// in which the cluster lists them, and those that it lacks after them.
///
/// Compared are the objects that the backup has, and those that it would have if it were made now. It holds the index, up to 500 objects or
/// 16 MiB of each side, a bit for each object of the type, and 16 bytes for each one that was added. Where a type is listed in many namespaces, the
/// lists of eight are begun at once.
pub struct LiveDiff<'a> {
    rows: &'a Rows,
    live: &'a LiveCluster<'a>,
    scope: DiffScope,
    plan: LivePlan,
    types: std::vec::IntoIter<LiveType>,
    current: Option<OfType<'a>>,
    /// Namespaces of objects that the backup would have.
    filled: BTreeSet<String>,
    tally: Tally,
}

impl<'a> LiveDiff<'a> {
    /// Begins to compare. `record` is that of the backup: its filters say what belongs to it.
    ///
    /// # Errors
    /// When the cluster does not answer, or the record cannot be used.
    pub async fn begin(
        before: &'a BackupStore,
        record: &'a Backup,
        live: &'a LiveCluster<'a>,
        scope: DiffScope,
    ) -> Result<Self, LiveError> {
        let rows = before.rows();
        let held = rows.archive().rows().filter_map(|row| row.namespace()).map(str::to_owned);
        let names = held.chain(scope.namespaces.iter().cloned()).collect();
        let namespaces = live.namespaces(&scope, names).await?;
        let (plan, types) = LivePlan::new(ComparedBackup { record, rows }, &scope, &live.catalog, &namespaces)?;
        let (types, tally) = (types.into_iter(), Tally::default());
        Ok(Self { rows, live, scope, plan, types, current: None, filled: BTreeSet::new(), tally })
    }

    /// Notes for the user about the comparison, as sentences.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.plan.notes
    }

    /// The next object that is not the same; `None` when all were compared.
    ///
    /// # Errors
    /// After an error of [one type](LiveError::resource) it may be called again, and goes on with the next type.
    pub async fn next(&mut self) -> Result<Option<ChangedObject>, LiveError> {
        loop {
            if let Some(object) = self.tally.ready.pop_front() {
                return Ok(Some(object));
            }
            let Some(mut current) = self.current.take() else {
                let Some(of_type) = self.types.next() else { return Ok(None) };
                self.current = Some(self.of_type(of_type)?);
                continue;
            };
            // Where it fails, the type is given up.
            let is_at_end = match current.page().await? {
                Some(page) => {
                    self.compare(&mut current, page).await?;
                    false
                }
                None => !self.compare_unseen(&mut current).await?,
            };
            if !is_at_end {
                self.current = Some(current);
            }
        }
    }

    /// The counts up to now.
    #[must_use]
    pub fn counts(&self) -> DiffCounts {
        self.tally.counts
    }

    fn of_type(&self, of_type: LiveType) -> Result<OfType<'a>, LiveError> {
        let rows = self.rows.of_type(&of_type.resource);
        let (api, places) = match &of_type.served {
            ServedAs::As(api) => (Some(Arc::clone(api)), self.plan.places(api, self.rows, &self.scope)),
            ServedAs::Not => (None, Vec::new()),
            ServedAs::Unknown(why) => {
                return Err(LiveError::Unknown { resource: of_type.resource, why: why.clone() });
            }
        };
        let seen = vec![0; rows.len().div_ceil(64)];
        let lists = places.iter().zip(api.iter().cycle()).map(|(place, api)| self.live.list(api, place)).collect();
        let lists = Lists::new(of_type.resource.clone(), lists);
        Ok(OfType { of_type, api, rows, seen, added: HashSet::new(), lists, looked: 0 })
    }

    /// Compares a page of what the cluster has.
    async fn compare(&mut self, current: &mut OfType<'a>, page: Vec<Item>) -> Result<(), LiveError> {
        let mut pairs = Vec::new();
        let mut bytes = 0;
        for item in page {
            let place = ListPosition(item.head.namespace.as_deref().unwrap_or_default(), &item.head.name);
            if !self.scope.has_place(&current.of_type.resource, place) {
                continue;
            }
            let Some(at) = self.rows.position(&current.of_type.resource, place) else {
                self.add(current, &item);
                continue;
            };
            let Some(number) = current.rows.get(at).copied().filter(|_| current.see(at)) else { continue };
            if self.is_same(number, &item) {
                self.tally.counts.unchanged += usize::from(self.scope.selector.matches(&item.head.labels));
                continue;
            }
            bytes += self.bytes_of(number);
            pairs.push((number, item));
            if bytes >= BATCH_BYTES {
                self.compare_pairs(std::mem::take(&mut pairs)).await?;
                bytes = 0;
            }
        }
        self.compare_pairs(pairs).await
    }

    async fn compare_pairs(&mut self, pairs: Vec<(u32, Item)>) -> Result<(), LiveError> {
        let mut before = self.rows.read_by_number(pairs.iter().map(|(number, _)| *number)).await?;
        for (number, item) in pairs {
            let Some(saved) = before.remove(&number) else { continue };
            let selector = &self.scope.selector;
            if selector.matches(&saved.head.labels) || selector.matches(&item.head.labels) {
                self.tally.take(item.key(), compared(Some(object_value(&saved.body)), Some(live_value(&item))));
            }
        }
        Ok(())
    }

    /// An object that the backup lacks.
    fn add(&mut self, current: &mut OfType<'a>, item: &Item) {
        if !current.added.insert(item.digest()) {
            return;
        }
        let is_meant = if current.of_type.resource.is_namespaces() {
            let namespace = live_value(item);
            let facts = facts(&namespace);
            facts.is_some_and(|facts| self.plan.would_have_namespace(&current.of_type, &facts, &self.filled))
        } else {
            self.plan.would_have(&current.of_type, &item.resource, &item.head)
        };
        if !is_meant {
            return;
        }
        self.filled.extend(item.head.namespace.clone());
        if self.scope.selector.matches(&item.head.labels) {
            self.tally.take(item.key(), compared(None, Some(live_value(item))));
        }
    }

    /// Compares the next of the objects that the cluster has not listed; false when there are no more.
    async fn compare_unseen(&mut self, current: &mut OfType<'a>) -> Result<bool, LiveError> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH && bytes < BATCH_BYTES {
            let Some(number) = current.rows.get(current.looked).copied() else { break };
            let is_seen = current.is_seen(current.looked);
            current.looked += 1;
            if !is_seen && self.scope.has_place(&current.of_type.resource, self.rows.place(number)) {
                bytes += self.bytes_of(number);
                batch.push(number);
            }
        }
        if batch.is_empty() {
            return Ok(false);
        }
        let mut before = self.rows.read_by_number(batch.iter().copied()).await?;
        for number in batch {
            let (Some(saved), Some(row)) = (before.remove(&number), self.rows.row(number)) else { continue };
            if self.scope.selector.matches(&saved.head.labels) {
                self.tally.take(row.key(), compared(Some(object_value(&saved.body)), None));
            }
        }
        Ok(true)
    }

    /// Returns true if the cluster's object has the same bytes as the backup's, which need not be read then.
    fn is_same(&self, number: u32, item: &Item) -> bool {
        let Some(row) = self.rows.row(number) else { return false };
        let body = splice_type(item);
        body.len() == row.length as usize && entry_hash(&body.to_bytes()) == row.hash
    }

    fn bytes_of(&self, number: u32) -> u64 {
        self.rows.row(number).map_or(0, |row| row.length.into())
    }
}

/// An object of a list, with its type, which the elements of a list lack.
fn live_value(item: &Item) -> Value {
    object_value(&splice_type(item).to_bytes())
}

/// The type that is being compared.
struct OfType<'a> {
    of_type: LiveType,
    /// The resource under which the cluster serves it; `None` when it does not.
    api: Option<Arc<ApiResource>>,
    rows: &'a [u32],
    /// A bit for each row: whether the cluster has listed the object.
    seen: Vec<u64>,
    /// Digests of the objects that the backup lacks: a list may bring an object twice.
    added: HashSet<[u8; 16]>,
    lists: Lists,
    /// Rows that were looked through for those that are not seen.
    looked: usize,
}

impl OfType<'_> {
    /// The next objects of the lists; `None` when all have ended.
    async fn page(&mut self) -> Result<Option<Vec<Item>>, LiveError> {
        let Some(api) = self.api.clone() else { return Ok(None) };
        let (mut page, mut bytes) = (Vec::new(), 0);
        while page.len() < BATCH && bytes < BATCH_BYTES {
            let Some(bodies) = self.lists.next().await? else { break };
            bytes += bodies.iter().map(|body| body.len() as u64).sum::<u64>();
            for body in bodies {
                page.push(self.item(&api, body)?);
            }
        }
        Ok((!page.is_empty()).then_some(page))
    }

    fn item(&self, api: &Arc<ApiResource>, body: Bytes) -> Result<Item, LiveError> {
        let resource = || self.of_type.resource.clone();
        Item::parse(Arc::clone(api), body).map_err(|source| LiveError::Object { resource: resource(), source })
    }

    /// Notes that the cluster has an object; false when it was noted before.
    fn see(&mut self, at: usize) -> bool {
        let is_new = !self.is_seen(at);
        if let Some(bits) = self.seen.get_mut(at / 64) {
            *bits |= 1 << (at % 64);
        }
        is_new
    }

    fn is_seen(&self, at: usize) -> bool {
        self.seen.get(at / 64).is_some_and(|bits| bits & 1 << (at % 64) != 0)
    }
}
