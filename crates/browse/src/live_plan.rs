//! Chooses the types of a cluster that are compared with a backup, the lists to read, and the objects that the backup
//! would have. Pure.

use crate::diff_scope::DiffScope;
use crate::noise::is_noise_type;
use crate::rows::Rows;
use lifeboat_api::{Backup, BackupPhase};
use lifeboat_object::{ApiResource, Catalog, GroupResource, Head, printable};
use lifeboat_select::{
    BackupScope, Doubt, NamespaceFacts, NamespaceScope, SelectorError, can_be_saved, cohabiting_name,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The plan of a comparison of a backup with a cluster.
#[derive(Debug)]
pub(crate) struct LivePlan {
    /// Notes for the user about the comparison, as sentences.
    pub(crate) notes: Vec<String>,
    backup: BackupScope,
}

/// A type that is compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LiveType {
    pub(crate) resource: GroupResource,
    pub(crate) served: ServedAs,
    /// True when the backup has listed all objects of the type.
    pub(crate) is_collected: bool,
}

/// The way in which a cluster serves a type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ServedAs {
    /// In this version.
    As(Arc<ApiResource>),
    /// Not at all, or so that it cannot be listed.
    Not,
    /// It does not say, for this reason.
    Unknown(String),
}

/// A list request for a type: its namespace and field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListPlace {
    /// A single namespace; `None` for the whole cluster.
    pub(crate) namespace: Option<String>,
    /// A field selector; empty for none.
    pub(crate) fields: String,
}

/// The backup that is compared.
#[derive(Clone, Copy)]
pub(crate) struct ComparedBackup<'a> {
    pub(crate) record: &'a Backup,
    pub(crate) rows: &'a Rows,
}

impl ListPlace {
    /// The whole cluster.
    pub(crate) fn everywhere() -> Self {
        Self { namespace: None, fields: String::new() }
    }

    fn in_namespace(name: &str) -> Self {
        Self { namespace: Some(name.to_owned()), ..Self::everywhere() }
    }

    /// A single namespace, as an object in the list of namespaces.
    pub(crate) fn of_namespace_itself(name: &str) -> Self {
        Self { fields: format!("metadata.name={name}"), ..Self::everywhere() }
    }
}

impl LivePlan {
    /// The plan, and the types in their order: namespaces come last, since whether a new one counts depends on what is in it.
    ///
    /// # Errors
    /// When the filters of the backup cannot be used.
    pub(crate) fn new(
        saved: ComparedBackup<'_>,
        scope: &DiffScope,
        catalog: &Catalog,
        namespaces: &[NamespaceFacts],
    ) -> Result<(Self, Vec<LiveType>), SelectorError> {
        let backup = BackupScope::of(saved.record, catalog, namespaces)?;
        let mut plan = Self { notes: backup.doubt().map(note_of).into_iter().collect(), backup };
        let mut types = plan.held(saved.rows, scope, catalog);
        plan.add_collected(&mut types, scope, catalog);
        plan.notes = plan.notes.into_iter().map(printable).collect();
        types.sort_by_key(|of_type| (of_type.resource.is_namespaces(), of_type.resource.clone()));
        Ok((plan, types))
    }

    /// The types of which the backup holds objects that are compared.
    fn held(&mut self, rows: &Rows, scope: &DiffScope, catalog: &Catalog) -> Vec<LiveType> {
        let mut types = Vec::new();
        let is_meant = |resource: &GroupResource| scope.has_type(resource) && !is_noise_type(resource);
        let mut held: Vec<_> = rows.types().filter(|(resource, _)| is_meant(resource)).collect();
        held.sort_by_key(|(resource, _)| *resource);
        for (resource, row) in held {
            let objects = rows.of_type(resource).iter().filter(|n| scope.has_place(resource, rows.place(**n))).count();
            if objects == 0 {
                continue;
            }
            let version = &*row.version;
            let served = served(resource, version, catalog);
            match &served {
                ServedAs::As(api) if api.version != version => self.notes.push(format!(
                    "{resource}: the cluster does not serve {version}, in which the backup has them; they are compared \
                     with what it serves as {}",
                    api.version
                )),
                ServedAs::Not => self.notes.push(format!(
                    "{resource}: the cluster does not serve this type, so that all {objects} of the backup are told as removed"
                )),
                ServedAs::As(_) | ServedAs::Unknown(_) => {}
            }
            let is_collected = matches!(&served, ServedAs::As(api) if self.backup.collects(api).is_ok());
            types.push(LiveType { resource: resource.clone(), served, is_collected });
        }
        types
    }

    /// The types that the backup has looked for and not found; a backup has one of two types that have the same objects.
    fn add_collected(&mut self, types: &mut Vec<LiveType>, scope: &DiffScope, catalog: &Catalog) {
        if !self.knows_additions() {
            return;
        }
        let mut known: BTreeSet<GroupResource> = types.iter().map(|of_type| of_type.resource.clone()).collect();
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for of_type in &*types {
            if let ServedAs::As(api) = &of_type.served {
                names.extend(cohabiting_name(api));
            }
        }
        for api in catalog.preferred() {
            let resource = api.group_resource();
            let is_meant = scope.has_type(&resource)
                && !is_noise_type(&resource)
                && can_be_saved(api)
                && self.backup.collects(api).is_ok();
            if !is_meant || known.contains(&resource) || cohabiting_name(api).is_some_and(|name| !names.insert(name)) {
                continue;
            }
            known.insert(resource.clone());
            types.push(LiveType { resource, served: ServedAs::As(Arc::clone(api)), is_collected: true });
        }
        // What a broken group serves is not known; whoever asks for single types hears of those that the backup holds.
        if scope.resources.is_empty() {
            for failure in &catalog.failures {
                let (what, why) = (&failure.group_version, &failure.message);
                self.notes.push(format!("{what}: what was added of its types is not seen, because the cluster does not say which there are: {why}"));
            }
        }
    }

    /// The list requests for a type: none when no object of it can be in scope.
    pub(crate) fn places(&self, api: &ApiResource, rows: &Rows, scope: &DiffScope) -> Vec<ListPlace> {
        let resource = api.group_resource();
        if !scope.namespaces.is_empty() {
            return match (api.namespaced, resource.is_namespaces()) {
                (true, _) => scope.namespaces.iter().map(|name| ListPlace::in_namespace(name)).collect(),
                (false, true) => scope.namespaces.iter().map(|name| ListPlace::of_namespace_itself(name)).collect(),
                (false, false) => Vec::new(),
            };
        }
        match self.backup.places_to_list() {
            NamespaceScope::Names(included) if api.namespaced => {
                let held = rows.of_type(&resource).iter().map(|number| rows.place(*number).0);
                let names: BTreeSet<&str> = included.iter().map(String::as_str).chain(held).collect();
                names.into_iter().map(ListPlace::in_namespace).collect()
            }
            NamespaceScope::Names(_) | NamespaceScope::All => vec![ListPlace::everywhere()],
        }
    }

    /// Returns true if the backup, made now, would list and save this object. Namespaces have a rule of their own.
    pub(crate) fn would_have(&self, of_type: &LiveType, api: &ApiResource, head: &Head) -> bool {
        self.knows_additions() && of_type.is_collected && self.backup.would_have(api, head)
    }

    /// Returns true if the backup, made now, would have this namespace. `filled` has the namespaces with objects that
    /// it would save.
    pub(crate) fn would_have_namespace(
        &self,
        of_type: &LiveType,
        facts: &NamespaceFacts,
        filled: &BTreeSet<String>,
    ) -> bool {
        self.knows_additions() && of_type.is_collected && self.backup.would_have_namespace(facts, filled)
    }

    /// Returns true if it is known which objects the backup lacks; otherwise no object is reported as added.
    fn knows_additions(&self) -> bool {
        self.backup.doubt() != Some(Doubt::Policies)
    }
}

/// The note about a doubt, for the user of the comparison.
fn note_of(doubt: Doubt) -> String {
    match doubt {
        Doubt::Policies => {
            let text = "the backup has resource policies, which may have left objects out: objects that only the cluster \
                        has are not told";
            text.to_owned()
        }
        Doubt::Phase(phase) => {
            let phase = phase.map_or("of an unknown phase", BackupPhase::as_str);
            format!("the backup is {phase}: what it could not save is told as added")
        }
    }
}

/// Finds out how the cluster serves a type that a backup has in this version.
fn served(resource: &GroupResource, version: &str, catalog: &Catalog) -> ServedAs {
    let found = catalog.find_version(resource, version).filter(|api| api.can("list"));
    let found = found.or_else(|| catalog.find(resource).filter(|api| api.can("list")));
    if let Some(api) = found {
        return ServedAs::As(Arc::clone(api));
    }
    let of_group =
        |group_version: &str| group_version.rsplit_once('/').map_or("", |(group, _)| group) == resource.group;
    match catalog.failures.iter().find(|failure| of_group(&failure.group_version)) {
        Some(failure) => ServedAs::Unknown(format!("{}: {}", failure.group_version, failure.message)),
        None => ServedAs::Not,
    }
}
