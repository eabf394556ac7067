//! The services of the protocol, one file each: from messages to calls and back.

pub(crate) mod backup_item;
pub(crate) mod delete_item;
pub(crate) mod go_plugin;
pub(crate) mod item_block;
pub(crate) mod lister;
pub(crate) mod object_store;
pub(crate) mod restore_item;
pub(crate) mod volume_snapshotter;
