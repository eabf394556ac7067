//! The node agent and moved snapshots against a real API server, without a node.

mod node_agent;
mod uploads;
