//! `cargo xtask flaky N [FILTER]`: runs the tests of the whole program on a control plane N times while half the cores
//! are busy, and says which tests failed in which rounds.

mod load;
mod round;

use crate::{edges, test};
use anyhow::{Context, Result, bail, ensure};
use load::Load;
pub(crate) use load::{BURN, burn};
use round::{Round, failed_tests, has_no_tests, summary};
use std::fs;
use std::time::Instant;

const USAGE: &str = "cargo xtask flaky N [FILTER]: N rounds of the tests of the whole program, all or those with this text in their names";

/// Runs the rounds. Fails when a test of any of them did.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let (count, filter) = rounds_and_filter(args)?;
    test::build_whole_program()?;
    let started = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    let folder = edges::target_folder()?.join("flaky").join(started);
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let mut rounds = Vec::new();
    for number in 1..=count {
        let log = folder.join(format!("round-{number}.log"));
        let begun = Instant::now();
        let load = Load::start()?;
        println!("-- load: {load}");
        let status = test::whole_program_into(&log, filter)?;
        drop(load);
        let output = fs::read(&log).with_context(|| format!("read {}", log.display()))?;
        let output = String::from_utf8_lossy(&output);
        ensure!(
            !has_no_tests(&output),
            "no test that runs on a control plane has {:?} in its name",
            filter.unwrap_or_default()
        );
        let failed = failed_tests(&output);
        let round = Round { number, failed, end: (!status.success()).then(|| status.to_string()), log };
        // What is known so far stays on the terminal when somebody ends the command.
        println!("-- {} s: {round}", begun.elapsed().as_secs());
        round.failed.iter().for_each(|test| println!("   {test}"));
        rounds.push(round);
    }
    print!("{}", summary(&rounds));
    let bad = rounds.iter().filter(|round| !round.is_good()).count();
    if bad > 0 {
        bail!("tests failed in {bad} of {count} rounds");
    }
    Ok(())
}

fn rounds_and_filter(args: &[String]) -> Result<(usize, Option<&str>)> {
    ensure!((1..=2).contains(&args.len()), "{USAGE}");
    let count = args[0].parse().ok().filter(|count| *count > 0);
    let count = count.with_context(|| format!("{:?} is no number of rounds: {USAGE}", args[0]))?;
    Ok((count, args.get(1).map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_a_number_and_a_filter_may_follow() {
        let args = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(rounds_and_filter(&args(&["5"])).expect("rounds"), (5, None));
        assert_eq!(rounds_and_filter(&args(&["1", "backup::"])).expect("rounds"), (1, Some("backup::")));
        for wrong in [&[][..], &["0"], &["-1"], &["backup::"], &["1", "a", "b"]] {
            let error = rounds_and_filter(&args(wrong)).expect_err("a refusal").to_string();
            assert!(error.ends_with(USAGE), "{error}");
        }
    }
}
