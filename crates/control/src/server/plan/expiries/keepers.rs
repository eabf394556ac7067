//! What keeps backups: their holds, and the rules of their schedules. Rules are followed when the first backup of the schedule
//! is looked at.

use super::concerns::Concerns;
use crate::phase::hold::Hold;
use crate::phase::keep::{Keeper, Kept, keepers};
use crate::world::{Meta, Unreadable, World};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use lifeboat_api::{Backup, Schedule, label_value, well_known};
use lifeboat_client::NamespacedName;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};

/// What keeps backups.
pub(super) struct Keepers<'a> {
    world: &'a World,
    concerns: &'a Concerns<'a>,
    zone: &'a TimeZone,
    /// The schedules with rules, by their namespace and the label of their backups.
    schedules: HashMap<NamespacedName, Ruled<'a>>,
}

/// A schedule with rules.
struct Ruled<'a> {
    schedule: Rules<'a>,
    kept: OnceCell<Option<Kept>>,
}

enum Rules<'a> {
    Of(&'a Schedule),
    /// It has rules, and cannot be read.
    Unreadable(&'a Unreadable),
}

impl<'a> Keepers<'a> {
    pub(super) fn new(world: &'a World, concerns: &'a Concerns<'a>, zone: &'a TimeZone) -> Self {
        let has_annotation =
            |annotations: &BTreeMap<String, String>| annotations.contains_key(well_known::ANNOTATION_RETENTION);
        let has_rules = |s: &&Schedule| s.spec.retention.is_some() || has_annotation(&s.metadata.annotations);
        let has_unreadable = |s: &&Unreadable| s.has("retention") || has_annotation(&s.meta.annotations);
        let ruled = |schedule| Ruled { schedule, kept: OnceCell::new() };
        let readable = world.schedules.iter().filter(has_rules);
        let readable = readable.map(|s| (s.beside(&s.label()), ruled(Rules::Of(s))));
        let unreadable = world.schedules.unreadable().filter(has_unreadable);
        let unreadable = unreadable.map(|s| {
            let key = NamespacedName::of(&s.meta).beside(&label_value(&s.meta.name));
            (key, ruled(Rules::Unreadable(s)))
        });
        Self { world, concerns, zone, schedules: readable.chain(unreadable).collect() }
    }

    /// Whether a backup is held, or of a schedule with rules. One that was never kept may be.
    pub(super) fn may_keep(&self, backup: &Backup) -> bool {
        Hold::of(&backup.metadata).is_some() || self.ruled(backup).is_some()
    }

    /// What keeps a backup at this time.
    pub(super) fn of(&self, backup: &Backup, now: Timestamp) -> Vec<Keeper> {
        let kept = self.ruled(backup).and_then(|ruled| {
            let kept = ruled.kept.get_or_init(|| self.kept(&ruled.schedule, backup));
            kept.as_ref()
        });
        keepers(backup, kept, now)
    }

    fn ruled(&self, backup: &Backup) -> Option<&Ruled<'a>> {
        if self.schedules.is_empty() {
            return None;
        }
        self.schedules.get(&backup.beside(backup.schedule_label()?))
    }

    /// What the rules of the schedule of this backup keep.
    fn kept(&self, schedule: &Rules<'_>, of: &Backup) -> Option<Kept> {
        let label = of.schedule_label();
        let own = self.world.backups.beside(of).filter(|backup| backup.schedule_label() == label);
        let own = own.map(|backup| (backup, self.concerns.requests_for(backup).is_open));
        match schedule {
            Rules::Of(schedule) => Kept::of(schedule, self.zone, own),
            Rules::Unreadable(schedule) => Some(Kept::wrong(&schedule.meta.name, schedule.why.clone(), own)),
        }
    }
}
