//! Label values made from names.

use sha2::{Digest, Sha256};

/// A name as a label value: unchanged up to 63 characters, otherwise its first 57 followed by the first 6
/// hexadecimal digits of its SHA-256 (api-and-controllers.md 2.1).
#[must_use]
pub fn label_value(name: &str) -> String {
    if name.len() <= 63 {
        return name.to_owned();
    }
    let hash = Sha256::digest(name.as_bytes());
    let mut at = 57;
    while !name.is_char_boundary(at) {
        at -= 1;
    }
    format!("{}{:02x}{:02x}{:02x}", &name[..at], hash[0], hash[1], hash[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_and_hashed() {
        assert_eq!(label_value(&"a".repeat(63)), "a".repeat(63));
        let long = "a".repeat(64);
        // sha256 of 64 times "a" begins ffe054fe.
        assert_eq!(label_value(&long), format!("{}ffe054", "a".repeat(57)));
        assert_eq!(label_value(&long).len(), 63);
    }
}
