//! JSON as Go's encoder writes it, so that equal documents have equal hashes, and as Go's decoder reads it, so that we
//! take for readable what kopia takes for readable, and nothing else.
//!
//! Writing: compact; `<`, `>`, `&`, U+2028 and U+2029 escaped; a newline at the end of streams (the caller's). Reading:
//! keys without case, unknown keys passed over, `null` leaves a field as it is, numbers without fraction or exponent.

mod reader;
mod text;
mod writer;

pub use reader::Reader;
pub use text::Text;
pub use writer::{ArrayWriter, ObjectWriter, write_string, write_text};

#[cfg(test)]
mod tests;
