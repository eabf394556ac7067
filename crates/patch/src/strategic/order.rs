//! The order of the elements of a merged list.

use super::error::{StrategicError, refused};
use serde_json::Value;
use std::collections::VecDeque;

/// The identities of the elements of a list: the values of their key, or the elements themselves.
pub(super) fn identities(list: &[Value], key: Option<&str>) -> Vec<Option<Value>> {
    list.iter().map(|value| identity(value, key)).collect()
}

fn identity(value: &Value, key: Option<&str>) -> Option<Value> {
    key.map_or(Some(value.clone()), |key| value.get(key).cloned())
}

/// The identities that a directive puts in order.
///
/// # Errors
/// [`StrategicError`]: it is no list.
pub(super) fn wanted(order: &Value, key: Option<&str>, path: &str) -> Result<Vec<Option<Value>>, StrategicError> {
    match order.as_array() {
        Some(order) => Ok(identities(order, key)),
        None => refused(path, "the order of elements is no list"),
    }
}

/// Puts the elements of a list that a patch names into the patch's order. Each of the others keeps its place among its own, and comes before the
/// first named one that it stood before in the list as it was: named ones that were not in it come before those that follow.
pub(super) fn put_in_order(
    list: &mut Vec<Value>,
    named: &[Option<Value>],
    before: &[Option<Value>],
    key: Option<&str>,
) {
    let place = |all: &[Option<Value>], value: &Value| {
        let id = identity(value, key)?;
        all.iter().position(|one| one.as_ref() == Some(&id))
    };
    let (mut first, others): (Vec<Value>, Vec<Value>) =
        std::mem::take(list).into_iter().partition(|value| place(named, value).is_some());
    first.sort_by_key(|value| place(named, value));
    let (mut first, mut others) = (VecDeque::from(first), VecDeque::from(others));
    loop {
        let is_other_first = match (first.front(), others.front()) {
            (Some(one), Some(other)) => {
                place(before, other).zip(place(before, one)).is_some_and(|(other, one)| other < one)
            }
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (None, None) => return,
        };
        let next = if is_other_first { others.pop_front() } else { first.pop_front() };
        list.extend(next);
    }
}
