//! Documents of rules that a command line reads from a file, in place of a ConfigMap.

/// A document that the caller has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Where it was read from, for messages.
    pub source: String,
    /// What it holds.
    pub text: String,
}
