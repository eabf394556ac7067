//! The versions that both sides name before anything else (hashicorp/go-plugin).

/// The version of go-plugin's own protocol.
pub const CORE_VERSION: &str = "1";
/// The version of Velero's protocol on top of it, which is also what the environment of a plugin says.
pub const PROTOCOL_VERSION: &str = "2";
