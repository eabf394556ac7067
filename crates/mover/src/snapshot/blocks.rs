//! Devices as blocks of 1 MiB, the form of Velero's uploader of blocks (velero: pkg/uploader/block).
//!
//! Each block is one content, so that two snapshots of a device have the same objects for the blocks that are the same,
//! and the blocks that a caller knows to be unchanged are taken over from an earlier snapshot without reading the
//! device. The snapshot is a directory with one file; kopia restores that as an image of the device.

mod device;
mod map;
mod parent;
mod parent_blocks;
mod save;

pub(super) use device::BlockDevice;
pub(super) use parent::{BlockParent, find_block_parent};
pub(super) use save::save_blocks;
