//! The promises to users, as the documentation makes them and independent of the code: a backup that a rule or a hold
//! keeps is there, so are the newest good backup of each schedule of each cluster and a newer one with errors, a backup that nothing keeps goes soon, and
//! no cluster lets the backups of another one go.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Largest error of clocks, with a margin.
const SKEW: SignedDuration = SignedDuration::from_mins(22);
/// Time within which a backup that nothing keeps goes. Another cluster keeps it by older rules until it learns of newer ones, when the time
/// of a later backup is over, which are nine days; then a deletion may wait.
const BOUND: SignedDuration = SignedDuration::from_hours(14 * 24);
/// A cluster that is not seen for so long is gone.
const UNSEEN: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Numbers of backups of a schedule that stay: of the newest, and of days, weeks and months.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) last: usize,
    pub(super) days: usize,
    pub(super) weeks: usize,
    pub(super) months: usize,
}

/// A backup that lies in the bucket.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    /// The cluster that has made it, and its schedule.
    pub(super) of: Group,
    pub(super) run: Timestamp,
    pub(super) made: Timestamp,
    /// When its time is over.
    pub(super) end: Timestamp,
    pub(super) is_complete: bool,
    /// It has lost its objects.
    pub(super) is_shrunken: bool,
    pub(super) has_snapshots: bool,
    pub(super) is_held: bool,
    pub(super) is_released: bool,
    /// Since when nothing keeps it, as far as somebody could do something about it.
    pub(super) free: Timestamp,
}

impl Saved {
    fn is_good(&self) -> bool {
        self.is_complete && !self.is_shrunken && !self.is_released
    }
}

/// The UID of a cluster, and the name of a schedule of it.
pub(super) type Group = (String, String);

/// Which stretch of time a run belongs to.
type Period = fn(Timestamp) -> i64;

/// The promise of a schedule.
#[derive(Clone, Debug, Default)]
struct Promised {
    /// The numbers of the schedule that exists.
    current: Option<Numbers>,
    /// The numbers that a server has recorded in the bucket.
    numbers: Option<Numbers>,
    /// The newest run that it was promised for, once the rules are gone.
    until: Option<Timestamp>,
}

/// A cluster that asks for deletions, and since when it may.
#[derive(Clone, Debug)]
pub(super) struct Actor {
    pub(super) cluster: String,
    /// Since when it has the bucket, and can write it.
    pub(super) since: Timestamp,
    /// When it has looked into the bucket last.
    pub(super) synced: Timestamp,
    /// It was told to let backups of others go.
    pub(super) takes_others: bool,
}

/// Everything that was promised.
#[derive(Debug, Default)]
pub(super) struct Promise {
    pub(super) saved: BTreeMap<String, Saved>,
    groups: BTreeMap<Group, Promised>,
    pub(super) gone: usize,
}

impl Promise {
    /// A server sees these rules of a schedule.
    pub(super) fn stands(&mut self, group: Group, numbers: Numbers) {
        self.groups.entry(group).or_default().current = Some(numbers);
    }

    /// Returns true if these numbers are recorded.
    pub(super) fn has_recorded(&self, group: &Group, numbers: Numbers) -> bool {
        self.groups.get(group).is_some_and(|promised| promised.numbers == Some(numbers) && promised.until.is_none())
    }

    /// It has written them down.
    pub(super) fn is_recorded(&mut self, group: Group, numbers: Numbers) {
        self.groups.insert(group, Promised { current: Some(numbers), numbers: Some(numbers), until: None });
    }

    /// The rules of a schedule are gone: what was made by them stays.
    pub(super) fn rules_go(&mut self, group: &Group) {
        let newest = self.saved.values().filter(|saved| saved.of == *group).map(|saved| saved.run).max();
        if let Some(promised) = self.groups.get_mut(group) {
            promised.current = None;
            promised.until = promised.until.or(newest).or(Some(Timestamp::MIN));
        }
        self.may_end(group);
    }

    /// Of a promise whose rules are gone nothing is left when none of its backups is: all were released, or deleted by a user.
    pub(super) fn may_end(&mut self, group: &Group) {
        let Some(promised) = self.groups.get(group).filter(|promised| promised.current.is_none()) else { return };
        let until = promised.until.filter(|_| promised.numbers.is_some()).unwrap_or(Timestamp::MIN);
        let is_left = |saved: &Saved| saved.of == *group && saved.is_good() && saved.run <= until;
        if !self.saved.values().any(is_left) {
            self.groups.remove(group);
        }
    }

    pub(super) fn cluster_goes(&mut self, cluster: &str) {
        let groups: Vec<Group> = self.groups.keys().filter(|(of, _)| of == cluster).cloned().collect();
        groups.iter().for_each(|group| self.rules_go(group));
    }

    /// The names of those that are promised of a schedule: by the rules that stand in its cluster, or by those that all clusters can read.
    fn promised(&self, group: &Group, in_its_cluster: bool) -> BTreeSet<&str> {
        self.promised_among(group, in_its_cluster, |_| true)
    }

    /// The names of all that some cluster may keep of a schedule. Another cluster does not let backups with snapshots go, and so does not
    /// rely on them either: it keeps older ones in their place.
    fn kept_somewhere(&self, group: &Group) -> BTreeSet<&str> {
        let mut kept = self.promised(group, true);
        kept.extend(self.promised(group, false));
        kept.extend(self.promised_among(group, false, |saved| !saved.has_snapshots));
        kept
    }

    /// The names of those that are promised of a schedule where only some of its backups count.
    fn promised_among(&self, group: &Group, in_its_cluster: bool, counts: fn(&Saved) -> bool) -> BTreeSet<&str> {
        const NONE: Numbers = Numbers { last: 0, days: 0, weeks: 0, months: 0 };
        let (numbers, until) = match self.groups.get(group) {
            Some(Promised { current: Some(numbers), .. }) if in_its_cluster => (numbers, &None),
            Some(Promised { numbers: Some(numbers), until, .. }) => (numbers, until),
            // The newest good one stays without rules, too.
            _ => (&NONE, &None),
        };
        let of_group = |(_, saved): &(&String, &Saved)| saved.of == *group && !saved.is_released && counts(saved);
        let of_group: Vec<(&str, &Saved)> =
            self.saved.iter().filter(of_group).map(|(name, saved)| (name.as_str(), saved)).collect();
        let good = of_group.iter().filter(|(_, saved)| saved.is_good());
        let mut good: Vec<(Timestamp, &str)> = good.map(|(name, saved)| (saved.run, *name)).collect();
        good.sort_unstable_by(|a, b| b.cmp(a));
        let mut kept: BTreeSet<&str> = good.first().map(|(_, name)| *name).into_iter().collect();
        // So does the newest of all, also when it has lost its objects.
        let newest_whole =
            of_group.iter().filter(|(_, saved)| saved.is_complete).max_by_key(|(name, saved)| (saved.run, *name));
        kept.extend(newest_whole.map(|(name, _)| *name));
        // And the newest that ended with errors as long as none without is newer; that which has its objects as long as none is good.
        let with_errors = || of_group.iter().filter(|(_, saved)| !saved.is_complete);
        let newest = with_errors().max_by_key(|(_, saved)| saved.run);
        let newest = newest.filter(|(_, saved)| Some(saved.run) > newest_whole.map(|(_, whole)| whole.run));
        let newest_full = with_errors().filter(|(_, saved)| !saved.is_shrunken).max_by_key(|(_, saved)| saved.run);
        let newest_full = newest_full.filter(|(_, saved)| Some(saved.run) > good.first().map(|(run, _)| *run));
        kept.extend(newest.into_iter().chain(newest_full).map(|(name, _)| *name));
        let counted: Vec<(Timestamp, &str)> =
            good.into_iter().filter(|(run, _)| until.is_none_or(|until| *run <= until)).collect();
        // The last good one is kept by any rules.
        kept.extend(counted.iter().take(numbers.last.max(1)).map(|(_, name)| *name));
        let periods: [(usize, Period); 3] =
            [(numbers.days, day), (numbers.weeks, |run| (day(run) + 3).div_euclid(7)), (numbers.months, month)];
        for (number, period) in periods {
            let mut last = None;
            let mut count = 0;
            for (run, name) in &counted {
                if last != Some(period(*run)) {
                    last = Some(period(*run));
                    count += 1;
                    if count > number {
                        break;
                    }
                    kept.insert(name);
                }
            }
        }
        kept
    }

    /// Notes that what keeps the backups of a group changes now: those that are promised of it are not free before.
    pub(super) fn changes(&mut self, group: &Group, now: Timestamp) {
        let promised: BTreeSet<String> = self.kept_somewhere(group).into_iter().map(str::to_owned).collect();
        for name in promised {
            self.saved.get_mut(&name).into_iter().for_each(|saved| saved.free = now);
        }
    }

    /// Returns true if the newest backup of a cluster was older than `by` at a look, or there was none.
    fn is_unseen(&self, cluster: &str, looked: Timestamp, by: SignedDuration) -> bool {
        let of_it = self.saved.values().filter(|saved| saved.of.0 == cluster && saved.made <= looked);
        of_it.map(|saved| saved.made).max().is_none_or(|newest| looked.duration_since(newest) > by)
    }

    /// The newest good ones of groups that have backups which are not good, and may say rules all the same.
    fn last_good_beside_others(&self) -> BTreeSet<String> {
        let mut newest: BTreeMap<&Group, (Timestamp, &String)> = BTreeMap::new();
        for (name, saved) in self.saved.iter().filter(|(_, saved)| saved.is_good()) {
            let place = newest.entry(&saved.of).or_insert((saved.run, name));
            *place = (*place).max((saved.run, name));
        }
        let others = self.saved.values().filter(|saved| !saved.is_good() && !saved.is_released);
        others.filter_map(|saved| newest.get(&saved.of)).map(|(_, name)| (*name).clone()).collect()
    }

    /// A server deletes a backup because its time is over.
    pub(super) fn goes(&mut self, name: &str, actor: &Actor, now: Timestamp) {
        // It is gone by another request.
        let Some(saved) = self.saved.get(name) else { return };
        assert!(saved.end <= now + SKEW, "{name} goes at {now}, and its time is over at {}", saved.end);
        assert!(!saved.is_held, "{name} is held, and goes at {now}");
        let promised = self.promised(&saved.of, saved.of.0 == actor.cluster);
        assert!(!promised.contains(name), "{name} goes at {now} by {actor:?}: {}", self.told(name));
        let is_own = saved.of.0 == actor.cluster;
        let is_left = !saved.has_snapshots && self.is_unseen(&saved.of.0, actor.synced, UNSEEN - SKEW);
        assert!(is_own || actor.takes_others || is_left, "{name} goes at {now} by {actor:?}, which has not made it");
        let has_it = now.duration_since(actor.since);
        assert!(has_it >= SignedDuration::from_hours(1) - SKEW, "{name} goes at {now}, in the first hour of {actor:?}");
        self.saved.remove(name);
        self.gone += 1;
    }

    /// A backup beside the others of its group, and what was promised of them.
    pub(super) fn told(&self, name: &str) -> String {
        let group = &self.saved[name].of;
        let beside = self.saved.iter().filter(|(_, other)| other.of == *group);
        let beside: Vec<String> = beside.map(|(name, saved)| format!("{name} {saved:?}")).collect();
        format!("{:?} {:?} {beside:#?}", self.groups.get(group), self.promised(group, true))
    }

    /// Returns the name of a backup that should be gone: nothing keeps it, and one of these could have let it go for
    /// long. Backups that have lost their objects are left out, because they are counted by themselves.
    pub(super) fn overdue(&mut self, actors: &[Actor], ruled: &BTreeSet<Group>, now: Timestamp) -> Option<String> {
        let groups: BTreeSet<Group> = self.saved.values().map(|saved| saved.of.clone()).collect();
        let kept = |group| self.kept_somewhere(group);
        let promised: BTreeSet<String> = groups.iter().flat_map(kept).map(str::to_owned).collect();
        let last_good = self.last_good_beside_others();
        let seen: BTreeMap<String, bool> =
            groups.iter().map(|(cluster, _)| (cluster.clone(), !self.is_unseen(cluster, now, UNSEEN + SKEW))).collect();
        for (name, saved) in &mut self.saved {
            let is_left = !saved.has_snapshots && !seen[&saved.of.0];
            let may = |actor: &Actor| actor.cluster == saved.of.0 || actor.takes_others || is_left;
            // Where nothing is written down of a schedule of another cluster, that of the same name here keeps by its rules.
            let by_name = |(cluster, schedule): &Group| *cluster != saved.of.0 && *schedule == saved.of.1;
            let is_left_to_rules = !self.groups.contains_key(&saved.of) && ruled.iter().any(by_name);
            let is_promised = promised.contains(name) || last_good.contains(name) || is_left_to_rules;
            let is_kept = is_promised || saved.is_held || saved.end > now || saved.is_shrunken;
            if is_kept || !actors.iter().any(may) {
                saved.free = now;
            }
            if now.duration_since(saved.free) >= BOUND {
                return Some(name.clone());
            }
        }
        None
    }
}

fn day(run: Timestamp) -> i64 {
    run.as_second().div_euclid(86_400)
}

fn month(run: Timestamp) -> i64 {
    let date = run.to_zoned(TimeZone::UTC).date();
    i64::from(date.year()) * 12 + i64::from(date.month())
}
