//! The tasks of developers and CI: `cargo xtask check`, `cargo xtask test`, `cargo xtask test-node`, `cargo xtask
//! flaky`, `cargo xtask bench`, `cargo xtask image`.
#![allow(clippy::print_stdout, reason = "it talks to the developer")]

mod bench;
mod book;
mod changelog;
mod circles;
mod deploy;
mod edges;
mod flaky;
mod image;
mod image_check;
mod monitoring;
mod reference;
mod scenarios;
mod test;
mod tools;
mod words;

use anyhow::{Result, bail};
use lifeboat_testbed::{Binaries, program_of_crate};
use std::process::Command;
use std::time::Instant;

fn main() -> Result<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let task = if args.is_empty() { String::new() } else { args.remove(0) };
    match task.as_str() {
        "check" => check(),
        "check-edges" => edges::check(),
        "check-circles" => circles::check(),
        "check-changelog" => changelog::check(),
        "check-words" => words::check(),
        "check-monitoring" => monitoring::check(),
        "reference" => reference::write(),
        "scenarios" => scenarios::write(),
        "book" => {
            println!("{}", book::build()?.display());
            Ok(())
        }
        "setup" => setup(),
        "test" if args.is_empty() => test::all(),
        "test" => test::some(&args.iter().map(String::as_str).collect::<Vec<_>>(), &[]),
        "test-e2e" => test::whole_program(&args),
        "test-node" => test::on_a_node(&args),
        "test-node-inside" => test::on_this_node(&args),
        "test-long" => test::long(),
        "flaky" => flaky::run(&args),
        flaky::BURN => {
            flaky::burn();
            Ok(())
        }
        "bench" => bench::run(&args),
        "bench-snapshots-inside" => bench::snapshots_inside(&args),
        "bench-large" => bench::run_large(&args),
        "bench-repo" => bench::run_repository(&args),
        "bench-movers" => bench::run_movers(&args),
        "bench-movers-inside" => bench::movers_inside(&args),
        "measured" => bench::measure(&args),
        "fuzz" => fuzz(&args),
        "image" => image::image(&args),
        "image-check" => image_check::check(&args),
        "deploy" => deploy::write(),
        other => bail!(
            "unknown task {other:?}: check, check-edges, check-circles, check-words, check-changelog, check-monitoring, reference, scenarios, book, setup, test, test-e2e, test-node, test-long, flaky, bench, bench-large, bench-repo, bench-movers, fuzz, image, image-check or deploy"
        ),
    }
}

fn check() -> Result<()> {
    run("format", cargo().args(["fmt", "--all", "--check"]))?;
    run("lints", cargo().args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    run("fuzz targets", cargo().args(["check", "--quiet", "--locked", "--manifest-path", "fuzz/Cargo.toml"]))?;
    timed("crate edges", edges::check)?;
    timed("circles of files", circles::check)?;
    timed("changelog", changelog::check)?;
    timed("words", words::check)?;
    timed("table of scenarios", scenarios::check)?;
    timed("reference of custom resources", reference::check)?;
    timed("alerts and dashboard", monitoring::check)?;
    timed("book", || book::build().map(drop))?;
    let deny = program_of_crate("cargo-deny", "0.20.2")?;
    run("dependencies", Command::new(deny).args(["--log-level", "error", "check", "bans", "licenses", "sources"]))?;
    let typos = program_of_crate("typos-cli", "1.52.0")?;
    run("spelling", &mut Command::new(typos))
}

/// The decoders that are fed with mutated bytes.
const FUZZ_TARGETS: [&str; 20] = [
    "tar",
    "index",
    "metadata",
    "kopia_format",
    "kopia_index",
    "kopia_pack",
    "kopia_listing",
    "kopia_directory",
    "kopia_manifest",
    "kopia_policy",
    "kopia_compression",
    "kopia_settings",
    "kopia_layout",
    "kopia_compaction",
    "kopia_ecc",
    "restic_key",
    "restic_index",
    "restic_tree",
    "restic_snapshot",
    "restic_stored",
];

/// Feeds decoders with mutated bytes, each for this many seconds (60), those named after that or all; needs a nightly
/// toolchain.
fn fuzz(args: &[String]) -> Result<()> {
    let seconds = args.first().map_or("60", String::as_str);
    let named = args.get(1..).unwrap_or_default();
    let program = program_of_crate("cargo-fuzz", "0.13.1")?;
    for target in FUZZ_TARGETS.into_iter().filter(|target| named.is_empty() || named.iter().any(|name| name == target))
    {
        let (corpus, seeds) = (format!("fuzz/corpus/{target}"), format!("fuzz/seeds/{target}"));
        std::fs::create_dir_all(&corpus)?;
        let mut command = Command::new(&program);
        command
            .env("RUSTUP_TOOLCHAIN", "nightly")
            .env_remove("CARGO")
            .args(["fuzz", "run", target, &corpus, &seeds, "--"]);
        command.args([format!("-max_total_time={seconds}"), "-max_len=65536".to_owned(), "-timeout=10".to_owned()]);
        run(target, &mut command)?;
    }
    Ok(())
}

fn setup() -> Result<()> {
    timed("test bed programs", || Binaries::ensure().map(drop))
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn run(what: &str, command: &mut Command) -> Result<()> {
    timed(what, || {
        let status = command.status()?;
        if !status.success() {
            bail!("{what} failed: {status}");
        }
        Ok(())
    })
}

fn timed(what: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let begun = Instant::now();
    work()?;
    println!("-- {what}: {} s", begun.elapsed().as_secs());
    Ok(())
}
