//! The queue of backups (api-and-controllers.md 3.2).

use lifeboat_api::{Backup, BackupPhase};
use lifeboat_select::has_wildcard;
use std::collections::BTreeSet;

/// A change that the queue asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// Into the queue.
    Queue(i64),
    /// To another position in it; this has time.
    Renumber(i64),
    /// Out of it: it may run.
    Start,
}

/// The next changes, by name. The whole state is in the backups, so nothing that was missed or lost can wedge it; nor does
/// one of which `is_stuck` says that its steps fail again and again.
pub(crate) fn moves<'a>(
    backups: impl Iterator<Item = &'a Backup>,
    most: usize,
    is_stuck: impl Fn(&str) -> bool,
) -> Vec<(String, Move)> {
    let (mut waiting, mut new, mut running) = (Vec::new(), Vec::new(), Vec::new());
    for backup in backups.filter(|b| b.metadata.deletion_timestamp.is_none()) {
        match backup.status.phase {
            // It will not run any more.
            None | Some(BackupPhase::New | BackupPhase::Queued) if backup.spec.cancel => {}
            None | Some(BackupPhase::New) => new.push(backup),
            Some(BackupPhase::Queued) => waiting.push(backup),
            Some(BackupPhase::ReadyToStart) if is_stuck(&backup.metadata.name) => {}
            Some(BackupPhase::ReadyToStart | BackupPhase::InProgress) => running.push(backup),
            _ => {}
        }
    }
    waiting.sort_by_key(|b| (b.status.queue_position, b.metadata.creation_timestamp, &b.metadata.name));
    new.sort_by_key(|b| (b.metadata.creation_timestamp, &b.metadata.name));
    let mut out = Vec::new();
    let mut free = most.max(1).saturating_sub(running.len());
    let mut before = Held::default();
    running.into_iter().for_each(|backup| before.add(backup));
    let (mut position, mut last) = (0, 0);
    for backup in waiting {
        let stuck = is_stuck(&backup.metadata.name);
        // What waits before it and could not start keeps its namespaces.
        if free > 0 && !before.overlaps(backup) {
            // One that is stuck is tried too, and takes no slot.
            free -= usize::from(!stuck);
            out.push((backup.metadata.name.clone(), Move::Start));
        } else {
            position += 1;
            if backup.status.queue_position != position {
                out.push((backup.metadata.name.clone(), Move::Renumber(position)));
            }
        }
        last = last.max(backup.status.queue_position);
        if !stuck {
            before.add(backup);
        }
    }
    // Behind all that wait, whose positions may be old ones.
    out.extend(new.into_iter().zip(last.max(position) + 1..).map(|(b, at)| (b.metadata.name.clone(), Move::Queue(at))));
    out
}

/// The namespaces that some backups may hold.
#[derive(Default)]
struct Held<'a> {
    /// Of those that name them one by one.
    names: BTreeSet<&'a str>,
    /// There is one with a pattern, which may match anything.
    anything: bool,
    /// There is one at all.
    something: bool,
}

impl<'a> Held<'a> {
    fn add(&mut self, backup: &'a Backup) {
        self.something = true;
        match plain(backup) {
            Some(names) => self.names.extend(names),
            None => self.anything = true,
        }
    }

    fn overlaps(&self, backup: &Backup) -> bool {
        match plain(backup) {
            Some(mut names) => self.anything || names.any(|name| self.names.contains(name)),
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

#[cfg(test)]
mod tests {
    use super::*;

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
                vec![("a", Move::Queue(2)), ("b", Move::Queue(3))],
            ),
            (
                "new ones are behind positions that are not yet brought up to date",
                vec![
                    backup("b", None, 0, all),
                    backup("q", Some(Queued), 7, all),
                    backup("r", Some(InProgress), 0, all),
                ],
                1,
                vec![("q", Move::Renumber(1)), ("b", Move::Queue(8))],
            ),
            (
                "a free slot",
                vec![backup("q", Some(Queued), 1, all), backup("p", Some(Queued), 2, all)],
                1,
                vec![("q", Move::Start), ("p", Move::Renumber(1))],
            ),
            (
                "the place of one that was refused is free",
                vec![backup("f", Some(FailedValidation), 0, all), backup("q", Some(Queued), 1, all)],
                1,
                vec![("q", Move::Start)],
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
                vec![("q", Move::Start)],
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
                "who can start passes who cannot",
                vec![
                    backup("r", Some(InProgress), 0, &["x"]),
                    backup("q", Some(Queued), 1, &["x"]),
                    backup("s", Some(Queued), 2, &["y"]),
                ],
                2,
                vec![("s", Move::Start)],
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
                vec![("q", Move::Renumber(1))],
            ),
            (
                "one that fails again and again holds nobody up, before it starts",
                vec![backup("stuck", Some(Queued), 1, all), backup("q", Some(Queued), 2, all)],
                1,
                vec![("stuck", Move::Start), ("q", Move::Start)],
            ),
            (
                "nor after",
                vec![backup("stuck", Some(ReadyToStart), 0, all), backup("q", Some(Queued), 1, all)],
                1,
                vec![("q", Move::Start)],
            ),
            ("no limit below one", vec![backup("q", Some(Queued), 1, all)], 0, vec![("q", Move::Start)]),
        ] {
            let expected: Vec<_> = expected.into_iter().map(|(name, to)| (name.to_owned(), to)).collect();
            assert_eq!(moves(backups.iter(), most, |name| name.starts_with("stuck")), expected, "{what}");
        }
    }

    /// Whatever happens, the queue empties: from any mixture of states each step leads on.
    #[test]
    fn nothing_wedges_it() {
        let phases = [None, Some(BackupPhase::New), Some(BackupPhase::Queued), Some(BackupPhase::FailedValidation)];
        for seed in 0..200usize {
            let mut backups: Vec<Backup> =
                (0..5).map(|n| backup(&n.to_string(), phases[(seed >> n) % 4], (seed % 7) as i64, &["*"])).collect();
            for _ in 0..40 {
                for (name, to) in moves(backups.iter(), 1, |_| false) {
                    let Some(one) = backups.iter_mut().find(|b| b.metadata.name == name) else { continue };
                    match to {
                        Move::Queue(position) | Move::Renumber(position) => {
                            one.status.phase = Some(BackupPhase::Queued);
                            one.status.queue_position = position;
                        }
                        // It is refused at once, the worst that can happen to who comes behind.
                        Move::Start => one.status.phase = Some(BackupPhase::FailedValidation),
                    }
                }
            }
            assert!(backups.iter().all(|b| b.status.phase == Some(BackupPhase::FailedValidation)), "seed {seed}");
        }
    }
}
