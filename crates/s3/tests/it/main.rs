//! Against a real S3 server, and one that misbehaves.

#![allow(clippy::unwrap_used, reason = "these are tests, and helpers of tests")]

mod access;
mod conformance;
mod fake;
mod retention;
mod server;
mod tls;
mod upload;
