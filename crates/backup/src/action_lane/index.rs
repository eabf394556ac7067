//! Facts about each object of the action lane while its body waits: about 200 bytes.

use crate::action_lane::body_store::BodyLocation;
use crate::actions::pod::PodView;
use crate::actions::pv::{claim, volume_key};
use crate::actions::service_account::Digest;
use lifeboat_hook::BackupHooks;
use lifeboat_object::{ApiResource, GroupResource, Item, ObjectKey, view};
use std::collections::HashMap;
use std::sync::Arc;

/// An object of the lane.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) digest: Digest,
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) body: Body,
    pub(crate) facts: RelationFacts,
}

/// The place where the body of an object is kept.
#[derive(Debug)]
pub(crate) enum Body {
    /// It is in the body store.
    Stored(BodyLocation),
    /// Nowhere: it is read again.
    Cluster(Box<ObjectKey>),
}

/// The objects that an object belongs to, as far as Velero's own rules go (velero: pkg/backup/itemblock.go).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RelationFacts {
    /// A pod.
    Pod {
        is_running: bool,
        /// True when commands may have to run in it.
        may_have_hooks: bool,
        /// The claims that it mounts.
        claims: Box<[Digest]>,
    },
    /// A claim.
    Claim {
        /// Its volume, when it is bound.
        volume: Option<Digest>,
        /// Stands for its namespace and its value of the label that groups claims.
        group: Option<Digest>,
    },
    /// Any other object.
    Other,
}

impl RelationFacts {
    /// The facts of an object; nothing is known of one that cannot be read.
    pub(crate) fn of(item: &Item, group_label: &str, hooks: &BackupHooks) -> Self {
        let is_pod = match (item.resource.group.as_str(), item.resource.resource.as_str()) {
            ("", "pods") => true,
            ("", "persistentvolumeclaims") => false,
            _ => return Self::Other,
        };
        let namespace = item.head.namespace.as_deref().unwrap_or_default();
        if is_pod {
            let pod = view::<PodView>(&item.body).unwrap_or_default();
            let claims = pod.claims().map(|name| claim_digest(namespace, &name)).collect();
            let may_have_hooks = hooks.may_concern(item);
            return Self::Pod { is_running: pod.is_running(&item.head), may_have_hooks, claims };
        }
        let claim = claim(item, group_label);
        Self::Claim {
            volume: claim.volume.map(|volume| volume_key(&volume).digest()),
            group: claim.group.map(|value| group_digest(namespace, &value)),
        }
    }
}

fn claim_digest(namespace: &str, name: &str) -> Digest {
    ObjectKey::new(GroupResource::new("", "persistentvolumeclaims"), Some(namespace), name).digest()
}

/// Stands for the claims of a group.
pub(crate) fn group_digest(namespace: &str, value: &str) -> Digest {
    ObjectKey::new(GroupResource::new("", "groups of claims"), Some(namespace), value).digest()
}

/// The reason for which an object of these types is not in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotIndexed {
    /// The cluster has none.
    Absent,
    /// It is out of scope.
    LeftOut,
    /// It could not be read, and the results say so.
    Unread,
}

/// All objects of the action lane.
#[derive(Debug, Default)]
pub(crate) struct Index {
    records: Vec<Record>,
    numbers: HashMap<Digest, u32>,
    outside: HashMap<Digest, NotIndexed>,
}

impl Index {
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn record(&self, number: u32) -> Option<&Record> {
        self.records.get(number as usize)
    }

    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    pub(crate) fn number(&self, digest: &Digest) -> Option<u32> {
        self.numbers.get(digest).copied()
    }

    pub(crate) fn outside(&self, digest: &Digest) -> Option<NotIndexed> {
        self.outside.get(digest).copied()
    }

    /// Returns true if the object is in the index, or it is known why not.
    pub(crate) fn knows(&self, digest: &Digest) -> bool {
        self.numbers.contains_key(digest) || self.outside.contains_key(digest)
    }

    pub(crate) fn add(&mut self, record: Record) {
        let number = u32::try_from(self.records.len()).unwrap_or(u32::MAX);
        self.outside.remove(&record.digest);
        self.numbers.insert(record.digest, number);
        self.records.push(record);
    }

    /// Notes of an object that it is not in the index, unless it is.
    pub(crate) fn note(&mut self, digest: Digest, what: NotIndexed) {
        if !self.numbers.contains_key(&digest) {
            self.outside.insert(digest, what);
        }
    }
}
