//! Builds the program that has informers of all types of a cluster.

use crate::built::{Races, build};
use anyhow::Result;
use std::path::PathBuf;

/// Builds a client that syncs informers, as controllers have them, for all types that the cluster of `KUBECONFIG` lists, and prints what
/// they hold (`crates/testbed/go/informers`). It consists of packages that the API server is made of: some seconds beside that, and
/// a minute on two cores when it is cold.
///
/// # Errors
/// When there is no Go toolchain or the build fails.
pub fn informers() -> Result<PathBuf> {
    build("informers", ".", Races::Undetected)
}
