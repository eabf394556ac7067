//! Names of groups of claims that are snapshotted together.

/// The name of a group: the value of the label of its claims, in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    /// The namespace of its claims.
    pub namespace: String,
    /// The value of the label that its claims have.
    pub value: String,
}
