//! The test bed's own parts.

mod control_plane;
mod proxy;
