//! Programs of others, from the registries of their languages and of Debian, each kept in the cache folder.

mod crates_io;
mod debian;
mod python;

pub use crates_io::{dashboard, program_of_crate};
pub use debian::{DebianPackage, install_debian_packages};
pub use python::with_python_packages;
