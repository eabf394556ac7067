//! UIDs of the namespaces that objects are restored into. A namespace that was deleted and made again under its name, or that is of
//! another cluster, has another one: what was restored into the one before is not there.

use crate::state::lock::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// UIDs of namespaces of the cluster by their names, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct NamespaceUids(Mutex<BTreeMap<String, String>>);

impl NamespaceUids {
    /// Notes the UID of a namespace.
    pub(crate) fn note(&self, name: &str, uid: &str) {
        if !uid.is_empty() {
            lock(&self.0).insert(name.to_owned(), uid.to_owned());
        }
    }

    /// Adds the UIDs that an earlier run has noted.
    pub(crate) fn note_all(&self, of: BTreeMap<String, String>) {
        lock(&self.0).extend(of);
    }

    /// Returns all UIDs that are known, by namespace.
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        lock(&self.0).clone()
    }
}
