//! The pages of docs/, done as they stand there.

mod disaster;
mod examples;
mod tasks;
