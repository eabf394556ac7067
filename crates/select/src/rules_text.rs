//! Documents of rules: resource policies, resource modifiers, preferred versions.

use std::fmt::Display;

/// A document of rules that a command line reads from a file, in place of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesText {
    /// The file it was read from, for messages.
    pub source: String,
    /// The document.
    pub text: String,
}

impl RulesText {
    /// The most bytes of a document: a ConfigMap holds no more.
    pub const MOST_BYTES: usize = 1 << 20;

    /// The first line of a decoder's message about a document: the lines behind it show the text around the error.
    #[must_use]
    pub fn yaml_error(error: &impl Display) -> String {
        let told = error.to_string();
        told.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
    }
}
