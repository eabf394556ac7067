//! Packs objects into members, compresses members in parallel, and uploads them as they complete.

use crate::env::Env;
use crate::process::{Entries, Entry};
use lifeboat_archive::gzip::Packer;
use lifeboat_archive::sidecar::ResourceList;
use lifeboat_archive::tarball::{Assembler, Member, ObjectEntry, Segment, TarballSummary};
use lifeboat_object::{ApiResource, GroupResource, ObjectKey, Severity};
use lifeboat_store::TarballPiece;
use std::collections::BTreeMap;
use std::sync::Arc;
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

/// A compressed segment, the memory that its objects took, and what can be used again.
type Compressed = (Member, Vec<OwnedSemaphorePermit>, Segment, Packer);

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
        idle: Vec::new(),
        packer: Packer::new(level),
        names: None,
        resources: ResourceList::default(),
        counts: BTreeMap::new(),
    };
    writer.segment.push_version(writer.mtime);
    loop {
        tokio::select! {
            biased;
            Some(done) = writer.compressing.join_next() => writer.send(done.map_err(|_| Stopped::Thread)?).await?,
            batch = objects.recv(), if writer.compressing.len() < threads => match batch {
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
    /// Those that rest.
    idle: Vec<(Segment, Packer)>,
    packer: Packer,
    /// Of the type of the last object; the next one is mostly of the same.
    names: Option<Names>,
    resources: ResourceList,
    counts: BTreeMap<String, u64>,
}

struct Names {
    resource: Arc<ApiResource>,
    group_resource: GroupResource,
    text: String,
    api_version: String,
}

impl Names {
    fn of(resource: &Arc<ApiResource>) -> Self {
        let group_resource = resource.group_resource();
        Self {
            resource: Arc::clone(resource),
            text: group_resource.to_string(),
            group_resource,
            api_version: resource.api_version(),
        }
    }
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
        let same = self.names.take().filter(|names| Arc::ptr_eq(&names.resource, &entry.resource));
        let names = &*self.names.insert(same.unwrap_or_else(|| Names::of(&entry.resource)));
        let object = ObjectEntry {
            resource: &names.group_resource,
            version: &entry.resource.version,
            preferred: entry.resource.preferred,
            namespace: entry.namespace.as_deref(),
            name: &entry.name,
            body: entry.body.pieces(),
        };
        if let Err(e) = self.segment.push_object(&object, self.mtime) {
            let key = ObjectKey::new(names.group_resource.clone(), entry.namespace.as_deref(), &*entry.name);
            self.env.journal.item(Severity::Error, &key, "Error backing up item", Some(&e.to_string()));
            return false;
        }
        self.resources.add(&names.api_version, &entry.resource.kind, entry.namespace.as_deref(), &entry.name);
        match self.counts.get_mut(&names.text) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(names.text.clone(), 1)),
        }
        true
    }

    fn close_segment(&mut self) {
        if self.segment.is_empty() {
            return;
        }
        let (segment, packer) = self.idle.pop().unwrap_or_else(|| (Segment::default(), Packer::new(self.level)));
        let mut segment = std::mem::replace(&mut self.segment, segment);
        let mut packer = std::mem::replace(&mut self.packer, packer);
        let budgets = std::mem::take(&mut self.budgets);
        self.compressing.spawn_blocking(move || (segment.compress(&mut packer), budgets, segment, packer));
    }

    async fn send(&mut self, (member, budgets, segment, packer): Compressed) -> Result<(), Stopped> {
        self.idle.push((segment, packer));
        let bytes = self.assembler.append(member);
        self.upload.send(TarballPiece::Bytes(bytes.into())).await.map_err(|_| Stopped::Upload)?;
        drop(budgets);
        Ok(())
    }
}
