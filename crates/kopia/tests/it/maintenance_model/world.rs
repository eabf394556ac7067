//! The state of a repository, and its histories.

use super::actors::SnapshotWriter;
use super::maintainer::Maintainer;
use lifeboat_kopia::format::maintenance::Schedule;
use lifeboat_kopia::format::time::UnixNanos;
use lifeboat_kopia::maintenance::delays::Delays;

/// Contents that snapshots can have.
pub(super) const CONTENTS: usize = 8;
pub(super) const MINUTE: i64 = 60 * 1_000_000_000;
/// The beginning of each history, in minutes.
const BEGIN: i64 = 1_795_900_000 / 60;
/// The age in minutes that the indexes of a reader may have.
pub(super) const STALE: i64 = 15;

#[derive(Debug, Clone, Copy)]
pub(super) struct HistorySettings {
    pub(super) delays: Delays,
    pub(super) maintainers: usize,
    pub(super) has_claim: bool,
    pub(super) writes_above_watermark: bool,
    /// Maintainers keep the packs for which readers with old indexes may look.
    pub(super) looks_back: bool,
    /// Clocks of writers are wrong by up to two days.
    pub(super) is_skewed: bool,
}

/// Numbers that look random.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn below(&mut self, bound: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        i64::try_from((mixed ^ (mixed >> 31)) % bound.unsigned_abs().max(1)).unwrap()
    }

    pub(super) fn chance(&mut self, percent: i64) -> bool {
        self.below(100) < percent
    }
}

/// An entry of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) timestamp: u64,
    pub(super) is_deleted: bool,
    pub(super) pack: usize,
    /// The event after which it can be seen.
    pub(super) seen: u64,
    /// The time of its index.
    pub(super) published: i64,
}

#[derive(Debug, Clone)]
pub(super) struct Pack {
    pub(super) stored: i64,
    pub(super) session: usize,
    pub(super) exists: bool,
}

/// The marker of a session, with the local time in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marker {
    pub(super) stored: i64,
    pub(super) checkpoint: i64,
}

#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) contents: Vec<usize>,
    pub(super) is_there: bool,
}

/// The indexes as a client has loaded them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Loaded {
    pub(super) event: u64,
    /// Contents that snapshots needed.
    pub(super) referenced: [bool; CONTENTS],
    pub(super) time: i64,
    pub(super) watermark: u64,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) settings: HistorySettings,
    pub(super) random: Random,
    pub(super) now: i64,
    pub(super) event: u64,
    pub(super) records: Vec<Vec<Record>>,
    pub(super) packs: Vec<Pack>,
    pub(super) sessions: Vec<Option<Marker>>,
    pub(super) snapshots: Vec<Snapshot>,
    pub(super) watermark: u64,
    pub(super) schedule: Schedule,
    /// The maintainer that holds the claim, and the time of its last sign of life.
    pub(super) claim: Option<(usize, i64)>,
    /// The loads that a reader may have made, the oldest first.
    readers: Vec<Loaded>,
}

pub(super) fn nanos(minutes: i64) -> UnixNanos {
    UnixNanos(minutes * MINUTE)
}

pub(super) fn seconds(minutes: i64) -> u64 {
    (minutes * 60).unsigned_abs()
}

impl World {
    pub(super) fn load(&self) -> Loaded {
        Loaded { event: self.event, referenced: self.referenced(), time: self.now, watermark: self.watermark }
    }

    /// The entry of a content that counts.
    pub(super) fn find(&self, content: usize, loaded: &Loaded) -> Option<Record> {
        let seen = self.records[content].iter().filter(|record| record.seen <= loaded.event);
        let best = seen.max_by_key(|record| (record.timestamp, !record.is_deleted, record.pack)).copied();
        best.filter(|record| !record.is_deleted || record.timestamp > loaded.watermark)
    }

    /// The entry of a content that counted at a time, also one whose deletion the watermark has passed.
    pub(super) fn find_as_of(&self, content: usize, time: i64) -> Option<Record> {
        let published = self.records[content].iter().filter(|record| record.published <= time);
        published.max_by_key(|record| (record.timestamp, !record.is_deleted, record.pack)).copied()
    }

    pub(super) fn store_pack(&mut self, session: usize) -> usize {
        self.packs.push(Pack { stored: self.now, session, exists: true });
        self.packs.len() - 1
    }

    /// Opens a session of a client whose clock is wrong by so much.
    pub(super) fn open_session(&mut self, offset: i64) -> usize {
        self.sessions.push(Some(Marker { stored: self.now, checkpoint: self.now + offset }));
        self.sessions.len() - 1
    }

    pub(super) fn publish(&mut self, entries: &[(usize, Record)]) {
        for (content, record) in entries {
            let record = Record { seen: self.event, published: self.now, ..*record };
            self.records[*content].push(record);
        }
    }

    /// Contents that snapshots need.
    pub(super) fn referenced(&self) -> [bool; CONTENTS] {
        let mut referenced = [false; CONTENTS];
        for content in self.snapshots.iter().filter(|one| one.is_there).flat_map(|one| &one.contents) {
            referenced[*content] = true;
        }
        referenced
    }

    fn lost(&self, content: usize, loaded: &Loaded) -> Option<String> {
        match self.find(content, loaded) {
            None => Some(format!("no entry has content {content} any more")),
            Some(record) if !self.packs[record.pack].exists => Some(format!("the pack of content {content} is gone")),
            Some(_) => None,
        }
    }

    /// Everything that snapshots need can be read, by those whose indexes are old, too.
    fn check(&mut self) -> Result<(), String> {
        let referenced = self.referenced();
        let now = self.load();
        while self.readers.get(1).is_some_and(|reader| reader.time <= self.now - STALE) {
            self.readers.remove(0);
        }
        let reader = self.readers.first().copied().unwrap_or_default();
        for content in (0..CONTENTS).filter(|content| referenced[*content]) {
            if let Some(lost) = self.lost(content, &now) {
                return Err(lost);
            }
            if reader.referenced[content]
                && let Some(lost) = self.lost(content, &reader)
            {
                return Err(format!("for a reader with old indexes {lost}"));
            }
        }
        self.readers.push(now);
        Ok(())
    }
}

/// A history: a world and all who act in it.
pub(super) struct History {
    world: World,
    writers: Vec<SnapshotWriter>,
    maintainers: Vec<Maintainer>,
}

impl History {
    pub(super) fn new(seed: u64, settings: HistorySettings) -> Self {
        let mut random = Random::new(seed);
        let mut writer = || {
            let skew = [0, 0, -4, 4, -2880, 2880][usize::try_from(random.below(6)).unwrap()];
            SnapshotWriter::new(if settings.is_skewed { skew } else { 0 })
        };
        let writers = vec![writer(), writer()];
        let maintainers = (0..settings.maintainers).map(Maintainer::new).collect();
        let world = World {
            settings,
            random,
            now: BEGIN,
            event: 1,
            records: vec![Vec::new(); CONTENTS],
            packs: Vec::new(),
            sessions: Vec::new(),
            snapshots: Vec::new(),
            watermark: 0,
            schedule: Schedule::default(),
            claim: None,
            readers: Vec::new(),
        };
        Self { world, writers, maintainers }
    }

    /// Lets all act for some days, then the maintainers alone, until no garbage may be left.
    pub(super) fn run(mut self) -> Result<(), String> {
        let end = self.world.now + (3 + self.world.random.below(6)) * 24 * 60;
        while self.world.now < end {
            let writer_next = self.writers.iter().map(|writer| writer.next);
            let next = writer_next.chain(self.maintainers.iter().map(|one| one.next)).min().unwrap();
            self.world.now = self.world.now.max(next);
            self.step()?;
            if self.world.random.chance(4) {
                self.forget_snapshot();
            }
        }
        self.writers.clear();
        self.finish()
    }

    fn step(&mut self) -> Result<(), String> {
        let world = &mut self.world;
        world.event += 1;
        let now = world.now;
        if let Some(writer) = self.writers.iter_mut().find(|writer| writer.next <= now) {
            writer.step(world);
        } else if let Some(maintainer) = self.maintainers.iter_mut().find(|one| one.next <= now) {
            maintainer.step(world)?;
        }
        world.check()?;
        // A snapshot that is being written needs all that it counts on.
        for writer in &self.writers {
            for content in writer.counts_on() {
                if let Some(lost) = world.lost(content, &world.load()) {
                    return Err(format!("of a snapshot that is being written: {lost}"));
                }
            }
        }
        Ok(())
    }

    fn forget_snapshot(&mut self) {
        let world = &mut self.world;
        let count = i64::try_from(world.snapshots.len()).unwrap();
        if count > 0 {
            let number = usize::try_from(world.random.below(count)).unwrap();
            let is_under_way = self.writers.iter().any(|writer| writer.checkpoint == Some(number));
            world.snapshots[number].is_there &= is_under_way;
        }
    }

    fn finish(mut self) -> Result<(), String> {
        // Clocks that were two days ahead, sessions of four days, two collections, a rewrite.
        // The runs begin at the same time of each day, whatever they take.
        let begin = self.world.now;
        for day in 1..=14 {
            self.world.now = begin + day * 24 * 60;
            self.world.claim = None;
            let maintainer = &mut self.maintainers[0];
            maintainer.abandon();
            maintainer.never_crashes = true;
            loop {
                self.world.event += 1;
                self.world.now += 1;
                let is_over = self.maintainers[0].step(&mut self.world)?;
                self.world.check()?;
                if is_over {
                    break;
                }
            }
        }
        let world = &self.world;
        let referenced = world.referenced();
        let now = world.load();
        let mut used = vec![false; world.packs.len()];
        for (content, is_referenced) in referenced.into_iter().enumerate() {
            if let Some(record) = world.find(content, &now) {
                if !is_referenced {
                    return Err(format!("garbage stays: content {content}, {record:?}"));
                }
                used[record.pack] = true;
            }
        }
        match world.packs.iter().zip(used).position(|(pack, used)| pack.exists && !used) {
            Some(pack) => Err(format!("garbage stays: pack {pack}")),
            None => Ok(()),
        }
    }
}
