//! The object that a user asks for, found in a backup by its type and name.

use anyhow::{Result, bail};
use lifeboat_archive::index::Row;
use lifeboat_browse::BackupStore;
use lifeboat_object::{ApiResource, Catalog, GroupResource, ObjectKey, types_named};
use lifeboat_restore::is_restorable;
use lifeboat_sandbox::ObjectStore;
use lifeboat_terminal::flags::object_name::{ObjectArgs, check_namespace};
use lifeboat_terminal::flags::object_type::meant;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The object that a user asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestedObject {
    /// The type, as kubectl takes it.
    word: String,
    name: String,
    /// The namespace that the user names, if any.
    given: Option<String>,
    /// The namespace when the user names none.
    otherwise: String,
    /// The types of the cluster that are called so.
    served: Vec<Arc<ApiResource>>,
}

/// Result of looking for it in a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ObjectPresence {
    /// It has.
    Yes(ObjectKey),
    /// It has not.
    No(ObjectKey),
    /// Neither the backup nor the cluster knows a type that is called so.
    NoType,
}

impl RequestedObject {
    /// Reads what the user names. `given` is the namespace that the user names, `otherwise` the one that counts when there is none.
    ///
    /// # Errors
    /// When it is no object.
    pub(super) fn parse(object: &ObjectArgs, given: Option<&str>, otherwise: &str) -> Result<Self> {
        let (word, name) = object.type_and_name()?;
        Ok(Self {
            word: word.to_owned(),
            name: name.to_owned(),
            given: given.map(str::to_owned),
            otherwise: otherwise.to_owned(),
            served: Vec::new(),
        })
    }

    /// Adds the types of the cluster that have this name.
    pub(super) fn served_by(self, catalog: &Catalog) -> Self {
        let served = types_named(&self.word, catalog.all()).into_iter().cloned().collect();
        Self { served, ..self }
    }

    /// Returns true if the cluster has a type of this name.
    pub(super) fn is_served(&self) -> bool {
        !self.served.is_empty()
    }

    /// The type, as the user names it.
    pub(super) fn word(&self) -> &str {
        &self.word
    }

    /// Returns its key in this cluster, by whatever name the user calls the type; as it was asked for, where the
    /// cluster does not know it.
    pub(super) fn identity(&self) -> String {
        let found = meant(&self.word, &self.name, &self.served).ok().flatten();
        let key = found.and_then(|found| self.key(found.group_resource(), found.namespaced).ok());
        key.map_or_else(|| self.to_string(), |key| key.to_string())
    }

    /// Looks for it in a backup. Words that the cluster knows count too: short names of types whose definition the backup lacks. Which type
    /// is meant does not depend on what the backup holds: one without Services does not make another `service` of a word.
    ///
    /// # Errors
    /// When it is not clear which type is meant, objects of the type are never restored, or it takes no namespace.
    pub(super) fn held_by(&self, backup: &BackupStore, catalog: &Catalog) -> Result<ObjectPresence> {
        let served = backup.types();
        let named = types_named(&self.word, served.all().chain(catalog.all()));
        let Some(found) = meant(&self.word, &self.name, named)? else { return Ok(ObjectPresence::NoType) };
        let key = self.key(found.group_resource(), found.namespaced)?;
        Ok(if backup.has(&key) { ObjectPresence::Yes(key) } else { ObjectPresence::No(key) })
    }

    /// Returns true if it may be in a list of names, `NAMESPACE/NAME` or `NAME`, by version and kind. Where the cluster
    /// knows the word, objects of other kinds are not meant.
    pub(super) fn may_be_among(&self, list: &BTreeMap<String, Vec<String>>) -> bool {
        let is_kind = |version_and_kind: &str| {
            let kind = version_and_kind.rsplit('/').next();
            !self.is_served() || self.served.iter().any(|found| Some(&*found.kind) == kind)
        };
        let mut names = list.iter().filter(|(kind, _)| is_kind(kind)).flat_map(|(_, names)| names);
        names.any(|name| match name.split_once('/') {
            Some((namespace, name)) => self.may_be(Some(namespace), name),
            None => self.may_be(None, name),
        })
    }

    /// Returns true if it may be one of these rows: the same for the rows of an index.
    pub(super) fn may_be_in<'a>(&self, mut rows: impl Iterator<Item = &'a Row>) -> bool {
        let is_type = |resource: &GroupResource| {
            !self.is_served() || self.served.iter().any(|found| found.resource == resource.resource)
        };
        rows.any(|row| self.may_be(row.namespace(), &row.name) && is_type(&row.resource))
    }

    /// Returns true if an object of this name, in this namespace if it is in one, may be it.
    fn may_be(&self, namespace: Option<&str>, name: &str) -> bool {
        name == self.name && namespace.is_none_or(|namespace| namespace == self.namespace())
    }

    fn namespace(&self) -> &str {
        self.given.as_ref().unwrap_or(&self.otherwise)
    }

    fn key(&self, resource: GroupResource, namespaced: bool) -> Result<ObjectKey> {
        if !is_restorable(&resource) {
            bail!("{resource} are never restored: every cluster has its own");
        }
        check_namespace(&resource, namespaced, self.given.as_deref())?;
        Ok(ObjectKey::new(resource, namespaced.then(|| self.namespace()), self.name.as_str()))
    }
}

/// As it was asked for, with the namespace in which it would be.
impl std::fmt::Display for RequestedObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{} (in the namespace {}, if it is in one)", self.word, self.name, self.namespace())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(given: Option<&str>) -> RequestedObject {
        RequestedObject {
            word: "cm".to_owned(),
            name: "a".to_owned(),
            given: given.map(str::to_owned),
            otherwise: "default".to_owned(),
            served: Vec::new(),
        }
    }

    #[test]
    fn it_is_told_as_it_was_asked_for() {
        assert_eq!(wanted(None).to_string(), "cm/a (in the namespace default, if it is in one)");
        assert_eq!(wanted(Some("shop")).to_string(), "cm/a (in the namespace shop, if it is in one)");
    }

    #[test]
    fn it_is_the_same_object_however_its_type_is_called() {
        let maps =
            ApiResource { short_names: vec!["cm".to_owned()], ..ApiResource::new("", "v1", "configmaps", "ConfigMap") };
        let catalog = Catalog::new(vec![Arc::new(maps)], vec![]);
        let identity = |word: &str| {
            RequestedObject { word: word.to_owned(), ..wanted(Some("shop")) }.served_by(&catalog).identity()
        };
        assert_eq!(["cm", "configmap", "ConfigMaps"].map(identity), ["configmaps/shop/a"; 3].map(str::to_owned));
        assert_eq!(identity("kettle"), "kettle/a (in the namespace shop, if it is in one)");
    }

    #[test]
    fn a_namespace_is_for_types_that_have_some() {
        let key = |given: Option<&str>, resource: &str, namespaced: bool| {
            wanted(given).key(resource.parse().unwrap(), namespaced).map_err(|e| e.to_string())
        };
        let is = |resource: &str, namespace| Ok(ObjectKey::new(resource.parse().unwrap(), namespace, "a"));
        assert_eq!(key(None, "configmaps", true), is("configmaps", Some("default")));
        assert_eq!(key(Some("shop"), "configmaps", true), is("configmaps", Some("shop")));
        assert_eq!(key(None, "storageclasses.storage.k8s.io", false), is("storageclasses.storage.k8s.io", None));
        let refused = "storageclasses.storage.k8s.io are in no namespace: leave out \"shop\"";
        assert_eq!(key(Some("shop"), "storageclasses.storage.k8s.io", false), Err(refused.to_owned()));
        assert_eq!(key(None, "nodes", false), Err("nodes are never restored: every cluster has its own".to_owned()));
    }

    fn row(resource: &str, name: &str) -> Row {
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        Row {
            resource: Arc::new(resource.parse().unwrap()),
            version: "v1".into(),
            namespace: namespace.into(),
            name: name.into(),
            preferred: true,
            member: 0,
            offset: 0,
            length: 0,
            hash: [0; 16],
        }
    }

    #[test]
    fn a_list_of_names_may_have_it() {
        let maps =
            ApiResource { short_names: vec!["cm".to_owned()], ..ApiResource::new("", "v1", "configmaps", "ConfigMap") };
        let (knows, nothing) = (Catalog::new(vec![Arc::new(maps)], vec![]), Catalog::default());
        for (kind, resource, names, expected) in [
            ("v1/ConfigMap", "configmaps", &["b", "shop/a"][..], [true, true]),
            ("v1/ConfigMap", "configmaps", &["a"], [true, true]),
            ("v1/ConfigMap", "configmaps", &["default/a", "shop/ab", "shop"], [false, false]),
            // Where the cluster does not know the word, any type may be meant.
            ("apps/v1/Deployment", "deployments.apps", &["shop/a"], [false, true]),
        ] {
            let list = BTreeMap::from([(kind.to_owned(), names.iter().map(|name| (*name).to_owned()).collect())]);
            let rows: Vec<Row> = names.iter().map(|name| row(resource, name)).collect();
            for (catalog, expected) in [&knows, &nothing].into_iter().zip(expected) {
                let wanted = wanted(Some("shop")).served_by(catalog);
                assert_eq!(wanted.may_be_among(&list), expected, "{kind} {names:?}");
                assert_eq!(wanted.may_be_in(rows.iter()), expected, "{resource} {names:?}");
            }
        }
    }
}
