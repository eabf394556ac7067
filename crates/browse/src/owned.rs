//! Finds the objects of a backup that an object owned.

use crate::store::BackupStore;
use lifeboat_archive::index::Row;
use lifeboat_object::{Head, ObjectKey};
use lifeboat_store::StoreError;
use std::collections::{BTreeSet, HashMap};
use tokio::task::JoinSet;

/// The objects of a backup that named this one as an owner, the objects that named those, and so on: by the UIDs in
/// their owner references. An owner that lies in a namespace owns objects there only, so nothing else is read. In
/// memory are the UIDs of owners and of what they own, never an object.
///
/// # Errors
/// When the archive cannot be read, or is damaged.
pub async fn owned_by(store: &BackupStore, owner: &ObjectKey) -> Result<BTreeSet<ObjectKey>, StoreError> {
    let rows = store.rows();
    let Some(number) = rows.find(owner) else { return Ok(BTreeSet::new()) };
    let Some(root) = rows.read(&[number]).await?.pop() else { return Ok(BTreeSet::new()) };
    let mut family = Family::default();
    let mut tasks = JoinSet::new();
    let mut contents = rows.archive().read(rows.within(owner.namespace.as_deref()), &mut tasks);
    while let Some(item) = contents.next().await? {
        family.add(item.row, &item.head);
    }
    let owned = family.below(&root.head.uid);
    Ok(owned.into_iter().filter_map(|row| rows.archive().row(row).map(Row::key)).collect())
}

/// Owners and the objects that name them.
#[derive(Debug, Default)]
struct Family {
    /// Numbers for the UIDs of owners and of what they own, each of which is kept once.
    numbers: HashMap<String, usize>,
    /// The number of an owner, that of what it owns, and the row of that.
    owned: Vec<(usize, usize, usize)>,
}

impl Family {
    fn add(&mut self, row: usize, head: &Head) {
        for owner in head.owner_uids.iter().filter(|uid| !uid.is_empty()) {
            let (owner, own) = (self.number(owner), self.number(&head.uid));
            self.owned.push((owner, own, row));
        }
    }

    fn number(&mut self, uid: &str) -> usize {
        if let Some(number) = self.numbers.get(uid) {
            return *number;
        }
        let number = self.numbers.len();
        self.numbers.insert(uid.to_owned(), number);
        number
    }

    /// The rows of all that the object of this UID owns, itself left out: also where objects own each other in a circle.
    fn below(mut self, uid: &str) -> BTreeSet<usize> {
        // Without a UID it owns nothing.
        let Some(root) = self.numbers.get(uid).copied().filter(|_| !uid.is_empty()) else { return BTreeSet::new() };
        let none = self.numbers.get("").copied();
        self.owned.sort_unstable();
        let (mut found, mut open) = (BTreeSet::new(), vec![root]);
        while let Some(owner) = open.pop() {
            let begin = self.owned.partition_point(|(other, _, _)| *other < owner);
            for (_, own, row) in self.owned[begin..].iter().take_while(|(other, _, _)| *other == owner) {
                if *own != root && found.insert(*row) && Some(*own) != none {
                    open.push(*own);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of what the object of a UID owns, of objects given as UID and owners, in the order of their rows.
    fn below(uid: &str, objects: &[(&str, &[&str])]) -> Vec<usize> {
        let mut family = Family::default();
        for (row, (uid, owners)) in objects.iter().enumerate() {
            let owner_uids = owners.iter().map(|uid| (*uid).to_owned()).collect();
            family.add(row, &Head { uid: (*uid).to_owned(), owner_uids, ..Head::default() });
        }
        family.below(uid).into_iter().collect()
    }

    #[test]
    fn all_that_is_owned_is_found_however_deep_and_each_once() {
        let objects: [(&str, &[&str]); 7] = [
            ("pod-1", &["set"]),
            ("set", &["deployment"]),
            ("deployment", &[]),
            ("pod-2", &["set", "deployment"]),
            ("other", &[]),
            ("of other", &["other"]),
            ("of nobody", &["gone"]),
        ];
        assert_eq!(below("deployment", &objects), [0, 1, 3]);
        assert_eq!(below("set", &objects), [0, 3], "one that has an owner itself");
        assert_eq!(below("pod-1", &objects), [0; 0]);
        assert_eq!(below("other", &objects), [5]);
        assert_eq!(below("unheard of", &objects), [0; 0]);
    }

    #[test]
    fn objects_that_own_each_other_have_an_end() {
        assert_eq!(below("a", &[("a", &["b"]), ("b", &["a"])]), [1]);
        assert_eq!(below("a", &[("a", &["a"])]), [0; 0]);
    }

    /// As in an archive that somebody has made by hand.
    #[test]
    fn an_object_without_a_uid_owns_nothing_and_is_owned() {
        let objects: [(&str, &[&str]); 4] = [("a", &[]), ("", &["a"]), ("", &["a"]), ("b", &[""])];
        assert_eq!(below("a", &objects), [1, 2]);
        assert_eq!(below("", &objects), [0; 0]);
    }
}
