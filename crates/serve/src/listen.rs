//! Addresses at which a role listens.

use anyhow::{Context, Result};
use tokio::net::TcpListener;

/// Listens at `host:port`, or `:port` for all addresses; `None` for an empty text.
pub(crate) async fn listen(flag: &str, address: &str) -> Result<Option<TcpListener>> {
    if address.is_empty() {
        return Ok(None);
    }
    let everywhere = address.strip_prefix(':').map(|port| format!("[::]:{port}"));
    let listener = match &everywhere {
        // A machine without IPv6 has IPv4 only.
        Some(everywhere) => match TcpListener::bind(everywhere).await {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind(format!("0.0.0.0{address}")).await,
        },
        None => TcpListener::bind(address).await,
    };
    let why = || format!("listen at {address}: choose another address with {flag}, or give it an empty one");
    let listener = listener.with_context(why)?;
    tracing::info!(address = %listener.local_addr()?, "listening for {}", flag.trim_start_matches('-'));
    Ok(Some(listener))
}
