//! The user of a mover without privilege.

/// The user as which a mover runs that has no rights beside those of that user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MoverUser {
    pub(crate) user: i64,
    /// Its group, and that of files which it makes.
    pub(crate) group: i64,
    /// More groups, whose files it may read.
    pub(crate) groups: Vec<i64>,
}
