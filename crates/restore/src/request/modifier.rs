//! Resource modifiers: rules that patch objects on their way into the cluster (velero: internal/resourcemodifiers).

mod apply;
mod document;
mod rule;
mod schemas;
mod value;

pub(crate) use apply::{Modified, Modifiers, NotModifiers};
pub(crate) use rule::ModifierTarget;
pub(crate) use schemas::{NotKnown, Schemas};

#[cfg(test)]
mod tests;
