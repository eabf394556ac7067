//! kubectl prints of a backup what it printed of the cluster just before.
//!
//! Accepted differences, and the reasons for them:
//! - ages: time goes on;
//! - events below an object that is described: controllers tell of things at any time;
//! - flow schemas: where a table of them is asked for, a cluster puts those of a page into the order of their
//!   precedence;
//! - what `explain` says of the fields that all objects have: the words are our own, and what managed fields hold has
//!   no name;
//! - leases of the control plane, which are renewed every few seconds: only that of the shop is looked at;
//! - the verbs of types: a backup can be read and not changed;
//! - types of which the backup holds nothing: it serves those of Kubernetes, whichever the cluster served.

use super::printed::{Form, differences, lines, tables};
use super::{Browsing, raw};
use crate::shop;
use crate::snapshot;
use crate::support::{Bed, eventually};
use lifeboat_testbed::Kubectl;
use std::collections::BTreeSet;

/// The commands that are compared. `ALL` stands for all types but events and leases, `NAMESPACED` for those of them
/// with namespaces, `CLUSTER` for those without, and `~` for a blank.
const QUESTIONS: [(Form, &str); 27] = [
    (Form::Tables, "get ALL --all-namespaces"),
    (Form::Tables, "get ALL --all-namespaces --output=wide"),
    (Form::Tables, "get ALL --all-namespaces --show-labels --label-columns=app,team"),
    (Form::Tables, "get ALL --namespace=storefront"),
    (Form::Tables, "get all --all-namespaces --output=wide"),
    (Form::Tables, "get pods --all-namespaces --sort-by=.metadata.uid"),
    (Form::Tables, "get ALL --all-namespaces --chunk-size=3"),
    (Form::Tables, "get ALL --all-namespaces --selector=app.kubernetes.io/part-of=teahouse"),
    (Form::Tables, "get NAMESPACED --all-namespaces --selector=app~in~(web,till),!tier --output=wide"),
    (Form::Tables, "get ALL --all-namespaces --field-selector=metadata.name=web"),
    (Form::Tables, "get pods --all-namespaces --field-selector=status.phase!=Pending"),
    (Form::Tables, "get leases,ctl,po --namespace=warehouse --output=wide"),
    (Form::Text, "get ALL --all-namespaces --output=name"),
    // In the storefront is a ConfigMap with characters that kubectl cannot write as YAML.
    (Form::Text, "get ALL --namespace=warehouse --output=yaml"),
    (Form::Text, "get NAMESPACED --namespace=storefront --selector=app --output=yaml"),
    (
        Form::Text,
        "get ALL --all-namespaces --output=jsonpath={range~.items[*]}{.kind}~{.metadata.namespace}/{.metadata.name}~{.metadata.uid}{\"\\n\"}{end}",
    ),
    (
        Form::Text,
        "get ALL --all-namespaces --output=custom-columns=KIND:.kind,OF:.metadata.namespace,NAME:.metadata.name,LABELS:.metadata.labels,STATUS:.status.conditions[*].type",
    ),
    (Form::Text, "get leases/ledger-leader deployments/ledger --namespace=warehouse --output=yaml"),
    (Form::Described, "describe NAMESPACED --namespace=storefront"),
    (Form::Described, "describe NAMESPACED,leases --namespace=warehouse"),
    (Form::Described, "describe NAMESPACED --namespace=platform"),
    (Form::Described, "describe CLUSTER --selector=app.kubernetes.io/part-of=teahouse"),
    (Form::Described, "describe namespaces"),
    (Form::Text, "rollout history deployments --namespace=storefront"),
    (Form::Explained, "explain catalogs --recursive"),
    (Form::Explained, "explain catalogs.spec.teas"),
    (Form::Explained, "explain regions.spec"),
];

/// Everything that can be seen of the same objects.
const STATE: &str = "get ALL --all-namespaces --output=json --show-managed-fields";

/// The types that the questions are about.
struct Asked {
    namespaced: Vec<String>,
    cluster: Vec<String>,
}

impl Asked {
    /// The types whose objects can be made.
    fn of(kubectl: &Kubectl) -> Self {
        let types = |namespaced: &str| {
            let flag = format!("--namespaced={namespaced}");
            let args = ["api-resources", "--verbs=list,create,get,delete", "--output=name", &flag];
            let text = kubectl.printed(&args).expect("types");
            let is_steady = |name: &&str| !name.starts_with("events") && !name.starts_with("leases.");
            text.lines().filter(is_steady).map(str::to_owned).collect()
        };
        Self { namespaced: types("true"), cluster: types("false") }
    }

    fn words(&self, question: &str) -> Vec<String> {
        let (namespaced, cluster) = (self.namespaced.join(","), self.cluster.join(","));
        let all = format!("{namespaced},{cluster}");
        let word = |word: &str| {
            let whole = word.replace('~', " ");
            match word.split(',').next().unwrap_or_default() {
                "ALL" => whole.replacen("ALL", &all, 1),
                "NAMESPACED" => whole.replacen("NAMESPACED", &namespaced, 1),
                "CLUSTER" => whole.replacen("CLUSTER", &cluster, 1),
                _ => whole,
            }
        };
        question.split(' ').map(word).collect()
    }

    /// The answers to all questions.
    fn answers(&self, kubectl: &Kubectl) -> Vec<Vec<String>> {
        QUESTIONS.iter().map(|(form, question)| self.answer(kubectl, *form, question)).collect()
    }

    fn state(&self, kubectl: &Kubectl) -> Vec<String> {
        self.answer(kubectl, Form::Text, STATE)
    }

    /// kubectl fails, and prints what there is, where an aggregated API is down.
    fn answer(&self, kubectl: &Kubectl, form: Form, question: &str) -> Vec<String> {
        let words = self.words(question);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let text = kubectl.printed(&words).expect("an answer");
        assert!(!text.trim().is_empty(), "{question}");
        lines(form, &text)
    }
}

/// Where two lots of answers differ.
fn all_differences(one: &[Vec<String>], other: &[Vec<String>]) -> Vec<String> {
    let of = |(at, (_, question)): (usize, &(Form, &str))| differences(question, &one[at], &other[at]);
    QUESTIONS.iter().enumerate().flat_map(of).collect()
}

/// Number of attempts to back the cluster up while nothing changes.
const ATTEMPTS: usize = 5;

/// The answers of a cluster at one moment, and its backup of that moment.
struct Seen {
    backup: String,
    state: Vec<String>,
    answers: Vec<Vec<String>>,
}

/// Looks at the cluster and backs it up while nothing changes in it.
fn backed_up(bed: &Bed, asked: &Asked) -> Seen {
    let kubectl = bed.plane.kubectl();
    let mut changed = Vec::new();
    for attempt in 1..=ATTEMPTS {
        let backup = format!("all-{attempt}");
        let state = asked.state(&kubectl);
        let answers = asked.answers(&kubectl);
        let run = bed.local(&["backup", &backup]);
        assert_eq!(run.code, 0, "{run:?}");
        changed = differences(STATE, &state, &asked.state(&kubectl));
        if changed.is_empty() {
            return Seen { backup, state, answers };
        }
    }
    panic!("the cluster does not come to rest: {changed:#?}");
}

/// The output of `api-resources` about these types, without the verbs.
fn told_of(kubectl: &Kubectl, types: &BTreeSet<String>) -> Vec<Vec<String>> {
    let text = kubectl.printed(&["api-resources", "--output=wide"]).expect("types");
    let table = tables(&text).remove(0);
    let at = |name: &str| table.columns.iter().position(|column| column == name).expect("a column");
    let (name, version, verbs) = (at("NAME"), at("APIVERSION"), at("VERBS"));
    let is_asked_for = |row: &&Vec<String>| {
        let group = row[version].split_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
        types.contains(&format!("{}{group}", row[name]))
    };
    let without_verbs = |row: &Vec<String>| {
        let cells = row.iter().enumerate().filter(|(at, _)| *at != verbs);
        cells.map(|(_, cell)| cell.clone()).collect()
    };
    table.rows.iter().filter(is_asked_for).map(without_verbs).collect()
}

#[test]
fn kubectl_prints_of_a_backup_what_it_printed_of_the_cluster() {
    let bed = Bed::start();
    shop::open(&bed);
    let live = bed.plane.kubectl();
    // The schemas of custom types are there a little after the types.
    eventually("schemas", || ["catalogs", "regions"].iter().all(|name| live.try_run(&["explain", name]).is_ok()));
    let asked = Asked::of(&live);
    let Seen { backup, state, answers } = backed_up(&bed, &asked);
    let of_interest = |name: &&String| !name.starts_with("Event.") && !name.starts_with("Lease.");
    let snapshot = snapshot::of(&live);
    let kinds: BTreeSet<&str> = snapshot.keys().filter(of_interest).filter_map(|name| name.split(' ').next()).collect();
    let headings = answers[0].iter().filter(|line| line.starts_with("NAMESPACE | ") || line.starts_with("NAME | "));
    assert_eq!(headings.count(), kinds.len(), "each type was asked for: {kinds:?}");

    let browsing = Browsing::of(&backup, &bed.bucket());
    let kubectl = browsing.kubectl();
    assert_eq!(differences(STATE, &state, &asked.state(&kubectl)), [""; 0], "the cluster's, and the backup's");
    assert_eq!(all_differences(&answers, &asked.answers(&kubectl)), [""; 0], "the cluster's, and the backup's");

    let contents = bed.local(&["contents", &backup]);
    let held: BTreeSet<String> =
        contents.out.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    let told = told_of(&live, &held);
    assert_eq!(told.len(), held.len(), "{told:?} of {held:?}");
    assert_eq!(told_of(&kubectl, &held), told);
    assert_eq!(raw::differences(&live, &kubectl), [""; 0], "the cluster's, and the backup's");
}
