//! The choice of a snapshot by a text of the user.

use crate::{ResticError, Snapshot};

/// The fewest digits by which a snapshot is chosen.
const MIN_PREFIX: usize = 4;
/// The word for the newest snapshot.
const LATEST: &str = "latest";

/// A snapshot by a text of the user: an ID, a prefix of one (at least four digits, one match), or `latest`. The IDs that
/// Velero notes are prefixes of eight digits.
///
/// # Errors
/// None or several that fit, with the candidates.
pub fn choose<'a>(snapshots: &'a [Snapshot], text: &str) -> Result<&'a Snapshot, ResticError> {
    let refuse = |why: String| Err(ResticError::NotChosen { text: text.to_owned(), why });
    if text == LATEST {
        let newest =
            snapshots.iter().filter(|snapshot| snapshot.document.is_ok()).max_by_key(|one| (one.time(), one.id));
        return newest.map_or_else(|| refuse("the repository has no snapshots that can be read".to_owned()), Ok);
    }
    if text.len() < MIN_PREFIX {
        return refuse(format!("it has fewer than {MIN_PREFIX} digits of an ID, and is not {LATEST:?}"));
    }
    let found: Vec<&Snapshot> = snapshots.iter().filter(|one| one.id.to_string().starts_with(text)).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => refuse("no ID begins with it".to_owned()),
        several => {
            let ids: Vec<String> = several.iter().take(10).map(|one| one.id.to_string()).collect();
            refuse(format!("{} IDs begin with it: {}", several.len(), ids.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Id;
    use crate::format::snapshot::SnapshotDocument;

    fn snapshot(first: u8, last: u8, time: &str) -> Snapshot {
        let mut id = [first; 32];
        id[31] = last;
        let text = format!(r#"{{"time":"{time}","tree":"{}"}}"#, "00".repeat(32));
        Snapshot { id: Id(id), document: SnapshotDocument::parse(text.as_bytes()).map_err(|e| e.why) }
    }

    #[test]
    fn a_snapshot_is_chosen_by_the_short_id_that_velero_has_noted() {
        let snapshots = [
            snapshot(0xab, 1, "2026-01-01T00:00:00Z"),
            snapshot(0xcd, 1, "2026-01-03T00:00:00Z"),
            snapshot(0xcd, 2, "2026-01-02T00:00:00Z"),
            Snapshot { id: Id([0xee; 32]), document: Err("no".to_owned()) },
        ];
        let chosen = |text: &str| choose(&snapshots, text).map(|one| one.id).map_err(|e| e.to_string());
        assert_eq!(chosen("abababab"), Ok(snapshots[0].id));
        assert_eq!(chosen("latest"), Ok(snapshots[1].id));
        assert_eq!(chosen(&snapshots[2].id.to_string()), Ok(snapshots[2].id));
        let refused = |why: &str| Err(format!("no snapshot is chosen by {why}"));
        assert_eq!(chosen("aba"), refused("\"aba\": it has fewer than 4 digits of an ID, and is not \"latest\""));
        assert_eq!(chosen("1234"), refused("\"1234\": no ID begins with it"));
        let (a, b) = (snapshots[1].id, snapshots[2].id);
        assert_eq!(chosen("cdcdcdcd"), refused(&format!("\"cdcdcdcd\": 2 IDs begin with it: {a}, {b}")));
        let none = choose(&[], "latest").unwrap_err().to_string();
        assert_eq!(none, "no snapshot is chosen by \"latest\": the repository has no snapshots that can be read");
    }
}
