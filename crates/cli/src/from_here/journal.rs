//! What every local operation needs: its clock, its way out, and its messages for people.

use crate::exit_code::{INTERRUPTED, PARTIALLY_FAILED};
use crate::sandbox::terminated;
use lifeboat_object::{Results, printable};
use lifeboat_operation::Clock;
use lifeboat_operation::Progress;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The exit code of what was done, well or only in part.
pub(crate) fn exit_code(well: bool) -> ExitCode {
    if well { ExitCode::SUCCESS } else { ExitCode::from(PARTIALLY_FAILED) }
}

/// The real clock.
pub(crate) fn clock() -> Clock {
    Arc::new(jiff::Timestamp::now)
}

/// Cancels at the first Ctrl-C or SIGTERM, and ends the process at the second one.
async fn on_signal(cancel: CancellationToken) {
    signalled().await;
    cancel.cancel();
    let _ = writeln!(std::io::stderr(), "\nstopping; again to stop at once");
    signalled().await;
    std::process::exit(INTERRUPTED);
}

/// Ctrl-C or SIGTERM; never, where neither can be listened for.
async fn signalled() {
    match terminated() {
        Ok(signal) => signal.await,
        Err(_) => std::future::pending().await,
    }
}

/// Runs an operation to its end with its progress shown; the first signal cancels it.
pub(crate) async fn watched<T>(
    what: &str,
    progress: &Arc<Progress>,
    cancel: &CancellationToken,
    operation: impl Future<Output = T>,
) -> T {
    let outcome = tokio::select! {
        outcome = operation => outcome,
        () = crate::progress::show(what, Arc::clone(progress)) => unreachable!("progress is shown until the end"),
        () = on_signal(cancel.clone()) => unreachable!("the process has ended"),
    };
    crate::progress::clear();
    outcome
}

/// Messages shown of each severity before the rest is only counted.
const SHOWN: usize = 20;

/// Prints warnings and errors on standard error, each in one line.
pub(crate) fn print_results(results: &Results) {
    let mut out = std::io::stderr().lock();
    for (name, set) in [("warning", &results.warnings), ("error", &results.errors)] {
        for message in set.messages().take(SHOWN) {
            let _ = writeln!(out, "{name}: {}", printable(message.trim()));
        }
        if set.len() > SHOWN {
            let _ = writeln!(out, "… and {} more {name}s, all of them in the results file", set.len() - SHOWN);
        }
    }
}
