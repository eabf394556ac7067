//! The reasons that keep backups: their holds, and the rules of their schedules, either of schedules in this cluster or
//! as the backups say them; without any, that one is the last good of its schedule. Rules are applied when the first backup of the schedule
//! is looked at.

use super::concerns::Concerns;
use crate::member::member_in;
use crate::options::Options;
use crate::world::{Unreadable, World};
use jiff::Timestamp;
use lifeboat_api::{Backup, Schedule, label_value, well_known};
use lifeboat_lifecycle::phase::expiry::Note;
use lifeboat_lifecycle::phase::hold::Hold;
use lifeboat_lifecycle::phase::keep::Keeper;
use lifeboat_lifecycle::phase::kept_backups::{KeptBackups, ScheduleLookup, keepers, rules_text};
use lifeboat_lifecycle::phase::kept_by::schedule_label;
use lifeboat_lifecycle::phase::member::ScheduleMember;
use lifeboat_lifecycle::phase::taken_over::source_cluster;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};

/// The reasons that keep the backups of a world.
pub(super) struct Keepers<'a> {
    world: &'a World,
    concerns: &'a Concerns<'a>,
    options: &'a Options,
    /// The schedules with rules, and those whose backups say some or which cluster has made them, by their namespace and the label of their
    /// backups.
    schedules: HashMap<&'a str, HashMap<String, Ruled<'a>>>,
    /// All backups of schedules, by the same; found when they are asked for.
    members: OnceCell<HashMap<&'a str, HashMap<String, Vec<&'a Backup>>>>,
}

/// A schedule with rules, here or in its backups.
struct Ruled<'a> {
    standing: Option<FoundSchedule<'a>>,
    /// The text in a backup that says the rules of the schedule.
    rules_text: Option<String>,
    kept: OnceCell<KeptBackups>,
}

enum FoundSchedule<'a> {
    Readable(&'a Schedule),
    /// It has rules, and cannot be read.
    Unreadable(&'a Unreadable),
}

impl<'a> Ruled<'a> {
    fn of(standing: Option<FoundSchedule<'a>>, options: &Options) -> Self {
        let rules_text = match &standing {
            Some(FoundSchedule::Readable(schedule)) => rules_text(schedule, &options.zone),
            _ => None,
        };
        Self { standing, rules_text, kept: OnceCell::new() }
    }
}

impl<'a> Keepers<'a> {
    pub(super) fn new(world: &'a World, concerns: &'a Concerns<'a>, options: &'a Options) -> Self {
        let mut schedules: HashMap<&str, HashMap<String, Ruled<'_>>> = HashMap::new();
        let has_annotation =
            |annotations: &BTreeMap<String, String>| annotations.contains_key(well_known::ANNOTATION_RETENTION);
        let has_rules = |s: &&Schedule| s.spec.retention.is_some() || has_annotation(&s.metadata.annotations);
        for schedule in world.schedules.iter().filter(has_rules) {
            let found = Ruled::of(Some(FoundSchedule::Readable(schedule)), options);
            schedules.entry(&schedule.metadata.namespace).or_default().insert(schedule.label(), found);
        }
        let has_unreadable = |s: &&Unreadable| s.has("retention") || has_annotation(&s.meta.annotations);
        for schedule in world.schedules.unreadable().filter(has_unreadable) {
            let found = Ruled::of(Some(FoundSchedule::Unreadable(schedule)), options);
            schedules.entry(&schedule.meta.namespace).or_default().insert(label_value(&schedule.meta.name), found);
        }
        let all = world.schedules.iter();
        let standing: HashMap<(&str, String), &Schedule> =
            all.map(|schedule| ((schedule.metadata.namespace.as_str(), schedule.label()), schedule)).collect();
        let says_rules = |backup: &&Backup| {
            let annotations = &backup.metadata.annotations;
            annotations.contains_key(well_known::ANNOTATION_KEPT_BY) || source_cluster(backup).is_some()
        };
        for backup in world.backups.iter().filter(says_rules) {
            let Some(label) = schedule_label(backup) else { continue };
            let namespace = backup.metadata.namespace.as_str();
            let of_namespace = schedules.entry(namespace).or_default();
            if !of_namespace.contains_key(&*label) {
                let label = label.into_owned();
                let found = standing.get(&(namespace, label.clone())).copied().map(FoundSchedule::Readable);
                of_namespace.insert(label, Ruled::of(found, options));
            }
        }
        Self { world, concerns, options, schedules, members: OnceCell::new() }
    }

    /// Returns true if a backup is held, or is one of a schedule that may keep some, so that something may keep it, now or later.
    pub(super) fn may_keep(&self, backup: &Backup) -> bool {
        Hold::of(&backup.metadata).is_some() || self.ruled(backup).is_some()
    }

    /// The reasons that keep a backup at this time. A backup that goes `elsewhere` is kept here by a hold alone: its
    /// rules are applied by its own cluster.
    pub(super) fn of(&self, backup: &Backup, elsewhere: bool, now: Timestamp) -> Vec<Keeper> {
        keepers(backup, self.kept(backup).filter(|_| !elsewhere), now)
    }

    /// The rules that are to be written beside a backup.
    pub(super) fn note(&self, backup: &Backup) -> Option<Note> {
        let kept = self.kept(backup)?;
        kept.note(backup).map(|rules| Note { rules: rules.clone(), at_once: kept.is_newest(backup) })
    }

    /// Returns true if the rules of the schedule are to be written beside a backup at once. For a backup that says them
    /// already, the other backups are not looked at.
    pub(super) fn is_to_be_noted(&self, backup: &Backup) -> bool {
        let rules = self.ruled(backup).and_then(|ruled| ruled.rules_text.as_ref());
        let said = || backup.metadata.annotations.get(well_known::ANNOTATION_KEPT_BY);
        rules.is_some_and(|rules| !said().is_some_and(|said| said.contains(rules)))
            && self.note(backup).is_some_and(|note| note.at_once)
    }

    fn ruled(&self, backup: &Backup) -> Option<&Ruled<'a>> {
        if self.schedules.is_empty() {
            return None;
        }
        self.schedules.get(backup.metadata.namespace.as_str())?.get(&*schedule_label(backup)?)
    }

    fn kept(&self, backup: &Backup) -> Option<&KeptBackups> {
        let ruled = self.ruled(backup)?;
        Some(ruled.kept.get_or_init(|| self.followed(ruled, backup)))
    }

    /// Applies the rules of the schedule of this backup.
    fn followed(&self, ruled: &Ruled<'_>, of: &Backup) -> KeptBackups {
        let label = schedule_label(of);
        let default = self.options.default_location.as_deref();
        let beside = self.members.get_or_init(|| members(self.world)).get(of.metadata.namespace.as_str());
        let own = beside.zip(label.as_ref()).and_then(|(beside, label)| beside.get(&**label));
        let own = own.into_iter().flatten();
        let own = own.map(|backup| member_in(self.world, backup, self.concerns.requests_for(backup), default));
        let own: Vec<ScheduleMember<'_>> = own.collect();
        let standing = match ruled.standing {
            Some(FoundSchedule::Readable(schedule)) => ScheduleLookup::Here(schedule),
            Some(FoundSchedule::Unreadable(schedule)) => {
                ScheduleLookup::Unreadable { name: &schedule.meta.name, why: &schedule.why }
            }
            None => ScheduleLookup::Gone { label: label.as_deref().unwrap_or_default() },
        };
        KeptBackups::of(standing, &self.options.zone, &own)
    }
}

/// All backups of schedules, by their namespace and the label of their schedule.
fn members(world: &World) -> HashMap<&str, HashMap<String, Vec<&Backup>>> {
    let mut members: HashMap<&str, HashMap<String, Vec<&Backup>>> = HashMap::new();
    for backup in world.backups.iter() {
        let Some(label) = schedule_label(backup) else { continue };
        let beside = members.entry(backup.metadata.namespace.as_str()).or_default();
        match beside.get_mut(&*label) {
            Some(own) => own.push(backup),
            None => drop(beside.insert(label.into_owned(), vec![backup])),
        }
    }
    members
}
