//! State that lasts while a restore runs: what it was given, what was begun and what was said of which object, what it waits for.

pub(crate) mod attempt;
pub(crate) mod checkpoint;
pub(crate) mod claimed_rows;
pub(crate) mod defined;
pub(crate) mod env;
pub(crate) mod item_result;
pub(crate) mod lock;
pub(crate) mod messages;
pub(crate) mod namespace_uids;
pub(crate) mod operations;
pub(crate) mod reader;
pub(crate) mod renamed;
pub(crate) mod restore_state;
pub(crate) mod retry;
pub(crate) mod stop;
pub(crate) mod terminating;
pub(crate) mod wait;
pub(crate) mod wait_slots;
