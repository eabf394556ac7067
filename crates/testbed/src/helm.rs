//! Builds helm, which renders and installs the chart.

use crate::built::{Races, build};
use anyhow::Result;
use std::path::PathBuf;

/// Builds helm of version 3. Cold some 80 seconds on two cores, and what it takes to load its modules.
///
/// # Errors
/// When there is no Go toolchain or the build fails.
pub fn helm() -> Result<PathBuf> {
    build("helm", "helm.sh/helm/v3/cmd/helm", Races::Undetected)
}
