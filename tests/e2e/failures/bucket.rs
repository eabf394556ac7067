//! The effect on each command of a bucket that fails, is slow, or breaks off: a table of faults.

use crate::faults::{Case, Ground, config_maps, in_parallel, incompressible, namespace};
use crate::support::Run;
use lifeboat_testbed::{Fault, Kill, Nth, Rule, Seen};
use serde_json::Value;
use std::time::Duration;

/// A command that uses the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    /// Of small objects: the archive goes up whole.
    Backup,
    /// Of large ones: the archive goes up in parts.
    LargeBackup,
    /// Of small objects, after a run that died with an upload open.
    SecondBackup,
    Restore,
    /// From an archive without index, as Velero writes it.
    ForeignRestore,
    /// Of all backups in the bucket.
    Verify,
}
use Command::{Backup, ForeignRestore, LargeBackup, Restore, SecondBackup, Verify};

/// The fault that meets the requests of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Breaks {
    /// They have no effect.
    Before,
    /// They have their effect, and the answer is lost.
    After,
    /// They take a moment.
    Slow,
    /// The end of their body is missing, or of the answer's when they have none.
    Truncated,
}
const FAULTS: [Breaks; 4] = [Breaks::Before, Breaks::After, Breaks::Slow, Breaks::Truncated];

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The command makes no such request.
    Unused,
    /// Exit code 0, and all is as if nothing had happened.
    Heals,
    /// Exit code 1 with this message, and no backup is visible, no object restored, nothing said to be proved. The same
    /// command succeeds when the fault is gone.
    Fails(&'static str),
    /// Exit code 1 with this message, although the backup or the objects are there. The same command finds that out
    /// when the fault is gone.
    Done(&'static str),
}
use Outcome::{Done, Fails, Heals, Unused};

/// Where a body is cut: in the request, or in the answer.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Request(usize),
    Answer(usize),
    /// Neither has a body.
    Nothing,
}
use Cut::{Answer, Nothing, Request};

/// An operation of a command, with the outcome of each fault, when it happens once and when it stays.
#[derive(Debug)]
struct Row {
    operation: &'static str,
    command: Command,
    method: &'static str,
    path: &'static str,
    /// Of the requests of this path, the first that is meant.
    from: u64,
    cut: Cut,
    once: [Outcome; 4],
    stays: [Outcome; 4],
}

const HEALS: [Outcome; 4] = [Heals; 4];
const UNUSED: [Outcome; 4] = [Unused; 4];

const NO_ANSWER: &str = "the connection broke before the answer";
const HALF_AN_ANSWER: &str = "the answer broke off";
const HALF_A_STREAM: &str = "the stream broke after 20 bytes";

/// A write that has a body.
const WRITE: [Outcome; 4] = [Fails(NO_ANSWER), Fails(NO_ANSWER), Heals, Fails(NO_ANSWER)];
/// A request with an answer of XML.
const ASK: [Outcome; 4] = [Fails(NO_ANSWER), Fails(NO_ANSWER), Heals, Fails(HALF_AN_ANSWER)];
/// The end of an upload: when the answer is lost it is asked whether the object is there, or whether the upload is
/// gone.
const COMPLETE: [Outcome; 4] = [Fails(NO_ANSWER), Heals, Heals, Heals];
/// A request of an object.
const READ: [Outcome; 4] = [Fails(NO_ANSWER), Fails(NO_ANSWER), Heals, Fails(HALF_A_STREAM)];
/// A request without bodies.
const BARE: [Outcome; 4] = [Fails(NO_ANSWER), Fails(NO_ANSWER), Heals, Heals];
/// The record of a backup: the one write after which it is there.
const RECORD: [Outcome; 4] = [Fails(NO_ANSWER), Done(NO_ANSWER), Heals, Fails(NO_ANSWER)];
/// A file of a restore: the objects are there.
const RESULT: [Outcome; 4] = [Done(NO_ANSWER), Done(NO_ANSWER), Heals, Done(NO_ANSWER)];

// The outcomes are those of: fails before the effect, after it, is slow, is truncated.
#[rustfmt::skip]
const ROWS: [Row; 39] = [
    //  operation             command         method    path                             from  cut           once                             stays
    row("claim",              Backup,         "PUT",    "*/lifeboat-claim.json?*",       1,    Request(20),  HEALS,                           WRITE),
    row("put a file",         Backup,         "PUT",    "*/b-results.gz?*",              1,    Request(20),  HEALS,                           WRITE),
    row("put the record",     Backup,         "PUT",    "*/velero-backup.json?*",        1,    Request(20),  HEALS,                           RECORD),
    row("put a stream",       Backup,         "PUT",    "*/b.tar.gz?*",                  1,    Request(20),  HEALS,                           WRITE),
    row("begin an upload",    LargeBackup,    "POST",   "*/b.tar.gz?uploads*",           1,    Answer(20),   HEALS,                           ASK),
    row("put a part",         LargeBackup,    "PUT",    "*/b.tar.gz?*partNumber=2&*",    1,    Request(20),  HEALS,                           WRITE),
    row("complete an upload", LargeBackup,    "POST",   "*/b.tar.gz?*uploadId=*",        1,    Answer(20),   HEALS,                           COMPLETE),
    row("find open uploads",  SecondBackup,   "GET",    "/faults*uploads*",              1,    Answer(20),   HEALS,                           ASK),
    row("abort an upload",    SecondBackup,   "DELETE", "*/b.tar.gz?*uploadId=*",        1,    Nothing,      HEALS,                           COMPLETE),
    // There is none: the answer is a refusal in XML.
    row("get",                Backup,         "GET",    "*/velero-backup.json?*",        1,    Answer(20),   HEALS,                           ASK),
    row("get a range",        Backup,         "GET",    "*/b.tar.gz?*",                  1,    Nothing,      UNUSED,                          UNUSED),
    row("get the claim",      Backup,         "GET",    "*/lifeboat-claim.json?*",       1,    Answer(20),   HEALS,                           READ),
    row("head",               Backup,         "HEAD",   "*",                             1,    Nothing,      HEALS,                           BARE),
    row("list",               Backup,         "GET",    "*list-type=2*",                 1,    Nothing,      UNUSED,                          UNUSED),
    row("find open uploads",  Backup,         "GET",    "/faults*uploads*",              1,    Nothing,      UNUSED,                          UNUSED),
    row("delete",             Backup,         "DELETE", "*",                             1,    Nothing,      UNUSED,                          UNUSED),
    row("delete many",        Backup,         "POST",   "*",                             1,    Nothing,      UNUSED,                          UNUSED),

    row("get",                Restore,        "GET",    "*/velero-backup.json?*",        1,    Answer(20),   HEALS,                           READ),
    row("get the index",      Restore,        "GET",    "*/b-index.json.gz?*",           1,    Answer(20),   HEALS,                           READ),
    row("get a stream",       ForeignRestore, "GET",    "*/b.tar.gz?*",                  1,    Answer(20),   HEALS,                           READ),
    row("get a range",        Restore,        "GET",    "*/b.tar.gz?*",                  1,    Answer(20),   HEALS,                           READ),
    row("head",               Restore,        "HEAD",   "*/b.tar.gz",                    1,    Nothing,      HEALS,                           BARE),
    row("put a file",         Restore,        "PUT",    "*/restores/*-results.gz?*",     1,    Request(20),  HEALS,                           RESULT),
    row("put into a backup",  Restore,        "PUT",    "*/backups/*",                   1,    Nothing,      UNUSED,                          UNUSED),
    row("put a part",         Restore,        "PUT",    "*partNumber=*",                 1,    Nothing,      UNUSED,                          UNUSED),
    row("list",               Restore,        "GET",    "*list-type=2*",                 1,    Nothing,      UNUSED,                          UNUSED),
    row("find open uploads",  Restore,        "GET",    "/faults*uploads*",              1,    Nothing,      UNUSED,                          UNUSED),
    row("delete",             Restore,        "DELETE", "*",                             1,    Nothing,      UNUSED,                          UNUSED),
    row("upload, delete many", Restore,       "POST",   "*",                             1,    Nothing,      UNUSED,                          UNUSED),

    row("get",                Verify,         "GET",    "*/b-results.gz?*",              1,    Answer(20),   HEALS,                           READ),
    row("get the index",      Verify,         "GET",    "*/b-index.json.gz?*",           2,    Answer(20),   HEALS,                           READ),
    row("get a range",        Verify,         "GET",    "*/b.tar.gz?*",                  2,    Answer(20),   HEALS,                           READ),
    row("head",               Verify,         "HEAD",   "*/velero-backup.json",          1,    Nothing,      HEALS,                           BARE),
    row("head",               Verify,         "HEAD",   "*/b.tar.gz",                    1,    Nothing,      HEALS,                           BARE),
    row("list",               Verify,         "GET",    "*list-type=2*",                 1,    Answer(20),   HEALS,                           ASK),
    row("put",                Verify,         "PUT",    "*",                             1,    Nothing,      UNUSED,                          UNUSED),
    row("find open uploads",  Verify,         "GET",    "/faults*uploads*",              1,    Nothing,      UNUSED,                          UNUSED),
    row("delete",             Verify,         "DELETE", "*",                             1,    Nothing,      UNUSED,                          UNUSED),
    row("upload, delete many", Verify,        "POST",   "*",                             1,    Nothing,      UNUSED,                          UNUSED),
];

#[allow(clippy::too_many_arguments, reason = "a line of the table")]
const fn row(
    operation: &'static str,
    command: Command,
    method: &'static str,
    path: &'static str,
    from: u64,
    cut: Cut,
    once: [Outcome; 4],
    stays: [Outcome; 4],
) -> Row {
    Row { operation, command, method, path, from, cut, once, stays }
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
        let Row { operation, command, .. } = self.row;
        let when = if self.stays { "stays" } else { "once" };
        write!(f, "{operation} of {command:?}, {:?} {when}, expected {:?}", self.fault, self.expected)
    }
}

fn cells() -> Vec<Cell> {
    let mut out = Vec::new();
    // What stays takes longest: it goes first.
    for stays in [true, false] {
        for row in &ROWS {
            for (fault, expected) in FAULTS.iter().zip(if stays { row.stays } else { row.once }) {
                // What is never asked for breaks in one way as in another, and what is always slow is so once.
                let is_known = match (expected, fault) {
                    (Unused, Breaks::Before) => !stays,
                    (Unused, _) => true,
                    (_, Breaks::Slow) => !stays,
                    _ => false,
                };
                if !is_known {
                    out.push(Cell { number: out.len(), row, fault: *fault, stays, expected });
                }
            }
        }
    }
    out
}

impl Cell {
    fn rule(&self) -> Rule {
        let Row { method, path, from, cut, .. } = self.row;
        let fault = match (self.fault, cut) {
            (Breaks::Before, _) => Fault::CutBefore,
            (Breaks::After, _) => Fault::CutAfter,
            (Breaks::Slow, _) => Fault::Delay(Duration::from_millis(300)),
            (Breaks::Truncated, Request(most)) => Fault::CutWithin(*most),
            (Breaks::Truncated, Answer(most)) => Fault::Truncate(*most),
            (Breaks::Truncated, Nothing) => Fault::Truncate(0),
        };
        Rule::new(method, path, if self.stays { Nth::From(*from) } else { Nth::Only(*from) }, fault)
    }

    /// Returns true if the broken request must be repeated.
    fn is_repeated(&self) -> bool {
        match self.fault {
            Breaks::Before | Breaks::After => true,
            Breaks::Slow => false,
            Breaks::Truncated => !matches!(self.row.cut, Nothing),
        }
    }
}

// What the cluster is asked does not matter here: as little as may be.
const SMALL: [&str; 6] = ["backup", "b", "--include-namespaces", "few", "--include-resources", "configmaps"];
const LARGE: [&str; 6] = ["backup", "b", "--include-namespaces", "large", "--include-resources", "configmaps"];

/// The folder of the bucket, and the arguments of the command.
fn arguments(command: Command, name: &str) -> (String, Vec<String>) {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    let restore = format!("restore {name} --from-backup b --namespace-mappings few:{name}");
    match command {
        Backup | SecondBackup => (name.to_owned(), SMALL.map(str::to_owned).into()),
        LargeBackup => (name.to_owned(), LARGE.map(str::to_owned).into()),
        Restore => ("base".to_owned(), words(&restore)),
        ForeignRestore => ("foreign".to_owned(), words(&restore)),
        Verify => ("base".to_owned(), words("verify")),
    }
}

/// A bucket with a backup in two folders: `base`, and `foreign` without index and manifest. A cluster with a namespace
/// `few`, and these objects besides.
fn ground(mut objects: Vec<Value>) -> Ground {
    objects.push(namespace("few"));
    objects.extend(config_maps("few", 3));
    let ground = Ground::start(objects);
    for folder in ["base", "foreign"] {
        let case = ground.case(folder);
        let run = case.local(&SMALL);
        assert_eq!(run.code, 0, "{run:?}");
    }
    let foreign = ground.case_in("foreign", "foreign-files");
    for file in ["b-index.json.gz", "lifeboat-manifest.json", "lifeboat-claim.json"] {
        std::fs::remove_file(foreign.file(&format!("backups/b/{file}"))).expect("a file of ours");
    }
    ground
}

fn check(ground: &Ground, cell: &Cell) {
    let command = cell.row.command;
    let name = format!("cell-{}", cell.number);
    let (folder, mut args) = arguments(command, &name);
    // What stays is not waited for; so many at once take their time.
    args.extend(cell.stays.then(|| "--request-timeout=40s".to_owned()));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let case = ground.case_in(&folder, &name);
    if command == SecondBackup {
        case.s3.script(vec![Rule::new("PUT", "*partNumber=*", Nth::Only(1), Fault::Kill(Kill::Before))]);
        assert!(case.is_killed(&LARGE), "it was not killed");
        assert_eq!(case.open_uploads("b"), 1);
    }
    case.s3.script(vec![cell.rule()]);
    let _ = (case.s3.take_seen(), case.api.take_seen());
    let run = case.local(&args);
    let seen = case.s3.take_seen();
    case.s3.script(Vec::new());
    let broken: Vec<&Seen> = seen.iter().filter(|seen| seen.met).collect();
    assert_eq!(broken.is_empty(), cell.expected == Unused, "{broken:?} were broken: {run:?}");
    match cell.expected {
        Unused => is_done(&case, command, &run),
        Heals => {
            is_done(&case, command, &run);
            let same =
                |seen: &&Seen| !seen.met && broken.iter().any(|b| (&b.method, &b.path) == (&seen.method, &seen.path));
            let again = seen.iter().filter(same).count();
            assert!(cell.stays || !cell.is_repeated() || again > 0, "{broken:?} was not asked for again: {seen:?}");
            assert_eq!(case.open_uploads("b"), 0, "open uploads");
        }
        Fails(message) => {
            assert!(run.code == 1 && run.err.contains(message) && run.out.is_empty(), "{run:?}");
            let wrote = case.api.take_seen().iter().any(|seen| seen.method != "GET");
            assert!(!wrote, "something was written to the cluster");
            if folder == name {
                assert_eq!(case.backups(), [""; 0], "visible after: {run:?}");
            }
            if command != Verify {
                is_taken_up(&case, command, &args);
            }
        }
        Done(message) => {
            assert!(run.code == 1 && run.err.contains(message) && run.out.is_empty(), "{run:?}");
            let again = is_taken_up(&case, command, &args);
            let known = again.out.contains("(an earlier run had completed it)");
            assert_eq!(known, command == Backup, "{again:?}");
        }
    }
}

/// The same command again ends well, and nothing of the first run stays.
fn is_taken_up(case: &Case<'_>, command: Command, args: &[&str]) -> Run {
    // Large objects have had their test; small ones are quicker.
    let run = case.local(if command == LargeBackup { &SMALL } else { args });
    is_done(case, command, &run);
    assert_eq!(case.open_uploads("b"), 0, "uploads are left open");
    run
}

/// All is as if nothing had happened.
fn is_done(case: &Case<'_>, command: Command, run: &Run) {
    assert_eq!(run.code, 0, "{run:?}");
    match command {
        Backup | LargeBackup | SecondBackup => {
            assert!(run.out.starts_with("Backup completed with status: Completed."), "{run:?}");
            case.assert_verified("b");
        }
        Restore | ForeignRestore => {
            // The namespace was made for them.
            let expected = "Restore completed with status: Completed. 5 objects, 0 warnings, 0 errors.";
            assert!(run.out.starts_with(expected), "{run:?}");
        }
        Verify => assert!(run.out.starts_with("b: OK, 9 files"), "{run:?}"),
    }
}

#[test]
fn a_broken_bucket_heals_or_is_said_to_be_broken() {
    let mut large = vec![namespace("large")];
    large.extend(incompressible("large"));
    let ground = ground(large);
    // Nearly all of them wait.
    in_parallel(40, &cells(), |cell| check(&ground, cell));
}

/// Answers that are shorter than they should be without saying so.
#[test]
fn a_bucket_that_lies_is_not_believed() {
    let ground = ground(Vec::new());
    let damaged = [
        ("velero-backup.json", "verify", "An error occurred: cannot read backups/b/velero-backup.json"),
        ("b-results.gz", "verify", "b: backups/b/b-results.gz: it has 20 bytes, "),
        ("b.tar.gz", "verify", "b: backups/b/b.tar.gz: it has 20 bytes, "),
        ("velero-backup.json", "restore", "An error occurred: cannot read backups/b/velero-backup.json"),
        ("b.tar.gz", "restore", "the range is beyond the end"),
    ];
    let cases: Vec<(usize, &(&str, &str, &str))> = damaged.iter().enumerate().collect();
    in_parallel(5, &cases, |(number, (file, command, message))| {
        let name = format!("lie-{number}");
        let case = ground.case_in("base", &name);
        let (_, args) = arguments(if *command == "verify" { Verify } else { Restore }, &name);
        let path = format!("*/{file}?*");
        case.s3.script(vec![Rule::new("GET", &path, Nth::Every, Fault::Shorten(20))]);
        let run = case.local(&args.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(run.code == 1 && format!("{}{}", run.out, run.err).contains(message), "{run:?}");
        assert!(!run.out.contains("OK") && !run.out.contains("Completed"), "{run:?}");
        assert!(!case.api.take_seen().iter().any(|seen| seen.method != "GET"), "something was written");
    });
}
