//! Handling of Ctrl-C and SIGTERM.

use crate::output::exit_code::INTERRUPTED;
use crate::process::scratch::end_at_once;
use anyhow::{Context, Result};
use std::io::Write;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// SIGTERM or Ctrl-C; listened for from now on.
pub fn terminated() -> Result<impl Future<Output = ()>> {
    let mut signals = Signals::listen()?;
    Ok(async move { signals.next().await })
}

/// SIGTERM and Ctrl-C.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens from now on: none that comes later is lost.
    fn listen() -> Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("listen for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("listen for SIGINT")?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Cancels at the first Ctrl-C or SIGTERM, and ends the process at the second one.
pub async fn on_signal(cancel: CancellationToken) {
    // Where neither can be listened for, both end the process, as they do by themselves.
    let Ok(mut signals) = Signals::listen() else { return std::future::pending().await };
    signals.next().await;
    cancel.cancel();
    let _ = writeln!(std::io::stderr(), "\nstopping; again to stop at once");
    signals.next().await;
    end_at_once(INTERRUPTED);
}
