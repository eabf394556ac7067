//! Says how many things there are.

use std::fmt::Display;

/// So many things: `1 claim`, `2 claims`. For words whose plural ends in an s.
#[must_use]
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, thing: &str) -> String {
    if count == N::from(1) { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_all_others_are_plural() {
        for (count, expected) in [(0_u64, "0 claims"), (1, "1 claim"), (2, "2 claims"), (21, "21 claims")] {
            assert_eq!(counted(count, "claim"), expected);
        }
    }
}
