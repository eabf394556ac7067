//! The change of an object between two states of a cluster. Pure.

use crate::noise::{comes_with_namespace, is_noise, without_marks, without_raised_request};
use lifeboat_object::ObjectKey;
use lifeboat_patch::restored::comparable;
use lifeboat_patch::{Difference, differences};
use serde_json::{Value, json};
use std::collections::VecDeque;

/// An object that is not the same on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedObject {
    /// The object.
    pub key: ObjectKey,
    /// Its change.
    pub change: ObjectChange,
}

/// Kinds of change of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum ObjectChange {
    /// The second side alone has it.
    Added,
    /// The first side alone has it.
    Removed,
    /// Both have it, and it differs in these places.
    Changed(Vec<Difference>),
}

/// Numbers of objects that were compared, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiffCounts {
    /// [`ObjectChange::Added`].
    pub added: usize,
    /// [`ObjectChange::Removed`].
    pub removed: usize,
    /// [`ObjectChange::Changed`].
    pub changed: usize,
    /// The same, or different only in what servers and controllers write.
    pub unchanged: usize,
    /// Not the same, and made by clusters and servers themselves, such as events, endpoints and leases.
    pub left_out: usize,
}

impl DiffCounts {
    /// Counts one more object that is not the same.
    pub fn add(&mut self, change: &ObjectChange) {
        *match change {
            ObjectChange::Added => &mut self.added,
            ObjectChange::Removed => &mut self.removed,
            ObjectChange::Changed(_) => &mut self.changed,
        } += 1;
    }
}

/// The result of comparing two states of an object.
#[derive(Debug, PartialEq)]
pub(crate) enum Compared {
    Same,
    LeftOut,
    Differs(ObjectChange),
}

/// The results so far: objects that differ and were not given out yet, and the counts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) ready: VecDeque<ChangedObject>,
    pub(crate) counts: DiffCounts,
}

impl Tally {
    /// Takes what comparing one object has come to.
    pub(crate) fn take(&mut self, key: ObjectKey, compared: Compared) {
        match compared {
            Compared::LeftOut => self.counts.left_out += 1,
            Compared::Same => self.counts.unchanged += 1,
            Compared::Differs(change) => {
                self.counts.add(&change);
                self.ready.push_back(ChangedObject { key, change });
            }
        }
    }
}

/// Compares an object as each side has it.
pub(crate) fn compared(before: Option<Value>, after: Option<Value>) -> Compared {
    if [&before, &after].iter().any(|side| side.as_ref().is_some_and(is_noise)) {
        return Compared::LeftOut;
    }
    match (before, after) {
        (Some(before), Some(after)) => {
            let differences = field_differences(before, after);
            if differences.is_empty() { Compared::Same } else { Compared::Differs(ObjectChange::Changed(differences)) }
        }
        (Some(only), None) | (None, Some(only)) if comes_with_namespace(&only) => Compared::LeftOut,
        (Some(_), None) => Compared::Differs(ObjectChange::Removed),
        (None, Some(_)) => Compared::Differs(ObjectChange::Added),
        (None, None) => Compared::Same,
    }
}

/// The differences between two states of an object, without the writes of servers, controllers and backups.
pub(crate) fn field_differences(mut before: Value, after: Value) -> Vec<Difference> {
    without_raised_request(&mut before, &after);
    // That a deletion has begun is no writing of a controller, and nothing takes it back; when it has begun says nothing.
    let deletions = [&before, &after].map(|side| deletion(side).cloned());
    let is_told = deletions.iter().flatten().count() == 1;
    let [mut before, mut after] = [before, after].map(without_writings);
    for (side, deletion) in [&mut before, &mut after].into_iter().zip(deletions).filter(|_| is_told) {
        if let Some(metadata) = side.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.extend(deletion.map(|time| ("deletionTimestamp".to_owned(), time)));
        }
    }
    differences(&before, &after)
}

/// The part of an object that decides whether it differs: of two objects that agree in it, [`field_differences`] gives
/// nothing.
pub(crate) fn decisive(object: Value) -> Value {
    let is_deleted = deletion(&object).is_some();
    json!([without_writings(object), is_deleted])
}

/// An object without what servers, controllers and backups write.
fn without_writings(mut object: Value) -> Value {
    without_marks(&mut object);
    comparable(&object)
}

fn deletion(object: &Value) -> Option<&Value> {
    object.pointer(DELETION).filter(|time| time.is_string())
}

/// When the deletion of an object has begun.
const DELETION: &str = "/metadata/deletionTimestamp";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_that_has_begun_is_a_difference() {
        let claim = |deletion: Option<&str>| {
            let mut claim =
                json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "labels": {}}});
            if let Some(time) = deletion {
                claim["metadata"]["deletionTimestamp"] = time.into();
            }
            claim
        };
        let (first, second) = (Some("2026-11-26T00:00:00Z"), Some("2026-11-27T00:00:00Z"));
        for (before, after) in [(None, first), (second, None)] {
            let [left, right] = [before, after].map(|time| time.map(Value::from));
            let expected = Difference { path: DELETION.to_owned(), left, right };
            assert_eq!(field_differences(claim(before), claim(after)), [expected]);
        }
        assert_eq!(field_differences(claim(first), claim(second)), []);
    }
}
