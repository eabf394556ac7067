//! The encoding of protocol buffers, below the types of messages.

use serde_json::Value;

/// The key and the value of an entry of a map.
pub(crate) fn entry(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (mut key, mut value) = (String::new(), &[][..]);
    for part in parts(bytes) {
        match part? {
            (1, Wire::Bytes(b)) => key = String::from_utf8(b.to_vec()).ok()?,
            (2, Wire::Bytes(b)) => value = b,
            _ => {}
        }
    }
    Some((key, value))
}

/// A text; `None` when it is none.
pub(crate) fn text(bytes: &[u8]) -> Option<Value> {
    String::from_utf8(bytes.to_vec()).ok().map(Value::from)
}

/// The value of a field, before its type is known.
pub(crate) enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message; `None` where it is broken, and nothing after that.
pub(crate) fn parts(mut bytes: &[u8]) -> impl Iterator<Item = Option<(u64, Wire<'_>)>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let part = part(&mut bytes);
        if part.is_none() {
            bytes = &[];
        }
        Some(part)
    })
}

fn part<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Wire<'a>)> {
    let tag = varint(bytes)?;
    let wire = match tag & 7 {
        0 => Wire::Number(varint(bytes)?),
        1 => Wire::Bytes(take(bytes, 8)?),
        2 => {
            let length = usize::try_from(varint(bytes)?).ok()?;
            Wire::Bytes(take(bytes, length)?)
        }
        5 => Wire::Bytes(take(bytes, 4)?),
        _ => return None,
    };
    Some((tag >> 3, wire))
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, tail) = bytes.split_at_checked(length)?;
    *bytes = tail;
    Some(head)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
