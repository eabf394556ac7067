//! Reads planned by packs: many contents with few requests.
//!
//! What is to be read is a stream of (content, where it goes). A window of it is sorted by pack and offset; neighbours become
//! one ranged request (small gaps are read along), many are in flight, each piece is decrypted and verified on a thread and
//! handed to the sink. One file of 400 GB, 77,000 small ones, a device, `cat` and `verify` are the same plan with another
//! sink.

mod plan;
mod run;
pub(super) mod wanted;

pub use run::read;
pub use wanted::{ReadLimits, Sink, Wanted};
