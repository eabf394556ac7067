//! Applies the decision about a group to its claims, and tells people of it. Pure.

use crate::verdict::{Group, GroupTrouble, Method, MethodReason, Verdict};
use lifeboat_object::first_names;

/// Applies the decision about its group to a claim: the class with which the group is snapshotted, or that it cannot
/// be. Then the claim is not snapshotted, or by itself where the backup allows that.
pub(crate) fn settle_claim(
    verdict: &mut Verdict,
    value: &str,
    settled: &Result<String, GroupTrouble>,
    falls_back: bool,
) {
    let Verdict { method, why } = verdict;
    let (Method::CsiSnapshot { group, .. } | Method::MovedCsiSnapshot { group, .. }) = method else { return };
    match settled {
        Ok(class) => *group = Some(Group { value: value.to_owned(), class: class.clone() }),
        Err(trouble) => {
            if falls_back {
                *group = None;
            } else {
                *method = Method::Skip;
            }
            let because = Box::new(std::mem::replace(why, MethodReason::NotAskedFor));
            *why = MethodReason::Group { because, value: value.to_owned(), trouble: trouble.clone() };
        }
    }
}

/// A message that claims of a group have their snapshots by themselves, and why.
pub(crate) fn fallback_note(names: &[String], why: &str) -> String {
    format!("the snapshots of {} are of different moments: {why} (volumeGroupFallback is single)", first_names(names))
}

/// A message that a group takes claims along that nobody wants.
pub(crate) fn beside_note(value: &str, label: &str, names: &[String]) -> String {
    format!(
        "the group {value} takes volumes of claims along that this backup does not snapshot, because they have the label {label} too: {}; \
         their snapshots stay in the storage until the backup is deleted",
        first_names(names)
    )
}
