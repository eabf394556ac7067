//! The expected contents of a backup by its spec and its policies, decided as naively as possible and without code of
//! the product.

use crate::snapshot;
use lifeboat_testbed::Kubectl;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A type that can be saved.
#[derive(Debug)]
pub(crate) struct Type {
    group: String,
    plural: String,
    kind: String,
    /// All names that people use for it, in lower case.
    names: Vec<String>,
    namespaced: bool,
}

/// An object, as far as filters ask for it.
#[derive(Debug)]
struct Object {
    /// Its place among the types.
    of: usize,
    namespace: Option<String>,
    name: String,
    labels: BTreeMap<String, String>,
}

/// Everything in a cluster.
#[derive(Debug)]
pub(crate) struct World {
    types: Vec<Type>,
    objects: Vec<Object>,
    /// Of each cluster role binding: its place among the objects, its role, and its service accounts as
    /// `namespace/name`.
    bindings: Vec<(usize, String, Vec<String>)>,
}

/// The spec of a backup and its policies, with what follows from them for the types and namespaces of a cluster.
struct Asked<'a> {
    world: &'a World,
    spec: &'a Value,
    policy: &'a Value,
    /// Includes and excludes of types of both scopes.
    old: [Vec<String>; 2],
    /// Of namespaced types.
    namespaced: [Vec<String>; 2],
    /// Of cluster-scoped types.
    cluster: [Vec<String>; 2],
    is_old: bool,
    included_namespaces: BTreeSet<String>,
    unrestricted: bool,
}

const EXCLUDED: &str = "velero.io/exclude-from-backup";

/// `*` is any text, `?` one character, `[a-c]` and `[!a]` one of a class.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.first(), text.first()) {
        (None, end) => end.is_none(),
        (Some(b'*'), _) => (0..=text.len()).any(|skip| glob(&pattern[1..], &text[skip..])),
        (Some(_), None) => false,
        (Some(b'?'), Some(_)) => glob(&pattern[1..], &text[1..]),
        (Some(b'['), Some(letter)) => {
            let end = pattern.iter().position(|c| *c == b']').expect("a closed class");
            let class = &pattern[1..end];
            let (is_not, class) = class.strip_prefix(b"!").map_or((false, class), |rest| (true, rest));
            let is_in = match class {
                [from, b'-', to] => (from..=to).contains(&letter),
                letters => letters.contains(letter),
            };
            is_in != is_not && glob(&pattern[end + 1..], &text[1..])
        }
        (Some(one), Some(other)) => one == other && glob(&pattern[1..], &text[1..]),
    }
}

fn any(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| glob(pattern.as_bytes(), text.as_bytes()))
}

fn list(of: &Value) -> Vec<String> {
    of.as_array().into_iter().flatten().map(|one| one.as_str().expect("a text").to_owned()).collect()
}

/// Returns true if labels match a selector of Kubernetes.
fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let has = |key: &str, values: &[String]| labels.get(key).is_some_and(|value| values.contains(value));
    let mut by_label = selector["matchLabels"].as_object().into_iter().flatten();
    let mut by_expression = selector["matchExpressions"].as_array().into_iter().flatten();
    by_label.all(|(key, value)| has(key, &[value.as_str().expect("a text").to_owned()]))
        && by_expression.all(|wanted| {
            let (key, values) = (wanted["key"].as_str().expect("a key"), list(&wanted["values"]));
            match wanted["operator"].as_str().expect("an operator") {
                "In" => has(key, &values),
                "NotIn" => !has(key, &values),
                "Exists" => labels.contains_key(key),
                _ => !labels.contains_key(key),
            }
        })
}

/// The selectors of a spec or of a filter, of which one must match.
fn selectors(of: &Value) -> Vec<&Value> {
    of["orLabelSelectors"].as_array().into_iter().flatten().chain(of.get("labelSelector")).collect()
}

fn selects_any(selectors: &[&Value], labels: &BTreeMap<String, String>) -> bool {
    selectors.is_empty() || selectors.iter().any(|selector| selects(selector, labels))
}

impl Type {
    fn id(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    fn is_namespaces(&self) -> bool {
        self.id() == "namespaces"
    }
}

impl World {
    /// Reads a cluster.
    pub(crate) fn read(kubectl: &Kubectl) -> Self {
        let client = kubectl.client().expect("a control plane of the test bed");
        let get = |path: &str| client.read(path).unwrap_or_else(|e| panic!("{e:#}"));
        let groups = get("/apis");
        let versions = groups["groups"].as_array().expect("groups").iter().map(|group| {
            let (name, version) = (group["name"].clone(), group["preferredVersion"]["groupVersion"].clone());
            (name.as_str().expect("a name").to_owned(), format!("/apis/{}", version.as_str().expect("a version")))
        });
        let mut types: Vec<Type> = Vec::new();
        for (group, path) in std::iter::once((String::new(), "/api/v1".to_owned())).chain(versions) {
            for found in get(&path)["resources"].as_array().expect("resources") {
                let text = |field: &str| found[field].as_str().unwrap_or_default().to_lowercase();
                let verbs = list(&found["verbs"]);
                let can_come_back =
                    ["list", "create", "get", "delete"].iter().all(|verb| verbs.iter().any(|v| v == verb));
                // The events of the group of that name are those of the core group.
                if !can_come_back || text("name").contains('/') || group == "events.k8s.io" {
                    continue;
                }
                let mut names = vec![text("name"), text("singularName"), text("kind")];
                names.extend(list(&found["shortNames"]));
                types.push(Type {
                    group: group.clone(),
                    plural: text("name"),
                    kind: found["kind"].as_str().expect("a kind").to_owned(),
                    names,
                    namespaced: found["namespaced"] == true,
                });
            }
        }
        let mut world = Self { types, objects: Vec::new(), bindings: Vec::new() };
        snapshot::of(kubectl).values().for_each(|object| world.add(object));
        world
    }

    fn add(&mut self, object: &Value) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (version, kind) = (text("/apiVersion"), text("/kind"));
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let is_of = |one: &Type| one.group == group && one.kind == kind;
        let of = self.types.iter().position(is_of).unwrap_or_else(|| panic!("the type of {kind}"));
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        let labels = labels.map(|(key, value)| (key.clone(), value.as_str().expect("a label").to_owned())).collect();
        let namespace = Some(text("/metadata/namespace")).filter(|name| !name.is_empty());
        let name = text("/metadata/name");
        if kind == "ClusterRoleBinding" {
            let subjects = object["subjects"].as_array().into_iter().flatten();
            let accounts = subjects.filter(|subject| subject["kind"] == "ServiceAccount").map(|subject| {
                let part = |field: &str| subject[field].as_str().unwrap_or_default().to_owned();
                format!("{}/{}", part("namespace"), part("name"))
            });
            self.bindings.push((self.objects.len(), text("/roleRef/name"), accounts.collect()));
        }
        self.objects.push(Object { of, namespace, name, labels });
    }

    /// All objects, as archives name them.
    pub(crate) fn keys(&self) -> BTreeSet<String> {
        self.objects.iter().map(|object| self.key(object)).collect()
    }

    fn key(&self, object: &Object) -> String {
        let parts = [Some(self.types[object.of].id()), object.namespace.clone(), Some(object.name.clone())];
        parts.into_iter().flatten().collect::<Vec<_>>().join("/")
    }

    /// The type that a person means.
    fn resolve(&self, written: &str) -> Option<&Type> {
        let written = written.to_lowercase();
        let (name, group) = written.split_once('.').map_or((written.as_str(), None), |(name, rest)| (name, Some(rest)));
        let is_meant =
            |one: &&Type| one.names.iter().any(|n| n == name) && group.is_none_or(|group| one.group == group);
        self.types.iter().find(is_meant)
    }

    /// Entries of a list of types; those of the other scope are dropped.
    fn types(&self, written: &Value, namespaced: Option<bool>) -> Vec<String> {
        let entries = list(written).into_iter().filter_map(|entry| match self.resolve(&entry) {
            Some(found) if namespaced.is_none_or(|wanted| wanted == found.namespaced) => Some(found.id()),
            Some(_) => None,
            None => Some(entry),
        });
        entries.collect()
    }

    /// The objects that a backup must hold.
    pub(crate) fn expected(&self, spec: &Value, policy: &Value) -> BTreeSet<String> {
        let asked = Asked::new(self, spec, policy);
        let is_namespace = |object: &&Object| self.types[object.of].is_namespaces();
        let mut saved: Vec<&Object> = self.objects.iter().filter(|o| !is_namespace(o) && asked.lists(o)).collect();
        saved.retain(|object| asked.includes(object));

        let accounts: BTreeSet<String> = saved
            .iter()
            .filter(|object| self.types[object.of].id() == "serviceaccounts")
            .map(|object| format!("{}/{}", object.namespace.clone().unwrap_or_default(), object.name))
            .collect();
        let types: BTreeSet<String> = saved.iter().map(|object| self.types[object.of].id()).collect();
        let bound = self.bindings.iter().filter(|(_, _, of)| of.iter().any(|account| accounts.contains(account)));
        // A binding that stays out names no role: without it nothing in the backup refers to the role.
        let bound = bound.map(|(place, role, _)| (&self.objects[*place], role)).filter(|(one, _)| asked.includes(one));
        let role_key = |role: &str| format!("clusterroles.rbac.authorization.k8s.io/{role}");
        let mut comes_along: BTreeSet<String> =
            bound.flat_map(|(binding, role)| [self.key(binding), role_key(role)]).collect();
        comes_along.extend(types.iter().map(|id| format!("customresourcedefinitions.apiextensions.k8s.io/{id}")));
        let along = self.objects.iter().filter(|object| comes_along.contains(&self.key(object)));
        let mut keys: BTreeSet<String> =
            along.filter(|object| asked.includes(object)).map(|object| self.key(object)).collect();

        let used: BTreeSet<&String> = saved.iter().filter_map(|object| object.namespace.as_ref()).collect();
        let spaces = self.objects.iter().filter(is_namespace).filter(|object| asked.collects(&self.types[object.of]));
        let selectors = selectors(spec);
        let spaces = spaces.filter(|space| {
            let is_in = asked.included_namespaces.contains(&space.name);
            let is_selected = !selectors.is_empty() && selects_any(&selectors, &space.labels);
            let by_name = is_in && (selectors.is_empty() || !asked.unrestricted);
            is_selected || by_name || is_in && used.contains(&space.name)
        });
        keys.extend(spaces.filter(|space| asked.includes(space)).map(|object| self.key(object)));
        keys.extend(saved.iter().map(|object| self.key(object)));
        keys
    }
}

impl<'a> Asked<'a> {
    fn new(world: &'a World, spec: &'a Value, policy: &'a Value) -> Self {
        let namespaces: Vec<&Object> =
            world.objects.iter().filter(|object| world.types[object.of].is_namespaces()).collect();
        let is_labelled = |space: &Object| space.labels.get(EXCLUDED).is_some_and(|value| value == "true");
        let (includes, excludes) = (list(&spec["includedNamespaces"]), list(&spec["excludedNamespaces"]));
        let is_all = includes.is_empty() || includes == ["*"];
        let is_in = |name: &str| (is_all || any(&includes, name)) && !any(&excludes, name);
        let included = namespaces.iter().filter(|space| is_in(&space.name) && !is_labelled(space));
        let both = |parts: [&str; 2], namespaced| parts.map(|part| world.types(&spec[part], namespaced));
        let mut asked = Self {
            world,
            spec,
            policy,
            old: both(["includedResources", "excludedResources"], None),
            namespaced: both(["includedNamespaceScopedResources", "excludedNamespaceScopedResources"], Some(true)),
            cluster: both(["includedClusterScopedResources", "excludedClusterScopedResources"], Some(false)),
            is_old: ["includedResources", "excludedResources", "includeClusterResources"]
                .iter()
                .any(|field| !spec[field].is_null()),
            included_namespaces: included.map(|space| space.name.clone()).collect(),
            unrestricted: is_all && excludes.is_empty(),
        };
        let more = &policy["includeExcludePolicy"];
        for (lists, scope, namespaced) in
            [(&mut asked.namespaced, "Namespace", true), (&mut asked.cluster, "Cluster", false)]
        {
            // What the lists of the spec name already stays as they have it.
            for (place, part) in [(1, "excluded"), (0, "included")] {
                for entry in world.types(&more[format!("{part}{scope}ScopedResources")], Some(namespaced)) {
                    if !any(&lists[0], &entry) && !any(&lists[1], &entry) {
                        lists[place].push(entry);
                    }
                }
            }
        }
        asked
    }

    /// Returns true if the objects of a type are listed.
    fn collects(&self, of: &Type) -> bool {
        let id = of.id();
        let is_in = |[includes, excludes]: &[Vec<String>; 2]| {
            (includes.is_empty() || any(includes, &id)) && !any(excludes, &id)
        };
        if self.is_old {
            let cluster = &self.spec["includeClusterResources"];
            let here =
                of.namespaced || *cluster == true || cluster.is_null() && (self.unrestricted || of.is_namespaces());
            return here && is_in(&self.old);
        }
        if of.namespaced {
            return is_in(&self.namespaced);
        }
        let [includes, excludes] = &self.cluster;
        // As the documentation of Velero has it: a backup without filters is one of the whole cluster.
        let [of_namespaces, not_of_namespaces] = &self.namespaced;
        let unfiltered = self.unrestricted
            && includes.is_empty()
            && excludes.is_empty()
            && not_of_namespaces.is_empty()
            && of_namespaces.iter().all(|entry| entry == "*");
        !any(excludes, &id) && (unfiltered || any(includes, &id) || of.is_namespaces())
    }

    /// Returns true if objects of a type stay out even when others need them.
    fn bars(&self, of: &Type) -> bool {
        let id = of.id();
        if !self.is_old {
            return any(if of.namespaced { &self.namespaced[1] } else { &self.cluster[1] }, &id);
        }
        let [includes, excludes] = &self.old;
        let cluster = &self.spec["includeClusterResources"];
        let is_out = *cluster == false || cluster.is_null() && !includes.is_empty() && !any(includes, &id);
        any(excludes, &id) || !of.namespaced && is_out
    }

    /// The filter of the policies for an object: `None` when the spec holds, `Some(None)` when its type is left out.
    fn filter(&self, object: &Object) -> Option<Option<&Value>> {
        let of = &self.world.types[object.of];
        let names_type = |filter: &&Value| {
            list(&filter["kinds"]).iter().any(|kind| self.world.resolve(kind).is_some_and(|t| t.id() == of.id()))
        };
        let Some(namespace) = &object.namespace else {
            let filters = self.policy["clusterScopedFilterPolicy"]["resourceFilters"].as_array();
            return filters.into_iter().flatten().find(names_type).map(Some);
        };
        let policies = self.policy["namespacedFilterPolicies"].as_array()?;
        let by_name = policies.iter().find(|policy| list(&policy["namespaces"]).contains(namespace));
        let policy = by_name.or_else(|| policies.iter().find(|policy| any(&list(&policy["namespaces"]), namespace)))?;
        let filters = policy["resourceFilters"].as_array().expect("filters");
        let is_for_others = |filter: &&Value| list(&filter["kinds"]).iter().all(|kind| kind == "*");
        Some(filters.iter().find(names_type).or_else(|| filters.iter().find(is_for_others)))
    }

    /// Returns true if the lists bring an object.
    fn lists(&self, object: &Object) -> bool {
        self.collects(&self.world.types[object.of])
            && match self.filter(object) {
                Some(Some(filter)) => selects_any(&selectors(filter), &object.labels),
                Some(None) => false,
                None => selects_any(&selectors(self.spec), &object.labels),
            }
    }

    /// Returns true if an object goes into the backup once a list or another object has brought it.
    fn includes(&self, object: &Object) -> bool {
        let of = &self.world.types[object.of];
        let here = match &object.namespace {
            Some(namespace) => self.included_namespaces.contains(namespace) && self.collects(of),
            None => of.is_namespaces() || !self.bars(of),
        };
        let is_named = self.filter(object).flatten().is_none_or(|filter| {
            let (names, not) = (list(&filter["names"]), list(&filter["excludedNames"]));
            (names.is_empty() || any(&names, &object.name)) && !any(&not, &object.name)
        });
        here && is_named && object.labels.get(EXCLUDED).is_none_or(|value| value != "true")
    }
}
