//! Files of storage locations behind URLs that the server has signed, for locations that cannot sign and for clients
//! that do not reach the bucket.
//!
//! A client has such a URL from a `DownloadRequest`, which the API server lets only permitted users make.

use super::response::{HttpResponse, text};
use crate::buckets::{Buckets, Purpose};
use crate::options::Providers;
use futures::StreamExt;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderValue, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use jiff::Timestamp;
use lifeboat_api::BackupStorageLocation;
use lifeboat_api::well_known::HEADER_DOWNLOAD;
use lifeboat_client::Client;
use lifeboat_operation::Clock;
use sha2::Sha256;
use std::fmt::{self, Debug};
use std::net::SocketAddr;
use std::sync::Arc;

/// The first part of the path of every URL.
const ROOT: &str = "/downloads/";

/// Signs URLs of the server's own port, and knows those that it signed. Another process does not.
#[derive(Clone)]
pub(crate) struct Signer {
    key: [u8; 32],
    address: SocketAddr,
}

impl Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.address)
    }
}

impl Signer {
    /// For the port at this address. The key should be random.
    pub(crate) fn new(key: [u8; 32], address: SocketAddr) -> Self {
        Self { key, address }
    }

    /// A URL of a key in a location, good until then. Both are names that need no escaping in a URL.
    pub(crate) fn sign(&self, location: &str, key: &str, until: Timestamp) -> String {
        let (path, until) = (format!("{ROOT}{location}/{key}"), until.as_second());
        let signature = hex::encode(self.mac(&path, until).finalize().into_bytes());
        format!("http://{}{path}?expires={until}&signature={signature}", self.address)
    }

    /// Location and key of a URL, when we signed it and it is still good; otherwise why not.
    fn check<'a>(&self, url: &'a Uri, now: Timestamp) -> Result<(&'a str, &'a str), &'static str> {
        let mut until = None;
        let mut signature = "";
        for (name, value) in url.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('=')) {
            match name {
                "expires" => until = value.parse::<i64>().ok(),
                "signature" => signature = value,
                _ => {}
            }
        }
        let until = until.ok_or("the URL is not one that this server signed")?;
        let bytes = hex::decode(signature).map_err(|_| "the URL is not one that this server signed")?;
        let mac = self.mac(url.path(), until);
        mac.verify_slice(&bytes).map_err(|_| "the URL is not one that this server signed")?;
        if until < now.as_second() {
            return Err("the URL is no longer good: make another DownloadRequest");
        }
        let place = url.path().strip_prefix(ROOT).and_then(|rest| rest.split_once('/'));
        place.ok_or("the URL is not one that this server signed")
    }

    fn mac(&self, path: &str, until: i64) -> Hmac<Sha256> {
        // A key that is shorter than a block is filled up with zeros (RFC 2104).
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.key);
        let mut mac = <Hmac<Sha256> as KeyInit>::new(&block.into());
        mac.update(path.as_bytes());
        mac.update(format!("?{until}").as_bytes());
        mac
    }
}

/// Gives the files.
pub(crate) struct Downloads {
    pub(crate) signer: Signer,
    pub(crate) client: Client,
    pub(crate) providers: Arc<dyn Providers>,
    pub(crate) buckets: Arc<Buckets>,
    pub(crate) clock: Clock,
}

impl Debug for Downloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Downloads").field("signer", &self.signer).finish_non_exhaustive()
    }
}

impl Downloads {
    pub(crate) async fn answer(&self, url: &Uri) -> HttpResponse {
        let mut answer = match self.signer.check(url, (self.clock)()) {
            Ok((location, key)) => match self.file(location, key).await {
                Ok(answer) => answer,
                Err((status, why)) => text(status, format!("{why}\n")),
            },
            Err(why) => text(StatusCode::FORBIDDEN, format!("{why}\n")),
        };
        answer.headers_mut().insert(HEADER_DOWNLOAD, HeaderValue::from_static("1"));
        answer
    }

    async fn file(&self, location: &str, key: &str) -> Result<HttpResponse, (StatusCode, String)> {
        let found = self.client.get::<BackupStorageLocation>(location).await;
        let found = found.map_err(|e| (StatusCode::BAD_GATEWAY, e.to_string()))?;
        let missing = || (StatusCode::NOT_FOUND, format!("there is no storage location {location}"));
        let found = found.ok_or_else(missing)?;
        let bucket = self.buckets.open(&self.client, &*self.providers, &found, Purpose::Operation).await;
        let bucket = bucket.map_err(|e| (StatusCode::BAD_GATEWAY, e))?;
        let bytes = bucket.get(key, None).await.map_err(|e| {
            (if e.is_not_found() { StatusCode::NOT_FOUND } else { StatusCode::BAD_GATEWAY }, e.to_string())
        })?;
        let mut answer = Response::new(StreamBody::new(bytes.map(|piece| piece.map(Frame::data))).boxed_unsync());
        let kind = HeaderValue::from_static("application/octet-stream");
        answer.headers_mut().insert(header::CONTENT_TYPE, kind);
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_signed_is_given() {
        let address = "127.0.0.1:8086".parse().unwrap();
        let signer = Signer::new([7; 32], address);
        let at = |second| Timestamp::from_second(second).unwrap();
        let url = signer.sign("main", "backups/b/b-logs.gz", at(1000));
        assert!(url.starts_with("http://127.0.0.1:8086/downloads/main/backups/b/b-logs.gz?expires=1000&signature="));
        let check = |url: &str, signer: &Signer, now| {
            let uri: Uri = url.parse().unwrap();
            signer.check(&uri, at(now)).map(|(location, key)| (location.to_owned(), key.to_owned()))
        };
        assert_eq!(check(&url, &signer, 1000), Ok(("main".into(), "backups/b/b-logs.gz".into())));
        assert_eq!(check(&url, &signer, 1001), Err("the URL is no longer good: make another DownloadRequest"));
        let foreign = Err("the URL is not one that this server signed");
        for url in [
            url.replace("main", "other"),
            url.replace("b-logs", "velero-backup"),
            url.replace("expires=1000", "expires=9000"),
            url.replace("expires=1000&", ""),
            format!("{url}0"),
            format!("{url}00"),
            url.split('?').next().unwrap().to_owned(),
            url.replace("signature=", "signature=é").replace('é', "%C3"),
        ] {
            assert_eq!(check(&url, &signer, 1000), foreign, "{url}");
        }
        assert_eq!(check(&url, &Signer::new([8; 32], address), 1000), foreign, "another process");
    }
}
