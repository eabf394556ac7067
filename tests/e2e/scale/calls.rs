//! The number of requests that a backup and a restore make: some for each type and page, and one for each object that
//! is made.

use crate::faults::{Case, Ground, config_maps, namespace};
use crate::support::ok;
use lifeboat_testbed::Seen;
use serde_json::{Value, json};

/// Objects in the two namespaces, and the most that a page has.
const FEW: usize = 300;
const MANY: usize = 1300;
const PAGE: usize = 500;
/// Most requests that more objects may cost besides those that make them.
const PAGES: usize = (MANY - FEW).div_ceil(PAGE) + 1;

/// Runs a command that must succeed and gives the requests it made to the API server.
fn requests(case: &Case<'_>, args: &[&str]) -> Vec<Seen> {
    drop(case.api.take_seen());
    let run = case.local(args);
    assert_eq!(run.code, 0, "{run:?}");
    case.api.take_seen()
}

fn writes(seen: &[Seen]) -> usize {
    seen.iter().filter(|request| request.method != "GET" && request.status < 300).count()
}

#[test]
fn requests_grow_with_pages_and_with_objects_that_are_made() {
    let mut objects = vec![namespace("few"), namespace("many")];
    objects.extend(config_maps("few", FEW).chain(config_maps("many", MANY)));
    let ground = Ground::start(objects);
    let case = ground.case("calls");
    let backup = |namespace: &'static str| requests(&case, &["backup", namespace, "--include-namespaces", namespace]);
    let (few, many) = (backup("few"), backup("many"));
    assert_eq!((writes(&few), writes(&many)), (0, 0), "a backup only reads");
    let more = many.len() - few.len();
    assert!(more <= PAGES, "{more} more requests for {} more objects", MANY - FEW);

    let restore = |name: &str, from: &str, to: &str| {
        let mapping = format!("{from}:{to}");
        requests(&case, &["restore", name, "--from-backup", from, "--namespace-mappings", &mapping])
    };
    let (few, many) = (restore("r1", "few", "few2"), restore("r2", "many", "many2"));
    assert_eq!(writes(&many) - writes(&few), MANY - FEW, "one write for each object");
    let more = many.len() - few.len();
    assert!(more <= MANY - FEW + PAGES, "{more} more requests for {} more objects", MANY - FEW);

    // Over themselves: nothing is written, and nothing is asked object by object.
    let again = |name: &str, from: &str| requests(&case, &["restore", name, "--from-backup", from]);
    let (few, many) = (again("r3", "few"), again("r4", "many"));
    assert_eq!((writes(&few), writes(&many)), (0, 0), "unchanged objects are not written");
    let more = many.len() - few.len();
    assert!(more <= PAGES, "{more} more requests for {} more unchanged objects", MANY - FEW);
}

/// Secrets are restored before config maps.
#[test]
fn later_objects_are_listed_again_once_something_is_written() {
    let count = 60;
    let secret =
        |n| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("s-{n}"), "namespace": "shop"}});
    let objects = [namespace("shop")].into_iter().chain(config_maps("shop", count)).chain((0..count).map(secret));
    let ground = Ground::start(objects.collect());
    let case = ground.case("seen");
    drop(requests(&case, &["backup", "b", "--include-namespaces", "shop"]));
    let lists = |name: &str| {
        let seen = requests(&case, &["restore", name, "--from-backup", "b"]);
        let of = |what: &str| {
            let begin = format!("/api/v1/namespaces/shop/{what}?");
            let begins = |seen: &&Seen| seen.path.starts_with(&begin) && !seen.path.contains("continue=");
            seen.iter().filter(|seen| seen.method == "GET").filter(begins).count()
        };
        (of("secrets"), of("configmaps"), writes(&seen))
    };
    assert_eq!(lists("unchanged"), (1, 1, 0));
    ok(&ground.kubectl(), &["delete", "secret", "s-7", "--namespace=shop"]);
    assert_eq!(lists("changed"), (1, 2, 1));
}

#[test]
fn a_list_that_is_far_longer_than_the_backup_is_not_read_to_its_end() {
    let (saved, there) = (60, 2100);
    let mut maps: Vec<Value> = config_maps("shop", there).collect();
    for map in &mut maps[..saved] {
        map["metadata"]["labels"] = json!({"save": "me"});
    }
    let ground = Ground::start([namespace("shop")].into_iter().chain(maps).collect());
    let case = ground.case("far");
    drop(requests(&case, &["backup", "b", "--selector", "save=me"]));
    let seen = requests(&case, &["restore", "r", "--from-backup", "b"]);
    let pages = seen.iter().filter(|seen| seen.path.starts_with("/api/v1/namespaces/shop/configmaps?limit=")).count();
    // A first page of 50, and one of 500, are not yet ten times what is in the backup; the third one is. The next one
    // may have been requested by then, of six that there are.
    assert!((3..=4).contains(&pages), "{pages} pages");
    assert_eq!(writes(&seen), 0);
    let tried = seen.iter().filter(|seen| seen.method == "POST" && seen.path.contains("/configmaps?")).count();
    assert_eq!(tried, saved);
}
