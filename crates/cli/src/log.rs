//! What is told on standard error while working.

use tracing_subscriber::EnvFilter;

/// Starts logging at a level; `LIFEBOAT_LOG` overrides it with a filter of `tracing`.
pub(crate) fn start(verbosity: u8) {
    // The client library calls every answer an error that we try again or report ourselves.
    let default = match verbosity {
        0 => "error,kube_client::client::builder=off",
        1 | 2 => "info,kube_client::client::builder=off",
        3 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_env("LIFEBOAT_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    // The journal's own warnings and errors are printed with the result; without -v they would stand there twice.
    let filter = match "lifeboat_archive::journal=off".parse() {
        Ok(directive) if verbosity == 0 => filter.add_directive(directive),
        _ => filter,
    };
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).finish();
    let _ = tracing::subscriber::set_global_default(subscriber);
}
