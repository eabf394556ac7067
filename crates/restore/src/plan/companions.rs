//! Objects that a preview adds because selected objects need them, in the order in which they are reported.

use crate::plan::planned::PreviewItem;
use lifeboat_object::ObjectKey;
use std::collections::HashMap;

/// The result of a preview for one object.
pub(crate) struct PreviewedItem {
    /// Its key in the backup.
    pub(crate) source: ObjectKey,
    pub(crate) item: PreviewItem,
}

/// Additional objects that were not reported yet, by row.
#[derive(Default)]
pub(crate) struct Companions(HashMap<usize, PreviewedItem>);

enum CompanionStep {
    /// Takes an object, when it is there, after those that it needs.
    Look(ObjectKey),
    /// Gives an object: those that it needs were given.
    Give(Box<PreviewedItem>),
}

impl Companions {
    pub(crate) fn keep(&mut self, row: usize, found: PreviewedItem) {
        self.0.insert(row, found);
    }

    /// Takes the objects among these needs out, and those that they need in turn. Each comes once, behind those that it needs.
    pub(crate) fn take(
        &mut self,
        needs: &[ObjectKey],
        find: impl Fn(&ObjectKey) -> Option<usize>,
    ) -> Vec<PreviewedItem> {
        let look = |needs: &[ObjectKey]| needs.iter().rev().cloned().map(CompanionStep::Look).collect::<Vec<_>>();
        let (mut open, mut out) = (look(needs), Vec::new());
        while let Some(step) = open.pop() {
            match step {
                CompanionStep::Give(found) => out.push(*found),
                CompanionStep::Look(key) => {
                    let Some(found) = find(&key).and_then(|row| self.0.remove(&row)) else { continue };
                    let needs = look(&found.item.needs);
                    open.push(CompanionStep::Give(Box::new(found)));
                    open.extend(needs);
                }
            }
        }
        out
    }
}
