//! Lists, page by page.

use crate::http::{ApiServer, Connection};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::time::Instant;

/// The cost of listing.
#[derive(Debug, Serialize)]
pub(crate) struct ListCost {
    seconds: f64,
    requests: u32,
    bytes: u64,
}

/// The metadata of a list comes before its items, or behind them as those of custom resources may; with its continue
/// token it is far smaller than this.
const METADATA: usize = 8 << 10;

/// Reads so many pages of every list, at most, one after the other over one connection.
pub(crate) fn list(server: &ApiServer, paths: &[String], limit: u32, pages: u32) -> Result<ListCost> {
    let mut connection = Connection::open(server)?;
    let (mut requests, mut bytes) = (0, 0);
    let began = Instant::now();
    for path in paths {
        let mut token: Option<String> = None;
        for _ in 0..pages {
            let page = match &token {
                Some(token) => format!("{path}?limit={limit}&continue={token}"),
                None => format!("{path}?limit={limit}"),
            };
            let (mut start, mut end) = (Vec::with_capacity(METADATA), Vec::with_capacity(2 * METADATA));
            let status = connection.get(&page, |piece| {
                bytes += piece.len() as u64;
                let room = METADATA - start.len();
                start.extend_from_slice(&piece[..room.min(piece.len())]);
                end.extend_from_slice(&piece[piece.len().saturating_sub(METADATA)..]);
                end.drain(..end.len().saturating_sub(METADATA));
            })?;
            requests += 1;
            if status != 200 {
                bail!("GET {page}: {status} {}", String::from_utf8_lossy(&start));
            }
            token = continue_token(&start, &end)?;
            if token.is_none() {
                break;
            }
        }
    }
    Ok(ListCost { seconds: began.elapsed().as_secs_f64(), requests, bytes })
}

/// The token in the start or the end of a list; none on the last page.
fn continue_token(start: &[u8], end: &[u8]) -> Result<Option<String>> {
    let (start, end) = (String::from_utf8_lossy(start), String::from_utf8_lossy(end));
    let (before, _) = start.split_once("\"items\":").context("a list without items")?;
    let behind = || end.rsplit_once("\"metadata\":").map(|(_, metadata)| metadata);
    let metadata =
        if before.contains("\"metadata\":") { before } else { behind().context("a list without metadata")? };
    let Some((_, rest)) = metadata.split_once("\"continue\":\"") else { return Ok(None) };
    let token = rest.split('"').next().unwrap_or_default();
    // It is put into a query as it is.
    if !token.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~')) {
        bail!("the continue token {token:?} needs escaping");
    }
    Ok((!token.is_empty()).then(|| token.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_that_of_the_list() {
        let token = |text: &str| continue_token(text.as_bytes(), text.as_bytes());
        let page = r#"{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"ab-_1","remainingItemCount":9},"items":[{"data":{"#;
        assert_eq!(token(page).unwrap().as_deref(), Some("ab-_1"));
        let last = r#"{"metadata":{"resourceVersion":"7"},"items":[{"data":{"continue":"no"}}]}"#;
        assert_eq!(token(last).unwrap(), None);
        assert_eq!(token(r#"{"metadata":{"continue":""},"items":[]}"#).unwrap(), None);
        let items_first = r#"{"items":[{"metadata":{"continue":"no"}}],"kind":"L","metadata":{"continue":"cd"}}"#;
        assert_eq!(token(items_first).unwrap().as_deref(), Some("cd"));
        assert!(token(r#"{"metadata":{"continue":"a b"},"items":[]}"#).is_err());
        assert!(token(r#"{"metadata":{"continue":"ab"#).is_err());
    }
}
