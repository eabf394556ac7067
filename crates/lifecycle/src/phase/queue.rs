//! The queue of backups (velero: pkg/controller/backup_queue_controller.go).

use lifeboat_api::NamespacedName;
use lifeboat_api::{Backup, BackupPhase};
use lifeboat_select::has_wildcard;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A change that the queue asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueMove {
    /// Into the queue.
    Queue(i64),
    /// To another position in it; this has time.
    Renumber(i64),
    /// Out of it: it may run.
    Start,
}

/// The state of the work on an object, which the object itself does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueState {
    /// It has its turn, or is worked on.
    Good,
    /// It is about to leave the queue.
    Starts,
    /// Its steps have failed again and again, so many times. Until one has begun it holds nothing, and others go first.
    Late(u32),
    /// Nothing can be done with it at the moment. It holds nothing.
    Out,
}

/// The reason for which a backup or a restore cannot run beside the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// These have the places, so many as there are, or more.
    Full {
        /// The ones that run.
        by: Arc<[NamespacedName]>,
        /// The number of places.
        places: usize,
    },
    /// This backup, which runs or comes first, may hold one of its namespaces.
    Overlaps(NamespacedName),
}

/// A backup that has no turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAdmitted {
    /// The backup.
    pub backup: NamespacedName,
    /// In the queue; none when it has left that.
    pub position: Option<usize>,
    /// The reason.
    pub why: Blocked,
}

/// The result of a look at the queue.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Admissions {
    /// The next changes, and of which backup.
    pub moves: Vec<(NamespacedName, QueueMove)>,
    /// Late ones that have left the queue already and may be tried again.
    pub again: BTreeSet<NamespacedName>,
    /// Backups without a turn; empty unless the caller asks for them.
    pub waits: Vec<NotAdmitted>,
}

/// Whose turn it is. The whole state is in the backups and in how they stand, so nothing that was missed or lost can wedge
/// the queue; nor does one whose steps fail for ever.
pub fn admit<'a>(
    backups: impl Iterator<Item = &'a Backup>,
    most: usize,
    explain: bool,
    state: impl Fn(&Backup) -> QueueState,
) -> Admissions {
    let (mut waiting, mut new, mut running, mut late) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // Whether one may come back to its place.
    let mut is_open = false;
    for backup in backups.filter(|b| b.metadata.deletion_timestamp.is_none()) {
        match backup.status.phase {
            // It will not run any more.
            None | Some(BackupPhase::New | BackupPhase::Queued) if backup.spec.cancel => {}
            None | Some(BackupPhase::New) => new.push(backup),
            Some(BackupPhase::Queued) => match state(backup) {
                QueueState::Starts => {
                    is_open = true;
                    running.push(backup);
                }
                state => waiting.push((backup, state)),
            },
            Some(BackupPhase::ReadyToStart | BackupPhase::InProgress) => match state(backup) {
                QueueState::Good | QueueState::Starts => running.push(backup),
                QueueState::Late(failures) => late.push((failures, backup)),
                QueueState::Out => {}
            },
            _ => {}
        }
    }
    waiting.sort_by_key(|(b, _)| {
        (b.status.queue_position, b.metadata.creation_timestamp, &b.metadata.namespace, &b.metadata.name)
    });
    new.sort_by_key(|b| (b.metadata.creation_timestamp, &b.metadata.namespace, &b.metadata.name));
    let mut slots = Slots::new(most.max(1), running);
    let mut out = Admissions::default();
    let mut started = BTreeSet::new();
    // Each with the backup that holds one of its namespaces; only for a caller that asks for reasons.
    let mut blocked = Vec::new();
    for (backup, state) in &waiting {
        match state {
            QueueState::Good => match slots.take(backup) {
                Ok(()) => drop(started.insert(backup.metadata.key())),
                Err(holder) => {
                    blocked.extend(explain.then_some((backup.metadata.key(), holder)));
                    // What waits before others and could not start keeps its namespaces.
                    slots.held.add(backup);
                }
            },
            QueueState::Late(failures) => late.push((*failures, backup)),
            QueueState::Starts | QueueState::Out => {}
        }
    }
    // A backup that has failed less often is tried first, so that each has its turn.
    late.sort_by_key(|(failures, b)| {
        (*failures, b.status.queue_position, b.metadata.creation_timestamp, &b.metadata.namespace, &b.metadata.name)
    });
    for (_, backup) in late {
        if let Err(holder) = slots.take(backup) {
            blocked.extend(explain.then_some((backup.metadata.key(), holder)));
            continue;
        }
        if backup.status.phase == Some(BackupPhase::Queued) {
            is_open = true;
            started.insert(backup.metadata.key());
        } else {
            out.again.insert(backup.metadata.key());
        }
    }
    let (mut position, mut last) = (0, 0);
    for (backup, _) in &waiting {
        let key = backup.metadata.key();
        last = last.max(backup.status.queue_position);
        if started.contains(&key) {
            out.moves.push((key, QueueMove::Start));
            continue;
        }
        position += 1;
        if backup.status.queue_position != position && !is_open {
            out.moves.push((key, QueueMove::Renumber(position)));
        }
    }
    // Behind all that wait, whose positions may be old ones.
    let new = new.into_iter().zip(last.max(position) + 1..);
    out.moves.extend(new.map(|(backup, at)| (backup.metadata.key(), QueueMove::Queue(at))));
    if explain {
        let by: Arc<[NamespacedName]> = slots.taken.iter().map(|backup| backup.metadata.key()).collect();
        let order = waiting.iter().map(|(b, _)| b.metadata.key()).filter(|key| !started.contains(key));
        let positions: BTreeMap<NamespacedName, usize> = order.zip(1..).collect();
        out.waits.extend(blocked.into_iter().map(|(backup, holder)| NotAdmitted {
            position: positions.get(&backup).copied(),
            backup,
            why: match holder {
                Some(holder) => Blocked::Overlaps(holder.metadata.key()),
                None => Blocked::Full { by: Arc::clone(&by), places: most.max(1) },
            },
        }));
    }
    out
}

/// The places for backups that run at the same time, and what those that run or come first hold.
struct Slots<'a> {
    most: usize,
    taken: Vec<&'a Backup>,
    held: HeldNamespaces<'a>,
}

impl<'a> Slots<'a> {
    fn new(most: usize, running: Vec<&'a Backup>) -> Self {
        let mut held = HeldNamespaces::default();
        running.iter().for_each(|backup| held.add(backup));
        Self { most, taken: running, held }
    }

    /// Takes a place when there is one and no backup holds a namespace of this one. Otherwise gives the backup that
    /// holds one, or `None` when all places are taken.
    fn take(&mut self, backup: &'a Backup) -> Result<(), Option<&'a Backup>> {
        if self.taken.len() >= self.most {
            return Err(None);
        }
        if let Some(holder) = self.held.overlaps(backup) {
            return Err(Some(holder));
        }
        self.taken.push(backup);
        self.held.add(backup);
        Ok(())
    }
}

/// The namespaces that some backups may hold, and the first of them.
#[derive(Default)]
struct HeldNamespaces<'a> {
    /// The backups that name them one by one.
    names: BTreeMap<&'a str, &'a Backup>,
    /// A backup that names them by a pattern, which may match any namespace.
    anything: Option<&'a Backup>,
    /// The first backup of all.
    something: Option<&'a Backup>,
}

impl<'a> HeldNamespaces<'a> {
    fn add(&mut self, backup: &'a Backup) {
        self.something = self.something.or(Some(backup));
        match plain(backup) {
            Some(names) => names.for_each(|name| {
                self.names.entry(name).or_insert(backup);
            }),
            None => self.anything = self.anything.or(Some(backup)),
        }
    }

    /// A backup that may hold a namespace of this one.
    fn overlaps(&self, backup: &Backup) -> Option<&'a Backup> {
        match plain(backup) {
            Some(mut names) => self.anything.or_else(|| names.find_map(|name| self.names.get(name).copied())),
            None => self.something,
        }
    }
}

/// The namespaces of a backup, when it names them one by one.
fn plain(backup: &Backup) -> Option<impl Iterator<Item = &str>> {
    let spec = &backup.spec;
    let included = &spec.included_namespaces;
    let is_plain = !included.is_empty() && !included.iter().any(|name| has_wildcard(name));
    is_plain
        .then(|| included.iter().map(String::as_str).filter(|name| !spec.excluded_namespaces.iter().any(|e| e == name)))
}

/// The backups that run or come before this one at its position of the queue, and may hold a namespace of it, each with these namespaces;
/// `*` where both name theirs by patterns.
pub fn conflicts<'a>(
    backup: &'a Backup,
    position: i64,
    all: impl Iterator<Item = &'a Backup>,
) -> Vec<(NamespacedName, Vec<&'a str>)> {
    use BackupPhase::{InProgress, Queued, ReadyToStart};
    let others = all.filter(|other| {
        let comes_before = match other.status.phase {
            Some(ReadyToStart | InProgress) => true,
            Some(Queued) => other.status.queue_position < position,
            _ => false,
        };
        let mut held = HeldNamespaces::default();
        held.add(other);
        comes_before
            && !other.spec.cancel
            && other.metadata.key() != backup.metadata.key()
            && held.overlaps(backup).is_some()
    });
    let shared = |other: &'a Backup| match (plain(backup), plain(other)) {
        (Some(own), Some(names)) => {
            let names: BTreeSet<&str> = names.collect();
            own.filter(|name| names.contains(name)).collect()
        }
        (Some(own), None) => own.collect(),
        (None, Some(names)) => names.collect(),
        (None, None) => vec!["*"],
    };
    others.map(|other| (other.metadata.key(), shared(other))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queued_backup_says_which_namespaces_conflict_with_which_other() {
        use BackupPhase::{Completed, InProgress, Queued};
        let all = [
            backup("runs", Some(InProgress), 0, &["shop", "web"]),
            backup("before", Some(Queued), 1, &["app-*"]),
            backup("apart", Some(Queued), 2, &["db"]),
            backup("over", Some(Completed), 0, &["web"]),
        ];
        let found = |namespaces: &[&str]| -> Vec<String> {
            let own = backup("own", None, 0, namespaces);
            conflicts(&own, 2, all.iter())
                .into_iter()
                .map(|(key, names)| format!("{}: {}", key.name, names.join(",")))
                .collect()
        };
        assert_eq!(found(&["web", "lab"]), ["runs: web", "before: web,lab"]);
        assert_eq!(found(&["*"]), ["runs: shop,web", "before: *"], "what comes after it does not hold it back");
        assert_eq!(found(&["db"]), ["before: db"]);
    }

    fn backup(name: &str, phase: Option<BackupPhase>, position: i64, namespaces: &[&str]) -> Backup {
        let mut out = Backup::default();
        out.metadata.name = name.into();
        out.status.phase = phase;
        out.status.queue_position = position;
        out.spec.included_namespaces = namespaces.iter().map(|n| (*n).to_owned()).collect();
        out
    }

    #[test]
    fn the_rows_of_the_queue() {
        use BackupPhase::{Completed, FailedValidation, InProgress, Queued, ReadyToStart};
        let all: &[&str] = &["*"];
        for (what, backups, most, expected) in [
            (
                "new ones are queued behind",
                vec![
                    backup("b", None, 0, all),
                    backup("a", Some(BackupPhase::New), 0, all),
                    backup("q", Some(Queued), 1, all),
                    backup("r", Some(InProgress), 0, all),
                ],
                1,
                vec![("a", QueueMove::Queue(2)), ("b", QueueMove::Queue(3))],
            ),
            (
                "new ones are behind positions that are not yet brought up to date",
                vec![
                    backup("b", None, 0, all),
                    backup("q", Some(Queued), 7, all),
                    backup("r", Some(InProgress), 0, all),
                ],
                1,
                vec![("q", QueueMove::Renumber(1)), ("b", QueueMove::Queue(8))],
            ),
            (
                "a free slot",
                vec![backup("q", Some(Queued), 1, all), backup("p", Some(Queued), 2, all)],
                1,
                vec![("q", QueueMove::Start), ("p", QueueMove::Renumber(1))],
            ),
            (
                "the place of one that was refused is free",
                vec![backup("f", Some(FailedValidation), 0, all), backup("q", Some(Queued), 1, all)],
                1,
                vec![("q", QueueMove::Start)],
            ),
            (
                "one that is to start has a slot",
                vec![backup("r", Some(ReadyToStart), 0, &["x"]), backup("q", Some(Queued), 1, &["y"])],
                1,
                vec![],
            ),
            (
                "two slots, other namespaces",
                vec![backup("r", Some(InProgress), 0, &["x"]), backup("q", Some(Queued), 1, &["y"])],
                2,
                vec![("q", QueueMove::Start)],
            ),
            (
                "two slots, the same namespace",
                vec![backup("r", Some(InProgress), 0, &["x", "y"]), backup("q", Some(Queued), 1, &["y"])],
                2,
                vec![],
            ),
            (
                "two slots, a pattern",
                vec![backup("r", Some(InProgress), 0, &["x*"]), backup("q", Some(Queued), 1, &["y"])],
                2,
                vec![],
            ),
            (
                "two slots, all",
                vec![backup("r", Some(InProgress), 0, &[]), backup("q", Some(Queued), 1, &["y"])],
                2,
                vec![],
            ),
            (
                "one that can start passes one that cannot",
                vec![
                    backup("r", Some(InProgress), 0, &["x"]),
                    backup("q", Some(Queued), 1, &["x"]),
                    backup("s", Some(Queued), 2, &["y"]),
                ],
                2,
                vec![("s", QueueMove::Start)],
            ),
            (
                "but not one that it would hold up",
                vec![
                    backup("r", Some(InProgress), 0, &["x"]),
                    backup("q", Some(Queued), 1, &["x", "y"]),
                    backup("s", Some(Queued), 2, &["y"]),
                ],
                2,
                vec![],
            ),
            (
                "the rest closes up",
                vec![
                    backup("d", Some(Completed), 0, all),
                    backup("r", Some(InProgress), 0, all),
                    backup("q", Some(Queued), 5, all),
                ],
                1,
                vec![("q", QueueMove::Renumber(1))],
            ),
            (
                "one that is about to start has a slot, wherever it was",
                vec![backup("q", Some(Queued), 1, all), backup("starts", Some(Queued), 2, all)],
                1,
                vec![],
            ),
            (
                "one that fails again and again comes after the others, before it starts",
                vec![backup("late1", Some(Queued), 1, all), backup("q", Some(Queued), 2, all)],
                1,
                vec![("q", QueueMove::Start)],
            ),
            (
                "when it is to start",
                vec![backup("late1", Some(ReadyToStart), 0, all), backup("q", Some(Queued), 1, all)],
                1,
                vec![("q", QueueMove::Start)],
            ),
            (
                "and in the middle",
                vec![backup("late1", Some(InProgress), 0, all), backup("q", Some(Queued), 1, all)],
                1,
                vec![("q", QueueMove::Start)],
            ),
            (
                "but it is tried again, and the one that has failed less often first",
                vec![backup("late2", Some(Queued), 1, all), backup("late1", Some(Queued), 2, all)],
                1,
                vec![("late1", QueueMove::Start)],
            ),
            (
                "what has to wait holds nothing",
                vec![
                    backup("out", Some(Queued), 1, all),
                    backup("out-too", Some(ReadyToStart), 0, all),
                    backup("out-as-well", Some(InProgress), 0, all),
                    backup("q", Some(Queued), 2, all),
                ],
                1,
                vec![("q", QueueMove::Start)],
            ),
            ("no limit below one", vec![backup("q", Some(Queued), 1, all)], 0, vec![("q", QueueMove::Start)]),
        ] {
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(name, to)| (NamespacedName { namespace: String::new(), name: (*name).to_owned() }, to))
                .collect();
            assert_eq!(admit(backups.iter(), most, false, state).moves, expected, "{what}");
        }
    }

    /// By its name.
    fn state(backup: &Backup) -> QueueState {
        match backup.metadata.name.as_str() {
            "starts" => QueueState::Starts,
            "late1" => QueueState::Late(3),
            "late2" => QueueState::Late(4),
            name if name.starts_with("out") => QueueState::Out,
            _ => QueueState::Good,
        }
    }

    #[test]
    fn who_is_late_runs_again_when_there_is_a_place() {
        use BackupPhase::{InProgress, Queued, ReadyToStart};
        let (late1, late2) =
            (backup("late1", Some(InProgress), 0, &["x"]), backup("late2", Some(ReadyToStart), 0, &["y"]));
        let again = |others: &[Backup], most| {
            let all = [&late1, &late2].into_iter().chain(others);
            admit(all, most, false, state).again.into_iter().map(|backup| backup.name).collect::<Vec<_>>()
        };
        assert_eq!(again(&[], 1), ["late1"]);
        assert_eq!(again(&[], 2), ["late1", "late2"]);
        assert_eq!(again(&[backup("r", Some(InProgress), 0, &["z"])], 2), ["late1"]);
        assert_eq!(again(&[backup("r", Some(InProgress), 0, &["x"])], 2), ["late2"]);
        assert_eq!(again(&[backup("q", Some(Queued), 1, &["z"])], 1), [""; 0]);
    }

    /// Whatever happens, the queue empties: from any mixture of states each step leads on.
    #[test]
    fn nothing_wedges_it() {
        let phases = [None, Some(BackupPhase::New), Some(BackupPhase::Queued), Some(BackupPhase::FailedValidation)];
        for seed in 0..200usize {
            let mut backups: Vec<Backup> =
                (0..5).map(|n| backup(&n.to_string(), phases[(seed >> n) % 4], (seed % 7) as i64, &["*"])).collect();
            for _ in 0..40 {
                for (key, to) in admit(backups.iter(), 1, false, |_| QueueState::Good).moves {
                    let Some(one) = backups.iter_mut().find(|b| b.metadata.key() == key) else { continue };
                    match to {
                        QueueMove::Queue(position) | QueueMove::Renumber(position) => {
                            one.status.phase = Some(BackupPhase::Queued);
                            one.status.queue_position = position;
                        }
                        // It is refused at once, the worst that can happen to the backups behind it.
                        QueueMove::Start => one.status.phase = Some(BackupPhase::FailedValidation),
                    }
                }
            }
            assert!(backups.iter().all(|b| b.status.phase == Some(BackupPhase::FailedValidation)), "seed {seed}");
        }
    }
}
