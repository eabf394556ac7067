//! Turns the findings about an object in one backup after the other into a list of events. Pure.

use lifeboat_api::Time;
use lifeboat_object::printable;
use lifeboat_patch::Difference;

/// The finding about an object in a backup, compared with the backups before.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Observation {
    /// It has the object, as the first one.
    First,
    /// It has the object, as some did before.
    Has {
        /// The differences from its last state.
        differences: Vec<Difference>,
        /// True when it has another UID.
        is_another: bool,
    },
    /// It has the object, and for this reason it is not known where it differs from its last state.
    NotCompared(String),
    /// It does not have it, and this is why that may say nothing, if something does.
    Lacks(Option<String>),
    /// It would not have it in any case.
    NotInScope(&'static str),
    /// It cannot be read.
    Unreadable(String),
}

/// An event in the life of an object, or the knowledge of it, at a backup or some that follow each other.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryEvent {
    /// The first backup that shows it.
    pub backup: String,
    /// When that was begun, where it is known.
    pub time: Option<Time>,
    /// The last backup that shows the same.
    pub last: String,
    /// The number of backups that show it.
    pub backups: usize,
    /// The event itself.
    pub happening: HistoryEventKind,
}

/// Kinds of events in the life of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum HistoryEventKind {
    /// It is there in the first backup that could have it.
    Present,
    /// It is there, and was not in the backup before.
    Appeared,
    /// It differs from its last state in these places.
    Changed(Vec<Difference>),
    /// It was deleted and made again, between two backups or when some had not had it, and differs from its last state in these places.
    MadeAgain(Vec<Difference>),
    /// It is there, and what has changed in it since its last state is not known, for this reason.
    NotCompared(String),
    /// It was not there any more; and this is why that may say nothing, if something does.
    Vanished(Option<String>),
    /// It is as it was.
    Same,
    /// It is not there, as it was not before; and this is why that may say nothing, if something does.
    Absent(Option<String>),
    /// The backups would not have it in any case, for this reason.
    NotInScope(&'static str),
    /// The backup cannot be read, for this reason.
    Unreadable(String),
}

/// The events up to now.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    events: Vec<HistoryEvent>,
    /// True when the last backup that could tell has the object; `None` before any could.
    is_there: Option<bool>,
}

impl Timeline {
    /// Adds what the next backup says.
    pub(crate) fn add(&mut self, backup: &str, time: Option<Time>, look: Observation) {
        let happening = self.happening(look);
        match &happening {
            HistoryEventKind::Present
            | HistoryEventKind::Appeared
            | HistoryEventKind::Changed(_)
            | HistoryEventKind::MadeAgain(_)
            | HistoryEventKind::NotCompared(_)
            | HistoryEventKind::Same => self.is_there = Some(true),
            HistoryEventKind::Vanished(_) | HistoryEventKind::Absent(_) => self.is_there = Some(false),
            HistoryEventKind::NotInScope(_) | HistoryEventKind::Unreadable(_) => {}
        }
        let is_more = |last: &&mut HistoryEvent| {
            matches!(happening, HistoryEventKind::Same | HistoryEventKind::Absent(_) | HistoryEventKind::NotInScope(_))
                && last.happening == happening
        };
        if let Some(last) = self.events.last_mut().filter(is_more) {
            last.backups += 1;
            backup.clone_into(&mut last.last);
            return;
        }
        self.events.push(HistoryEvent {
            backup: backup.to_owned(),
            time,
            last: backup.to_owned(),
            backups: 1,
            happening,
        });
    }

    pub(crate) fn events(self) -> Vec<HistoryEvent> {
        self.events
    }

    fn happening(&self, look: Observation) -> HistoryEventKind {
        match (look, self.is_there) {
            (Observation::First, None) => HistoryEventKind::Present,
            (Observation::First, Some(_)) => HistoryEventKind::Appeared,
            (Observation::Has { differences, is_another: true }, _) => HistoryEventKind::MadeAgain(differences),
            (Observation::Has { differences, is_another: false }, Some(true)) if differences.is_empty() => {
                HistoryEventKind::Same
            }
            (Observation::Has { differences, is_another: false }, Some(true)) => HistoryEventKind::Changed(differences),
            // It was there all the time, and the backup between had not saved it.
            (Observation::Has { differences, is_another: false }, _) if differences.is_empty() => {
                HistoryEventKind::Appeared
            }
            (Observation::Has { differences, is_another: false }, _) => HistoryEventKind::Changed(differences),
            (Observation::NotCompared(why), _) => HistoryEventKind::NotCompared(printable(why)),
            (Observation::Lacks(doubt), Some(true)) => HistoryEventKind::Vanished(doubt.map(printable)),
            (Observation::Lacks(doubt), _) => HistoryEventKind::Absent(doubt.map(printable)),
            (Observation::NotInScope(why), _) => HistoryEventKind::NotInScope(why),
            (Observation::Unreadable(why), _) => HistoryEventKind::Unreadable(printable(why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn difference() -> Vec<Difference> {
        vec![Difference { path: "/data/a".to_owned(), left: Some(json!("1")), right: Some(json!("2")) }]
    }

    fn has(differences: Vec<Difference>) -> Observation {
        Observation::Has { differences, is_another: false }
    }

    /// The events after findings in backups 1, 2, …: for each the first backup, the number of backups, and its kind.
    fn told(looks: Vec<Observation>) -> Vec<(usize, usize, HistoryEventKind)> {
        let mut timeline = Timeline::default();
        for (number, look) in looks.into_iter().enumerate() {
            timeline.add(&(number + 1).to_string(), None, look);
        }
        let events = timeline.events();
        let first = |event: &HistoryEvent| event.backup.parse::<usize>().unwrap();
        for event in &events {
            assert_eq!(event.last.parse::<usize>().unwrap(), first(event) + event.backups - 1);
        }
        events.into_iter().map(|event| (first(&event), event.backups, event.happening)).collect()
    }

    #[test]
    fn an_object_comes_changes_and_goes() {
        let looks = vec![
            Observation::Lacks(None),
            Observation::Lacks(None),
            Observation::First,
            has(vec![]),
            has(vec![]),
            has(difference()),
            has(vec![]),
            Observation::Lacks(None),
            Observation::Lacks(None),
        ];
        assert_eq!(
            told(looks),
            [
                (1, 2, HistoryEventKind::Absent(None)),
                (3, 1, HistoryEventKind::Appeared),
                (4, 2, HistoryEventKind::Same),
                (6, 1, HistoryEventKind::Changed(difference())),
                (7, 1, HistoryEventKind::Same),
                (8, 1, HistoryEventKind::Vanished(None)),
                (9, 1, HistoryEventKind::Absent(None)),
            ]
        );
    }

    #[test]
    fn of_an_object_that_the_first_backup_has_nobody_knows_when_it_appeared() {
        assert_eq!(
            told(vec![Observation::First, has(vec![])]),
            [(1, 1, HistoryEventKind::Present), (2, 1, HistoryEventKind::Same)]
        );
        let looks = vec![Observation::NotInScope("a"), Observation::Unreadable("b".to_owned()), Observation::First];
        assert_eq!(
            told(looks),
            [
                (1, 1, HistoryEventKind::NotInScope("a")),
                (2, 1, HistoryEventKind::Unreadable("b".to_owned())),
                (3, 1, HistoryEventKind::Present)
            ]
        );
    }

    #[test]
    fn what_says_nothing_of_the_object_is_between_two_states_of_it() {
        let looks = vec![
            Observation::First,
            Observation::NotInScope("a"),
            Observation::NotInScope("a"),
            Observation::NotInScope("b"),
            has(vec![]),
            Observation::Unreadable("c".to_owned()),
            // Who has named what is read may have meant to write more lines than one.
            Observation::Unreadable("c\nc".to_owned()),
            Observation::Lacks(Some("d\u{7}".to_owned())),
        ];
        assert_eq!(
            told(looks),
            [
                (1, 1, HistoryEventKind::Present),
                (2, 2, HistoryEventKind::NotInScope("a")),
                (4, 1, HistoryEventKind::NotInScope("b")),
                (5, 1, HistoryEventKind::Same),
                (6, 1, HistoryEventKind::Unreadable("c".to_owned())),
                (7, 1, HistoryEventKind::Unreadable("c\\nc".to_owned())),
                (8, 1, HistoryEventKind::Vanished(Some("d\\u{7}".to_owned()))),
            ]
        );
    }

    #[test]
    fn a_backup_that_may_have_left_the_object_out_says_so_at_any_time() {
        let doubt = |why: &str| Some(why.to_owned());
        let looks = vec![
            Observation::Lacks(doubt("a")),
            Observation::Lacks(doubt("a")),
            Observation::Lacks(None),
            Observation::First,
            Observation::Lacks(doubt("a")),
            Observation::Lacks(doubt("b\u{7}")),
        ];
        assert_eq!(
            told(looks),
            [
                (1, 2, HistoryEventKind::Absent(doubt("a"))),
                (3, 1, HistoryEventKind::Absent(None)),
                (4, 1, HistoryEventKind::Appeared),
                (5, 1, HistoryEventKind::Vanished(doubt("a"))),
                (6, 1, HistoryEventKind::Absent(doubt("b\\u{7}"))),
            ]
        );
    }

    #[test]
    fn what_cannot_be_compared_is_there_all_the_same() {
        let looks = vec![
            Observation::First,
            Observation::Lacks(None),
            Observation::NotCompared("a".to_owned()),
            has(vec![]),
            Observation::Lacks(None),
        ];
        assert_eq!(
            told(looks),
            [
                (1, 1, HistoryEventKind::Present),
                (2, 1, HistoryEventKind::Vanished(None)),
                (3, 1, HistoryEventKind::NotCompared("a".to_owned())),
                (4, 1, HistoryEventKind::Same),
                (5, 1, HistoryEventKind::Vanished(None)),
            ]
        );
    }

    #[test]
    fn an_object_with_another_uid_was_made_again() {
        let again = |differences| Observation::Has { differences, is_another: true };
        let looks = vec![
            Observation::First,
            again(vec![]),
            Observation::Lacks(None),
            again(difference()),
            Observation::Lacks(None),
            has(vec![]),
        ];
        assert_eq!(
            told(looks),
            [
                (1, 1, HistoryEventKind::Present),
                (2, 1, HistoryEventKind::MadeAgain(vec![])),
                (3, 1, HistoryEventKind::Vanished(None)),
                (4, 1, HistoryEventKind::MadeAgain(difference())),
                (5, 1, HistoryEventKind::Vanished(None)),
                (6, 1, HistoryEventKind::Appeared),
            ]
        );
    }
}
