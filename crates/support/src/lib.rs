//! A bundle of facts without secrets, and the template of a bug report, for those who help.
//!
//! [`gather`] fills a [`bundle`]; no value of a Secret gets into it ([`clean`]). Start reading at [`gather`].

pub mod bug_report;
pub mod bundle;
mod clean;
pub mod gather;
mod lines;
