//! The order that a patch wants for the elements of a list.

use super::error::{StrategicError, refused};
use super::schema::Node;
use serde_json::Value;

/// Puts the elements of a list that a patch names into the patch's order. Each element that it does not name keeps its place
/// relative to the named ones: it stays before those that it stood before.
pub(super) fn put_in_order(
    list: &mut Vec<Value>,
    order: &Value,
    field: &Node<'_>,
    path: &str,
) -> Result<(), StrategicError> {
    let Some(order) = order.as_array() else { return refused(path, "the order of elements is no list") };
    let key = field.merge_key();
    let identity = |value: &Value| key.map_or(Some(value.clone()), |key| value.get(key).cloned());
    let wanted: Vec<Option<Value>> = order.iter().map(identity).collect();
    let rank = |value: &Value| identity(value).and_then(|id| wanted.iter().position(|one| one.as_ref() == Some(&id)));
    let (mut named, others): (Vec<_>, Vec<_>) =
        std::mem::take(list).into_iter().enumerate().partition(|(_, value)| rank(value).is_some());
    named.sort_by_key(|(_, value)| rank(value));
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (named.peek(), others.peek()) {
            (Some((at, _)), Some((other, _))) => other < at,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (None, None) => return Ok(()),
        };
        let next = if other_first { others.next() } else { named.next() };
        list.extend(next.map(|(_, value)| value));
    }
}
