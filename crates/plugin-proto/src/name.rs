//! The names by which plugins are registered (velero: pkg/plugin/clientmgmt/manager.go).

/// Checks that a text can be the name of a plugin, such as `velero.io/aws`.
///
/// # Errors
/// The reason for which it cannot, for people.
pub fn check_name(name: &str) -> Result<(), &'static str> {
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

/// Returns true for a label of a subdomain by RFC 1123.
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
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        let long = format!("{}/name", "a".repeat(254));
        for bad in ["", "single", "/", "//", "a/", "/a", "a/b/c", "Upper_Case/name", "-a/b", "a-/b", "a..b/c", &long] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
