//! Stores and the conditions on puts.

/// A store's treatment of a put that is conditional on the absence of the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConditionalPuts {
    /// It keeps the condition; puts that it refuses as not implemented are done by reading back.
    #[default]
    Kept,
    /// It stores the object whether there is one or not.
    Ignored,
}
