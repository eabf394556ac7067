//! The roles of the program that run in pods of a user's cluster: flags in, wiring of what they use, and their log.
//!
//! [`server`] runs the controllers, [`node_agent`] starts the movers of its node. [`pod_volume`] and [`data_mover`] are the commands of
//! such a [`mover`], which moves the bytes of one volume in a pod that was started for one resource. [`restore_helper`] is the init
//! container that holds a restored pod back until its volumes are filled. [`repo_maintenance`] maintains one repository, in the pod of
//! a Job of the server.

pub mod data_mover;
mod fill;
mod listen;
mod logrus;
pub mod mover;
pub mod node_agent;
pub mod pod_volume;
pub mod repo_maintenance;
pub mod restore_helper;
pub mod server;
