//! JSON as Go's encoder writes it, so that equal documents have equal hashes: compact, `<`, `>`, `&`, U+2028 and U+2029
//! escaped, a newline at the end of streams.

/// Appends a JSON string. `text` may hold bytes that are no UTF-8: each of them becomes `\ufffd`.
pub fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    todo!()
}
