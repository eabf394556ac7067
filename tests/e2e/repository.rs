//! Kopia repositories of volume data, beside kopia itself.

mod compared;
mod deletion;
mod maintenance;
mod password;
mod reading;
mod writing;
