//! Shows the progress of an operation.

use crate::process::signals::on_signal;
use lifeboat_object::printable;
use lifeboat_operation::Progress;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, interval};
use tokio_util::sync::CancellationToken;

/// Runs an operation to its end with its progress shown; the first signal cancels it.
pub async fn watched<T>(
    what: &str,
    progress: &Arc<Progress>,
    cancel: &CancellationToken,
    operation: impl Future<Output = T>,
) -> T {
    let outcome = tokio::select! {
        outcome = operation => outcome,
        () = show(what, Arc::clone(progress)) => unreachable!("progress is shown until the end"),
        () = on_signal(cancel.clone()) => unreachable!("the process has ended"),
    };
    clear();
    outcome
}

/// Runs an operation to its end while this line is shown; the first signal drops it, which is an error with this text.
pub async fn shown<T>(
    line: impl Fn() -> String,
    interrupted: &'static str,
    operation: impl Future<Output = T>,
) -> anyhow::Result<T> {
    let cancel = CancellationToken::new();
    let outcome = tokio::select! {
        outcome = operation => Ok(outcome),
        () = tell(line) => unreachable!("progress is shown until the end"),
        () = cancel.cancelled() => Err(anyhow::anyhow!(interrupted)),
        () = on_signal(cancel.clone()) => unreachable!("the process has ended"),
    };
    clear();
    outcome
}

/// Prints progress on standard error until dropped by the caller's `select!`.
async fn show(what: &str, progress: Arc<Progress>) {
    let began = Instant::now();
    tell(|| format!("{what}: {}", describe(&progress, began.elapsed()))).await;
}

/// Prints what is being done on standard error until dropped by the caller's `select!`: one changing line on a terminal, a line
/// every few seconds elsewhere.
pub async fn tell(what: impl Fn() -> String) {
    let terminal = std::io::stderr().is_terminal();
    let mut tick = interval(if terminal { Duration::from_millis(200) } else { Duration::from_secs(5) });
    // The first tick comes at once.
    tick.tick().await;
    loop {
        tick.tick().await;
        let line = printable(what());
        let mut out = std::io::stderr().lock();
        // A closed terminal is no reason to stop the operation.
        let _ = if terminal { write!(out, "\r\x1b[2K{line}") } else { writeln!(out, "{line}") };
        let _ = out.flush();
    }
}

/// Removes the changing line.
pub fn clear() {
    if std::io::stderr().is_terminal() {
        let _ = write!(std::io::stderr().lock(), "\r\x1b[2K");
    }
}

/// Counts and rate, and the time that is left as soon as the total is known.
fn describe(progress: &Progress, elapsed: Duration) -> String {
    let (done, total) = progress.get();
    let rate = done as f64 / elapsed.as_secs_f64().max(f64::EPSILON);
    if !progress.has_found_all() {
        return format!("{done} of at least {total} objects, {rate:.0}/s");
    }
    let percent = (done * 100).checked_div(total).unwrap_or(100);
    let left = total.saturating_sub(done) as f64 / rate;
    // Nothing is done yet, or it is as good as over.
    let left = if left.is_finite() && left >= 1.0 { format!(", {} left", duration_text(left)) } else { String::new() };
    format!("{percent} %, {done} of {total} objects, {rate:.0}/s{left}")
}

/// A number of seconds in a form for people.
pub fn duration_text(seconds: f64) -> String {
    let whole = Duration::from_secs_f64(seconds.min(1e6)).as_secs();
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_how_far_and_how_long_yet() {
        let progress = Progress::default();
        progress.found(400);
        progress.finished(100);
        let after = |seconds| describe(&progress, Duration::from_secs(seconds));
        assert_eq!(after(10), "100 of at least 400 objects, 10/s");
        progress.found_all();
        assert_eq!(after(10), "25 %, 100 of 400 objects, 10/s, 30 s left");
        assert_eq!(after(100), "25 %, 100 of 400 objects, 1/s, 5 min 0 s left");
        assert_eq!(after(10_000), "25 %, 100 of 400 objects, 0/s, 8 h 20 min left");
        progress.finished(300);
        assert_eq!(after(40), "100 %, 400 of 400 objects, 10/s");
        let nothing = Progress::default();
        nothing.found_all();
        assert_eq!(describe(&nothing, Duration::from_secs(1)), "100 %, 0 of 0 objects, 0/s");
    }
}
