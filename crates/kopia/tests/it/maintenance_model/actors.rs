//! Writers of snapshots.

use super::world::{CONTENTS, Loaded, Record, STALE, Snapshot, World, seconds};

/// The minutes after which a writer takes a checkpoint.
const CHECKPOINT: i64 = 45;
/// The minutes after which it writes an index.
const FLUSH: i64 = 10;

/// A writer: takes a snapshot, then waits.
#[derive(Debug)]
pub(super) struct SnapshotWriter {
    /// The time of its next step.
    pub(super) next: i64,
    /// The checkpoint of the snapshot that it is writing.
    pub(super) checkpoint: Option<usize>,
    /// Its clock is wrong by so many minutes.
    offset: i64,
    loaded: Loaded,
    waiting: Vec<usize>,
    done: Vec<usize>,
    /// Stored in packs, in no index yet.
    pending: Vec<(usize, Record)>,
    session: Option<usize>,
    last_flush: i64,
    last_checkpoint: i64,
}

impl SnapshotWriter {
    pub(super) fn new(offset: i64) -> Self {
        Self {
            next: 0,
            checkpoint: None,
            offset,
            loaded: Loaded::default(),
            waiting: Vec::new(),
            done: Vec::new(),
            pending: Vec::new(),
            session: None,
            last_flush: 0,
            last_checkpoint: 0,
        }
    }

    /// Contents that its snapshot has, and that it has not just written itself.
    pub(super) fn counts_on(&self) -> impl Iterator<Item = usize> {
        let is_pending = |content: &usize| self.pending.iter().any(|(pending, _)| pending == content);
        self.done.iter().filter(move |content| !is_pending(content)).copied()
    }

    pub(super) fn step(&mut self, world: &mut World) {
        self.next = world.now + 1 + world.random.below(12);
        if self.waiting.is_empty() && self.done.is_empty() {
            self.begin(world);
        } else if world.random.chance(3) {
            self.crash(world);
        } else if world.now - self.last_checkpoint >= CHECKPOINT {
            self.save(world);
            self.last_checkpoint = world.now;
        } else if !self.pending.is_empty() && world.now - self.last_flush >= FLUSH {
            self.flush(world);
        } else if let Some(content) = self.waiting.pop() {
            self.content(world, content);
        } else {
            self.save(world);
            self.checkpoint = None;
            self.rest(world);
        }
    }

    fn begin(&mut self, world: &mut World) {
        self.loaded = world.load();
        (self.last_checkpoint, self.last_flush) = (world.now, world.now);
        for _ in 0..1 + world.random.below(6) {
            self.waiting.push(usize::try_from(world.random.below(CONTENTS as i64)).unwrap());
        }
    }

    fn rest(&mut self, world: &mut World) {
        self.waiting.clear();
        self.done.clear();
        self.next = world.now + world.random.below(20 * 60);
    }

    fn crash(&mut self, world: &mut World) {
        self.pending.clear();
        self.session = None;
        self.checkpoint = None;
        self.rest(world);
    }

    fn content(&mut self, world: &mut World, content: usize) {
        if world.now - self.loaded.time >= STALE {
            self.loaded = world.load();
        }
        let known = world.find(content, &self.loaded);
        let is_pending = self.pending.iter().any(|(pending, _)| *pending == content);
        if !is_pending && known.is_none_or(|record| record.is_deleted) {
            let session = *self.session.get_or_insert_with(|| world.open_session(self.offset));
            // Some packs have several contents.
            let last = self.pending.last().map(|(_, record)| record.pack).filter(|_| world.random.chance(50));
            let pack = last.unwrap_or_else(|| world.store_pack(session));
            let mut timestamp = seconds(world.now + self.offset).max(known.map_or(0, |record| record.timestamp + 1));
            if world.settings.writes_above_watermark {
                timestamp = timestamp.max(self.loaded.watermark + 1);
            }
            self.pending.push((content, Record { timestamp, is_deleted: false, pack, seen: 0, published: 0 }));
        }
        if !self.done.contains(&content) {
            self.done.push(content);
        }
    }

    fn flush(&mut self, world: &mut World) {
        world.publish(&self.pending);
        self.pending.clear();
        self.last_flush = world.now;
        self.loaded = world.load();
        if let Some(session) = self.session.take() {
            world.sessions[session] = None;
        }
    }

    /// Writes the snapshot, or its checkpoint in place of the one before.
    fn save(&mut self, world: &mut World) {
        self.flush(world);
        world.snapshots.push(Snapshot { contents: self.done.clone(), is_there: true });
        let saved = world.snapshots.len() - 1;
        if let Some(before) = self.checkpoint.replace(saved) {
            world.snapshots[before].is_there = false;
        }
    }
}
