//! Label values made from names.

use sha2::{Digest, Sha256};

/// The longest label value that the API server takes.
const LONGEST: usize = 63;
/// As much of a name stays before its hash.
const HEAD: usize = 57;

/// A name as a label value: unchanged when it is one, otherwise its first 57 characters followed by the first 6
/// hexadecimal digits of its SHA-256 (velero: pkg/label/label.go).
///
/// Whatever the name, the API server takes the value: characters that it would refuse become hyphens. (Velero only
/// shortens, and what it made of other texts is refused with the whole object.)
#[must_use]
pub fn label_value(name: &str) -> String {
    if is_label_value(name) {
        return name.to_owned();
    }
    let hash = Sha256::digest(name.as_bytes());
    let head: String = name.chars().take(HEAD).map(|c| if is_allowed(c) { c } else { '-' }).collect();
    let head = head.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    format!("{head}{}", hex::encode(&hash[..3]))
}

/// Returns true if the API server accepts a text as the value of a label.
#[must_use]
pub fn is_label_value(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= LONGEST && text.chars().all(is_allowed) && ends(text.chars().next()) && ends(text.chars().next_back())
}

/// Returns true if the API server accepts a text as the key of a label or annotation: a name, which may follow a DNS name and a
/// slash.
#[must_use]
pub fn is_label_key(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_word =
        |word: &str| word.starts_with(plain) && word.ends_with(plain) && word.chars().all(|c| plain(c) || c == '-');
    !name.is_empty()
        && is_label_value(name)
        && prefix.is_none_or(|prefix| prefix.len() <= 253 && prefix.split('.').all(is_word))
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_names_are_cut_and_hashed() {
        assert_eq!(label_value(&"a".repeat(63)), "a".repeat(63));
        let long = "a".repeat(64);
        // sha256 of 64 times "a" begins ffe054fe.
        assert_eq!(label_value(&long), format!("{}ffe054", "a".repeat(57)));
        assert_eq!(label_value(&long).len(), 63);
    }

    #[test]
    fn keys_of_labels_are_known_from_other_texts() {
        for key in ["a", "a.b_c-1", "velero.io/repo-name", "A/B"] {
            assert_eq!(is_label_key(key), key != "A/B", "{key}");
        }
        for other in ["", "/a", "a/", "a/b/c", "-a", "a b", "a..b/c", "ä", &"a".repeat(64)] {
            assert!(!is_label_key(other), "{other}");
        }
    }

    #[test]
    fn what_no_label_can_hold_is_replaced() {
        for (name, expected) in [("", ""), ("$(id)", "id-"), ("a,b", "a-b"), ("-a", "a"), ("a.", "a."), ("ä", "")] {
            let hash = hex::encode(&Sha256::digest(name.as_bytes())[..3]);
            let expected = if name.is_empty() { String::new() } else { format!("{expected}{hash}") };
            assert_eq!(label_value(name), expected, "{name}");
        }
        assert_ne!(label_value("a,b"), label_value("a;b"));
    }

    proptest! {
        #[test]
        fn every_name_has_a_label_value(name in prop_oneof![".{0,100}", "[a-z,$()-]{0,80}", "[a-z._-]{55,70}"]) {
            let value = label_value(&name);
            prop_assert!(is_label_value(&value), "{value:?} of {name:?}");
            prop_assert!(!is_label_value(&name) || value == name);
            prop_assert_eq!(label_value(&value), value);
        }

        /// As Velero shortens them (`GetValidName`).
        #[test]
        fn long_names_of_objects_are_those_of_velero(name in "[a-z0-9][a-z0-9.-]{63,252}") {
            let hash = hex::encode(&Sha256::digest(name.as_bytes())[..3]);
            prop_assert_eq!(label_value(&name), format!("{}{hash}", &name[..57]));
        }
    }
}
