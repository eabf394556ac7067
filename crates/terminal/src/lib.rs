//! The parts that every command of the program has: flags and their types, output, errors and exit codes, the log,
//! signals, scratch folders, traces.
//!
//! It knows no command. What is asked of all commands at once is tested where the tree of commands is, in `cli`.

pub mod flags;
pub mod output;
pub mod process;
#[cfg(test)]
mod test_line;
