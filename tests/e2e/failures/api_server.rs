//! The effect on each command of an API server that refuses, is silent, forgets, or breaks off: a table of faults.

use crate::faults::{Case, Ground, applied, config_maps, in_parallel, namespace};
use crate::support::{Run, eventually};
use lifeboat_testbed::{Fault, Nth, Rule, Seen};
use serde_json::{Value, json};

/// A command that uses the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    /// Of a bound claim and three ConfigMaps: its volume is read by name.
    Backup,
    /// Of 520 ConfigMaps: their list has two pages, also when it begins anew with larger ones.
    BackupOfPages,
    /// Of three ConfigMaps and one that takes a second write, into a namespace that is made.
    Restore,
    /// The same into a namespace that is there, with another content in one of them; it is updated.
    RestoreOverOther,
    /// Of sixty ConfigMaps, over the same ones: what is there is listed, in two pages.
    RestoreOverPages,
}
use Command::{Backup, BackupOfPages, Restore, RestoreOverOther, RestoreOverPages};

/// The fault that meets the requests of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Breaks {
    /// 429 with Retry-After.
    Throttles,
    /// 500.
    Fails,
    /// No answer.
    Hangs,
    /// They have no effect.
    CutBefore,
    /// They have their effect, and the answer is lost.
    CutAfter,
    /// 410 with a token to go on with.
    Expires,
    /// 410 without one.
    ExpiresForGood,
}
use Breaks::{CutAfter, CutBefore, Expires, ExpiresForGood, Hangs, Throttles};
const FAULTS: [Breaks; 5] = [Throttles, Breaks::Fails, Hangs, CutBefore, CutAfter];
const FAULTS_OF_NEXT_PAGES: [Breaks; 2] = [Expires, ExpiresForGood];

/// The outcome of a command. `NS` in a message stands for the namespace of the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The command makes no such request.
    Unused,
    /// Exit code 0, and all is as if nothing had happened.
    Heals,
    /// The same, but the namespace counts as one that was there: nobody knows that this run made it.
    Unlisted,
    /// Exit code 0, all objects, and this warning.
    Warns(&'static str),
    /// Exit code 3, and this error; the other objects are there.
    Partly(&'static str),
    /// Exit code 1 with this message; nothing was written, no backup is visible. The same command succeeds when the
    /// fault is gone.
    Fails(&'static str),
}
use Outcome::{Fails, Heals, Partly, Unlisted, Unused, Warns};

/// A kind of request of a command, with the outcome of each fault, when it happens once and when it stays.
#[derive(Debug)]
struct Row {
    verb: &'static str,
    command: Command,
    method: &'static str,
    /// `NS` stands for the namespace of the cell.
    path: &'static str,
    /// 429, 500, no answer, cut before the effect, cut after it. Of the next page of a list: 410 with a token, without.
    once: &'static [Outcome],
    stays: &'static [Outcome],
}

/// The part of the `Accept` header that all lists for metadata alone have in common.
const METADATA: &str = "PartialObjectMetadataList";

const HEALS: &[Outcome] = &[Heals; 5];
const UNUSED: &[Outcome] = &[Unused];

/// The reason that each fault gives, as the end of a message.
macro_rules! because {
    ($outcome:ident, $what:literal) => {
        [
            $outcome(concat!($what, ": the server is busy with others")),
            $outcome(concat!($what, ": etcdserver: leader changed")),
            $outcome(concat!($what, ": no answer within 10 s")),
            $outcome(concat!($what, ": the connection broke before the answer")),
            $outcome(concat!($what, ": the connection broke before the answer")),
        ]
    };
}

const CREATE: [Outcome; 5] = {
    // The object is there, and is what it should be.
    let [busy, failed, silent, cut, _] = because!(Partly, "error restoring configmaps/NS/map-0");
    [busy, failed, silent, cut, Heals]
};
const OLD: &str = "cannot list configmaps in namespace pages: The provided continue parameter is too old";
const MIXED: Outcome = Warns("configmaps were read at more than one revision of the cluster");

#[rustfmt::skip]
const ROWS: [Row; 20] = [
    //  verb                 command           method   path                                             once                                     stays
    row("create",             Restore,          "POST",  "/api/v1/namespaces/NS/configmaps*",             HEALS,                                   &CREATE),
    row("version",            Backup,           "GET",   "/version",                                      HEALS,                                   &because!(Fails, "cannot get the server version")),
    row("discover",           Backup,           "GET",   "/apis",                                         HEALS,                                   &because!(Fails, "cannot discover API resources")),
    row("get a namespace",    Backup,           "GET",   "/api/v1/namespaces/kube-system",                HEALS,                                   &because!(Fails, "cannot get namespaces/kube-system")),
    row("list namespaces",    Backup,           "GET",   "/api/v1/namespaces?*",                          HEALS,                                   &because!(Fails, "cannot list namespaces")),
    row("list",               Backup,           "GET",   "/api/v1/namespaces/bound/configmaps?*",         HEALS,                                   &because!(Partly, "cannot list configmaps in namespace bound")),
    row("list, next page",    BackupOfPages,    "GET",   "/api/v1/namespaces/pages/configmaps?*continue=*", &[MIXED, MIXED],                       &[Partly(OLD), Partly(OLD)]),
    row("get",                Backup,           "GET",   "/api/v1/persistentvolumes/volume",              HEALS,                                   &because!(Partly, "cannot get persistentvolumes/volume")),
    row("list metadata",      Backup,           "GET",   METADATA,                                        UNUSED,                                  UNUSED),
    row("create",             Backup,           "POST",  "*",                                             UNUSED,                                  UNUSED),
    row("patch",              Backup,           "PATCH", "*",                                             UNUSED,                                  UNUSED),

    row("discover",           Restore,          "GET",   "/apis",                                         HEALS,                                   &because!(Fails, "cannot discover API resources")),
    row("list",               Restore,          "GET",   "/api/v1/namespaces/velero/configmaps?*",        HEALS,                                   &because!(Fails, "cannot list configmaps in namespace velero")),
    row("create a namespace", Restore,          "POST",  "/api/v1/namespaces?*",                            &[Heals, Heals, Heals, Heals, Unlisted], &because!(Partly, "error creating namespace NS")),
    row("patch",              Restore,          "PATCH", "/api/v1/namespaces/NS/configmaps/applied*",     HEALS,                                   &because!(Partly, "error restoring managedFields of configmaps/NS/applied")),
    row("get a namespace",    RestoreOverOther, "GET",   "/api/v1/namespaces/NS",                         HEALS,                                   &because!(Partly, "error creating namespace NS")),
    row("get",                RestoreOverOther, "GET",   "/api/v1/namespaces/NS/configmaps/map-0",        HEALS,                                   &because!(Partly, "error restoring configmaps/NS/map-0: configmaps \"map-0\" already exists; reading it")),
    row("patch",              RestoreOverOther, "PATCH", "/api/v1/namespaces/NS/configmaps/map-0*",       HEALS,                                   &because!(Warns, "could not update configmaps/NS/map-0 to match the backup")),
    // What exists is a hint: without it every object is just tried.
    row("list metadata",      RestoreOverPages, "GET",   "/api/v1/namespaces/NS/configmaps?*",            HEALS,                                   HEALS),
    row("list metadata, next page", RestoreOverPages, "GET", "/api/v1/namespaces/NS/configmaps?*continue=*", &[Heals, Heals],                        &[Heals, Heals]),
];

#[allow(clippy::too_many_arguments, reason = "a line of the table")]
const fn row(
    verb: &'static str,
    command: Command,
    method: &'static str,
    path: &'static str,
    once: &'static [Outcome],
    stays: &'static [Outcome],
) -> Row {
    Row { verb, command, method, path, once, stays }
}

/// A single cell of the table.
struct Cell {
    number: usize,
    row: &'static Row,
    fault: Breaks,
    stays: bool,
    expected: Outcome,
}

impl std::fmt::Debug for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Row { verb, command, .. } = self.row;
        let when = if self.stays { "stays" } else { "once" };
        write!(f, "{verb} of {command:?}, {:?} {when}, expected {:?}", self.fault, self.expected)
    }
}

fn cells() -> Vec<Cell> {
    let mut out = Vec::new();
    // What stays takes longest: it goes first.
    for stays in [true, false] {
        for row in &ROWS {
            let faults: &[Breaks] = if row.path.contains("continue=") { &FAULTS_OF_NEXT_PAGES } else { &FAULTS };
            for (fault, expected) in faults.iter().zip(if stays { row.stays } else { row.once }) {
                if *expected != Unused || stays {
                    out.push(Cell { number: out.len(), row, fault: *fault, stays, expected: *expected });
                }
            }
        }
    }
    out
}

fn status(code: u16, reason: &str, message: &str, token: &str) -> String {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {"continue": token}, "status": "Failure",
        "message": message, "reason": reason, "code": code})
    .to_string()
}

impl Cell {
    fn name(&self) -> String {
        format!("cell-{}", self.number)
    }

    fn rule(&self, ground: &Ground) -> Rule {
        let answer = |code, headers, body| Fault::Answer { status: code, headers, body };
        let path = self.row.path.replace("NS", &self.name());
        let expired = "The provided continue parameter is too old";
        let fault = match self.fault {
            Throttles => {
                let body = status(429, "TooManyRequests", "the server is busy with others", "");
                answer(429, vec![("retry-after", "1".to_owned())], body)
            }
            Breaks::Fails => answer(500, vec![], status(500, "InternalError", "etcdserver: leader changed", "")),
            Hangs => Fault::Hang,
            CutBefore => Fault::CutBefore,
            CutAfter => Fault::CutAfter,
            Expires => {
                let list = path.split('?').next().unwrap_or_default();
                answer(410, vec![], status(410, "Expired", expired, &token(ground, list)))
            }
            ExpiresForGood => answer(410, vec![], status(410, "Expired", expired, "")),
        };
        Rule::new(self.row.method, &path, if self.stays { Nth::Every } else { Nth::Only(1) }, fault)
    }
}

/// A token that the server takes after the first page of a list.
fn token(ground: &Ground, list: &str) -> String {
    let page = ground.kubectl().try_run(&["get", "--raw", &format!("{list}?limit=50")]).expect("a page");
    let page: Value = serde_json::from_str(&page).expect("JSON");
    page["metadata"]["continue"].as_str().expect("a token").to_owned()
}

/// The folder of the bucket, and the arguments of the command.
fn arguments(cell: &Cell) -> (String, Vec<String>) {
    let name = cell.name();
    let (folder, text) = match cell.row.command {
        Backup => {
            let types = "configmaps,persistentvolumeclaims,persistentvolumes";
            (name.clone(), format!("backup b --include-namespaces bound --include-resources {types}"))
        }
        BackupOfPages => {
            (name.clone(), "backup b --include-namespaces pages --include-resources configmaps".to_owned())
        }
        Restore => ("base".to_owned(), format!("restore {name} --from-backup few --namespace-mappings few:{name}")),
        RestoreOverOther => (
            "base".to_owned(),
            format!(
                "restore {name} --from-backup few --namespace-mappings few:{name} --existing-resource-policy update"
            ),
        ),
        RestoreOverPages => {
            ("base".to_owned(), format!("restore {name} --from-backup sixty --namespace-mappings sixty:{name}"))
        }
    };
    let mut args: Vec<String> = text.split(' ').map(str::to_owned).collect();
    // As short as it may be without failing what is only slow.
    args.push(format!("--request-timeout={}", if cell.stays { "20s" } else { "40s" }));
    (folder, args)
}

/// The objects of the cluster before the commands run.
fn objects(cells: &[Cell]) -> Vec<Value> {
    let mut out: Vec<Value> = ["few", "bound", "sixty", "pages"].map(namespace).into();
    out.push(applied("few"));
    for (namespace, count) in [("few", 3), ("bound", 3), ("sixty", 60), ("pages", 520)] {
        out.extend(config_maps(namespace, count));
    }
    out.push(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "volume"},
        "spec": {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/nowhere"}}}));
    out.push(
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim", "namespace": "bound"},
        "spec": {"volumeName": "volume"}, "status": {"phase": "Bound"}}),
    );
    for cell in cells {
        let name = cell.name();
        match cell.row.command {
            RestoreOverOther => {
                out.push(namespace(&name));
                out.push(json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "map-0", "namespace": name}, "data": {"number": "other"}}));
            }
            RestoreOverPages => {
                out.push(namespace(&name));
                out.extend(config_maps(&name, 60));
            }
            Backup | BackupOfPages | Restore => {}
        }
    }
    out
}

fn check(ground: &Ground, cell: &Cell) {
    let (folder, args) = arguments(cell);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let case = ground.case_in(&folder, &cell.name());
    case.api.script(vec![cell.rule(ground)]);
    let run = case.local(&args);
    let mut seen = case.api.take_seen();
    // Half of the patience is for one attempt: a list has two, not two for each of its own tries.
    let two_attempts = cell.row.verb.starts_with("list") && cell.stays && cell.fault == Hangs;
    if cell.fault == Hangs && cell.expected != Unused {
        // The proxy writes down a request that hangs when it notices that the client has given it up.
        let attempts = if two_attempts { 2 } else { 1 };
        eventually("the end of the attempts that hang", || {
            seen.extend(case.api.take_seen());
            seen.iter().filter(|seen| seen.met).count() >= attempts
        });
    }
    case.api.script(Vec::new());
    let broken: Vec<&Seen> = seen.iter().filter(|seen| seen.met).collect();
    assert_eq!(broken.is_empty(), cell.expected == Unused, "{broken:?} were broken: {run:?}");
    let says = |message: &str| run.err.contains(&message.replace("NS", &cell.name()));
    match cell.expected {
        Unused => {
            assert!(!seen.is_empty() && !seen.iter().any(|seen| seen.accept.contains(METADATA)), "{seen:?}");
            is_complete(&case, cell, &run);
        }
        Heals | Unlisted => {
            is_complete(&case, cell, &run);
            let again = seen
                .iter()
                .any(|seen| !seen.met && broken.iter().any(|b| (&b.method, &b.path) == (&seen.method, &seen.path)));
            let goes_on = matches!(cell.fault, Expires | ExpiresForGood);
            assert!(again || cell.stays || goes_on, "{broken:?} was not asked for again: {seen:?}");
        }
        Warns(message) => {
            assert!(run.err.contains("warning: ") && says(message), "{run:?}");
            is_complete(&case, cell, &run);
        }
        Partly(message) => {
            assert!(run.code == 3 && run.out.contains("PartiallyFailed") && says(message), "{run:?}");
        }
        Fails(message) => {
            assert!(run.code == 1 && run.out.is_empty() && says(message), "{run:?}");
            assert!(!seen.iter().any(|seen| seen.method != "GET"), "something was written to the cluster");
            if folder == cell.name() {
                assert_eq!(case.backups(), [""; 0], "visible after: {run:?}");
            }
            // The same is left by every fault.
            if cell.fault == Throttles {
                is_complete(&case, cell, &case.local(&args));
            }
        }
    }
    if two_attempts {
        assert_eq!(broken.len(), 2, "{broken:?}");
    }
    // Attempts that are made again are no errors.
    assert!(!run.err.contains("ERROR"), "{run:?}");
}

/// Every object is there, once.
fn is_complete(case: &Case<'_>, cell: &Cell, run: &Run) {
    // Objects, with what is in every namespace; and warnings.
    let (objects, warnings) = match (cell.row.command, cell.expected) {
        // The claim's volume is recorded as skipped.
        (Backup, _) => (6, 1),
        (BackupOfPages, _) => (521, 1),
        (Restore, Unlisted) => (5, 0),
        (Restore, _) => (6, 0),
        (RestoreOverOther, Warns(_)) => (5, 1),
        (RestoreOverOther, _) => (5, 0),
        (RestoreOverPages, _) => (61, 0),
    };
    let expected = format!("completed with status: Completed. {objects} objects, {warnings} warnings, 0 errors.");
    assert!(run.code == 0 && run.out.contains(&expected), "{run:?}");
    if matches!(cell.row.command, Backup | BackupOfPages) {
        let mut archived = case.archived("b");
        archived.dedup();
        assert_eq!(archived.len(), objects);
    }
}

/// A create whose answer is lost is this restore's own object all the same: what follows a create follows.
#[test]
fn a_create_whose_answer_is_lost_is_followed_by_its_second_write() {
    let ground = Ground::start(vec![namespace("few"), applied("few")]);
    let case = ground.case("lost");
    let run = case.local(&["backup", "b", "--include-namespaces", "few"]);
    assert_eq!(run.code, 0, "{run:?}");
    case.api.script(vec![Rule::new("POST", "*/lost/configmaps*", Nth::Only(1), Fault::CutAfter)]);
    let run = case.local(&["restore", "r", "--from-backup", "b", "--namespace-mappings", "few:lost"]);
    assert!(run.code == 0 && case.api.take_seen().iter().any(|seen| seen.met), "{run:?}");
    let args = ["get", "configmap/applied", "--namespace=lost", "--show-managed-fields", "--output=json"];
    let found: Value = serde_json::from_str(&ground.kubectl().try_run(&args).expect("the object")).expect("JSON");
    let managers: Vec<&Value> =
        found["metadata"]["managedFields"].as_array().into_iter().flatten().map(|entry| &entry["manager"]).collect();
    assert_eq!(managers, ["pipeline"]);
}

#[test]
fn a_broken_api_server_heals_or_is_said_to_be_broken() {
    let cells = cells();
    let ground = Ground::start(objects(&cells));
    for namespace in ["few", "sixty"] {
        let case = ground.case_in("base", &format!("base-{namespace}"));
        let types = ["--include-resources", "namespaces,configmaps"];
        let run = case.local(&[&["backup", namespace, "--include-namespaces", namespace], &types[..]].concat());
        assert_eq!(run.code, 0, "{run:?}");
    }
    // Nearly all of them wait.
    in_parallel(32, &cells, |cell| check(&ground, cell));
}
