//! The limits on concurrent tasks: a number of each kind for each storage location, so that a bucket that hangs does
//! not take all places, and a number of each kind for all locations together.

use crate::server::key::Key;
use crate::work::deletion::backup_named;
use crate::world::{Meta, MirroredKind, World};
use lifeboat_api::NamespacedName;
use lifeboat_lifecycle::phase::location::location_name;
use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};

/// The number of tasks of each kind, by location.
pub(super) struct ConcurrencyLimits<'a> {
    world: &'a World,
    /// The location that the server's flag names.
    default_location: Option<&'a str>,
    counts: HashMap<LimitKey, Count>,
    in_all: HashMap<Discriminant<Key>, usize>,
}

/// Where there is room for so much work: of a kind, for a location, which has no name for work that speaks to no bucket and where it is
/// not known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LimitKey {
    kind: Discriminant<Key>,
    location: NamespacedName,
}

/// The number of tasks for late work, and for the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    late: usize,
    rest: usize,
}

impl<'a> ConcurrencyLimits<'a> {
    pub(super) fn new(world: &'a World, default_location: Option<&'a str>) -> Self {
        Self { world, default_location, counts: HashMap::new(), in_all: HashMap::new() }
    }

    /// This is worked on.
    pub(super) fn take(&mut self, key: &Key, is_late: bool) {
        let count = self.counts.entry(self.place(key)).or_default();
        *(if is_late { &mut count.late } else { &mut count.rest }) += 1;
        *self.in_all.entry(discriminant(key)).or_default() += 1;
    }

    /// Returns true if there is a place for one more task of this kind and location.
    pub(super) fn has(&self, key: &Key, is_late: bool) -> bool {
        let Count { late, rest } = self.count(key);
        self.in_all(key) < Key::MOST_IN_ALL && (!is_late || late < key.most(true)) && late + rest < key.most(false)
    }

    /// The number of tasks of this kind, and the limit that applies: that for all locations together where it is
    /// reached, otherwise that of the location.
    pub(super) fn taken(&self, key: &Key, is_late: bool) -> (usize, usize) {
        let (in_all, Count { late, rest }) = (self.in_all(key), self.count(key));
        if in_all >= Key::MOST_IN_ALL {
            (in_all, Key::MOST_IN_ALL)
        } else if late + rest < key.most(false) {
            (late, key.most(is_late))
        } else {
            (late + rest, key.most(false))
        }
    }

    fn in_all(&self, key: &Key) -> usize {
        self.in_all.get(&discriminant(key)).copied().unwrap_or_default()
    }

    fn count(&self, key: &Key) -> Count {
        self.counts.get(&self.place(key)).copied().unwrap_or_default()
    }

    fn place(&self, key: &Key) -> LimitKey {
        LimitKey { kind: discriminant(key), location: self.location(key).unwrap_or_default() }
    }

    /// The location whose bucket a task speaks to.
    fn location(&self, key: &Key) -> Option<NamespacedName> {
        let world = self.world;
        let of_backup = |key: &NamespacedName| {
            let backup = backup_named(key, world)?;
            let name = location_name(&backup, world.locations.beside(&*backup), self.default_location)?;
            Some(backup.beside(name))
        };
        match key {
            Key::Validation(key) | Key::Sync(key) => Some(key.clone()),
            Key::Repository(key) | Key::Maintenance(key) => {
                let repository = world.repositories.get(key)?;
                Some(repository.beside(&repository.spec.backup_storage_location))
            }
            Key::Sweep { location, .. } => Some(location.clone()),
            Key::Backup(key) | Key::CancelBackup(key) | Key::Expiry(key) | Key::Deletion { backup: key, .. } => {
                of_backup(key)
            }
            Key::Restore(key) | Key::Upkeep(key) | Key::CancelRestore(key) | Key::CleanUp(key) => {
                world.restores.get(key).and_then(|restore| of_backup(&key.beside(&restore.spec.backup_name)))
            }
            Key::Unreadable(MirroredKind::Restore, key) => {
                let restore = world.restores.get_unreadable(key)?;
                of_backup(&key.beside(restore.names("backupName")))
            }
            Key::Unreadable(..)
            | Key::Default(_)
            | Key::Queue(_)
            | Key::Start(_)
            | Key::Refusal(_)
            // A URL is signed without its bucket.
            | Key::Download(_)
            | Key::Status(_)
            | Key::Schedule(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{KeyedStep, Memory, PlanInput, ServerStep, plan};
    use super::*;
    use crate::stub::{named, options};
    use crate::work::StepError;
    use crate::world::Leftover;
    use jiff::Timestamp;
    use lifeboat_api::{
        Backup, BackupPhase, BackupStorageLocation, BackupStorageLocationPhase, DeleteBackupRequest, Restore, Time,
    };
    use lifeboat_lifecycle::phase::restore::FINALIZER;
    use lifeboat_lifecycle::phase::writable::note_writable;
    use std::collections::BTreeSet;
    use std::time::Duration;
    use tokio::time::Instant;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    /// Adds a location with so much of each work to be done.
    fn put(world: &mut World, name: &str, count: usize) {
        let mut location = BackupStorageLocation::default();
        location.metadata.name = name.into();
        location.spec.default = name == "hangs";
        location.status.phase = Some(BackupStorageLocationPhase::Available);
        note_writable(&mut location, "1969-12-31T00:00:00Z".parse().unwrap());
        for n in 0..count {
            let mut backup = |what: &str, phase| {
                let mut backup = Backup::default();
                backup.metadata.name = format!("{name}-{what}-{n}");
                backup.spec.storage_location = name.into();
                backup.status.phase = Some(phase);
                backup.spec.cancel = what == "cancelled";
                let made = backup.metadata.name.clone();
                world.backups.put(backup);
                made
            };
            backup("finalizing", BackupPhase::Finalizing);
            backup("cancelled", BackupPhase::InProgress);
            let completed = backup("completed", BackupPhase::Completed);
            let mut request = DeleteBackupRequest::default();
            request.metadata.name = format!("{name}-deletion-{n}");
            request.spec.backup_name = backup("deleted", BackupPhase::Completed);
            let expired = backup("expired", BackupPhase::Completed);
            world.delete_requests.put(request);
            let mut restore = Restore::default();
            restore.metadata.name = format!("{name}-gone-{n}");
            restore.metadata.finalizers.push(FINALIZER.into());
            restore.metadata.deletion_timestamp = Some(Time::new(NOW));
            restore.spec.backup_name = completed;
            world.restores.put(restore);
            world.left.push(Leftover { location: location.clone(), name: format!("{name}-left-{n}") });
            let mut expired = world.backups.get(&named(&expired)).unwrap().clone();
            expired.status.expiration = Some(Time::new(NOW));
            world.backups.put(expired);
        }
        world.locations.put(location);
    }

    /// The steps that begin beside the running ones, except for those that need no bucket.
    fn begun(world: &World, running: &[Key]) -> Vec<Key> {
        let (options, memory) = (options(1), Memory::default());
        let view = PlanInput { world, options: &options, memory: &memory, now: (NOW, Instant::now()), explain: false };
        plan(view, running.iter()).work.into_iter().map(|work| work.key).collect()
    }

    #[test]
    fn a_bucket_that_hangs_keeps_no_work_of_the_others_waiting() {
        let mut world = World::default();
        put(&mut world, "hangs", 100);
        let mut running = Vec::new();
        // All places that it can have.
        loop {
            let more = begun(&world, &running);
            if more.is_empty() {
                break;
            }
            running.extend(more);
        }
        let expected = |name: &str, n: usize| -> BTreeSet<Key> {
            let with = |what: &str| named(&format!("{name}-{what}-{n}"));
            [
                Key::Backup(with("finalizing")),
                Key::CancelBackup(with("cancelled")),
                Key::Deletion { backup: with("deleted"), request: with("deletion") },
                Key::CleanUp(with("gone")),
                Key::Expiry(with("expired")),
                Key::Sweep { backup: with("left"), location: named(name) },
                Key::Validation(named(name)),
            ]
            .into()
        };
        for key in expected("hangs", 0) {
            let count = running.iter().filter(|running| discriminant(*running) == discriminant(&key)).count();
            assert_eq!(count, if matches!(key, Key::Validation(_)) { 1 } else { key.most(false) }, "{key:?}");
        }
        put(&mut world, "good", 1);
        let more: BTreeSet<Key> = begun(&world, &running).into_iter().collect();
        assert_eq!(more, expected("good", 0));
    }

    #[test]
    fn many_locations_that_hang_are_checked_beside_each_other() {
        let mut world = World::default();
        let names: Vec<String> = (0..40).map(|n| format!("hangs-{n}")).collect();
        names.iter().for_each(|name| put(&mut world, name, 0));
        let begun: BTreeSet<Key> = begun(&world, &[]).into_iter().collect();
        assert_eq!(begun, names.iter().map(|name| Key::Validation(named(name))).collect());
    }

    /// Of ten thousand Backups each sync would hold a megabyte.
    #[test]
    fn syncs_of_one_plan_share_the_names_of_all_backups() {
        let mut world = World::default();
        for name in ["a", "b"] {
            put(&mut world, name, 1);
            let mut location = world.locations.get(&named(name)).unwrap().clone();
            location.status.last_synced_time = Some(Time::new(NOW));
            world.locations.put(location);
        }
        let (options, memory) = (options(1), Memory::default());
        let now = (Timestamp::from_second(120).unwrap(), Instant::now());
        let view = PlanInput { world: &world, options: &options, memory: &memory, now, explain: false };
        let known = |work: KeyedStep| if let ServerStep::Validate(_, known) = work.step { known } else { None };
        let known: Vec<_> = plan(view, std::iter::empty()).work.into_iter().filter_map(known).collect();
        let [one, other] = &known[..] else { panic!("{known:?}") };
        assert!(one.shares_names_with(other));
    }

    /// It is work on what is in the cluster, so all locations have its places together.
    #[test]
    fn the_mark_of_the_default_location_takes_no_place_of_a_bucket() {
        let mut world = World::default();
        for n in 0..40 {
            put(&mut world, &format!("{n}"), 0);
            let mut location = world.locations.get(&named(&n.to_string())).unwrap().clone();
            location.spec.default = true;
            world.locations.put(location);
        }
        let marks = begun(&world, &[]).into_iter().filter(|key| matches!(key, Key::Default(_))).count();
        assert_eq!(marks, Key::Default(named("")).most(false));
    }

    /// A sync in the same task would delay all that waits for the validation, such as the backups of a location that is
    /// Available from then on.
    #[test]
    fn a_first_sync_is_not_part_of_a_validation() {
        for (phase, synced, expected) in [
            (None, None, false),
            // A server was cut off in it.
            (Some(BackupStorageLocationPhase::Available), None, false),
            (Some(BackupStorageLocationPhase::Available), Some(Time::new(NOW)), true),
        ] {
            let mut world = World::default();
            let mut location = BackupStorageLocation::default();
            location.metadata.name = "main".into();
            location.status.phase = phase;
            location.status.last_synced_time = synced;
            world.locations.put(location);
            let (options, memory) = (options(1), Memory::default());
            let minute = jiff::SignedDuration::from_mins(1);
            let view = PlanInput {
                world: &world,
                options: &options,
                memory: &memory,
                now: (NOW + minute, Instant::now()),
                explain: false,
            };
            let steps = plan(view, std::iter::empty()).work;
            let is_synced: Vec<Option<bool>> = steps
                .iter()
                .map(|work| match &work.step {
                    ServerStep::Validate(_, known) => Some(known.is_some()),
                    _ => None,
                })
                .collect();
            assert_eq!(is_synced, [Some(expected)], "{phase:?} {synced:?}");
        }
    }

    #[test]
    fn a_sync_that_failed_is_not_part_of_a_validation() {
        let mut world = World::default();
        put(&mut world, "main", 0);
        let mut location = world.locations.get(&named("main")).unwrap().clone();
        location.status.last_synced_time = Some(Time::new(NOW));
        world.locations.put(location);
        let (options, begun, mut memory) = (options(1), Instant::now(), Memory::default());
        memory.failed(Key::Sync(named("main")), &StepError::Because("no".into()), begun);
        let minute = jiff::SignedDuration::from_mins(1);
        let view =
            PlanInput { world: &world, options: &options, memory: &memory, now: (NOW + minute, begun), explain: false };
        let steps = plan(view, std::iter::empty()).work;
        assert!(matches!(&steps[..], [KeyedStep { step: ServerStep::Validate(_, None), .. }]), "{steps:?}");
    }

    #[test]
    fn a_sync_that_failed_is_tried_again_though_validations_are_always_due() {
        let mut world = World::default();
        put(&mut world, "main", 0);
        let mut location = world.locations.get(&named("main")).unwrap().clone();
        location.status.last_synced_time = Some(Time::new(NOW));
        location.spec.validation_frequency = Some(lifeboat_api::Duration::from_secs(1));
        world.locations.put(location);
        let (options, begun, mut memory) = (options(1), Instant::now(), Memory::default());
        memory.failed(Key::Sync(named("main")), &StepError::Because("no".into()), begun);
        let spec = world.locations.get(&named("main")).unwrap().spec.clone();
        memory.validated.insert(named("main"), (spec.clone(), begun));
        let hour = jiff::SignedDuration::from_hours(1);
        let begins = |memory: &Memory, running: &[Key], now: Instant| {
            let view = PlanInput { world: &world, options: &options, memory, now: (NOW + hour, now), explain: false };
            plan(view, running.iter()).work.into_iter().map(|work| work.key).collect::<Vec<_>>()
        };
        let (validation, sync) = (Key::Validation(named("main")), Key::Sync(named("main")));
        assert_eq!(begins(&memory, &[], begun), std::slice::from_ref(&validation));
        let later = begun + Duration::from_secs(60);
        assert_eq!(begins(&memory, &[], later), [sync]);
        // What is in the new place is not known before the validation: a sync would take the backups of the old one for deleted.
        let mut edited = spec;
        edited.object_storage.bucket = "another".into();
        memory.validated.insert(named("main"), (edited, begun));
        assert_eq!(begins(&memory, &[], later), std::slice::from_ref(&validation), "after an edit");
        // Late, and all places for syncs are taken.
        let spec = world.locations.get(&named("main")).unwrap().spec.clone();
        memory.validated.insert(named("main"), (spec, begun));
        for _ in 0..4 {
            memory.failed(Key::Sync(named("main")), &StepError::Because("no".into()), begun);
        }
        let running: Vec<Key> = (0..Key::MOST_IN_ALL).map(|n| Key::Sync(named(&format!("hangs-{n}")))).collect();
        assert_eq!(begins(&memory, &running, begun + Duration::from_secs(3600)), [validation], "no place for the sync");
    }

    /// Which of two locations has a backup of a name that both hold is decided then.
    #[test]
    fn the_first_sync_of_the_default_location_is_awaited_for_a_minute() {
        let mut world = World::default();
        put(&mut world, "hangs", 0);
        let mut good = BackupStorageLocation::default();
        good.metadata.name = "good".into();
        good.status.phase = Some(BackupStorageLocationPhase::Available);
        good.status.last_validation_time = Some(Time::new(NOW));
        world.locations.put(good.clone());
        let (options, base) = (options(1), Instant::now());
        let mut memory = Memory::default();
        for location in world.locations.iter() {
            memory.validated.insert(location.key(), (location.spec.clone(), base));
        }
        let hanging = Key::Sync(named("hangs"));
        let begun = |world: &World, after: Duration| {
            let view =
                PlanInput { world, options: &options, memory: &memory, now: (NOW, base + after), explain: false };
            let plan = plan(view, std::iter::once(&hanging));
            (plan.work.into_iter().map(|work| work.key).collect::<Vec<_>>(), plan.retry)
        };
        let minute = Duration::from_secs(60);
        let sync = vec![Key::Sync(named("good"))];
        assert_eq!(begun(&world, Duration::ZERO), (Vec::new(), Some(base + minute)));
        assert_eq!(begun(&world, minute), (sync.clone(), None));
        // It was synced before.
        let mut default = world.locations.get(&named("hangs")).unwrap().clone();
        default.status.last_synced_time = Some(Time::new(NOW));
        world.locations.put(default);
        assert_eq!(begun(&world, Duration::ZERO), (sync, None));
    }
}
