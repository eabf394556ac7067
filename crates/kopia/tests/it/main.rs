//! Tests of the room as a user of it: repositories that kopia wrote, and what befalls them.
#![allow(clippy::unwrap_used, reason = "tests")]

mod damage;
mod fixture;
mod loading;
mod maintenance_model;
mod matrix;
mod reading;
mod recovery;
mod tree;
mod verify;
mod watched;
mod writing;
