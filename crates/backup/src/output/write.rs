//! Packs objects into members, compresses members in parallel, and uploads them as they complete.

use crate::collect::spool::cost;
use crate::collect::tally::Tally;
use crate::env::Env;
use crate::output::entry::{ArchiveEntry, Entries, FAILED};
use crate::stage_error::StageError;
use bytes::Bytes;
use lifeboat_archive::gzip::Packer;
use lifeboat_archive::sidecar::ResourceList;
use lifeboat_archive::tarball::{Assembler, Member, ObjectEntry, Segment, TarballSummary};
use lifeboat_object::{ApiResource, GroupResource, ObjectKey, Severity};
use lifeboat_store::{Broken, StreamReceiver, StreamSender};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{JoinError, JoinSet};

/// The result of writing the archive.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) summary: TarballSummary,
    pub(crate) index: Vec<u8>,
    pub(crate) resources: ResourceList,
    pub(crate) counts: BTreeMap<String, u64>,
}

fn died(_: JoinError) -> Broken {
    Broken("compressing the archive")
}

/// A compressed segment, the memory that its objects took, and the parts that can be used again.
type Compressed = (Member, Vec<OwnedSemaphorePermit>, Segment, Packer);

/// Runs until the end of the objects is said, sending the bytes of the archive to `upload`. The end of those is for the
/// caller to say.
pub(crate) async fn write(
    objects: StreamReceiver<Entries>,
    level: u32,
    upload: &StreamSender<Bytes>,
    tally: &Tally,
    env: &Env,
) -> Result<Written, StageError> {
    ArchiveWriter::new(level, upload, tally, env).run(objects).await
}

struct ArchiveWriter<'a> {
    env: &'a Env,
    tally: &'a Tally,
    upload: &'a StreamSender<Bytes>,
    mtime: u64,
    open: OpenSegment,
    compression: Compression,
    assembler: Assembler,
    contents: WrittenObjects,
}

/// The segment that objects are put into.
struct OpenSegment {
    segment: Segment,
    packer: Packer,
    /// The memory of its objects.
    budgets: Vec<OwnedSemaphorePermit>,
}

impl OpenSegment {
    /// Keeps this much of a batch's share, or all that is left of the share, until the segment is uploaded: the bytes are
    /// copied into it. What no object of the batch keeps returns when the batch is dropped, because objects that are left
    /// out fill no segment, and would keep their memory until others do.
    fn keep(&mut self, budget: Option<&mut OwnedSemaphorePermit>, cost: usize) {
        if let Some(budget) = budget
            && cost > 0
        {
            self.budgets.extend(budget.split(cost.min(budget.num_permits())));
        }
    }
}

/// Compresses segments that are full, each on a thread of its own.
struct Compression {
    level: u32,
    running: JoinSet<Compressed>,
    /// Segments and packers that are free for reuse.
    idle: Vec<(Segment, Packer)>,
}

impl Compression {
    /// An empty segment.
    fn segment(&mut self) -> OpenSegment {
        let (segment, packer) = self.idle.pop().unwrap_or_else(|| (Segment::default(), Packer::new(self.level)));
        OpenSegment { segment, packer, budgets: Vec::new() }
    }

    fn begin(&mut self, full: OpenSegment) {
        let OpenSegment { mut segment, mut packer, budgets } = full;
        self.running.spawn_blocking(move || (segment.compress(&mut packer), budgets, segment, packer));
    }
}

/// The objects of the archive, for the files beside it.
#[derive(Default)]
struct WrittenObjects {
    /// The name of the last object's type; the next object is mostly of the same.
    names: Option<TypeNames>,
    resources: ResourceList,
    counts: BTreeMap<String, u64>,
}

impl WrittenObjects {
    fn names(&mut self, resource: &Arc<ApiResource>) -> &TypeNames {
        let same = self.names.take().filter(|names| Arc::ptr_eq(&names.resource, resource));
        self.names.insert(same.unwrap_or_else(|| TypeNames::of(resource)))
    }

    fn add(&mut self, entry: &ArchiveEntry) {
        let Some(names) = &self.names else { return };
        self.resources.add(&names.api_version, &entry.resource.kind, entry.namespace.as_deref(), &entry.name);
        match self.counts.get_mut(&names.text) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(names.text.clone(), 1)),
        }
    }
}

struct TypeNames {
    resource: Arc<ApiResource>,
    group_resource: GroupResource,
    text: String,
    api_version: String,
}

impl TypeNames {
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

impl<'a> ArchiveWriter<'a> {
    fn new(level: u32, upload: &'a StreamSender<Bytes>, tally: &'a Tally, env: &'a Env) -> Self {
        let mut compression = Compression { level, running: JoinSet::new(), idle: Vec::new() };
        Self {
            env,
            tally,
            upload,
            mtime: u64::try_from((env.operation.clock)().as_second()).unwrap_or(0),
            open: compression.segment(),
            compression,
            assembler: Assembler::new(),
            contents: WrittenObjects::default(),
        }
    }

    async fn run(mut self, mut objects: StreamReceiver<Entries>) -> Result<Written, StageError> {
        let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        self.open.segment.push_version(self.mtime);
        loop {
            tokio::select! {
                biased;
                Some(done) = self.compression.running.join_next() => self.send(done.map_err(died)?).await?,
                batch = objects.next(), if self.compression.running.len() < threads => match batch? {
                    None => break,
                    Some(batch) => self.add(batch),
                },
            }
        }
        self.close_segment();
        while let Some(done) = self.compression.running.join_next().await {
            self.send(done.map_err(died)?).await?;
        }
        let (last, summary, index) = self.assembler.finish();
        self.upload.send(last.into()).await?;
        Ok(Written { summary, index, resources: self.contents.resources, counts: self.contents.counts })
    }

    fn add(&mut self, batch: Entries) {
        let Entries { entries, mut budget } = batch;
        let (mut saved, mut kept) = (0, 0);
        for entry in &entries {
            if self.push(entry) {
                saved += 1;
                kept += cost(entry.body.len());
            }
            if self.open.segment.is_full() {
                self.open.keep(budget.as_mut(), std::mem::take(&mut kept));
                self.close_segment();
            }
        }
        self.open.keep(budget.as_mut(), kept);
        self.env.operation.progress.finished(saved);
    }

    fn push(&mut self, entry: &ArchiveEntry) -> bool {
        let names = self.contents.names(&entry.resource);
        let object = ObjectEntry {
            resource: &names.group_resource,
            version: &entry.resource.version,
            preferred: entry.resource.preferred,
            namespace: entry.namespace.as_deref(),
            name: &entry.name,
            body: entry.body.pieces(),
        };
        if let Err(e) = self.open.segment.push_object(&object, self.mtime) {
            self.tally.settled(1);
            let key = ObjectKey::new(names.group_resource.clone(), entry.namespace.as_deref(), &*entry.name);
            self.env.operation.journal.item(Severity::Error, &key, FAILED, Some(&e.to_string()));
            return false;
        }
        self.contents.add(entry);
        true
    }

    fn close_segment(&mut self) {
        if self.open.segment.is_empty() {
            return;
        }
        let next = self.compression.segment();
        self.compression.begin(std::mem::replace(&mut self.open, next));
    }

    async fn send(&mut self, (member, budgets, segment, packer): Compressed) -> Result<(), StageError> {
        self.compression.idle.push((segment, packer));
        self.tally.settled(member.objects());
        let bytes = self.assembler.append(member);
        self.upload.send(bytes.into()).await?;
        drop(budgets);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::test_env;
    use lifeboat_store::stream;
    use tokio::sync::Semaphore;

    fn entry(name: &str, length: usize) -> ArchiveEntry {
        ArchiveEntry {
            resource: Arc::new(ApiResource::new("", "v1", "configmaps", "ConfigMap")),
            namespace: Some("n".to_owned()),
            name: name.to_owned(),
            body: Bytes::from(vec![b'x'; length]).into(),
        }
    }

    /// Otherwise objects that are left out would keep, for ever, the memory that the next ones wait for.
    #[tokio::test]
    async fn an_open_segment_holds_the_memory_of_what_stands_in_it() {
        let env = test_env().await;
        let (upload, mut pieces) = stream(4, "making the archive");
        let tally = Tally::default();
        let mut writer = ArchiveWriter::new(1, &upload, &tally, &env);
        let all = 64 << 20;
        let budget = Arc::new(Semaphore::new(all));
        let mut add = |entries: Vec<ArchiveEntry>, share: u32| {
            writer.add(Entries { entries, budget: Arc::clone(&budget).try_acquire_many_owned(share).ok() });
            (all - budget.available_permits(), writer.compression.running.len())
        };
        assert_eq!(add(vec![], 30_000), (0, 0), "all were left out");
        assert_eq!(add(vec![entry("a", 1000)], 30_000), (cost(1000), 0), "the others were left out");
        assert_eq!(add(vec![entry("b", 1000)], 10), (cost(1000) + 10, 0), "a batch of the largest share");
        assert_eq!(add(vec![entry("..", 1000)], 3000), (cost(1000) + 10, 0), "this one has no place in an archive");
        // The first two fill the segment; the last one stands alone in the next.
        let (large, share) = (400 << 10, 8 << 20);
        let held = cost(1000) + 10 + 2 * cost(large);
        assert_eq!(add(vec![entry("c", large), entry("d", large), entry("e", 10)], share), (held + cost(10), 1));
        let done = writer.compression.running.join_next().await.expect("a segment").expect("compressed");
        writer.send(done).await.unwrap();
        assert!(pieces.next().await.unwrap().is_some());
        assert_eq!(all - budget.available_permits(), cost(10));
    }

    #[tokio::test]
    async fn a_stage_that_died_before_it_ends_no_archive() {
        let env = test_env().await;
        let (upload, _pieces) = stream(4, "making the archive");
        let (sender, objects) = stream(4, "processing objects");
        sender.send(Entries { entries: Vec::new(), budget: None }).await.unwrap();
        drop(sender);
        let stopped = write(objects, 1, &upload, &Tally::default(), &env).await.unwrap_err();
        assert_eq!(stopped, StageError::StageDied(Broken("processing objects")));
    }

    #[tokio::test]
    async fn a_thread_that_died_compressing_ends_no_archive() {
        let env = test_env().await;
        let (upload, _pieces) = stream(4, "making the archive");
        let (sender, objects) = stream(4, "processing objects");
        sender.end();
        let tally = Tally::default();
        let mut writer = ArchiveWriter::new(1, &upload, &tally, &env);
        writer.compression.running.spawn_blocking(|| panic!("in the middle"));
        let stopped = writer.run(objects).await.unwrap_err();
        assert_eq!(stopped, StageError::StageDied(Broken("compressing the archive")));
    }

    #[tokio::test]
    async fn an_upload_that_is_gone_stops_the_writing() {
        let env = test_env().await;
        let (upload, pieces) = stream(4, "making the archive");
        let (sender, objects) = stream(4, "processing objects");
        sender.end();
        drop(pieces);
        let stopped = write(objects, 1, &upload, &Tally::default(), &env).await.unwrap_err();
        assert_eq!(stopped, StageError::OperationEnded);
    }
}
