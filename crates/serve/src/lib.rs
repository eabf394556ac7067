//! The roles of the binary that run in pods of a user's cluster beside the server.
//!
//! [`mover`] moves the bytes of one volume, in a pod that a node agent has started for one resource. [`restore_helper`] is the init
//! container that holds a restored pod back until its volumes are filled. [`repo_maintenance`] maintains one repository, in the pod of
//! a Job of the server.

pub mod mover;
pub mod repo_maintenance;
pub mod restore_helper;
