//! What comes along with objects of a preview because these need it, in the order in which it is told.

use crate::planned::PreviewItem;
use lifeboat_object::ObjectKey;
use std::collections::HashMap;

/// An object of a preview, behind its key in the backup.
pub(crate) type Told = (ObjectKey, PreviewItem);

/// Objects that come along with others and were not told yet, by row.
#[derive(Default)]
pub(crate) struct Along(HashMap<usize, Told>);

enum Step {
    /// Takes an object, when it is there, after those that it needs.
    Look(ObjectKey),
    /// Tells an object: those that it needs have been told.
    Tell(Box<Told>),
}

impl Along {
    pub(crate) fn keep(&mut self, row: usize, told: Told) {
        self.0.insert(row, told);
    }

    /// Takes the objects among these needs out, and those that they need in turn. Each comes once, behind those that it needs.
    pub(crate) fn take(&mut self, needs: &[ObjectKey], find: impl Fn(&ObjectKey) -> Option<usize>) -> Vec<Told> {
        let look = |needs: &[ObjectKey]| needs.iter().rev().cloned().map(Step::Look).collect::<Vec<_>>();
        let (mut open, mut out) = (look(needs), Vec::new());
        while let Some(step) = open.pop() {
            match step {
                Step::Tell(told) => out.push(*told),
                Step::Look(key) => {
                    let Some(told) = find(&key).and_then(|row| self.0.remove(&row)) else { continue };
                    let needs = look(&told.1.needs);
                    open.push(Step::Tell(Box::new(told)));
                    open.extend(needs);
                }
            }
        }
        out
    }
}
