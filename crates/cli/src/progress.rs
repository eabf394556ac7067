//! Shows how far an operation is.

use lifeboat_action::Progress;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, interval};

/// Prints progress on standard error until dropped by the caller's `select!`: one changing line on a terminal, a line
/// every few seconds elsewhere.
pub(crate) async fn show(what: &str, progress: Arc<Progress>) {
    let terminal = std::io::stderr().is_terminal();
    let mut tick = interval(if terminal { Duration::from_millis(200) } else { Duration::from_secs(5) });
    // The first tick comes at once.
    tick.tick().await;
    let began = Instant::now();
    loop {
        tick.tick().await;
        let (done, total) = progress.get();
        let rate = done as f64 / began.elapsed().as_secs_f64();
        let line = format!("{what}: {done} of {total} objects, {rate:.0}/s");
        let mut out = std::io::stderr().lock();
        // A closed terminal is no reason to stop the operation.
        let _ = if terminal { write!(out, "\r\x1b[2K{line}") } else { writeln!(out, "{line}") };
        let _ = out.flush();
    }
}

/// Removes the changing line.
pub(crate) fn clear() {
    if std::io::stderr().is_terminal() {
        let _ = write!(std::io::stderr().lock(), "\r\x1b[2K");
    }
}
