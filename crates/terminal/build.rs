//! Tells the program which commit it is built from: `LIFEBOAT_GIT_SHA` when it is set, else the HEAD of this clone.

#![allow(clippy::print_stdout, reason = "cargo reads it")]

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=LIFEBOAT_GIT_SHA");
    // Both change when another commit is checked out or made.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let told = std::env::var("LIFEBOAT_GIT_SHA").ok().filter(|commit| !commit.is_empty());
    if let Some(commit) = told.or_else(|| git(&["rev-parse", "HEAD"])) {
        println!("cargo:rustc-env=LIFEBOAT_GIT_SHA={commit}");
    }
}

/// Runs git and returns its output; `None` outside of a clone, or without git.
fn git(args: &[&str]) -> Option<String> {
    let done = Command::new("git").args(args).output().ok().filter(|done| done.status.success())?;
    let text = String::from_utf8(done.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
