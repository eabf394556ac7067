//! The test bed's own parts.

mod proxy;
