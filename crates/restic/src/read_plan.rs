//! Reads planned by packs: many blobs with few requests.
//!
//! A window of what is wanted is sorted by pack and offset; neighbours become one ranged request, many are in flight, each
//! blob is decrypted and verified on a thread and handed to the sink, in no order.

mod plan;
mod run;
mod sink;

pub use crate::limits::ReadLimits;
pub use plan::Wanted;
pub use run::read;
pub use sink::Sink;
