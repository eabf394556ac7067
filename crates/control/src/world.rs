//! The resources of the server's namespace as they were last seen.

mod unreadable;

pub(crate) use unreadable::Unreadable;
use unreadable::meta;

use bytes::Bytes;
use lifeboat_api::NamespacedName;
use lifeboat_api::{
    Backup, BackupRepository, BackupStorageLocation, DeleteBackupRequest, DownloadRequest, ManagedFields, ObjectMeta,
    Resource, Restore, Schedule, ServerStatusRequest,
};
use lifeboat_client::{Object, ObjectIdentity};
use lifeboat_reconcile::MirrorEvent;
use std::collections::{BTreeMap, BTreeSet};

/// A resource with its metadata.
pub(crate) trait Meta: Object {
    fn meta(&self) -> &ObjectMeta;

    fn meta_mut(&mut self) -> &mut ObjectMeta;

    /// Its namespace and name.
    fn key(&self) -> NamespacedName {
        self.meta().key()
    }

    /// The namespace and name of another object that this one names: it lies in the same namespace.
    fn beside(&self, name: &str) -> NamespacedName {
        NamespacedName { namespace: self.meta().namespace.clone(), name: name.to_owned() }
    }

    /// The word of its phase.
    fn phase(&self) -> Option<&'static str>;
}

macro_rules! mirrored {
    ($($kind:ident: $field:ident),* $(,)?) => {
        /// A kind that is mirrored.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) enum MirroredKind {
            $($kind),*
        }

        impl MirroredKind {
            pub(crate) const ALL: &[Self] = &[$(Self::$kind),*];

            pub(crate) fn resource(self) -> std::sync::Arc<lifeboat_object::ApiResource> {
                match self {
                    $(Self::$kind => lifeboat_client::api_resource::<$kind>()),*
                }
            }

            /// Its name, as it stands in manifests.
            pub(crate) const fn word(self) -> &'static str {
                match self {
                    $(Self::$kind => <$kind as Resource>::KIND),*
                }
            }
        }

        /// An object of any kind.
        #[derive(Debug)]
        pub(crate) enum MirroredObject {
            $($kind(Box<$kind>)),*
        }

        $(
            impl From<$kind> for MirroredObject {
                fn from(object: $kind) -> Self {
                    Self::$kind(Box::new(object))
                }
            }

            impl Meta for $kind {
                fn meta(&self) -> &ObjectMeta {
                    &self.metadata
                }

                fn meta_mut(&mut self) -> &mut ObjectMeta {
                    &mut self.metadata
                }

                fn phase(&self) -> Option<&'static str> {
                    self.status.phase.map(|phase| phase.as_str())
                }
            }
        )*

        /// Everything mirrored, by namespace and name.
        #[derive(Debug, Default)]
        pub(crate) struct World {
            /// Found by the last syncs of the locations.
            pub(crate) left: Vec<Leftover>,
            /// The UID of the cluster; empty when unknown.
            pub(crate) cluster: String,
            $(pub(crate) $field: MirroredObjects<$kind>),*
        }

        impl World {
            /// Takes in what a mirror saw.
            pub(crate) fn see(&mut self, change: MirrorChange) {
                match change.kind {
                    $(MirroredKind::$kind => self.$field.see(change.what)),*
                }
            }

            /// Takes in what a write of ours was answered with.
            pub(crate) fn put(&mut self, object: MirroredObject) {
                match object {
                    $(MirroredObject::$kind(object) => self.$field.put(*object)),*
                }
            }

            /// Another object of the name stays.
            pub(crate) fn remove(&mut self, kind: MirroredKind, object: &ObjectIdentity) {
                match kind {
                    $(MirroredKind::$kind => self.$field.remove(object)),*
                }
            }

            /// Returns true if every kind was listed once. Before that, a missing object may only be unknown.
            pub(crate) fn is_complete(&self) -> bool {
                $(self.$field.listed)&&*
            }

            /// Returns true if an object has this name, even one that cannot be read.
            pub(crate) fn is_there(&self, kind: MirroredKind, key: &NamespacedName) -> bool {
                match kind {
                    $(MirroredKind::$kind => self.$field.is_there(key)),*
                }
            }

            /// Every object, be it one that cannot be read: its kind, its name and the word of its phase.
            pub(crate) fn all(&self) -> impl Iterator<Item = (MirroredKind, &NamespacedName, &str)> {
                std::iter::empty()$(.chain(self.$field.phases().map(|(key, phase)| (MirroredKind::$kind, key, phase))))*
            }

            /// The metadata of every object that is being deleted, be it one that cannot be read.
            pub(crate) fn deleted(&self) -> impl Iterator<Item = (MirroredKind, &ObjectMeta)> {
                std::iter::empty()$(.chain(self.$field.deleted().map(|meta| (MirroredKind::$kind, meta))))*
            }

            /// Every object that cannot be read.
            pub(crate) fn unreadable(&self) -> impl Iterator<Item = (MirroredKind, &Unreadable)> {
                std::iter::empty()$(.chain(self.$field.unreadable().map(|object| (MirroredKind::$kind, object))))*
            }

            /// Forgets which objects came into another phase.
            pub(crate) fn forget_turned(&mut self) {
                $(drop(self.$field.take_turned());)*
            }
        }
    };
}

// All there is to write for a kind to be mirrored, read, kept when it cannot be read, and counted by its phase.
mirrored! {
    Backup: backups,
    Restore: restores,
    BackupStorageLocation: locations,
    DeleteBackupRequest: delete_requests,
    DownloadRequest: download_requests,
    ServerStatusRequest: status_requests,
    Schedule: schedules,
    BackupRepository: repositories,
}

/// Files of a Backup that is gone.
#[derive(Clone, Debug)]
pub(crate) struct Leftover {
    /// The location they lie in.
    pub(crate) location: BackupStorageLocation,
    /// The name of the Backup.
    pub(crate) name: String,
}

impl Leftover {
    /// The namespace and name of the Backup.
    pub(crate) fn backup(&self) -> NamespacedName {
        self.location.beside(&self.name)
    }
}

/// A change that a mirror saw, of an object of this kind.
#[derive(Debug)]
pub(crate) struct MirrorChange {
    pub(crate) kind: MirroredKind,
    pub(crate) what: MirrorEvent,
}

/// The objects of one kind.
#[derive(Debug)]
pub(crate) struct MirroredObjects<T> {
    readable: BTreeMap<NamespacedName, T>,
    unreadable: BTreeMap<NamespacedName, Unreadable>,
    listed: bool,
    /// The objects that came into another phase since they were last taken from here, in that phase.
    turned: Vec<T>,
}

impl<T> Default for MirroredObjects<T> {
    fn default() -> Self {
        Self { readable: BTreeMap::new(), unreadable: BTreeMap::new(), listed: false, turned: Vec::new() }
    }
}

impl<T: Meta> MirroredObjects<T> {
    pub(crate) fn get(&self, key: &NamespacedName) -> Option<&T> {
        self.readable.get(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.readable.len()
    }

    pub(crate) fn unreadable(&self) -> impl Iterator<Item = &Unreadable> {
        self.unreadable.values()
    }

    pub(crate) fn get_unreadable(&self, key: &NamespacedName) -> Option<&Unreadable> {
        self.unreadable.get(key)
    }

    /// Returns true if an object has this name, even one that cannot be read.
    pub(crate) fn is_there(&self, key: &NamespacedName) -> bool {
        self.readable.contains_key(key) || self.unreadable.contains_key(key)
    }

    /// In order of their namespaces and names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.readable.values()
    }

    /// The objects in the namespace of this object.
    pub(crate) fn beside(&self, object: &impl Meta) -> impl Iterator<Item = &T> {
        let namespace = &object.meta().namespace;
        self.iter().filter(move |other| other.meta().namespace == *namespace)
    }

    /// The names and the words of their phases, also of those that cannot be read.
    fn phases(&self) -> impl Iterator<Item = (&NamespacedName, &str)> {
        let readable = self.readable.iter().map(|(key, object)| (key, object.phase().unwrap_or_default()));
        readable.chain(self.unreadable.iter().map(|(key, object)| (key, object.phase())))
    }

    fn deleted(&self) -> impl Iterator<Item = &ObjectMeta> {
        let all = self.readable.values().map(Meta::meta).chain(self.unreadable.values().map(|object| &object.meta));
        all.filter(|meta| meta.deletion_timestamp.is_some())
    }

    /// Takes in what a write of ours was answered with; the mirror may be behind it.
    pub(crate) fn put(&mut self, mut object: T) {
        // The largest part of an object, and a matter of the API server: writes send differences.
        object.meta_mut().managed_fields = ManagedFields::default();
        let (key, meta) = (object.key(), object.meta());
        let newer = self.readable.get(&key).is_none_or(|known| {
            known.meta().uid != meta.uid || revision(&known.meta().resource_version) <= revision(&meta.resource_version)
        });
        if !newer {
            return;
        }
        // One that is seen for the first time may have been in its phase for long.
        let before = self.readable.get(&key);
        if before.is_some_and(|before| before.meta().uid == meta.uid && before.phase() != object.phase()) {
            self.turned.push(object.clone());
        }
        self.unreadable.remove(&key);
        self.readable.insert(key, object);
    }

    /// Replaces the object of this name by one that cannot be read: its former contents are out of date.
    fn put_unreadable(&mut self, object: Unreadable) {
        let key = object.meta.key();
        self.readable.remove(&key);
        self.unreadable.insert(key, object);
    }

    /// Takes in what a mirror saw; how it is called.
    fn put_seen(&mut self, body: &Bytes) -> Option<NamespacedName> {
        match T::from_json(body) {
            Ok(object) => {
                let key = object.key();
                self.put(object);
                Some(key)
            }
            Err(e) => {
                tracing::error!(kind = T::KIND, error = %e, "an object cannot be read");
                let object = Unreadable::new(body, &e)?;
                let key = object.meta.key();
                self.put_unreadable(object);
                Some(key)
            }
        }
    }

    /// Objects that have come into another phase since the last call.
    pub(crate) fn take_turned(&mut self) -> Vec<T> {
        std::mem::take(&mut self.turned)
    }

    /// Another object of the name stays.
    pub(crate) fn remove(&mut self, object: &ObjectIdentity) {
        self.unreadable.retain(|_, known| known.meta.uid != object.uid);
        if self.get(&object.key).is_some_and(|known| known.meta().uid == object.uid) {
            self.readable.remove(&object.key);
        }
    }

    fn see(&mut self, seen: MirrorEvent) {
        match seen {
            MirrorEvent::All(bodies) => {
                // Each is given up when it is read: what was sent of ten thousand objects takes as much memory as what is kept of them.
                let keys: BTreeSet<NamespacedName> =
                    bodies.into_iter().filter_map(|body| self.put_seen(&body)).collect();
                self.readable.retain(|key, _| keys.contains(key));
                self.unreadable.retain(|key, _| keys.contains(key));
                self.listed = true;
            }
            MirrorEvent::Applied(body) => {
                self.put_seen(&body);
            }
            MirrorEvent::Deleted(body) => {
                let Some(gone) = meta(&body) else { return };
                self.remove(&ObjectIdentity::of(&gone));
            }
        }
    }
}

/// Revisions of one API server grow; one that is no number is taken as the newest.
fn revision(text: &str) -> u64 {
    text.parse().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::named;

    fn body(name: &str, uid: &str, revision: &str) -> Bytes {
        format!(r#"{{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"{revision}"}}}}"#).into()
    }

    fn backups(world: &World) -> Vec<(String, String)> {
        world.backups.iter().map(|b| (b.metadata.name.clone(), b.metadata.resource_version.clone())).collect()
    }

    #[test]
    fn whose_fields_they_are_is_not_kept() {
        let mut world = World::default();
        let object = r#"{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":"a","managedFields":[{"manager":"x"}],"deletionGracePeriodSeconds":0}}"#;
        world.see(MirrorChange { kind: MirroredKind::Backup, what: MirrorEvent::Applied(object.into()) });
        let kept = &world.backups.get(&named("a")).unwrap().metadata;
        assert!(kept.managed_fields.is_empty());
        assert_eq!(kept.other.keys().collect::<Vec<_>>(), ["deletionGracePeriodSeconds"]);
    }

    #[test]
    fn what_cannot_be_read_is_known_to_be_there() {
        let mut world = World::default();
        let see = |world: &mut World, what| world.see(MirrorChange { kind: MirroredKind::Backup, what });
        let wrong = |revision: &str| {
            let object = format!(
                r#"{{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{{"name":"a","uid":"1","resourceVersion":"{revision}"}},"spec":{{"ttl":"30d"}},"status":{{"phase":"Queued"}}}}"#
            );
            Bytes::from(object)
        };
        let found = |world: &World| world.backups.unreadable().cloned().collect::<Vec<_>>();
        see(&mut world, MirrorEvent::Applied(body("a", "1", "1")));
        see(&mut world, MirrorEvent::Applied(wrong("2")));
        assert!(backups(&world).is_empty(), "its old state says nothing any more");
        let all = found(&world);
        let why = all[0].why.clone();
        assert!(why.contains("30d"), "{why}");
        let error = serde_json::from_slice::<Backup>(&wrong("2")).unwrap_err();
        assert_eq!(all, [Unreadable::new(&wrong("2"), &error).unwrap()]);
        assert_eq!((all[0].meta.resource_version.as_str(), all[0].phase()), ("2", "Queued"));
        see(&mut world, MirrorEvent::Applied(body("a", "1", "3")));
        assert_eq!((backups(&world).len(), found(&world).len()), (1, 0), "it was mended");
        see(&mut world, MirrorEvent::All(vec![wrong("4")]));
        assert_eq!((backups(&world).len(), found(&world).len()), (0, 1));
        see(&mut world, MirrorEvent::Deleted(wrong("5")));
        assert!(found(&world).is_empty());
    }

    #[test]
    fn objects_of_one_name_in_two_namespaces_are_two() {
        let mut world = World::default();
        let object = |namespace: &str, uid: &str, ttl: &str| -> Bytes {
            format!(r#"{{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{{"namespace":"{namespace}","name":"a","uid":"{uid}","resourceVersion":"1"}},"spec":{{"ttl":"{ttl}"}}}}"#).into()
        };
        let see = |world: &mut World, what| world.see(MirrorChange { kind: MirroredKind::Backup, what });
        let key = |namespace: &str| NamespacedName { namespace: namespace.into(), ..named("a") };
        let all = |world: &World| {
            let is_readable = |key: &NamespacedName| world.backups.get(key).is_some();
            world.all().map(|(_, key, _)| (key.to_string(), is_readable(key))).collect::<Vec<_>>()
        };
        let (here, there) = (|readable| ("here/a".to_owned(), readable), |readable| ("there/a".to_owned(), readable));
        see(&mut world, MirrorEvent::All(vec![object("here", "1", "1h"), object("there", "2", "1h")]));
        assert_eq!(all(&world), [here(true), there(true)]);
        let uid = |namespace: &str| world.backups.get(&key(namespace)).map(|backup| backup.metadata.uid.as_str());
        assert_eq!([uid("here"), uid("there"), uid("nowhere")], [Some("1"), Some("2"), None]);
        see(&mut world, MirrorEvent::Applied(object("there", "2", "30d")));
        assert_eq!(all(&world), [here(true), there(false)]);
        see(&mut world, MirrorEvent::Deleted(object("here", "1", "1h")));
        assert_eq!(all(&world), [there(false)]);
        assert!(
            world.is_there(MirroredKind::Backup, &key("there")) && !world.is_there(MirroredKind::Backup, &key("here"))
        );
    }

    #[test]
    fn an_older_state_never_replaces_a_newer_one() {
        let mut world = World::default();
        let see = |world: &mut World, what| world.see(MirrorChange { kind: MirroredKind::Backup, what });
        see(&mut world, MirrorEvent::All(vec![body("a", "1", "9"), body("b", "2", "9")]));
        see(&mut world, MirrorEvent::Applied(body("a", "1", "100")));
        see(&mut world, MirrorEvent::Applied(body("a", "1", "99")));
        assert_eq!(backups(&world), [("a".into(), "100".into()), ("b".into(), "9".into())]);
        // Listed before our own write.
        see(&mut world, MirrorEvent::All(vec![body("a", "1", "98")]));
        assert_eq!(backups(&world), [("a".into(), "100".into())]);
        // Another object of the name, which a late deletion of the first does not concern.
        see(&mut world, MirrorEvent::Applied(body("a", "3", "50")));
        see(&mut world, MirrorEvent::Deleted(body("a", "1", "101")));
        assert_eq!(backups(&world), [("a".into(), "50".into())]);
        see(&mut world, MirrorEvent::Deleted(body("a", "3", "102")));
        assert!(backups(&world).is_empty());
        assert!(!world.is_complete());
    }
}
