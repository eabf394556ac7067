//! The state of an object that a plan was made for, and that its restore must still find (docs/formats/plan.md). Pure.

use crate::update;
use lifeboat_volume::csi::without_restored_names;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The input of a plan for one object: a restore that is pinned to the plan writes the object only while this holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pin {
    /// The object in the cluster, by its UID and what counts of it; `None` where the plan asks for none of this.
    pub(crate) found: Option<[u8; 16]>,
    /// Digest of the object that would be written, without the labels of the restore; `None` where nothing is written.
    pub(crate) written: Option<[u8; 16]>,
}

impl Pin {
    /// That of an object which is in the cluster like this, and of what would be made of it.
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

    /// Reads what [`Pin::write_json`] has written.
    pub(crate) fn read_json(value: &Value) -> Self {
        let digest = |name: &str| <[u8; 16]>::try_from(hex::decode(value[name].as_str()?).ok()?).ok();
        Self { found: digest("found"), written: digest("written") }
    }

    /// That of an object of this UID that the backup lacks.
    pub(crate) fn of_extra(uid: &str) -> Self {
        Self { found: Some(short(uid.as_bytes())), written: None }
    }
}

/// Computes the digest of the object that would be written.
pub(crate) fn written(desired: &Value) -> [u8; 16] {
    update::digest(without_restored_names(desired).as_ref().unwrap_or(desired))
}

/// The UID of an object of the cluster and what counts of it, as a digest.
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
