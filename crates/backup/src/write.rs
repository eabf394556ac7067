//! Packs objects into members, compresses members in parallel, and uploads them as they complete.

use crate::env::Env;
use crate::process::{Entries, Entry};
use lifeboat_archive::sidecar::ResourceList;
use lifeboat_archive::tarball::{Assembler, Member, ObjectEntry, Segment, TarballSummary};
use lifeboat_object::{ObjectKey, Severity};
use lifeboat_store::TarballPiece;
use std::collections::BTreeMap;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinSet;

/// What was written.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) summary: TarballSummary,
    pub(crate) index: Vec<u8>,
    pub(crate) resources: ResourceList,
    pub(crate) counts: BTreeMap<String, u64>,
}

/// Why writing stopped early.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The upload has failed and says itself why.
    Upload,
    /// A compressing thread died.
    Thread,
}

/// A compressed segment, and the memory that its objects took.
type Compressed = (Member, Vec<OwnedSemaphorePermit>);

/// Runs until the stream of objects ends, sending the bytes of the archive to `upload`.
pub(crate) async fn write(
    mut objects: mpsc::Receiver<Entries>,
    level: u32,
    upload: mpsc::Sender<TarballPiece>,
    env: &Env,
) -> Result<Written, Stopped> {
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let mut writer = Writer {
        env,
        level,
        upload,
        mtime: u64::try_from((env.clock)().as_second()).unwrap_or(0),
        segment: Segment::default(),
        budgets: Vec::new(),
        assembler: Assembler::new(),
        compressing: JoinSet::new(),
        resources: ResourceList::default(),
        counts: BTreeMap::new(),
    };
    writer.segment.push_version(writer.mtime);
    loop {
        tokio::select! {
            biased;
            Some(done) = writer.compressing.join_next() => writer.send(done.map_err(|_| Stopped::Thread)?).await?,
            batch = objects.recv(), if writer.compressing.len() <= threads => match batch {
                None => break,
                Some(batch) => writer.add(batch),
            },
        }
    }
    writer.close_segment();
    while let Some(done) = writer.compressing.join_next().await {
        writer.send(done.map_err(|_| Stopped::Thread)?).await?;
    }
    let (last, summary, index) = writer.assembler.finish();
    writer.upload.send(TarballPiece::Bytes(last.into())).await.map_err(|_| Stopped::Upload)?;
    Ok(Written { summary, index, resources: writer.resources, counts: writer.counts })
}

struct Writer<'a> {
    env: &'a Env,
    level: u32,
    upload: mpsc::Sender<TarballPiece>,
    mtime: u64,
    segment: Segment,
    budgets: Vec<OwnedSemaphorePermit>,
    assembler: Assembler,
    compressing: JoinSet<Compressed>,
    resources: ResourceList,
    counts: BTreeMap<String, u64>,
}

impl Writer<'_> {
    fn add(&mut self, batch: Entries) {
        let mut saved = 0;
        for entry in &batch.entries {
            saved += u64::from(self.push(entry));
            if self.segment.is_full() {
                self.close_segment();
            }
        }
        self.env.progress.finished(saved);
        // The bytes are copied into the segment, but the budget stands for them until they are uploaded.
        self.budgets.extend(batch.budget);
    }

    fn push(&mut self, entry: &Entry) -> bool {
        let resource = entry.resource.group_resource();
        let object = ObjectEntry {
            resource: &resource,
            version: &entry.resource.version,
            preferred: entry.resource.preferred,
            namespace: entry.namespace.as_deref(),
            name: &entry.name,
            body: &entry.body,
        };
        if let Err(e) = self.segment.push_object(&object, self.mtime) {
            let key = ObjectKey::new(resource, entry.namespace.as_deref(), &*entry.name);
            self.env.journal.item(Severity::Error, &key, "Error backing up item", Some(&e.to_string()));
            return false;
        }
        let api_version = entry.resource.api_version();
        self.resources.add(&api_version, &entry.resource.kind, entry.namespace.as_deref(), &entry.name);
        *self.counts.entry(resource.to_string()).or_default() += 1;
        true
    }

    fn close_segment(&mut self) {
        if self.segment.is_empty() {
            return;
        }
        let (segment, level) = (std::mem::take(&mut self.segment), self.level);
        let budgets = std::mem::take(&mut self.budgets);
        self.compressing.spawn_blocking(move || (segment.compress(level), budgets));
    }

    async fn send(&mut self, (member, budgets): Compressed) -> Result<(), Stopped> {
        let bytes = self.assembler.append(member);
        self.upload.send(TarballPiece::Bytes(bytes.into())).await.map_err(|_| Stopped::Upload)?;
        drop(budgets);
        Ok(())
    }
}
