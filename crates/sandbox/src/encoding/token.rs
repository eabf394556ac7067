//! Continue tokens of lists.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The position from which a list continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContinueToken {
    /// The revision of the list; `None` when that has expired and the rest is of whatever revision is present.
    pub(crate) revision: Option<u64>,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl ContinueToken {
    pub(crate) fn encode(&self) -> String {
        let revision = self.revision.map_or_else(|| "-".to_owned(), |r| r.to_string());
        URL_SAFE_NO_PAD.encode(format!("1/{revision}/{}/{}", self.namespace, self.name))
    }

    pub(crate) fn decode(text: &str) -> Option<Self> {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let mut parts = text.strip_prefix("1/")?.splitn(3, '/');
        let (revision, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
        let revision = if revision == "-" { None } else { Some(revision.parse().ok()?) };
        Some(Self { revision, namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(revision in any::<Option<u64>>(), namespace in "[a-z0-9-]{0,9}", name in "[a-z:/.]{0,9}") {
            let token = ContinueToken { revision, namespace, name };
            prop_assert_eq!(ContinueToken::decode(&token.encode()), Some(token));
        }

        #[test]
        fn nothing_panics(text in "\\PC{0,30}") {
            let _ = ContinueToken::decode(&text);
        }
    }

    #[test]
    fn foreign_tokens_are_refused() {
        for text in ["", "abc", "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ", "MQ", "Mi8xL2EvYg"] {
            assert_eq!(ContinueToken::decode(text), None, "{text}");
        }
    }
}
