//! The names by which plugins are registered (plugin-protocol.md 1.4).

use std::collections::BTreeMap;

/// Those whose names can be registered, sorted by name, and what is wrong with the others. Of two with one name the first is
/// registered.
pub(crate) fn registered<T>(kind: &str, offered: Vec<(String, T)>) -> (BTreeMap<String, T>, Vec<String>) {
    let (mut named, mut problems) = (BTreeMap::new(), Vec::new());
    for (name, offer) in offered {
        match check(&name) {
            Err(why) => problems.push(format!("invalid plugin name {name:?}: {why}; this {kind} is left out")),
            Ok(()) if named.contains_key(&name) => problems.push(format!(
                "invalid plugin name {name:?}: another {kind} has it already; the later one is left out"
            )),
            Ok(()) => {
                named.insert(name, offer);
            }
        }
    }
    (named, problems)
}

fn check(name: &str) -> Result<(), &'static str> {
    let Some((prefix, own)) = name.split_once('/').filter(|(_, own)| !own.contains('/')) else {
        return Err("it has a prefix and a name with one slash between them");
    };
    if prefix.is_empty() || own.is_empty() {
        return Err("neither its prefix nor its name may be empty");
    }
    if prefix.len() > 253 || !prefix.split('.').all(is_label) {
        return Err(
            "its prefix is a DNS subdomain: at most 253 lower-case letters, digits, '-' and '.', each part of which begins and \
             ends with a letter or digit",
        );
    }
    Ok(())
}

fn is_label(label: &str) -> bool {
    let is_letter = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = label.as_bytes();
    bytes.first().is_some_and(is_letter)
        && bytes.last().is_some_and(is_letter)
        && bytes.iter().all(|b| is_letter(b) || *b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_subdomain_and_a_name() {
        for good in ["example.io/azure", "with-dashes/name", "prefix/Uppercase_Is_OK_123", "1.2.3.4/5678", "a/ä"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let long = format!("{}/name", "a".repeat(254));
        for bad in ["", "single", "/", "//", "a/", "/a", "a/b/c", "Upper_Case/name", "-a/b", "a-/b", "a..b/c", &long] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_registered_is_left_out_with_the_reason() {
        let offered = [("b.io/x", 1), ("nameless", 2), ("a.io/x", 3), ("b.io/x", 4)].map(|(n, v)| (n.to_owned(), v));
        let (named, problems) = registered("ObjectStore", offered.into());
        assert_eq!(named.into_iter().collect::<Vec<_>>(), [("a.io/x".to_owned(), 3), ("b.io/x".to_owned(), 1)]);
        let expected = [
            "invalid plugin name \"nameless\": it has a prefix and a name with one slash between them; this ObjectStore is left out",
            "invalid plugin name \"b.io/x\": another ObjectStore has it already; the later one is left out",
        ];
        assert_eq!(problems, expected);
    }
}
