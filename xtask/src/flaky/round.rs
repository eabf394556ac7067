//! The outcome of rounds, read from what the tests print. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fmt::Write as _;
use std::path::PathBuf;

/// A run of all tests.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) number: usize,
    pub(super) failed: BTreeSet<String>,
    /// The exit status of a run that did not end well.
    pub(super) end: Option<String>,
    pub(super) log: PathBuf,
}

impl Round {
    pub(super) fn is_good(&self) -> bool {
        self.failed.is_empty() && self.end.is_none()
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match &self.end {
            None if self.failed.is_empty() => "all went well".to_owned(),
            Some(end) if self.failed.is_empty() => format!("no test was named, {end}"),
            _ => format!("{} failed", self.failed.len()),
        };
        write!(f, "round {}, {outcome}: {}", self.number, self.log.display())
    }
}

/// The tests that failed, by what the harness printed: each has a line when it ends, and a line in the list at the end.
/// Either may be broken by what a program writes beside the harness, and the list is missing when the run was cut off.
pub(super) fn failed_tests(output: &str) -> BTreeSet<String> {
    let mut failed = BTreeSet::new();
    let (mut listed, mut is_list) = (BTreeSet::new(), false);
    for line in output.lines() {
        if let Some((name, end)) = line.strip_prefix("test ").and_then(|line| line.split_once(" ... "))
            && (end == "FAILED" || end.starts_with("FAILED <"))
        {
            failed.insert(name.to_owned());
        }
        match line.strip_prefix("    ").filter(|_| is_list) {
            Some(name) => drop(listed.insert(name.to_owned())),
            // A test may print such lines too, so that only a list counts that the result follows.
            None if line.starts_with("test result: FAILED") => failed.append(&mut listed),
            None if line == "failures:" => {
                is_list = true;
                listed.clear();
            }
            None => is_list &= line.is_empty() && listed.is_empty(),
        }
    }
    failed
}

/// Returns true if no test was run at all: a round that shows nothing.
pub(super) fn has_no_tests(output: &str) -> bool {
    output.lines().any(|line| line.starts_with("test result: ok. 0 passed;"))
}

/// The failed tests with their rounds, the most frequent first, and the logs of all rounds.
pub(super) fn summary(rounds: &[Round]) -> String {
    let mut tests: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for round in rounds {
        for test in &round.failed {
            tests.entry(test).or_default().push(round.number.to_string());
        }
    }
    let mut tests: Vec<_> = tests.into_iter().collect();
    tests.sort_by_key(|(name, rounds)| (std::cmp::Reverse(rounds.len()), *name));
    let mut out = format!("-- failed tests in {} rounds: {}\n", rounds.len(), tests.len());
    for (name, failed) in &tests {
        let word = if failed.len() == 1 { "round" } else { "rounds" };
        let _ = writeln!(out, "   {name}: {word} {}", failed.join(", "));
    }
    out.push_str("-- logs:\n");
    for round in rounds {
        let _ = writeln!(out, "   {round}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn failed_tests_are_read_from_their_lines_and_from_the_list_at_the_end() {
        let output = "\nrunning 5 tests\ntest a::b ... ok\ntest a::c has been running for over 60 seconds\n\
            test a::c ... FAILED\ntest d ... FAILED <0.012s>\ntest e ... ignored\ntest f ... some program wrote this\nFAILED\n\n\
            failures:\n\n---- a::c stdout ----\nthread 'a::c' panicked:\n    no::test\nfailures:\n    neither\nand more\n\n\n\
            failures:\n    a::c\n    d\n    f\n\ntest result: FAILED. 1 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out\n\n\
            error: test failed\n";
        assert_eq!(failed_tests(output), names(&["a::c", "d", "f"]));
    }

    #[test]
    fn of_a_run_that_was_cut_off_the_tests_that_had_failed_are_named() {
        let output =
            "running 3 tests\ntest a ... FAILED\ntest b ... ok\nerror: test failed (signal: 9, SIGKILL: kill)\n";
        assert_eq!(failed_tests(output), names(&["a"]));
        assert_eq!(failed_tests("error: could not compile\n"), names(&[]));
        assert_eq!(failed_tests("test a ... ok\n\ntest result: ok. 1 passed; 0 failed\n"), names(&[]));
    }

    #[test]
    fn a_filter_that_no_test_has_is_seen() {
        assert!(has_no_tests("running 1 test\ntest a ... ignored\n\ntest result: ok. 0 passed; 0 failed; 1 ignored\n"));
        assert!(!has_no_tests("test a ... ok\n\ntest result: ok. 10 passed; 0 failed; 0 ignored\n"));
        assert!(!has_no_tests("error: could not compile\n"));
    }

    #[test]
    fn the_summary_names_rounds_and_logs_and_the_most_frequent_first() {
        let round = |number: usize, failed: &[&str], end: Option<&str>| Round {
            number,
            failed: names(failed),
            end: end.map(str::to_owned),
            log: format!("/logs/round-{number}.log").into(),
        };
        let rounds = [
            round(1, &["a", "b"], Some("exit status: 101")),
            round(2, &[], None),
            round(3, &["b"], Some("exit status: 101")),
            round(4, &[], Some("signal: 9")),
        ];
        let expected = "-- failed tests in 4 rounds: 2\n   b: rounds 1, 3\n   a: round 1\n-- logs:\n\
            \x20  round 1, 2 failed: /logs/round-1.log\n   round 2, all went well: /logs/round-2.log\n\
            \x20  round 3, 1 failed: /logs/round-3.log\n   round 4, no test was named, signal: 9: /logs/round-4.log\n";
        assert_eq!(summary(&rounds), expected);
        assert_eq!(rounds.iter().map(Round::is_good).collect::<Vec<_>>(), [false, true, false, false]);
        assert_eq!(rounds[0].to_string(), "round 1, 2 failed: /logs/round-1.log");
    }
}
