//! The rights of the pods of movers, the same wherever they are started. Pure.

use serde_json::{Value, json};

/// The seconds that a mover has to end. With none the API server forgets a pod at once, while its container may still write on a node that
/// nobody reaches.
pub const GRACE_SECONDS: u32 = 1;
/// The most that a mover may do with the files of a volume into which it writes.
pub const RESTORE_CAPABILITIES: [&str; 5] = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "MKNOD"];
/// The most that a mover may do with the files of a volume that it only reads.
pub const BACKUP_CAPABILITIES: [&str; 1] = ["DAC_READ_SEARCH"];

/// The security context of a mover's container with these capabilities, which are all that it has.
#[must_use]
pub fn container_security(capabilities: &[&str]) -> Value {
    let mut has = json!({"drop": ["ALL"]});
    if !capabilities.is_empty() {
        has["add"] = json!(capabilities);
    }
    json!({
        "allowPrivilegeEscalation": false, "privileged": false, "readOnlyRootFilesystem": true, "capabilities": has,
    })
}
