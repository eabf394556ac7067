//! The history of an object over the backups of a bucket.
//!
//! Of each backup the index is read, and of the object itself only the states whose bytes are not those of the state
//! before. An archive without index has to be read as a whole; the results are kept for the next time.

use crate::change::field_differences;
use crate::history_scope::{HistoryScope, NotInBackup};
use crate::object_state::{ObjectState, Summary, uid};
use crate::timeline::{HistoryEvent, HistoryEventKind, Observation, Timeline};
use crate::value::object_value;
use lifeboat_api::Backup;
use lifeboat_archive::index::Row;
use lifeboat_archive::layout::BackupFile;
use lifeboat_object::{ObjectKey, chain, labels};
use lifeboat_store::{Archive, ArchiveCache, ArchiveItem, ArchiveRows, OpenOptions, Store, StoreError, UsableBackups};
use serde_json::Value;
use tokio::task::JoinSet;

/// Options for reading the backups of a bucket.
#[derive(Clone, Debug)]
pub struct HistoryOptions {
    /// Options for opening archives.
    pub open: OpenOptions,
    /// The cache for the results about archives without index; `None` to keep nothing.
    pub cache: Option<ArchiveCache>,
}

/// The history of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The events, in the order in which the backups were begun; those of backups whose record cannot be read come
    /// last.
    pub events: Vec<HistoryEvent>,
    /// Backups that have not ended, or have failed, and were left out.
    pub left_out: usize,
}

impl History {
    /// Looks for an object in these backups of a store. One that cannot be read is an event.
    pub async fn of(store: &Store, backups: &UsableBackups, key: &ObjectKey, options: &HistoryOptions) -> Self {
        let mut timeline = Timeline::default();
        let mut reader = HistoryReader { store, key, options, scope: HistoryScope::new(key), newest: None };
        for (name, record) in &backups.oldest_first {
            let look = match reader.look(name, record).await {
                Ok(look) => look,
                Err(e) => Observation::Unreadable(chain(&e)),
            };
            timeline.add(name, record.status.start_timestamp, look);
        }
        for (name, why) in &backups.unreadable {
            timeline.add(name, None, Observation::Unreadable(why.clone()));
        }
        Self { events: timeline.events(), left_out: backups.left_out }
    }

    /// Returns true if some backup could not be read.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.events
            .iter()
            .any(|event| matches!(event.happening, HistoryEventKind::Unreadable(_) | HistoryEventKind::NotCompared(_)))
    }

    /// Returns true if some backup has the object.
    #[must_use]
    pub fn has_object(&self) -> bool {
        self.events
            .iter()
            .any(|event| matches!(event.happening, HistoryEventKind::Present | HistoryEventKind::Appeared))
    }
}

/// Looks into one backup after the other.
struct HistoryReader<'a> {
    store: &'a Store,
    key: &'a ObjectKey,
    options: &'a HistoryOptions,
    scope: HistoryScope,
    /// The object in the last backup that had it.
    newest: Option<ArchivedObject>,
}

/// An object in a backup.
struct ArchivedObject {
    backup: String,
    row: Row,
    /// The contents of the object, as far as they were needed.
    source: ContentSource,
}

enum ContentSource {
    /// The cache was not searched for the object yet.
    Rows(Box<ArchiveRows>),
    /// The cache was searched, and does not have the whole object; it may have a summary.
    LookedFor {
        summary: Option<Summary>,
        rows: Box<ArchiveRows>,
    },
    Read(Box<Value>),
    /// Nothing is at hand: reading it goes on, or has failed.
    Lost,
}

impl ArchivedObject {
    fn is_same_bytes(&self, other: &Self) -> bool {
        (self.row.length, self.row.hash) == (other.row.length, other.row.hash)
    }

    /// Looks for what was kept of the object.
    async fn recall(&mut self) {
        self.source = match std::mem::replace(&mut self.source, ContentSource::Lost) {
            ContentSource::Rows(rows) => {
                let kept = match rows.cache() {
                    Some(cache) => cache.object(&self.row).await,
                    None => None,
                };
                match kept.and_then(|kept| ObjectState::decode(&kept)) {
                    Some(ObjectState::Whole(object)) => ContentSource::Read(Box::new(object)),
                    Some(ObjectState::Summary(summary)) => ContentSource::LookedFor { summary: Some(summary), rows },
                    None => ContentSource::LookedFor { summary: None, rows },
                }
            }
            source => source,
        };
    }

    /// The summary of the object, as far as it is known without reading the object.
    fn summary(&self) -> Option<Summary> {
        match &self.source {
            ContentSource::LookedFor { summary, .. } => summary.clone(),
            ContentSource::Read(object) => Some(Summary::of((**object).clone())),
            ContentSource::Rows(_) | ContentSource::Lost => None,
        }
    }
}

impl HistoryReader<'_> {
    async fn look(&mut self, name: &str, record: &Backup) -> Result<Observation, StoreError> {
        let rows = self.rows(name).await?;
        let found = rows.rows().find(|row| is_row_of(row, self.key));
        let Some(row) = found.cloned() else { return Ok(self.lack(record).await) };
        let mut state = ArchivedObject { backup: name.to_owned(), row, source: ContentSource::Rows(Box::new(rows)) };
        let Some(mut before) = self.newest.take() else {
            self.newest = Some(state);
            return Ok(Observation::First);
        };
        if before.is_same_bytes(&state) {
            // What is known of the one before is known of this one too.
            if let ContentSource::Read(read) = before.source {
                state.source = ContentSource::Read(read);
            }
            self.newest = Some(state);
            return Ok(Observation::Has { differences: Vec::new(), is_another: false });
        }
        before.recall().await;
        state.recall().await;
        if let Some((left, right)) = before.summary().zip(state.summary()).filter(|(left, right)| left.is_as(right)) {
            self.newest = Some(state);
            return Ok(Observation::Has { differences: Vec::new(), is_another: left.uid != right.uid });
        }
        match (self.value(&mut before).await, self.value(&mut state).await) {
            // The next one that can be read is compared with the one before.
            (_, Err(e)) => {
                self.newest = Some(before);
                Err(e)
            }
            (Err(e), Ok(_)) => {
                self.newest = Some(state);
                Ok(Observation::NotCompared(format!("its state in {} cannot be read: {}", before.backup, chain(&e))))
            }
            (Ok(left), Ok(right)) => {
                self.newest = Some(state);
                Ok(compared(left, right))
            }
        }
    }

    async fn rows(&self, backup: &str) -> Result<ArchiveRows, StoreError> {
        self.store.archive_rows(backup, &self.options.open, self.options.cache.as_ref()).await
    }

    /// Explains that a backup does not have the object: left out by its filters, or missing.
    async fn lack(&mut self, record: &Backup) -> Observation {
        let (mut seen, mut unknown) = (None, None);
        // Only where they decide: reading them may take the whole archive.
        if HistoryScope::asks_for_labels(record)
            && let Some(mut newest) = self.newest.take()
        {
            newest.recall().await;
            match newest.summary() {
                Some(summary) => seen = Some(summary.labels),
                None => match self.value(&mut newest).await {
                    Ok(object) => seen = Some(labels(&object)),
                    Err(e) => unknown = Some(format!("the labels in {} cannot be read: {}", newest.backup, chain(&e))),
                },
            }
            self.newest = Some(newest);
        }
        match self.scope.lack(record, seen.as_ref()) {
            NotInBackup::NotInScope(why) => Observation::NotInScope(why),
            NotInBackup::Lacks(doubt) => {
                let doubts: Vec<String> = doubt.into_iter().chain(unknown).collect();
                Observation::Lacks((!doubts.is_empty()).then(|| doubts.join("; ")))
            }
        }
    }

    /// Reads the object.
    async fn value(&self, state: &mut ArchivedObject) -> Result<Value, StoreError> {
        let rows = match std::mem::replace(&mut state.source, ContentSource::Lost) {
            ContentSource::Read(read) => {
                let value = (*read).clone();
                state.source = ContentSource::Read(read);
                return Ok(value);
            }
            ContentSource::Rows(rows) | ContentSource::LookedFor { rows, .. } => rows,
            ContentSource::Lost => Box::new(self.rows(&state.backup).await?),
        };
        let cache = rows.cache().cloned();
        let archive = rows.open(self.store, &self.options.open).await?;
        let (row, item) = self.read(&archive, &state.backup).await?;
        if let Some(cache) = cache {
            cache.keep_object(&row, ObjectState::encode(&row.resource, &item.body)).await;
        }
        let read = object_value(&item.body);
        state.source = ContentSource::Read(Box::new(read.clone()));
        Ok(read)
    }

    async fn read(&self, archive: &Archive, backup: &str) -> Result<(Row, ArchiveItem), StoreError> {
        // An index that was kept may name an object that the archive, which is opened now, lacks.
        let missing = || StoreError::Missing { key: BackupFile::Tarball.key(backup), asked: 1, got: 0 };
        let is_it = |(_, row): &(usize, &Row)| is_row_of(row, self.key);
        let (number, row) = archive.rows().enumerate().find(is_it).ok_or_else(missing)?;
        let mut tasks = JoinSet::new();
        let mut contents = archive.read(vec![number], &mut tasks);
        Ok((row.clone(), contents.next().await?.ok_or_else(missing)?))
    }
}

/// Compares two states of the object that are not the same bytes.
fn compared(before: Value, after: Value) -> Observation {
    let is_another = uid(&before) != uid(&after);
    Observation::Has { differences: field_differences(before, after), is_another }
}

/// Returns true if this row is the object, in the preferred version.
fn is_row_of(row: &Row, key: &ObjectKey) -> bool {
    row.preferred
        && *row.name == *key.name
        && row.namespace() == key.namespace.as_deref()
        && *row.resource == key.resource
}
