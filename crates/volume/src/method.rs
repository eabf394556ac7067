//! Methods by which volumes are saved and come back: one folder each.

mod child;
pub mod csi;
pub mod data_movement;
mod definition;
pub mod fs_backup;
mod lock;
pub mod mover_pod;
pub mod native;
mod server_image;
