//! The node agent: moves the bytes of volumes by pods that it starts, and follows each to its end.
//!
//! A resource ([`transfer`]) asks for the bytes of a volume. [`rules`] decide from the resource, its pod and the time which step comes
//! next; nothing else is remembered, so that an agent that starts anew goes on where the last one was. [`agent`] sees and acts:
//! it makes what a pod needs ([`exposer`]), starts the pod, reads how it ended, and brings the volume to its claim ([`delivery`]).
//! Start reading at [`rules`].

mod agent;
mod attachments;
mod attempts;
mod config;
mod delivery;
mod exposer;
mod fairness;
mod fs_type;
mod health;
mod host_path;
mod kind;
mod kube;
mod latency;
mod outcome;
mod pod;
mod resources;
mod rules;
mod settings;
mod start;
mod template;
mod transfer;
mod user_pod;

pub use agent::{Agent, AgentError, run};
pub use config::{ConfigError, NodeAgentConfig, ParsedConfig};
pub use health::{Health, serve};
pub use settings::AgentSettings;
pub use start::{Names, StartError, check_host_path, prepare};
