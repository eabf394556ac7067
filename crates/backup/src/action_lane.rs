//! The action lane: objects that actions look at.

pub(crate) mod action_calls;
pub(crate) mod block;
pub(crate) mod body_store;
pub(crate) mod fetch;
pub(crate) mod gather;
pub(crate) mod index;
pub(crate) mod intake;
pub(crate) mod item_block_actions;
pub(crate) mod item_states;
pub(crate) mod lane_items;
pub(crate) mod related_items;
pub(crate) mod save;
pub(crate) mod save_report;
pub(crate) mod stage;
