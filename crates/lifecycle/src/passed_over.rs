//! Backups that a sync has found in a bucket and has not taken over, and messages about them with the next step for the
//! user.

use lifeboat_api::{BackupStorageLocation, well_known};
use lifeboat_object::counted;
use serde::{Deserialize, Serialize};

/// Number of names of each kind that are noted.
const NAMED: usize = 20;

/// Backups in the bucket of a location that have no Backup here, as the annotation of the location says them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PassedOver {
    /// Operations of the cluster that has made them have not ended.
    #[serde(skip_serializing_if = "NotedNames::is_empty")]
    pub waiting: NotedNames,
    /// Another backup, in another location, has the name.
    #[serde(skip_serializing_if = "NotedNames::is_empty")]
    pub same_name: NotedNames,
    /// Their record is damaged.
    #[serde(skip_serializing_if = "NotedNames::is_empty")]
    pub damaged: NotedNames,
}

/// Names, of which the first are noted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotedNames {
    count: u64,
    names: Vec<String>,
}

impl NotedNames {
    /// All of these.
    pub fn of(mut all: Vec<String>) -> Self {
        all.sort_unstable();
        all.dedup();
        let count = all.len() as u64;
        all.truncate(NAMED);
        Self { count, names: all }
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn listed(&self) -> String {
        let more = self.count.saturating_sub(self.names.len() as u64);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("{}{more}", self.names.join(", "))
    }
}

/// A sentence about backups that were passed over, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOverMessage {
    /// The sentence.
    pub what: String,
    /// The next step for the user.
    pub next: String,
}

impl PassedOver {
    /// Reads the annotation of a location.
    pub fn of(location: &BackupStorageLocation) -> Self {
        let noted = location.metadata.annotations.get(well_known::ANNOTATION_PASSED_OVER);
        noted.and_then(|noted| serde_json::from_str(noted).ok()).unwrap_or_default()
    }

    /// Writes the annotation of a location, or removes it when there is nothing to say.
    pub fn note(&self, location: &mut BackupStorageLocation) {
        let annotations = &mut location.metadata.annotations;
        match serde_json::to_string(self) {
            Ok(text) if *self != Self::default() => {
                annotations.insert(well_known::ANNOTATION_PASSED_OVER.to_owned(), text);
            }
            _ => drop(annotations.remove(well_known::ANNOTATION_PASSED_OVER)),
        }
    }

    /// All that is to be said of it; `program` is what commands begin with.
    pub fn said(&self, program: &str) -> Vec<PassedOverMessage> {
        let restore = format!("`{program} local restore NAME --bucket URL --from-backup BACKUP`");
        let of = |names: &NotedNames, what: &str, next: String| {
            (!names.is_empty()).then(|| PassedOverMessage {
                what: format!("{} in the bucket {what}: {}", counted(names.count, "backup"), names.listed()),
                next,
            })
        };
        let all = [
            of(
                &self.waiting,
                "not taken over, because operations of the cluster that has made it have not ended in their time",
                format!(
                    "it comes here when they have, or when its time is over; when that cluster is lost, {restore} restores from it as it is"
                ),
            ),
            of(
                &self.same_name,
                "not taken over, because a backup of another location has its name",
                format!(
                    "{restore} restores from it as it is; when the backup of the other location is deleted (`{program} backup delete`), this one \
                     comes here"
                ),
            ),
            of(
                &self.damaged,
                "not taken over, because its record cannot be read",
                format!("`{program} local verify BACKUP --bucket URL` says what is wrong"),
            ),
        ];
        all.into_iter().flatten().collect()
    }

    /// The same as one text, for the message of a location and its events.
    pub fn text(&self) -> Option<String> {
        let said: Vec<String> = self
            .said("lifeboat")
            .into_iter()
            .map(|PassedOverMessage { what, next }| format!("{what}; {next}"))
            .collect();
        (!said.is_empty()).then(|| said.join(". "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_over_backups_are_noted_beside_their_location_with_the_way_out() {
        let names = |names: &[&str]| NotedNames::of(names.iter().map(|name| (*name).to_owned()).collect());
        let mut location = BackupStorageLocation::default();
        let passed =
            PassedOver { waiting: names(&["b", "a"]), same_name: names(&["c"]), damaged: NotedNames::default() };
        passed.note(&mut location);
        assert_eq!(
            location.metadata.annotations[well_known::ANNOTATION_PASSED_OVER],
            r#"{"waiting":{"count":2,"names":["a","b"]},"sameName":{"count":1,"names":["c"]}}"#
        );
        assert_eq!(PassedOver::of(&location), passed);
        let said: Vec<String> = passed.said("kubectl velero").into_iter().map(|said| said.what).collect();
        assert_eq!(
            said,
            [
                "2 backups in the bucket not taken over, because operations of the cluster that has made it have not ended in their time: a, b",
                "1 backup in the bucket not taken over, because a backup of another location has its name: c",
            ]
        );
        assert!(
            passed.said("kubectl velero")[1]
                .next
                .contains("`kubectl velero local restore NAME --bucket URL --from-backup BACKUP`")
        );
        PassedOver::default().note(&mut location);
        assert!(location.metadata.annotations.is_empty());
        assert_eq!((PassedOver::of(&location), PassedOver::default().text()), (PassedOver::default(), None));
        let many = NotedNames::of((0..30).map(|n| format!("b{n:02}")).collect());
        assert!(many.listed().ends_with("b19 and 10 more"), "{}", many.listed());
    }
}
