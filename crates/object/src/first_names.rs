//! Shortens a list of names for a message.

/// The most names that a message holds.
const NAMED: usize = 10;

/// The first of these names, and how many more there are: a message must not grow with the cluster.
#[must_use]
pub fn first_names<T: AsRef<str>>(names: &[T]) -> String {
    first_names_of(names, NAMED)
}

/// The same with so many of them.
#[must_use]
pub fn first_names_of<T: AsRef<str>>(names: &[T], most: usize) -> String {
    let first: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(most) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_a_few_and_counts_the_others() {
        let names: Vec<String> = (0..300_000).map(|n| format!("n{n}")).collect();
        let ten = "n0, n1, n2, n3, n4, n5, n6, n7, n8, n9";
        for (count, expected) in [
            (0, ""),
            (1, "n0"),
            (2, "n0, n1"),
            (10, ten),
            (11, &format!("{ten} and 1 more")),
            (300_000, &format!("{ten} and 299990 more")),
        ] {
            assert_eq!(first_names(&names[..count]), expected);
        }
    }
}
