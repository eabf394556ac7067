//! Methods by which volumes are saved and come back: one folder each.

pub mod csi;
pub mod native;
