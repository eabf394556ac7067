//! The state of an object that a plan was made for, and that its restore must still find (docs/formats/plan.md). Pure.

use crate::object::update;
use lifeboat_volume::csi::without_restored_names;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The input of a plan for one object: a restore that is pinned to the plan writes the object only while this holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlanGuard {
    /// Digest of the UID and the relevant fields of the object in the cluster; `None` where the plan does not depend on
    /// them.
    pub(crate) found: Option<[u8; 16]>,
    /// Digest of the object that would be written, without the labels of the restore; `None` where nothing is written.
    pub(crate) written: Option<[u8; 16]>,
}

impl PlanGuard {
    /// The pin of an object that is in the cluster in this state, and would be written like this.
    pub(crate) fn of(in_cluster: Option<&Value>, desired: &Value) -> Self {
        Self { found: in_cluster.map(found), written: Some(written(desired)) }
    }

    /// Puts `found` and `written`, in hexadecimal, into the JSON of an object.
    pub(crate) fn write_json(&self, out: &mut Value) {
        for (name, digest) in [("found", self.found), ("written", self.written)] {
            if let Some(digest) = digest {
                out[name] = hex::encode(digest).into();
            }
        }
    }

    /// Reads the output of [`PlanGuard::write_json`].
    pub(crate) fn read_json(value: &Value) -> Self {
        let digest = |name: &str| <[u8; 16]>::try_from(hex::decode(value[name].as_str()?).ok()?).ok();
        Self { found: digest("found"), written: digest("written") }
    }

    /// The pin of an object of this UID that the backup lacks.
    pub(crate) fn of_extra(uid: &str) -> Self {
        Self { found: Some(short(uid.as_bytes())), written: None }
    }
}

/// Computes the digest of the object that would be written.
pub(crate) fn written(desired: &Value) -> [u8; 16] {
    update::digest(without_restored_names(desired).as_ref().unwrap_or(desired))
}

/// Computes the digest of the UID and the relevant fields of an object of the cluster.
pub(crate) fn found(in_cluster: &Value) -> [u8; 16] {
    let uid = in_cluster["metadata"]["uid"].as_str().unwrap_or_default();
    short(&[uid.as_bytes(), &update::digest(in_cluster)].concat())
}

/// The first half of a SHA-256.
pub(crate) fn short(bytes: &[u8]) -> [u8; 16] {
    let mut out = [0; 16];
    out.copy_from_slice(&Sha256::digest(bytes)[..16]);
    out
}
