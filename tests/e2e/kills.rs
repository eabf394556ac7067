//! Commands and servers that are killed at any moment: their work is done once.

mod commands;
mod leaders;
mod random;
mod soak;
