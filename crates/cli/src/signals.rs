//! What Ctrl-C and SIGTERM end.

use crate::exit_code::INTERRUPTED;
use crate::scratch::end_at_once;
use anyhow::{Context, Result};
use std::io::Write;
use tokio_util::sync::CancellationToken;

/// SIGTERM or Ctrl-C; listened for from now on.
pub(crate) fn terminated() -> Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Cancels at the first Ctrl-C or SIGTERM, and ends the process at the second one.
pub(crate) async fn on_signal(cancel: CancellationToken) {
    signalled().await;
    cancel.cancel();
    let _ = writeln!(std::io::stderr(), "\nstopping; again to stop at once");
    signalled().await;
    end_at_once(INTERRUPTED);
}

/// Ctrl-C or SIGTERM; never, where neither can be listened for.
async fn signalled() {
    match terminated() {
        Ok(signal) => signal.await,
        Err(_) => std::future::pending().await,
    }
}
