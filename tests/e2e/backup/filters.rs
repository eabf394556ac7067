//! Random filters: what a preview counts, what the archive holds, and what a naive reading of the spec and its policies
//! expects are the same objects.

use crate::backup::filters_expected::World;
use crate::faults::{archived, in_parallel, namespace};
use crate::many;
use crate::random::splitmix;
use crate::support::{Bed, eventually, local, until_types_are_served};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Default seed of all random draws; `LIFEBOAT_SEED` sets another one.
const SEED: u64 = 20_261_123;
const COMBINATIONS: usize = 200;
const THREADS: usize = 4;

const NAMESPACES: [&str; 12] =
    ["shop", "shop-eu", "shop-us", "lab-1", "lab-2", "lab-3", "bank", "bank-old", "dev", "dev-a", "spare", "hidden"];
/// Names and patterns of namespaces for lists.
const SPACES: [&str; 15] = [
    "shop",
    "shop-eu",
    "lab-1",
    "bank",
    "dev",
    "default",
    "shop*",
    "lab-?",
    "lab-[13]",
    "lab-[1-2]",
    "*-old",
    "*a*",
    "dev*",
    "kube-*",
    "none-*",
];
/// Names of types of either scope, as people write them, and patterns.
const NAMESPACED: [&str; 13] = [
    "configmaps",
    "cm",
    "secrets",
    "serviceaccounts",
    "sa",
    "roles.rbac.authorization.k8s.io",
    "role",
    "rolebindings",
    "Widget",
    "widgets.example.com",
    "*.example.com",
    "[cs]*s",
    "unheard.example.org",
];
const CLUSTER: [&str; 10] = [
    "clusterroles",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "crd",
    "customresourcedefinitions",
    "ns",
    "namespaces",
    "pc",
    "priorityclasses.scheduling.k8s.io",
    "*.rbac.authorization.k8s.io",
    "apiservices",
];
/// Types for filters of policies, each with its names: no two filters of a policy may name one type.
const NAMESPACED_KINDS: [[&str; 3]; 5] = [
    ["ConfigMap", "configmaps", "cm"],
    ["Secret", "secrets", "secret"],
    ["ServiceAccount", "serviceaccounts", "sa"],
    ["Role", "roles", "roles.rbac.authorization.k8s.io"],
    ["Widget", "widgets.example.com", "wd"],
];
const CLUSTER_KINDS: [[&str; 3]; 4] = [
    ["ClusterRole", "clusterroles", "clusterroles.rbac.authorization.k8s.io"],
    ["ClusterRoleBinding", "clusterrolebindings", "clusterrolebinding"],
    ["CustomResourceDefinition", "crd", "crds"],
    ["Namespace", "namespaces", "ns"],
];
const NAMES: [&str; 8] = ["*1", "*[0-4]", "c-*", "s-1?", "*", "[!c]*", "w-2", "system:*"];
const LABELS: [(&str, [&str; 3]); 3] =
    [("app", ["web", "db", "job"]), ("tier", ["gold", "silver", "iron"]), ("team", ["red", "blue", "green"])];

/// Draws by chance; the same seed draws the same.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        usize::try_from(splitmix(self.0) % (bound as u64)).expect("a small number")
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    /// So many different ones at the most, at least one.
    fn some<T: Clone + Ord>(&mut self, all: &[T], most: usize) -> Vec<T> {
        let count = 1 + self.below(most);
        let picked: BTreeSet<T> = (0..count).map(|_| self.pick(all)).collect();
        picked.into_iter().collect()
    }

    /// Two lists that have nothing in common; each may be empty.
    fn two_lists(&mut self, all: &[&str], most: usize) -> [Vec<String>; 2] {
        let mut lists = [Vec::new(), Vec::new()];
        for list in &mut lists {
            if self.one_in(2) {
                *list = self.some(all, most).into_iter().map(str::to_owned).collect();
            }
        }
        let [first, second] = &mut lists;
        second.retain(|name| !first.contains(name));
        lists
    }

    fn labels(&mut self) -> Map<String, Value> {
        let mut labels = Map::new();
        for (key, values) in LABELS {
            if self.one_in(2) {
                labels.insert(key.to_owned(), json!(self.pick(&values)));
            }
        }
        if self.one_in(40) {
            labels.insert("velero.io/exclude-from-backup".to_owned(), json!(self.pick(&["true", "true", "false"])));
        }
        labels
    }

    fn selector(&mut self) -> Value {
        let (key, values) = self.pick(&LABELS);
        if self.one_in(2) {
            return json!({"matchLabels": {key: self.pick(&values)}});
        }
        let operator = self.pick(&["In", "NotIn", "Exists", "DoesNotExist"]);
        let mut expression = json!({"key": key, "operator": operator});
        if operator.ends_with("In") {
            expression["values"] = json!(self.some(&values, 2));
        }
        json!({"matchExpressions": [expression]})
    }

    /// Puts no selector, one, or several into a spec or a filter.
    fn select(&mut self, of: &mut Value) {
        match self.below(4) {
            0 => of["labelSelector"] = self.selector(),
            1 => of["orLabelSelectors"] = json!([self.selector(), self.selector()]),
            _ => {}
        }
    }

    fn spec(&mut self) -> Value {
        let mut spec = json!({});
        let [included, excluded] = self.two_lists(&SPACES, 3);
        put(&mut spec, "includedNamespaces", &if self.one_in(8) { vec!["*".to_owned()] } else { included });
        put(&mut spec, "excludedNamespaces", &excluded);
        let both: Vec<&str> = NAMESPACED.iter().chain(&CLUSTER).copied().collect();
        match self.below(5) {
            0 | 1 => {
                let [included, excluded] = self.two_lists(&both, 6);
                put(&mut spec, "includedResources", &if self.one_in(8) { vec!["*".to_owned()] } else { included });
                put(&mut spec, "excludedResources", &excluded);
                if let Some(wanted) = self.pick(&[None, Some(true), Some(false)]) {
                    spec["includeClusterResources"] = json!(wanted);
                }
            }
            2 | 3 => {
                for (scope, names) in [("Namespace", &NAMESPACED[..]), ("Cluster", &CLUSTER)] {
                    // One of the other scope is dropped.
                    let names = if self.one_in(10) { &both } else { names };
                    let mut lists = self.two_lists(names, 4);
                    match self.below(12) {
                        0 => lists[0] = vec!["*".to_owned()],
                        1 => lists = [Vec::new(), vec!["*".to_owned()]],
                        _ => {}
                    }
                    put(&mut spec, &format!("included{scope}ScopedResources"), &lists[0]);
                    put(&mut spec, &format!("excluded{scope}ScopedResources"), &lists[1]);
                }
            }
            _ => {}
        }
        self.select(&mut spec);
        spec
    }

    /// Filters, each for types of its own.
    fn filters(&mut self, kinds: &[[&'static str; 3]], may_be_for_others: bool) -> Vec<Value> {
        let mut filters = Vec::new();
        for names in self.some(kinds, 3) {
            let mut filter = json!({"kinds": [self.pick(&names)]});
            self.select(&mut filter);
            for part in ["names", "excludedNames"] {
                if self.one_in(4) {
                    filter[part] = json!(self.some(&NAMES, 2));
                }
            }
            filters.push(filter);
        }
        if may_be_for_others && self.one_in(3) {
            let mut filter = self.pick(&[json!({"kinds": ["*"]}), json!({})]);
            self.select(&mut filter);
            filters.push(filter);
        }
        filters
    }

    /// Policies for a spec; null for none.
    fn policy(&mut self, spec: &Value) -> Value {
        let mut policy = json!({"version": "v1"});
        // Beside old filters those of a policy are refused.
        let is_old = ["includedResources", "excludedResources", "includeClusterResources"]
            .iter()
            .any(|field| !spec[field].is_null());
        if is_old {
            return Value::Null;
        }
        if self.one_in(3) {
            let mut lists = json!({});
            for (scope, names) in [("Namespace", &NAMESPACED[..]), ("Cluster", &CLUSTER)] {
                let [included, excluded] = self.two_lists(names, 3);
                put(&mut lists, &format!("included{scope}ScopedResources"), &included);
                put(&mut lists, &format!("excluded{scope}ScopedResources"), &excluded);
            }
            policy["includeExcludePolicy"] = lists;
        }
        if self.one_in(3) {
            policy["clusterScopedFilterPolicy"] = json!({"resourceFilters": self.filters(&CLUSTER_KINDS, false)});
        }
        if self.one_in(2) {
            let mut spaces: Vec<&str> = SPACES.to_vec();
            spaces.push("*");
            let mut policies = Vec::new();
            for _ in 0..=self.below(3) {
                let wanted = self.some(&spaces, 2);
                spaces.retain(|space| !wanted.contains(space));
                policies.push(json!({"namespaces": wanted, "resourceFilters": self.filters(&NAMESPACED_KINDS, true)}));
            }
            policy["namespacedFilterPolicies"] = json!(policies);
        }
        if policy.as_object().is_some_and(|parts| parts.len() > 1) { policy } else { Value::Null }
    }
}

/// Puts a list into a spec, unless it is empty.
fn put(spec: &mut Value, field: &str, list: &[String]) {
    if !list.is_empty() {
        spec[field] = json!(list);
    }
}

fn widgets() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com", "labels": {"app": "web"}},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets",
            "singular": "widget", "listKind": "WidgetList", "shortNames": ["wd"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

/// Two thousand objects besides the namespaces and what every cluster has.
fn objects(dice: &mut Dice) -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io/v1";
    let mut out = Vec::new();
    for space in NAMESPACES {
        for (version, kind, prefix, count) in [
            ("v1", "ConfigMap", "c", 60),
            ("v1", "Secret", "s", 30),
            ("v1", "ServiceAccount", "a", 10),
            (rbac, "Role", "r", 20),
            ("example.com/v1", "Widget", "w", 39),
        ] {
            out.extend((0..count).map(|n| {
                json!({"apiVersion": version, "kind": kind,
                    "metadata": {"name": format!("{prefix}-{n}"), "namespace": space, "labels": dice.labels()}})
            }));
        }
    }
    for n in 0..46 {
        let name = format!("c-{n}");
        let role =
            json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": name, "labels": dice.labels()}});
        let account = json!({"kind": "ServiceAccount", "name": format!("a-{}", dice.below(10)), "namespace": dice.pick(&NAMESPACES)});
        let user = json!({"kind": "User", "name": "a-1", "apiGroup": "rbac.authorization.k8s.io"});
        let binding = json!({"apiVersion": rbac, "kind": "ClusterRoleBinding",
            "metadata": {"name": name, "labels": dice.labels()}, "subjects": [account, user],
            "roleRef": {"kind": "ClusterRole", "name": format!("c-{}", dice.below(46)), "apiGroup": "rbac.authorization.k8s.io"}});
        out.extend([role, binding]);
    }
    out
}

fn fill(bed: &Bed, dice: &mut Dice) -> World {
    let kubectl = bed.plane.kubectl();
    kubectl.create(&widgets()).expect("a definition");
    until_types_are_served(&bed.plane, &[]);
    let spaces = NAMESPACES.iter().map(|name| {
        let mut space = namespace(name);
        space["metadata"]["labels"] = json!(dice.labels());
        if *name == "hidden" {
            space["metadata"]["labels"]["velero.io/exclude-from-backup"] = json!("true");
        }
        space
    });
    many::create(&bed.plane.kubeconfig(), spaces.collect());
    many::create(&bed.plane.kubeconfig(), objects(dice));
    let mut world = World::read(&kubectl);
    eventually("a cluster that stays as it is", || {
        let before = world.keys();
        world = World::read(&kubectl);
        before == world.keys() && before.contains("apiservices.apiregistration.k8s.io/v1.example.com")
    });
    world
}

/// A backup with a random spec and random policies.
#[derive(Debug)]
#[allow(dead_code, reason = "all of it is shown when an assertion fails")]
struct Case {
    name: String,
    spec: Value,
    policy: Value,
}

/// The number of objects of each type among these.
fn counted(keys: &BTreeSet<String>) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    for key in keys {
        *out.entry(key.split('/').next().unwrap_or_default().to_owned()).or_default() += 1;
    }
    out
}

fn check(case: &Case, world: &World, kubeconfig: &Path, folder: &Path) {
    let expected = world.expected(&case.spec, &case.policy);
    let file = |kind: &str, text: &Value| {
        let path = folder.join(format!("{}-{kind}.json", case.name));
        std::fs::write(&path, text.to_string()).expect("a file");
        path.display().to_string()
    };
    let (spec, policy) = (file("spec", &case.spec), file("policy", &case.policy));
    let mut args = vec!["backup", &case.name, "--spec", &spec];
    if !case.policy.is_null() {
        args.extend(["--resource-policies", &policy]);
    }
    let plan = local(kubeconfig, folder, &[&args[..], &["--dry-run", "-o", "json"]].concat());
    assert_eq!(plan.code, 0, "{plan:?}");
    let plan: Value = serde_json::from_str(&plan.out).expect("JSON");
    let types = plan["types"].as_array().expect("types").iter();
    let planned: BTreeMap<String, u64> = types
        .map(|one| (one["type"].as_str().expect("a type").to_owned(), one["objects"].as_u64().expect("a number")))
        .collect();
    let run = local(kubeconfig, folder, &args);
    assert_eq!(run.code, 0, "{run:?}");
    let entries = archived(&folder.join(format!("bucket/backups/{0}/{0}.tar.gz", case.name)));
    let found: BTreeSet<String> = entries.iter().cloned().collect();
    assert_eq!(found.len(), entries.len(), "an object is there twice");
    let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| -> Vec<String> {
        one.difference(other).take(5).cloned().collect()
    };
    let none = Vec::<String>::new();
    assert_eq!((only(&found, &expected), only(&expected, &found)), (none.clone(), none), "only saved, only expected");
    assert_eq!(planned, counted(&found));
}

#[test]
#[allow(clippy::print_stdout, reason = "who repeats the run needs it")]
fn random_filters_let_in_what_a_naive_reading_lets_in() {
    let bed = Bed::start();
    let seed = std::env::var("LIFEBOAT_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(SEED);
    println!("seed {seed}");
    let mut dice = Dice(splitmix(seed));
    let world = fill(&bed, &mut dice);
    let cases: Vec<Case> = (0..COMBINATIONS)
        .map(|number| {
            let spec = dice.spec();
            Case { name: format!("b{number}"), policy: dice.policy(&spec), spec }
        })
        .collect();
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = bed.plane.kubeconfig();
    in_parallel(THREADS, &cases, |case| check(case, &world, &kubeconfig, folder.path()));
    let kept = world.keys().len();
    let saved = cases.iter().map(|case| world.expected(&case.spec, &case.policy).len());
    let kinds_of_results: BTreeSet<usize> = saved.collect();
    assert!(kinds_of_results.len() > COMBINATIONS / 4, "most filters differ in what they let in of {kept} objects");
    let after = World::read(&bed.plane.kubectl());
    assert_eq!(after.keys(), world.keys(), "the cluster stayed as it was");
}
