//! The changes between two backups.
//!
//! An object is not read when both indexes say that its bytes are the same. So the cost of a comparison is two indexes
//! and the objects that have changed.

use crate::change::{ChangedObject, DiffCounts, Tally, compared};
use crate::diff_scope::DiffScope;
use crate::noise::is_noise_type;
use crate::rows::{BATCH, BATCH_BYTES, ListPosition, Rows};
use crate::store::BackupStore;
use crate::value::object_value;
use lifeboat_archive::index::Row;
use lifeboat_object::GroupResource;
use lifeboat_store::{ArchiveItem, StoreError};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Compares two backups, type by type, objects of a type by namespace and name. Holds an index each, and 500 objects or 16 MiB of them.
#[derive(Debug)]
pub struct Diff<'a> {
    before: &'a BackupStore,
    after: &'a BackupStore,
    scope: DiffScope,
    types: std::vec::IntoIter<GroupResource>,
    pairs: Pairs<'a>,
    /// True when no object of the present type is compared.
    is_noise: bool,
    tally: Tally,
}

impl<'a> Diff<'a> {
    /// Begins to compare.
    #[must_use]
    pub fn new(before: &'a BackupStore, after: &'a BackupStore, scope: DiffScope) -> Self {
        let types: BTreeSet<GroupResource> = [before, after]
            .iter()
            .flat_map(|side| side.rows().types().map(|(resource, _)| resource.clone()))
            .filter(|resource| scope.has_type(resource))
            .collect();
        let pairs = Pairs::none(before.rows(), after.rows());
        let types = types.into_iter().collect::<Vec<_>>().into_iter();
        Self { before, after, scope, types, pairs, is_noise: false, tally: Tally::default() }
    }

    /// The next object that is not the same; `None` when all were compared.
    ///
    /// # Errors
    /// When an archive cannot be read, or is damaged.
    pub async fn next(&mut self) -> Result<Option<ChangedObject>, StoreError> {
        loop {
            if let Some(object) = self.tally.ready.pop_front() {
                return Ok(Some(object));
            }
            let batch = self.batch();
            if batch.is_empty() {
                return Ok(None);
            }
            self.compare(&batch).await?;
        }
    }

    /// The counts up to now.
    #[must_use]
    pub fn counts(&self) -> DiffCounts {
        self.tally.counts
    }

    /// The next pairs that may differ.
    fn batch(&mut self) -> Vec<Pair> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH && bytes < BATCH_BYTES {
            let Some(pair) = self.pairs.next() else {
                // A batch is of one type, so that types come in their order.
                match (batch.is_empty(), self.types.next()) {
                    (true, Some(resource)) => {
                        self.is_noise = is_noise_type(&resource);
                        self.pairs = Pairs::of(self.before.rows(), self.after.rows(), &resource);
                    }
                    (true, None) => break,
                    (false, resource) => {
                        let rest = resource.into_iter().chain(std::mem::take(&mut self.types));
                        self.types = rest.collect::<Vec<_>>().into_iter();
                        break;
                    }
                }
                continue;
            };
            if !self.pairs.is_in(&pair, &self.scope) {
                continue;
            }
            match self.pairs.bytes_to_read(&pair) {
                // Without its labels it is not known whether it is meant.
                Some(_) if self.is_noise => {
                    self.tally.counts.left_out += usize::from(self.scope.selector.is_everything());
                }
                Some(more) => {
                    bytes += more;
                    batch.push(pair);
                }
                None if self.scope.selector.is_everything() => self.tally.counts.unchanged += 1,
                None => {}
            }
        }
        batch
    }

    async fn compare(&mut self, batch: &[Pair]) -> Result<(), StoreError> {
        let mut before = self.before.rows().read_by_number(batch.iter().filter_map(|pair| pair.before)).await?;
        let mut after = self.after.rows().read_by_number(batch.iter().filter_map(|pair| pair.after)).await?;
        for pair in batch {
            let left = pair.before.and_then(|number| before.remove(&number));
            let right = pair.after.and_then(|number| after.remove(&number));
            let matches = |side: &Option<ArchiveItem>| {
                side.as_ref().is_some_and(|item| self.scope.selector.matches(&item.head.labels))
            };
            if !matches(&left) && !matches(&right) {
                continue;
            }
            let Some(key) = self.pairs.row(pair).map(Row::key) else { continue };
            self.tally.take(
                key,
                compared(left.map(|item| object_value(&item.body)), right.map(|item| object_value(&item.body))),
            );
        }
        Ok(())
    }
}

/// The rows of an object, one for each side that has it.
#[derive(Clone, Copy, Debug)]
struct Pair {
    before: Option<u32>,
    after: Option<u32>,
}

/// The objects of one type on both sides, by namespace and name.
#[derive(Debug)]
struct Pairs<'a> {
    rows: [&'a Rows; 2],
    before: &'a [u32],
    after: &'a [u32],
}

impl<'a> Pairs<'a> {
    fn none(before: &'a Rows, after: &'a Rows) -> Self {
        Self { rows: [before, after], before: &[], after: &[] }
    }

    fn of(before: &'a Rows, after: &'a Rows, resource: &GroupResource) -> Self {
        Self { rows: [before, after], before: before.of_type(resource), after: after.of_type(resource) }
    }

    fn next(&mut self) -> Option<Pair> {
        let order = match (self.before.first(), self.after.first()) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(before), Some(after)) => self.rows[0].place(*before).cmp(&self.rows[1].place(*after)),
        };
        let take = |rows: &mut &[u32], takes: bool| {
            let (first, rest) = rows.split_first().filter(|_| takes)?;
            let first = *first;
            *rows = rest;
            Some(first)
        };
        let before = take(&mut self.before, order != Ordering::Greater);
        let after = take(&mut self.after, order != Ordering::Less);
        Some(Pair { before, after })
    }

    fn is_in(&self, pair: &Pair, scope: &DiffScope) -> bool {
        let row = self.row(pair);
        row.is_some_and(|row| scope.has_place(&row.resource, ListPosition(&row.namespace, &row.name)))
    }

    /// The number of bytes to read for a comparison; `None` when the indexes say that they are the same bytes.
    fn bytes_to_read(&self, pair: &Pair) -> Option<u64> {
        let row = |side: usize, number: Option<u32>| number.and_then(|number| self.rows[side].row(number));
        match (row(0, pair.before), row(1, pair.after)) {
            (Some(before), Some(after)) if (before.length, before.hash) == (after.length, after.hash) => None,
            (before, after) => Some([before, after].iter().flatten().map(|row| u64::from(row.length)).sum()),
        }
    }

    fn row(&self, pair: &Pair) -> Option<&Row> {
        match (pair.before, pair.after) {
            (Some(number), _) => self.rows[0].row(number),
            (None, Some(number)) => self.rows[1].row(number),
            (None, None) => None,
        }
    }
}
