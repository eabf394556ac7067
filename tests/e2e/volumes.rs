//! Volumes of pods and claims without a node: the node agent, moved snapshots, and the files of saved volumes.

mod files;
mod node_agent;
mod uploads;
