//! Maintainers that perform real plans, step by step.

use super::world::{CONTENTS, Loaded, MINUTE, Record, World, nanos, seconds};
use lifeboat_kopia::blobs::BlobInfo;
use lifeboat_kopia::format::maintenance::{MaintenanceParameters, MaintenanceRun};
use lifeboat_kopia::format::repository::EpochParameters;
use lifeboat_kopia::format::time::UnixNanos;
use lifeboat_kopia::maintenance::check::{self, SeenEntry, Violation};
use lifeboat_kopia::maintenance::plan::collection::{Verdict, watermark};
use lifeboat_kopia::maintenance::plan::schedule::Mode;
use lifeboat_kopia::maintenance::plan::survey::{EntryFacts, Survey, SurveyRules, Surveying};
use lifeboat_kopia::maintenance::plan::{Action, COLLECTION, REWRITES, View, plan};
use std::collections::{HashMap, VecDeque};

/// The minutes for which a claim without a sign of life counts.
const CLAIM: i64 = 30;
/// The minutes that a step takes at most after the claim was looked at.
const STEP: i64 = 10;
/// The size at which a pack is finished; a content has a tenth of it.
const PACK: u64 = 100;

/// Deeds that others can come between.
#[derive(Debug)]
enum Deed {
    DeletePack {
        pack: usize,
        after: Option<u64>,
    },
    DeleteMarker(usize),
    /// Entries are made in the first half and published in the second.
    Collect,
    PublishCollection(Vec<(usize, Record)>),
    RaiseWatermark(u64),
    Rewrite(Vec<u32>),
    PublishRewrite(Vec<(usize, Record)>),
}

/// A maintainer: runs, then waits.
#[derive(Debug)]
pub(super) struct Maintainer {
    /// The time of its next step.
    pub(super) next: i64,
    pub(super) never_crashes: bool,
    number: usize,
    begun: i64,
    loaded: Loaded,
    referenced: [bool; CONTENTS],
    survey: Option<Survey>,
    deeds: VecDeque<Deed>,
    has_collected: bool,
    has_raised: bool,
}

impl Maintainer {
    pub(super) fn new(number: usize) -> Self {
        Self {
            next: 0,
            never_crashes: false,
            number,
            begun: 0,
            loaded: Loaded::default(),
            referenced: [false; CONTENTS],
            survey: None,
            deeds: VecDeque::new(),
            has_collected: false,
            has_raised: false,
        }
    }

    pub(super) fn abandon(&mut self) {
        self.deeds.clear();
        self.survey = None;
    }

    /// Performs one deed. True at the end of a run.
    pub(super) fn step(&mut self, world: &mut World) -> Result<bool, String> {
        if self.survey.is_none() {
            if self.claim(world) {
                self.begin(world)?;
                return Ok(false);
            }
            self.next = world.now + 1 + world.random.below(8 * 60);
            return Ok(true);
        }
        let is_killed = !self.never_crashes && world.random.chance(4);
        if is_killed || !self.keeps_claim(world) {
            self.abandon();
            self.next = world.now + world.random.below(6 * 60);
            return Ok(true);
        }
        let Some(deed) = self.deeds.pop_front() else {
            self.abandon();
            if world.settings.has_claim {
                world.claim = None;
            }
            self.next = world.now + world.random.below(14 * 60);
            return Ok(true);
        };
        self.perform(world, deed);
        let pause = match world.random.below(4) {
            0 => 0,
            1 => world.random.below(10),
            // The process sleeps longer than its claim lasts.
            2 if !self.never_crashes && world.random.chance(10) => {
                self.next = world.now + 24 * 60;
                return Ok(false);
            }
            _ => world.random.below(100),
        };
        self.next = world.now + pause;
        if let Some((_, seen)) = world.claim.as_mut().filter(|(holder, _)| *holder == self.number) {
            // It is renewed all the time.
            *seen = self.next;
        }
        Ok(false)
    }

    fn claim(&self, world: &mut World) -> bool {
        let is_free = world.claim.is_none_or(|(_, seen)| world.now - seen > CLAIM);
        if world.settings.has_claim && is_free {
            world.claim = Some((self.number, world.now));
        }
        is_free || !world.settings.has_claim
    }

    /// True while the claim is its own. One that was not renewed in time may be another's already.
    fn keeps_claim(&self, world: &World) -> bool {
        if !world.settings.has_claim {
            return true;
        }
        let (holder, seen) = world.claim.unwrap_or((usize::MAX, 0));
        holder == self.number && world.now - seen <= CLAIM - STEP
    }

    fn facts(&self, content: usize, record: &Record) -> EntryFacts {
        EntryFacts {
            timestamp: record.timestamp,
            is_deleted: record.is_deleted,
            is_referenced: self.referenced[content],
            prefix: None,
            pack: u32::try_from(record.pack).unwrap(),
            length: u32::try_from(PACK / 10).unwrap(),
        }
    }

    fn begin(&mut self, world: &mut World) -> Result<(), String> {
        self.begun = world.now;
        self.loaded = world.load();
        self.referenced = world.referenced();
        (self.has_collected, self.has_raised) = (false, false);
        let runs = |task: &str| world.schedule.runs.get(task).cloned().unwrap_or_default();
        let (now, delays) = (nanos(world.now), world.settings.delays);
        let next_watermark = watermark(&runs(COLLECTION), &delays, now);
        let rules = SurveyRules { now, delays, watermark: self.loaded.watermark, next_watermark };
        let mut surveying = Surveying::new(rules, world.packs.len());
        let blob = |pack: usize| {
            let (name, stored) = (pack_name(world, pack), world.packs[pack].stored);
            BlobInfo { name, length: PACK / 10, modified: Some(nanos(stored)) }
        };
        for pack in (0..world.packs.len()).filter(|pack| world.packs[*pack].exists) {
            surveying.pack(&blob(pack), Some(u32::try_from(pack).unwrap()));
        }
        for content in 0..CONTENTS {
            if let Some(record) = world.find(content, &self.loaded) {
                surveying.entry(&self.facts(content, &record));
            }
            let time = world.now - delays.after_rewrite / MINUTE;
            if let Some(record) = world.find_as_of(content, time).filter(|_| world.settings.looks_back) {
                surveying.earlier(&self.facts(content, &record));
            }
        }
        let markers: Vec<(BlobInfo, UnixNanos)> = (0..)
            .zip(&world.sessions)
            .filter_map(|(number, marker)| {
                let marker = marker.as_ref()?;
                let name = format!("s{number:x}-s{number:x}");
                let blob = BlobInfo { name, length: 1, modified: Some(nanos(marker.stored)) };
                Some((blob, nanos(marker.checkpoint)))
            })
            .collect();
        let survey = surveying.finish(|pack| pack_name(world, pack as usize), &markers);
        let view = View {
            mode: Mode::Full,
            now,
            delays,
            schedule: &world.schedule,
            parameters: &MaintenanceParameters::default(),
            epochs: &EpochParameters { enabled: true, ..EpochParameters::default() },
            max_pack_size: PACK,
            retention: None,
            indexes: &[],
            logs: &[],
            survey: Ok(&survey),
        };
        let plan = plan(&view);
        self.deeds.clear();
        for step in plan.steps {
            self.add(world, step.action)?;
        }
        self.survey = Some(survey);
        Ok(())
    }

    fn add(&mut self, world: &World, action: Action) -> Result<(), String> {
        match action {
            Action::DeletePacks { packs, after_watermark } => {
                let packs: Vec<usize> = packs.iter().map(|blob| number_of(&blob.name)).collect();
                if world.settings.delays == lifeboat_kopia::maintenance::delays::Delays::SAFE {
                    self.check(world, &packs, after_watermark)?;
                }
                self.deeds.extend(packs.iter().map(|pack| Deed::DeletePack { pack: *pack, after: after_watermark }));
            }
            Action::DeleteSessions { markers } => {
                self.deeds.extend(markers.iter().map(|blob| Deed::DeleteMarker(number_of(&blob.name))));
            }
            Action::Collect { .. } => self.deeds.push_back(Deed::Collect),
            Action::RaiseWatermark { seconds } => self.deeds.push_back(Deed::RaiseWatermark(seconds)),
            Action::Rewrite { packs, .. } => self.deeds.push_back(Deed::Rewrite(packs)),
            other => return Err(format!("a step that the model does not know: {other}")),
        }
        Ok(())
    }

    /// The second look agrees with the plan.
    fn check(&self, world: &World, packs: &[usize], after: Option<u64>) -> Result<(), String> {
        let names: Vec<String> = packs.iter().map(|pack| pack_name(world, *pack)).collect();
        let doomed: HashMap<u32, &str> =
            packs.iter().zip(&names).map(|(pack, name)| (u32::try_from(*pack).unwrap(), name.as_str())).collect();
        let entries = (0..CONTENTS).filter_map(|content| {
            let record = world.find(content, &self.loaded)?;
            Some(Ok::<_, Violation>(SeenEntry {
                pack: u32::try_from(record.pack).unwrap(),
                timestamp: record.timestamp,
                is_deleted: record.is_deleted,
                is_referenced: self.referenced[content],
            }))
        });
        check::packs(&doomed, entries, after.unwrap_or(self.loaded.watermark)).map_err(|e| e.to_string())
    }

    fn perform(&mut self, world: &mut World, deed: Deed) {
        match deed {
            Deed::DeletePack { pack, after } => {
                if after.is_none() || self.has_raised {
                    world.packs[pack].exists = false;
                }
            }
            Deed::DeleteMarker(session) => world.sessions[session] = None,
            Deed::Collect => {
                let entries = self.collect(world);
                if entries.iter().flatten().any(|(_, record)| !record.is_deleted) {
                    self.record(world, REWRITES[0]);
                }
                match entries {
                    Some(entries) => self.deeds.push_front(Deed::PublishCollection(entries)),
                    // A pack could not be read: the run fails.
                    None => self.deeds.clear(),
                }
            }
            Deed::PublishCollection(entries) => {
                world.publish(&entries);
                self.has_collected = true;
                self.record(world, COLLECTION);
                if entries.iter().any(|(_, record)| !record.is_deleted) {
                    self.record(world, REWRITES[0]);
                }
            }
            Deed::RaiseWatermark(seconds) => {
                if self.has_collected {
                    world.watermark = world.watermark.max(seconds);
                    self.has_raised = true;
                }
            }
            Deed::Rewrite(packs) => {
                self.record(world, REWRITES[0]);
                if let Some(entries) = self.rewrite(world, &packs) {
                    self.deeds.push_front(Deed::PublishRewrite(entries));
                }
            }
            Deed::PublishRewrite(entries) => {
                world.publish(&entries);
                self.record(world, REWRITES[0]);
            }
        }
    }

    fn record(&self, world: &mut World, task: &str) {
        let (start, end) = (Some(nanos(self.begun)), Some(nanos(world.now)));
        world.schedule.record(task, MaintenanceRun { start, end, success: true, ..MaintenanceRun::default() });
    }

    fn collect(&self, world: &mut World) -> Option<Vec<(usize, Record)>> {
        let mut entries = Vec::new();
        for content in 0..CONTENTS {
            let Some(record) = world.find(content, &self.loaded) else { continue };
            let timestamp = seconds(world.now).max(record.timestamp + 1);
            let verdict = self.survey.as_ref()?.verdict(&self.facts(content, &record));
            let pack = match verdict {
                Verdict::Delete => record.pack,
                Verdict::Undelete => self.copy(world, &record)?,
                _ => continue,
            };
            entries.push((
                content,
                Record { timestamp, is_deleted: verdict == Verdict::Delete, pack, seen: 0, published: 0 },
            ));
        }
        Some(entries)
    }

    /// Copies a content into a new pack.
    fn copy(&self, world: &mut World, record: &Record) -> Option<usize> {
        if !world.packs[record.pack].exists {
            return None;
        }
        let session = world.open_session(0);
        // It ends with the index that follows.
        world.sessions[session] = None;
        Some(world.store_pack(session))
    }

    fn rewrite(&self, world: &mut World, packs: &[u32]) -> Option<Vec<(usize, Record)>> {
        // Own writes are seen.
        let loaded = if self.has_collected { world.load() } else { self.loaded };
        let mut entries = Vec::new();
        let mut copy = None;
        for content in 0..CONTENTS {
            let Some(record) = world.find(content, &loaded) else { continue };
            if record.is_deleted || !packs.contains(&u32::try_from(record.pack).unwrap()) {
                continue;
            }
            if !world.packs[record.pack].exists {
                return None;
            }
            let pack = match copy {
                Some(pack) => pack,
                None => self.copy(world, &record)?,
            };
            copy = Some(pack);
            let timestamp = seconds(world.now).max(record.timestamp + 1);
            entries.push((content, Record { timestamp, is_deleted: false, pack, seen: 0, published: 0 }));
        }
        Some(entries)
    }
}

fn pack_name(world: &World, pack: usize) -> String {
    format!("p{pack:x}-s{:x}", world.packs[pack].session)
}

/// The number in the name of a pack or marker.
fn number_of(name: &str) -> usize {
    usize::from_str_radix(name[1..].split('-').next().unwrap(), 16).unwrap()
}
