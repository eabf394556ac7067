//! The backups that the rules of schedules keep: which rules are in force, and for which backups.
//!
//! Backups of one schedule that different clusters have made are groups of their own. In force are the rules of the schedule for what
//! this cluster has made, as long as it stands here and has some. Otherwise those hold that the newest record of the group says, for the
//! backups up to that one, until somebody releases them: a schedule that was deleted, renamed or stripped of its rules, and a cluster that
//! was lost, have taken nothing back.
//!
//! Where nothing says rules, the last good backup that Lifeboat has made stays, of each schedule and cluster. Velero's own go by their time,
//! as there. Beside the last good one stays the newest that ended with errors, where it is newer.

use super::facts::stands_for;
use super::hold::Hold;
use super::keep::{Absence, Keeper, Standing};
use super::kept_by::is_released;
use super::member::ScheduleMember;
use super::retention::{RetentionCandidate, Rule, kept};
use super::shrunken::losses;
use super::taken_over::source_cluster;
use crate::cron::zone_of;
use crate::phase::facts::deletion_has_begun;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use lifeboat_api::{Backup, DEFAULT_SHRINK_THRESHOLD, KeptBy, Retention, Schedule};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

/// The reasons that keep a backup at this time: its hold, then the rules, as `kept` has them. A backup whose deletion
/// has begun is kept by nothing.
pub fn keepers(backup: &Backup, kept: Option<&KeptBackups>, now: Timestamp) -> Vec<Keeper> {
    if deletion_has_begun(backup) {
        return Vec::new();
    }
    let hold = Hold::at(&backup.metadata, now).map(Keeper::Hold);
    hold.into_iter().chain(kept.and_then(|kept| kept.keeper(backup))).collect()
}

/// A schedule, as its backups name it.
#[derive(Clone, Copy, Debug)]
pub enum ScheduleLookup<'s> {
    /// It is here.
    Here(&'s Schedule),
    /// It is here, has rules, and cannot be read.
    Unreadable {
        /// Its name.
        name: &'s str,
        /// The reason.
        why: &'s str,
    },
    /// It is not here; what it was called is told by the label of its backups.
    Gone {
        /// The label.
        label: &'s str,
    },
}

impl<'s> ScheduleLookup<'s> {
    fn name(self) -> &'s str {
        match self {
            Self::Here(schedule) => &schedule.metadata.name,
            Self::Unreadable { name, .. } => name,
            Self::Gone { label } => label,
        }
    }

    /// Its rules, or why they cannot be followed; `None` when it has none. `zone` is that of schedules that name none.
    fn rules(self, zone: &TimeZone) -> Option<Result<Rules, String>> {
        match self {
            Self::Here(schedule) => schedule.retention().transpose().map(|rules| {
                rules.map(|retention| Rules {
                    schedule: schedule.metadata.name.clone(),
                    retention,
                    zone: zone_of(&schedule.spec.schedule, zone),
                    shrink_threshold: schedule.shrink_threshold().unwrap_or(DEFAULT_SHRINK_THRESHOLD),
                })
            }),
            Self::Unreadable { why, .. } => Some(Err(why.to_owned())),
            Self::Gone { .. } => None,
        }
    }
}

/// A member, and what its object says of rules, which is read once at most.
struct MemberRules<'b> {
    backup: &'b Backup,
    is_good: bool,
    /// It is good, or ended with errors.
    is_good_or_with_errors: bool,
    said: OnceCell<Option<Result<KeptBy, String>>>,
}

impl<'b> MemberRules<'b> {
    fn of(member: &ScheduleMember<'b>) -> Self {
        let (is_good, is_good_or_with_errors) = (member.is_good(), member.is_good_or_with_errors());
        Self { backup: member.backup, is_good, is_good_or_with_errors, said: OnceCell::new() }
    }

    fn name(&self) -> &'b str {
        &self.backup.metadata.name
    }

    fn said(&self) -> Option<&Result<KeptBy, String>> {
        self.said.get_or_init(|| KeptBy::of(&self.backup.metadata)).as_ref()
    }

    /// The rules that its annotation says, when they can be followed.
    fn record(&self) -> Option<&KeptBy> {
        self.said()?.as_ref().ok()
    }
}

/// Rules that can be followed.
#[derive(Clone, Debug)]
struct Rules {
    schedule: String,
    retention: Retention,
    zone: TimeZone,
    /// In percent.
    shrink_threshold: u8,
}

impl Rules {
    /// Reads the rules of a record; `zone` is that of the server.
    fn of(record: &KeptBy, zone: &TimeZone) -> Option<Self> {
        let named = record.zone.as_ref().and_then(|name| TimeZone::get(name).ok());
        Some(Self {
            schedule: record.schedule.clone(),
            retention: record.rules.clone()?,
            zone: named.unwrap_or_else(|| zone.clone()),
            shrink_threshold: record.shrink_threshold.unwrap_or(DEFAULT_SHRINK_THRESHOLD),
        })
    }

    /// The annotation for the backups that these rules keep.
    fn note(&self) -> KeptBy {
        KeptBy {
            schedule: self.schedule.clone(),
            rules: Some(self.retention.clone()),
            zone: self.zone.iana_name().map(str::to_owned),
            shrink_threshold: Some(self.shrink_threshold),
            ..KeptBy::default()
        }
    }

    /// Which of these they keep. Backups that have lost their objects are counted by themselves: they take no place of the others, and
    /// none of them is the last good one. The newest stays beside that one where it is newer: the objects may have gone for good reason.
    /// So do the newest ones with errors, without which a schedule that never ends well would leave nothing.
    fn keep<'b>(&self, members: impl Iterator<Item = &'b MemberRules<'b>>) -> Vec<(String, Vec<Rule>)> {
        let mut all: Vec<&'b MemberRules<'b>> = members.filter(|member| member.is_good_or_with_errors).collect();
        all.sort_by_cached_key(|member| place(&self.schedule, member));
        // Those with errors are measures for good ones, too, but none in the place of a good one.
        let of_all = losses(all.iter().map(|member| member.backup), self.shrink_threshold);
        let good = all.iter().filter(|member| member.is_good);
        let of_good = losses(good.map(|member| member.backup), self.shrink_threshold);
        let lost: BTreeSet<&str> = of_all.into_keys().chain(of_good.into_keys()).collect();
        let is_full = |member: &&MemberRules<'_>| !lost.contains(member.name());
        let (good, with_errors): (Vec<_>, Vec<_>) = all.into_iter().partition(|member| member.is_good);
        let (full, shrunken): (Vec<_>, Vec<_>) = good.into_iter().partition(is_full);
        let last = |members: &[&'b MemberRules<'b>]| members.last().map(|member| place(&self.schedule, member));
        let last_full = last(&full);
        let is_newest = last(&shrunken) > last_full;
        let shrunken = self.by_numbers(&shrunken).into_iter().map(|(name, rules)| {
            let as_shrunken = |rule| match rule {
                Rule::LastGood => is_newest.then_some(Rule::Newest),
                rule => Some(rule),
            };
            (name, rules.into_iter().filter_map(as_shrunken).collect())
        });
        // The newest of all, and the newest that has its objects.
        let newest_first = || with_errors.iter().rev().copied();
        let newest = [newest_first().next(), newest_first().find(is_full)].into_iter().flatten();
        let newest = newest.filter(|member| Some(place(&self.schedule, member)) > last_full).map(MemberRules::name);
        let with_errors =
            BTreeSet::from_iter(newest).into_iter().map(|name| (name.to_owned(), vec![Rule::NewestWithErrors]));
        let kept = self.by_numbers(&full).into_iter().chain(shrunken).chain(with_errors);
        kept.filter(|(_, rules): &(_, Vec<Rule>)| !rules.is_empty()).collect()
    }

    /// The rules that keep each of these good backups, by their names.
    fn by_numbers(&self, good: &[&MemberRules<'_>]) -> Vec<(String, Vec<Rule>)> {
        let candidates: Vec<RetentionCandidate> = good.iter().map(|member| candidate(&self.schedule, member)).collect();
        let by_rules = kept(&self.retention, &self.zone, &candidates);
        candidates.into_iter().map(|candidate| candidate.name).zip(by_rules).collect()
    }
}

fn candidate(schedule: &str, member: &MemberRules<'_>) -> RetentionCandidate {
    let (stands_for, name) = place(schedule, member);
    RetentionCandidate { name: name.to_owned(), stands_for, is_good: member.is_good }
}

/// The place of a backup among those of its schedule.
fn place<'b>(schedule: &str, member: &MemberRules<'b>) -> (Timestamp, &'b str) {
    (stands_for(schedule, member.backup).unwrap_or(Timestamp::MIN), member.name())
}

/// The cluster that has made a backup.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum OriginCluster<'b> {
    This,
    /// Another one, with its UID when it is known.
    Other(Option<&'b str>),
}

impl<'b> OriginCluster<'b> {
    fn of(member: &ScheduleMember<'b>) -> Self {
        if member.is_own { Self::This } else { Self::Other(source_cluster(member.backup)) }
    }
}

/// The backups of one schedule that something keeps, and the reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptBackups {
    /// By the names of the backups.
    keepers: BTreeMap<String, Keeper>,
    /// The annotation for the backups that the schedule keeps, when it exists here.
    note: Option<KeptBy>,
    /// The names of those that this cluster has made and it keeps.
    own: BTreeSet<String>,
    /// The name of the newest of these.
    newest: Option<String>,
}

/// The newest backup of a cluster whose record has rules.
struct NewestRecord<'a> {
    newest: &'a MemberRules<'a>,
    record: &'a KeptBy,
    source: OriginCluster<'a>,
}

impl KeptBackups {
    /// Decides which of these backups are kept, and why. They are all backups that name the schedule. `zone` is that of
    /// schedules that name none.
    pub fn of(lookup: ScheduleLookup<'_>, zone: &TimeZone, members: &[ScheduleMember<'_>]) -> Self {
        let rules = lookup.rules(zone);
        let note = rules.as_ref().and_then(|rules| rules.as_ref().ok()).map(Rules::note);
        let mut kept = Self { keepers: BTreeMap::new(), note, own: BTreeSet::new(), newest: None };
        let mut groups: BTreeMap<OriginCluster<'_>, Vec<MemberRules<'_>>> = BTreeMap::new();
        for member in members.iter().filter(|member| !is_released(&member.backup.metadata)) {
            groups.entry(OriginCluster::of(member)).or_default().push(MemberRules::of(member));
        }
        for (source, group) in groups {
            let record =
                if source == OriginCluster::This && rules.is_some() { None } else { newest_record(lookup, &group) };
            match (record, &rules) {
                (Some((newest, record)), _) => {
                    kept.as_recorded(lookup, NewestRecord { newest, record, source }, zone, &group);
                }
                (None, Some(Ok(rules))) => kept.by_schedule(rules, source, &group),
                (None, Some(Err(why))) => kept.as_wrong(lookup.name(), why, &group),
                (None, None) => kept.as_last_good(lookup, zone, &group),
            }
            if source != OriginCluster::This || rules.is_none() {
                kept.as_unreadable(lookup.name(), &group);
            }
        }
        kept
    }

    fn by_schedule(&mut self, rules: &Rules, source: OriginCluster<'_>, group: &[MemberRules<'_>]) {
        for (name, by) in rules.keep(group.iter()) {
            // The newest of all comes last.
            if source == OriginCluster::This && (by.contains(&Rule::LastGood) || by.contains(&Rule::Newest)) {
                self.newest = Some(name.clone());
            }
            if source == OriginCluster::This {
                self.own.insert(name.clone());
            }
            self.keepers.insert(name, Keeper::Rules { schedule: rules.schedule.clone(), rules: by });
        }
    }

    /// By the rules of the newest record, of all up to that one: what came after these rules is none of what they keep. The last good
    /// one of all stays too.
    fn as_recorded(
        &mut self,
        lookup: ScheduleLookup<'_>,
        NewestRecord { newest, record, source }: NewestRecord<'_>,
        zone: &TimeZone,
        group: &[MemberRules<'_>],
    ) {
        let absence = match (source, lookup) {
            (OriginCluster::This, _) if is_imported(newest.backup, record) => {
                Absence::ImportedFrom(record.cluster.clone())
            }
            (OriginCluster::Other(cluster), _) => Absence::OfCluster(cluster.unwrap_or(&record.cluster).to_owned()),
            (OriginCluster::This, ScheduleLookup::Gone { .. }) => Absence::Gone,
            (OriginCluster::This, _) => Absence::NoRules,
        };
        let Some(rules) = Rules::of(record, zone) else { return };
        let schedule = rules.schedule.clone();
        let until = place(&schedule, newest);
        let own = group.iter().filter(|member| place(&schedule, member) <= until);
        let all = Rules { retention: Retention::default(), ..rules.clone() };
        let mut by_name: BTreeMap<String, BTreeSet<Rule>> = BTreeMap::new();
        for (name, mut by) in rules.keep(own) {
            // A later one may be good.
            by.retain(|rule| *rule != Rule::NewestWithErrors);
            by_name.entry(name).or_default().extend(by);
        }
        for (name, by) in all.keep(group.iter()) {
            by_name.entry(name).or_default().extend(by);
        }
        by_name.retain(|_, by| !by.is_empty());
        for (name, by) in by_name {
            let (schedule, rules, absence) = (schedule.clone(), by.into_iter().collect(), absence.clone());
            self.keepers.insert(name, Keeper::Recorded { schedule, rules, absence });
        }
    }

    /// Without rules the last good one stays of those whose objects say which cluster has made them: Velero's say nothing of it.
    fn as_last_good(&mut self, lookup: ScheduleLookup<'_>, zone: &TimeZone, group: &[MemberRules<'_>]) {
        let threshold = match lookup {
            ScheduleLookup::Here(schedule) => schedule.shrink_threshold().ok(),
            _ => None,
        };
        let rules = Rules {
            schedule: lookup.name().to_owned(),
            retention: Retention::default(),
            zone: zone.clone(),
            shrink_threshold: threshold.unwrap_or(DEFAULT_SHRINK_THRESHOLD),
        };
        let made = group.iter().filter(|member| source_cluster(member.backup).is_some());
        for (backup, by) in rules.keep(made) {
            let standing = if by.contains(&Rule::Newest) {
                Standing::LostObjects
            } else if by.contains(&Rule::NewestWithErrors) {
                Standing::WithErrors
            } else {
                Standing::LastGood
            };
            let schedule = rules.schedule.clone();
            let keeper = Keeper::WithoutRules { schedule, backup: backup.clone(), standing };
            self.keepers.insert(backup, keeper);
        }
    }

    /// Rules that cannot be followed keep all good backups.
    fn as_wrong(&mut self, schedule: &str, why: &str, group: &[MemberRules<'_>]) {
        for member in group.iter().filter(|member| member.is_good) {
            let keeper = Keeper::WrongRules { schedule: schedule.to_owned(), why: why.to_owned() };
            self.keepers.insert(member.name().to_owned(), keeper);
        }
    }

    /// A good backup whose own record cannot be followed stays, until somebody mends or releases it.
    fn as_unreadable(&mut self, schedule: &str, group: &[MemberRules<'_>]) {
        for member in group.iter().filter(|member| member.is_good) {
            if let Some(Err(why)) = member.said() {
                let keeper = || Keeper::WrongRules { schedule: schedule.to_owned(), why: why.clone() };
                self.keepers.entry(member.name().to_owned()).or_insert_with(keeper);
            }
        }
    }

    /// The reason for which a backup is kept.
    pub fn keeper(&self, backup: &Backup) -> Option<Keeper> {
        self.keepers.get(&backup.metadata.name).cloned()
    }

    /// The rules that are to be written beside a backup, because it is kept by the schedule and does not say so yet.
    pub fn note(&self, backup: &Backup) -> Option<&KeptBy> {
        let note = self.note.as_ref().filter(|_| self.own.contains(&backup.metadata.name))?;
        let says = |said: &KeptBy| said.has_the_rules_of(note) && !is_imported(backup, said);
        let is_said = matches!(KeptBy::of(&backup.metadata), Some(Ok(said)) if says(&said));
        (!is_said).then_some(note)
    }

    /// Returns true if this is the newest good backup of this cluster. Its record tells the rules that hold for the
    /// others, too.
    pub fn is_newest(&self, backup: &Backup) -> bool {
        self.newest.as_ref() == Some(&backup.metadata.name)
    }
}

/// Tells whether the rules that a backup says are those of another cluster than the one that has made it: they came with an
/// exported object.
fn is_imported(backup: &Backup, said: &KeptBy) -> bool {
    source_cluster(backup).is_some_and(|cluster| !said.cluster.is_empty() && said.cluster != cluster)
}

/// The newest backup with a record of rules, and the newest of these records. Good backups go before others, because
/// they are the first to be noted when rules change; and rules that came with an exported object count where there are no others.
fn newest_record<'g, 'b>(
    lookup: ScheduleLookup<'_>,
    group: &'g [MemberRules<'b>],
) -> Option<(&'g MemberRules<'b>, &'g KeptBy)> {
    let of = |member: &'g MemberRules<'b>| Some((member, member.record().filter(|record| record.rules.is_some())?));
    let all = || group.iter().filter_map(of).map(|(member, record)| (member, record, place(lookup.name(), member)));
    let is_own = |member: &MemberRules<'_>, record: &KeptBy| !is_imported(member.backup, record);
    let has_own = all().any(|(member, record, _)| is_own(member, record));
    let records = || all().filter(|(member, record, _)| is_own(member, record) == has_own);
    let (newest, ..) = records().max_by_key(|(member, _, place)| (member.is_good, *place))?;
    let (_, record, _) = records().max_by_key(|(member, record, place)| (member.is_good, record.since, *place))?;
    Some((newest, record))
}

/// The rules of a schedule, to be written beside its backups; `None` for one without rules that can be followed.
pub fn rules_of(schedule: &Schedule, zone: &TimeZone) -> Option<KeptBy> {
    Some(ScheduleLookup::Here(schedule).rules(zone)?.ok()?.note())
}

/// The text that the annotation of each backup contains, as servers write it, which says the rules of a schedule; `None` for one without
/// rules that can be followed. An annotation that says the same in another text is only read once more. `zone` is that of schedules that
/// name none.
pub fn rules_text(schedule: &Schedule, zone: &TimeZone) -> Option<String> {
    let text = KeptBy { schedule: String::new(), ..rules_of(schedule, zone)? }.value();
    text.strip_prefix(r#"{"schedule":"","#)?.strip_suffix('}').map(str::to_owned)
}

#[cfg(test)]
mod tests;
