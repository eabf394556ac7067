//! The index of a repository: in which pack each blob lies. It takes bounded memory: what is more lies sorted in a file of
//! the scratch space.

mod build;
mod location;
mod lookup;
mod record;

pub(crate) use build::IndexBuilder;
pub use location::Location;
pub(crate) use lookup::BlobIndex;
