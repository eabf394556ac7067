//! Backups of a sandbox, by the doors of the room.

mod finalize;
mod ground;
