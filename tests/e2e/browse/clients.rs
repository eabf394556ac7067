//! Programs of others that look into a backup.

use super::Browsing;
use super::velero::{OfType, archived, bucket};
use crate::shop;
use crate::support::{Bed, comes_to_be, run};
use lifeboat_testbed::{Terminal, dashboard, informers};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;

/// The counts of objects that informers of all types held, after lists and then watches, or after watches that begin
/// with the present objects.
fn held(browsing: &Browsing, by_watches_alone: bool) -> Value {
    let mut program = Command::new(informers().expect("the program"));
    program.env("KUBECONFIG", browsing.kubeconfig());
    let run = run(program.env("KUBE_FEATURE_WatchListClient", by_watches_alone.to_string()));
    assert_eq!(run.code, 0, "{run:?}");
    serde_json::from_str(&run.out).expect("JSON")
}

#[test]
fn the_informers_of_a_controller_hold_what_the_archive_holds() {
    let bucket = bucket();
    for name in ["cluster-false", "one-ns"] {
        let types = archived(name);
        let expected: BTreeMap<&str, usize> = types.iter().map(|(name, of)| (name.as_str(), of.count())).collect();
        let browsing = Browsing::of(name, bucket.path());
        for by_watches_alone in [false, true] {
            let found = held(&browsing, by_watches_alone);
            let counts = |which: &str| found[which].as_object().expect("counts").clone();
            let (dynamic, typed) = (counts("dynamic"), counts("typed"));
            let full: BTreeMap<&str, usize> =
                dynamic.iter().filter(|(_, n)| **n != 0).map(|(k, n)| (k.as_str(), number(n))).collect();
            assert_eq!(full, expected, "{name}: {found}");
            let wrong: Vec<&String> = typed
                .iter()
                .filter(|(k, n)| number(n) != types.get(*k).map_or(0, OfType::count))
                .map(|(k, _)| k)
                .collect();
            assert_eq!(wrong, [""; 0], "{name}: {found}");
            assert!(typed["pods"] != 0, "{name}: {found}");
            // Nothing is asked for twice.
            let all = dynamic.len() + typed.len();
            let lists = if by_watches_alone { 0 } else { all };
            let requests = json!([found["lists"], found["watches"], found["errors"]]);
            assert_eq!(requests, json!([lists, all, []]), "{name}, by watches alone: {by_watches_alone}");
        }
    }
}

fn number(value: &Value) -> usize {
    value.as_u64().and_then(|n| n.try_into().ok()).expect("a number")
}

#[test]
#[ignore = "it builds a dashboard: make test-long"]
fn long_a_dashboard_lists_the_pods_of_a_backup() {
    let bed = Bed::start();
    shop::backed_up(&bed);
    let pods = ["get", "pods", "--namespace=warehouse", "--no-headers"];
    let live = bed.kubectl(&pods);
    // Name, how many are ready, and status.
    let rows: Vec<Vec<&str>> = live.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    assert_eq!(rows.len(), 9, "{live}");
    shop::lose(&bed.plane.kubectl());

    let browsing = Browsing::of("all", &bed.bucket());
    let home = tempfile::tempdir().expect("a folder");
    let kubeconfig = browsing.kubeconfig().display().to_string();
    let args = ["--kubeconfig", &kubeconfig, "--namespaces", "warehouse"];
    let terminal = Terminal::start(&dashboard().expect("a dashboard"), &args, home.path()).expect("a terminal");
    let mut shown = String::new();
    let all_are_shown = |shown: &str| {
        let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        rows.iter().all(|row| lines.iter().any(|line| line.windows(row.len()).any(|words| words == &row[..])))
    };
    let came = comes_to_be(|| {
        shown = terminal.shown().expect("a terminal");
        all_are_shown(&shown)
    });
    assert!(came, "{shown}\ndoes not show\n{live}");
}
