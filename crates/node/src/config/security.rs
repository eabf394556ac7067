//! The rights with which movers run: the key `movers`, an addition of Lifeboat. Pure.

use serde::Deserialize;
use serde_json::Value;

/// The keys of it that are read.
const KEYS: [&str; 4] = ["podSecurity", "runAsUser", "runAsGroup", "hostUsers"];

/// The rights with which movers run. The default is user 0 with what the direction needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MoverSecurity {
    /// They run as the owner of the volume, without any capability, as the Pod Security Standard `restricted` demands it.
    pub(crate) is_restricted: bool,
    /// The user and the group as which they run then, where no pod is to tell it.
    pub(crate) user: Option<i64>,
    /// See `user`.
    pub(crate) group: Option<i64>,
    /// Their pods have users of their own, which are not those of the node.
    pub(crate) has_own_users: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawSecurity {
    pod_security: String,
    run_as_user: Option<i64>,
    run_as_group: Option<i64>,
    host_users: Option<bool>,
}

impl RawSecurity {
    /// Reads it.
    ///
    /// # Errors
    /// A value that would give movers more rights than somebody wants, for people.
    pub(super) fn read(self) -> Result<MoverSecurity, String> {
        let is_restricted = match self.pod_security.as_str() {
            "" | "default" => false,
            "restricted" => true,
            other => return Err(format!("movers.podSecurity {other:?} is neither default nor restricted")),
        };
        let ids = [("runAsUser", self.run_as_user, 1), ("runAsGroup", self.run_as_group, 0)];
        for (key, id, least) in ids {
            match id {
                Some(id) if !(least..=i64::from(i32::MAX)).contains(&id) => {
                    return Err(format!("movers.{key} {id} is no ID from {least} to {}", i32::MAX));
                }
                Some(_) if !is_restricted => {
                    return Err(format!(
                        "movers.{key} counts with movers.podSecurity \"restricted\" only: by default movers are user 0"
                    ));
                }
                _ => {}
            }
        }
        Ok(MoverSecurity {
            is_restricted,
            user: self.run_as_user,
            group: self.run_as_group,
            has_own_users: self.host_users == Some(false),
        })
    }
}

/// Warnings of keys that are not read.
pub(super) fn unknown_keys(config: &Value) -> Vec<String> {
    let keys = config["movers"].as_object().into_iter().flatten().map(|(key, _)| key);
    let unknown = keys.filter(|key| !KEYS.contains(&key.as_str()));
    unknown.map(|key| format!("the key movers.{key} is not known and has no effect")).collect()
}
