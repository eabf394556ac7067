//! The body of an answer, as it comes.

use crate::{Cluster, Failure};
use bytes::Bytes;
use http_body_util::BodyExt;
use kube::client::Body;
use lifeboat_object::chain;
use std::time::Duration;
use tokio::time::timeout;

/// The longest silence of an open response before its connection counts as broken.
const SILENCE: Duration = Duration::from_secs(60);

impl Cluster {
    /// The longest silence of an open response before its connection counts as broken.
    pub(crate) fn silence(&self) -> Duration {
        SILENCE.min(self.patience / 2)
    }
}

/// The next piece of a body; `None` at its end.
pub(crate) async fn next_piece(body: &mut Body, silence: Duration) -> Result<Option<Bytes>, Failure> {
    loop {
        match timeout(silence, body.frame()).await {
            Err(_) => return Err(Failure::Timeout(silence)),
            Ok(None) => return Ok(None),
            Ok(Some(Err(e))) => return Err(Failure::Connection { message: chain(&e) }),
            Ok(Some(Ok(frame))) => {
                if let Ok(piece) = frame.into_data() {
                    return Ok(Some(piece));
                }
            }
        }
    }
}
