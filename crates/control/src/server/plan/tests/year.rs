//! A hundred years, each with its own misfortunes: two clusters with one bucket, whose rules are changed and removed, whose schedules are
//! deleted and made again, whose servers and buckets are away, whose users hold, release and delete backups, whose clocks are wrong, and which are lost and installed anew. What was
//! promised is told by a model that knows nothing of how it is kept.

mod promise;
mod site;

use super::years::Dice;
use super::*;
use lifeboat_api::Retention;
use lifeboat_lifecycle::phase::hold::Hold;
use promise::{Group, Promise};
use site::{Asker, Bucket, Shared, Site};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The schedules of each cluster: their times, and how many days their backups last.
const SCHEDULES: [(&str, &str, i64); 2] = [("often", "M 2 */4 * *", 3), ("weekly", "M 5 * * 0", 9)];

/// A year of two clusters.
struct Year {
    shared: Shared,
    sites: [Site; 2],
    installed: usize,
    /// When the rules of a schedule were changed last.
    changed: BTreeMap<Group, Timestamp>,
}

impl Year {
    fn new(seed: u64) -> Self {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut dice = Dice(seed);
        dice.below(2);
        let takes_others = dice.one_in(4);
        let sites = [Site::new("a", false, now), Site::new("b", takes_others, now)];
        let shared = Shared { bucket: Bucket::new(), promise: Promise::default(), dice, now };
        let mut year = Self { shared, sites, installed: 0, changed: BTreeMap::new() };
        [(0, "often"), (0, "weekly"), (1, "often")].into_iter().for_each(|(at, schedule)| year.puts(at, schedule));
        year
    }

    fn hours(&mut self, most: i64) -> SignedDuration {
        self.shared.dice.up_to(SignedDuration::from_hours(most)) + SignedDuration::from_secs(1)
    }

    fn live(&mut self) {
        let end = self.shared.now + SignedDuration::from_hours(365 * 24);
        let mut misfortune = self.shared.now + self.hours(10 * 24);
        let mut events = 0;
        while self.shared.now < end {
            let looks = |site: &Site| site.looks.max(site.away);
            let next = looks(&self.sites[0]).min(looks(&self.sites[1]));
            self.shared.now = next.min(misfortune).max(self.shared.now);
            if misfortune <= next {
                self.happens();
                misfortune = self.shared.now + self.hours(10 * 24);
            } else {
                let at = usize::from(looks(&self.sites[1]) < looks(&self.sites[0]));
                self.sites[at].look(&mut self.shared);
            }
            // The model takes its time.
            events += 1;
            if events % 8 == 0 {
                self.check();
            }
        }
    }

    /// Asserts that backups are gone that nothing keeps.
    fn check(&mut self) {
        let now = self.shared.now;
        let actors: Vec<_> =
            self.sites.iter().filter(|site| site.can_act(now)).map(|site| site.actor.clone()).collect();
        let ruled = self.sites.iter().flat_map(Site::ruled).map(|(group, _)| group).collect();
        if let Some(name) = self.shared.promise.overdue(&actors, &ruled, now) {
            let told: Vec<String> = self.sites.iter().map(|site| site.told(&name, now)).collect();
            panic!("{name} is there at {now}, and nothing keeps it: {} {told:#?}", self.shared.promise.told(&name));
        }
    }

    /// Something happens to one of both.
    fn happens(&mut self) {
        let now = self.shared.now;
        let at = self.shared.dice.below(2) as usize;
        let schedule = SCHEDULES[self.shared.dice.below(2) as usize].0;
        match self.shared.dice.below(14) {
            0 | 1 => self.rules_change(at, schedule, true),
            2 => self.rules_change(at, schedule, false),
            3 => self.schedule_goes(at, schedule),
            4 | 5 => self.puts(at, schedule),
            6 => self.holds(at),
            7 => self.sites[at].away = now + self.hours(6 * 24),
            8 => {
                self.sites[at].out_of_reach = now + self.hours(3 * 24);
                self.revalidates(at);
            }
            9 => {
                let read_only = !self.sites[at].is_read_only() && self.shared.dice.one_in(2);
                self.sites[at].set_read_only(read_only, now);
            }
            10 => {
                let minutes = self.shared.dice.below(21) as i64 - 10;
                self.sites[at].ahead = SignedDuration::from_mins(minutes);
            }
            11 => self.is_installed_anew(at),
            12 => self.user_deletes(at),
            _ => self.releases(at, schedule),
        }
        // It is seen at once, where somebody is there.
        let looks = now + self.hours(2);
        self.sites[at].looks = self.sites[at].looks.min(looks);
    }

    /// The server finds out whether the bucket is there.
    fn revalidates(&mut self, at: usize) {
        let mut location = self.sites[at].location();
        location.status.last_validation_time = None;
        self.sites[at].world.locations.put(location);
    }

    fn random_rules(&mut self) -> Retention {
        let dice = &mut self.shared.dice;
        let mut number = |most: u64| (!dice.one_in(3)).then(|| dice.below(most) as i64);
        Retention {
            keep_last: number(3),
            keep_daily: number(3),
            keep_weekly: number(2),
            keep_monthly: number(2),
            ..Retention::default()
        }
    }

    /// Makes a schedule that is not there.
    fn puts(&mut self, at: usize, name: &str) {
        if self.sites[at].world.schedules.get(&named(name)).is_some() {
            return;
        }
        let (_, times, days) = SCHEDULES.iter().find(|(of, ..)| *of == name).unwrap();
        let mut schedule = Schedule { metadata: meta(name.to_owned(), 0, false), ..Schedule::default() };
        schedule.metadata.uid = format!("{name}-{}", self.shared.now);
        schedule.metadata.creation_timestamp = Some(Time::new(self.shared.now));
        // Of two runs of one name at one time only one could be stored.
        schedule.spec.schedule = times.replace('M', &(10 + self.installed * 2 % 40 + at).to_string());
        schedule.spec.template.ttl = lifeboat_api::Duration::from_secs(days * 86_400);
        schedule.spec.template.storage_location = site::MAIN.into();
        schedule.spec.retention = (!self.shared.dice.one_in(4)).then(|| self.random_rules());
        self.changes(at, name);
        self.sites[at].world.schedules.put(schedule);
    }

    fn changes(&mut self, at: usize, schedule: &str) {
        let group = self.sites[at].group(schedule);
        self.changed.insert(group, self.shared.now);
    }

    fn rules_change(&mut self, at: usize, name: &str, has_some: bool) {
        let Some(found) = self.sites[at].world.schedules.get(&named(name)) else { return };
        let mut schedule = found.clone();
        schedule.spec.retention = has_some.then(|| self.random_rules());
        self.changes(at, name);
        if !has_some {
            self.shared.promise.rules_go(&self.sites[at].group(name));
        }
        self.sites[at].world.schedules.put(schedule);
    }

    fn schedule_goes(&mut self, at: usize, name: &str) {
        let Some(found) = self.sites[at].world.schedules.get(&named(name)) else { return };
        let gone = ObjectIdentity::of(&found.metadata);
        self.changes(at, name);
        self.shared.promise.rules_go(&self.sites[at].group(name));
        self.sites[at].world.schedules.remove(&gone);
    }

    /// Draws a backup that a cluster has made and that is stored.
    fn one_of(&mut self, at: usize) -> Option<Backup> {
        let (site, promise) = (&self.sites[at], &self.shared.promise);
        let is_own =
            |b: &&Backup| promise.saved.get(&b.metadata.name).is_some_and(|saved| saved.of.0 == site.actor.cluster);
        let own: Vec<&Backup> = site.world.backups.iter().filter(is_own).collect();
        let count = own.len() as u64;
        (count > 0).then(|| own[self.shared.dice.below(count) as usize].clone())
    }

    /// A user holds a backup, or releases it, where that can be written into the bucket: otherwise other clusters do not know of it.
    fn holds(&mut self, at: usize) {
        let Some(mut backup) = self.one_of(at).filter(|_| self.sites[at].can_act(self.shared.now)) else { return };
        let annotations = &mut backup.metadata.annotations;
        let is_held = annotations.remove(well_known::ANNOTATION_HOLD).is_none();
        if is_held {
            annotations.insert(well_known::ANNOTATION_HOLD.into(), "forever".into());
        }
        self.shared.promise.saved.get_mut(&backup.metadata.name).unwrap().is_held = is_held;
        self.sites[at].world.backups.put(backup);
        self.sites[at].look(&mut self.shared);
    }

    /// A user asks for the deletion of a backup; one that is held stays. When the rules have just changed, or nobody can write down which hold, the others may not
    /// say them yet.
    fn user_deletes(&mut self, at: usize) {
        let Some(backup) = self.one_of(at) else { return };
        let (name, now) = (&backup.metadata.name, self.shared.now);
        let saved = &self.shared.promise.saved[name];
        let changed = self.changed.get(&saved.of).copied().unwrap_or(Timestamp::MIN);
        let is_settled = now.duration_since(changed) > SignedDuration::from_hours(10 * 24);
        if !is_settled || !self.sites[at].can_act(now) {
            return;
        }
        self.sites[at].ask(name, Asker::User, now);
        self.sites[at].look(&mut self.shared);
    }

    /// A user releases what the rules of a schedule have kept that has none any more.
    fn releases(&mut self, at: usize, schedule: &str) {
        let site = &mut self.sites[at];
        let has_rules = |s: &Schedule| s.spec.retention.is_some();
        let is_in_force = site.world.schedules.get(&named(schedule)).is_some_and(has_rules);
        // What cannot be written into the bucket is not known to others.
        if is_in_force || !site.can_act(self.shared.now) {
            return;
        }
        let group = site.group(schedule);
        for (name, saved) in self.shared.promise.saved.iter_mut().filter(|(_, saved)| saved.of == group) {
            let Some(found) = site.world.backups.get(&named(name)) else { continue };
            let mut backup = found.clone();
            let said = KeptBy::of(&backup.metadata).and_then(Result::ok).unwrap_or_default();
            let said = KeptBy { released: Some(Time::new(self.shared.now)), recorded: false, ..said };
            backup.metadata.annotations.insert(well_known::ANNOTATION_KEPT_BY.into(), said.value());
            saved.is_released = true;
            site.world.backups.put(backup);
        }
        self.shared.promise.may_end(&group);
        self.sites[at].look(&mut self.shared);
    }

    /// A server finds an empty cluster: the one that it had, or another one. What was written down nowhere but there is lost.
    fn is_installed_anew(&mut self, at: usize) {
        self.installed += 1;
        let (site, promise) = (&mut self.sites[at], &mut self.shared.promise);
        promise.cluster_goes(&site.actor.cluster);
        for (name, saved) in promise.saved.iter_mut().filter(|(_, saved)| saved.of.0 == site.actor.cluster) {
            let record = &self.shared.bucket[name].0.metadata;
            saved.is_held = Hold::of(record).is_some();
            saved.is_released = KeptBy::of(record).is_some_and(|said| said.is_ok_and(|said| said.released.is_some()));
        }
        if self.shared.dice.one_in(2) {
            site.actor.cluster = format!("{}{}", site.actor.cluster, self.installed);
        }
        site.install(self.shared.now);
    }
}

/// The years that are lived, each with the seed of its number.
const YEARS: std::ops::Range<u64> = 30..130;

/// Lives one year after the other, each of which `next` gives to one thread; how many backups are gone and have stayed.
fn lives(next: &AtomicU64) -> (usize, usize) {
    let (mut gone, mut stayed) = (0, 0);
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= YEARS.end {
            return (gone, stayed);
        }
        let lived = std::panic::catch_unwind(|| {
            let mut year = Year::new(seed);
            year.live();
            (year.shared.promise.gone, year.shared.promise.saved.len())
        });
        let Ok(counts) = lived else { panic!("the year of seed {seed} did not go well") };
        (gone, stayed) = (gone + counts.0, stayed + counts.1);
    }
}

#[test]
fn nothing_that_was_promised_is_lost_in_a_hundred_years_of_misfortunes() {
    let next = AtomicU64::new(YEARS.start);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let counts: Vec<(usize, usize)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(|| lives(&next))).collect();
        threads.into_iter().map(|thread| thread.join().expect("years that go well")).collect()
    });
    let (gone, stayed) = counts.into_iter().fold((0, 0), |all, some| (all.0 + some.0, all.1 + some.1));
    assert!(gone > 9000 && stayed > 1000, "{gone} are gone, and {stayed} are there");
}
