//! Epochs in any order of writers, maintainers and crashes: whatever was written is found, by everybody, at every time.

use super::world::{Random, nanos};
use lifeboat_kopia::blobs::BlobInfo;
use lifeboat_kopia::content::epochs::{EpochState, state};
use lifeboat_kopia::format::repository::EpochParameters;
use lifeboat_kopia::maintenance::check;
use lifeboat_kopia::maintenance::plan::Action;
use lifeboat_kopia::maintenance::plan::epochs::epochs;
use lifeboat_kopia::maintenance::plan::schedule::Mode;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The minutes for which a choice of blobs is good.
const VALID: i64 = 20;
const BEGIN: i64 = 1_795_900_000 / 60;

struct Index {
    stored: i64,
    /// The flushes whose entries are in it.
    flushes: BTreeSet<u32>,
}

struct World {
    random: Random,
    parameters: EpochParameters,
    now: i64,
    blobs: BTreeMap<String, Index>,
    next_number: u32,
    /// The flushes that succeeded.
    written: BTreeSet<u32>,
    /// The blobs that readers are about to read, with the time of their choice.
    chosen: VecDeque<(i64, Vec<String>)>,
}

impl World {
    fn listing(&self) -> Vec<BlobInfo> {
        let blob = |(name, index): (&String, &Index)| {
            let length = index.flushes.len() as u64;
            BlobInfo { name: name.clone(), length, modified: Some(nanos(index.stored)) }
        };
        self.blobs.iter().map(blob).collect()
    }

    fn state(&self) -> EpochState {
        state(&self.listing())
    }

    fn put(&mut self, name: String, flushes: BTreeSet<u32>) {
        self.blobs.insert(name, Index { stored: self.now, flushes });
    }

    fn number(&mut self) -> u32 {
        self.next_number += 1;
        self.next_number
    }

    /// A reader that begins now finds everything, and one that began a while ago finds its blobs.
    fn check(&mut self) -> Result<(), String> {
        let names: Vec<String> = self.state().index_blobs().into_iter().map(|blob| blob.name).collect();
        let found: BTreeSet<u32> = names.iter().flat_map(|name| &self.blobs[name].flushes).copied().collect();
        if let Some(lost) = self.written.difference(&found).next() {
            return Err(format!("flush {lost} is lost"));
        }
        while self.chosen.front().is_some_and(|(then, _)| self.now - then > VALID) {
            self.chosen.pop_front();
        }
        for name in self.chosen.iter().flat_map(|(_, names)| names) {
            if !self.blobs.contains_key(name) {
                return Err(format!("{name} went while it was read"));
            }
        }
        self.chosen.push_back((self.now, names));
        Ok(())
    }
}

/// A flush under way: the epoch was chosen, the blob is stored perhaps.
struct Flush {
    next: i64,
    chosen: Option<(i64, u64)>,
    stored: Option<String>,
    number: u32,
}

impl Flush {
    /// True where it has changed something.
    fn step(&mut self, world: &mut World) -> bool {
        self.next = world.now + world.random.below(10);
        if world.random.chance(5) {
            // A crash.
            (self.chosen, self.stored) = (None, None);
        }
        match (&self.chosen, self.stored.take()) {
            (None, _) => {
                self.chosen = Some((world.now, world.state().write_epoch));
                self.number = world.number();
                false
            }
            (Some((then, _)), None) if world.now - then > VALID => {
                self.chosen = None;
                false
            }
            (Some((_, epoch)), None) => {
                let name = format!("xn{epoch}_{:x}-s{:x}-c1", self.number, self.number);
                world.put(name.clone(), BTreeSet::from([self.number]));
                self.stored = Some(name);
                true
            }
            (Some((_, epoch)), Some(name)) => {
                if world.state().write_epoch >= epoch + 2 {
                    world.blobs.remove(&name);
                } else {
                    world.written.insert(self.number);
                }
                self.chosen = None;
                self.next = world.now + world.random.below(8 * 60);
                true
            }
        }
    }
}

enum Deed {
    Put(String, BTreeSet<u32>),
    Merge(String, Vec<String>),
    Delete(String),
}

struct Maintainer {
    next: i64,
    deeds: VecDeque<Deed>,
}

impl Maintainer {
    fn step(&mut self, world: &mut World) -> Result<(), String> {
        self.next = world.now + if world.random.chance(50) { 0 } else { world.random.below(40) };
        if world.random.chance(5) {
            self.deeds.clear();
        }
        match self.deeds.pop_front() {
            None => {
                self.plan(world)?;
                self.next = world.now + world.random.below(9 * 60);
            }
            Some(Deed::Put(name, flushes)) => world.put(name, flushes),
            Some(Deed::Delete(name)) => drop(world.blobs.remove(&name)),
            Some(Deed::Merge(prefix, inputs)) => self.merge(world, &prefix, &inputs),
        }
        Ok(())
    }

    fn plan(&mut self, world: &mut World) -> Result<(), String> {
        let listing = world.listing();
        let mode = if world.random.chance(50) { Mode::Quick } else { Mode::Full };
        let names = |blobs: Vec<BlobInfo>| blobs.into_iter().map(|blob| blob.name).collect::<Vec<_>>();
        for step in epochs(&listing, &world.parameters, mode, nanos(world.now)) {
            let deeds = match step.action {
                Action::MergeEpoch { epoch, blobs } => vec![Deed::Merge(format!("xs{epoch}_"), names(blobs))],
                Action::MergeEpochs { first, last, blobs } => {
                    vec![Deed::Merge(format!("xr{first}_{last}_"), names(blobs))]
                }
                Action::AdvanceEpoch { to } => vec![Deed::Put(format!("xe{to}"), BTreeSet::new())],
                Action::DeleteIndexes { blobs } => {
                    let margin = world.parameters.cleanup_safety_margin;
                    if margin >= 4 * super::HOUR {
                        check::indexes(&blobs, &listing, margin, nanos(world.now)).map_err(|e| e.to_string())?;
                    }
                    names(blobs).into_iter().map(Deed::Delete).collect()
                }
                Action::DeleteMarkers { markers } => names(markers).into_iter().map(Deed::Delete).collect(),
                other => return Err(format!("a step that the model does not know: {other}")),
            };
            self.deeds.extend(deeds);
        }
        Ok(())
    }

    /// Reads the inputs and puts one blob or two, with time between.
    fn merge(&mut self, world: &mut World, prefix: &str, inputs: &[String]) {
        let read: Option<Vec<&Index>> = inputs.iter().map(|name| world.blobs.get(name)).collect();
        // An input is gone: another maintainer has replaced it.
        let Some(read) = read else { return };
        let all: BTreeSet<u32> = read.into_iter().flat_map(|index| &index.flushes).copied().collect();
        let set = world.number();
        let count = if world.random.chance(30) && all.len() > 1 { 2 } else { 1 };
        for member in (0..count).rev() {
            let flushes = all.iter().filter(|flush| *flush % count == member).copied().collect();
            let hash = world.number();
            self.deeds.push_front(Deed::Put(format!("{prefix}{hash:x}-s{set:x}-c{count}"), flushes));
        }
    }
}

fn run(seed: u64, margin: i64) -> Result<(), String> {
    let parameters = EpochParameters {
        enabled: true,
        epoch_refresh_frequency: super::HOUR / 3,
        full_checkpoint_frequency: 3,
        cleanup_safety_margin: margin,
        min_epoch_duration: 12 * super::HOUR,
        epoch_advance_on_count_threshold: 3,
        epoch_advance_on_total_size_bytes_threshold: 1 << 20,
        delete_parallelism: 4,
    };
    let mut world = World {
        random: Random::new(seed),
        parameters,
        now: BEGIN,
        blobs: BTreeMap::new(),
        next_number: 0,
        written: BTreeSet::new(),
        chosen: VecDeque::new(),
    };
    let mut flushes: Vec<Flush> = (0..3).map(|_| Flush { next: 0, chosen: None, stored: None, number: 0 }).collect();
    let mut maintainers: Vec<Maintainer> = (0..2).map(|_| Maintainer { next: 0, deeds: VecDeque::new() }).collect();
    while world.now < BEGIN + 8 * 24 * 60 {
        let next = flushes.iter().map(|flush| flush.next).chain(maintainers.iter().map(|one| one.next)).min().unwrap();
        world.now = world.now.max(next);
        let now = world.now;
        if let Some(flush) = flushes.iter_mut().find(|flush| flush.next <= now) {
            if !flush.step(&mut world) {
                continue;
            }
        } else if let Some(maintainer) = maintainers.iter_mut().find(|one| one.next <= now) {
            maintainer.step(&mut world)?;
        }
        world.check()?;
    }
    let single = world.blobs.keys().filter(|name| name.starts_with("xs")).count();
    if single == 0 { Err("nothing was merged in eight days".to_owned()) } else { Ok(()) }
}

#[test]
fn every_index_that_was_written_is_found_in_every_order_of_steps() {
    for seed in 0..100 {
        assert_eq!(run(seed, 4 * super::HOUR), Ok(()), "history {seed}");
    }
}

/// The model finds the loss.
#[test]
fn a_margin_of_a_minute_takes_indexes_from_readers() {
    let lost = (0..100).find_map(|seed| run(seed, super::HOUR / 60).err());
    assert!(lost.as_ref().is_some_and(|lost| lost.contains("went while it was read")), "{lost:?}");
}
