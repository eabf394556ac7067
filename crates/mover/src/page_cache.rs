//! Pages that the system keeps of block devices.

use rustix::fs::{Advice, fadvise, fdatasync};
use rustix::io::Errno;
use std::os::fd::AsFd;

/// Lets the system forget the pages of a block device, so that its bytes are read from the storage: another node may have
/// written the device since they were read here. Pages that were written here go to the storage before.
pub(crate) fn forget_device(device: impl AsFd) -> Result<(), Errno> {
    // Of a device that is read only nothing was written here, and some refuse it.
    let _ = fdatasync(&device);
    fadvise(&device, 0, None, Advice::DontNeed)
}
