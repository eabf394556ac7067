//! Files of backups and restores, by a DownloadRequest: the server signs a URL, and the file comes from there.

use super::fetch::{DownloadBody, FetchError, Fetcher, is_local};
use super::trust::{DownloadTrust, Trust, TrustArgs};
use anyhow::Result;
use lifeboat_api::well_known::{ANNOTATION_THROUGH_SERVER, HEADER_DOWNLOAD};
use lifeboat_api::{DownloadRequest, DownloadRequestPhase, DownloadTargetKind};
use lifeboat_archive::gzip;
use lifeboat_client::{Client, FollowedObject};
use lifeboat_cluster::ClusterError;
use lifeboat_terminal::flags::globals::Globals;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Most bytes of a file when it is unpacked; no packed file may be larger either.
const MOST_UNPACKED: u64 = 1 << 30;

/// For a URL after the server has looked at a request without giving one: it may try again, and mostly does not.
const SECOND_TRY: Duration = Duration::from_secs(5);

/// The reason why a file could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The API server did not do what was asked.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The server says that there is no such file.
    #[error("download request failed: {0}")]
    Refused(String),
    /// The server did not answer in time.
    #[error(
        "timed out waiting for the URL of {what}: look at the server's log, and whether the storage location is available"
    )]
    NoUrl {
        /// Which file.
        what: String,
    },
    /// The URL gave nothing. Only [`FetchError::Unreachable`] may work from elsewhere.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Larger than anything we take.
    #[error("{what} is larger than {MOST_UNPACKED} bytes")]
    TooLarge {
        /// Which file.
        what: String,
    },
    /// The file cannot be unpacked or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Where files come from.
pub struct Downloads {
    client: Client,
    fetcher: Fetcher,
    /// For the URL, and for each part of the download.
    patience: Duration,
}

/// A file as it lies in the bucket: packed.
#[derive(Debug)]
pub struct PackedFile(Vec<u8>);

impl Downloads {
    /// Downloads of one backup's files, or of the restores from it; with a warning when a certificate could not be had.
    ///
    /// # Errors
    /// When the file of `--cacert` cannot be read.
    pub async fn new(
        client: &Client,
        globals: &Globals,
        args: &TrustArgs,
        backup: &str,
        patience: Duration,
    ) -> Result<(Self, Option<String>)> {
        let file = globals.program.cacert(args.cacert.as_deref());
        let DownloadTrust { trust, warning } = Trust::find(args, file.as_deref(), client, backup).await?;
        let fetcher = Fetcher::new(trust, globals.program.user_agent(), patience);
        Ok((Self { client: client.clone(), fetcher, patience }, warning))
    }
}

/// A whole file; `None` when there is none.
///
/// # Errors
/// [`ArtifactError`].
pub async fn artifact(
    downloads: &Downloads,
    kind: DownloadTargetKind,
    name: &str,
) -> Result<Option<PackedFile>, ArtifactError> {
    let Some(mut answer) = open(downloads, kind, name).await? else { return Ok(None) };
    let mut bytes = Vec::new();
    while let Some(piece) = answer.next().await? {
        bytes.extend_from_slice(&piece);
        if bytes.len() as u64 > MOST_UNPACKED {
            return Err(ArtifactError::TooLarge { what: what(kind, name) });
        }
    }
    Ok(Some(PackedFile(bytes)))
}

/// Writes a file as it lies in the bucket, piece by piece; false when there is none.
///
/// # Errors
/// [`ArtifactError`]; then a part may have been written.
pub(crate) async fn stream(
    downloads: &Downloads,
    kind: DownloadTargetKind,
    name: &str,
    sink: &mut impl Write,
) -> Result<bool, ArtifactError> {
    let Some(mut answer) = open(downloads, kind, name).await? else { return Ok(false) };
    while let Some(piece) = answer.next().await? {
        sink.write_all(&piece)?;
    }
    sink.flush()?;
    Ok(true)
}

async fn open(
    downloads: &Downloads,
    kind: DownloadTargetKind,
    name: &str,
) -> Result<Option<DownloadBody>, ArtifactError> {
    let url = signed_url(downloads, kind, name, false).await?;
    if is_ours(&url) {
        return Ok(from_server(downloads, &url).await?);
    }
    let unreachable = match downloads.fetcher.get(&url).await {
        Err(e @ FetchError::Unreachable { .. }) => e,
        answered => return Ok(answered?),
    };
    // This machine does not reach the bucket. Our server can read it for us; Velero's knows no such request.
    let url = signed_url(downloads, kind, name, true).await?;
    if !is_ours(&url) {
        return Err(unreachable.into());
    }
    tracing::info!(%unreachable, "the file is read through the server");
    Ok(from_server(downloads, &url).await?)
}

/// A file from the server's own port: on this machine, or forwarded by the API server from the pod that leads.
async fn from_server(downloads: &Downloads, url: &str) -> Result<Option<DownloadBody>, FetchError> {
    let here = match downloads.fetcher.get_marked(url, HEADER_DOWNLOAD).await {
        Err(FetchError::Unreachable { why, .. }) => why,
        answered => return answered,
    };
    let unreachable = |why: String| FetchError::Unreachable { server: "the server".to_owned(), why };
    let client = &downloads.client;
    let leader = client.leading_pod().await.map_err(|e| unreachable(format!("{here}; {e}")))?;
    let pod = leader.ok_or_else(|| unreachable(format!("{here}; and no server leads in {}", client.namespace)))?;
    let port = url.parse::<http::Uri>().ok().and_then(|url| url.port_u16()).unwrap_or(80);
    let forwarded = client.cluster.port_forward(&client.namespace, &pod, port).await;
    let forwarded = forwarded.map_err(|e| unreachable(format!("{here}; {e}")))?;
    downloads.fetcher.get_over(forwarded, url).await
}

/// Returns true if a URL is one that our server signed for its own port.
fn is_ours(url: &str) -> bool {
    let Ok(url) = url.parse::<http::Uri>() else { return false };
    url.scheme_str() == Some("http") && is_local(&url) && url.path().starts_with("/downloads/")
}

/// Asks the server for a URL, also for one of the server's own port. The request is left to the server, which deletes it
/// after some minutes.
async fn signed_url(
    downloads: &Downloads,
    kind: DownloadTargetKind,
    name: &str,
    through_server: bool,
) -> Result<String, ArtifactError> {
    let client = &downloads.client;
    let mut request = DownloadRequest::default();
    if through_server {
        request.metadata.annotations.insert(ANNOTATION_THROUGH_SERVER.to_owned(), "true".to_owned());
    }
    request.metadata.name = format!("{name}-{}", uuid::Uuid::new_v4());
    request.metadata.namespace.clone_from(&client.namespace);
    request.spec.target.kind = kind;
    name.clone_into(&mut request.spec.target.name);
    let request_name = request.metadata.name.clone();
    let mut end = Instant::now() + downloads.patience;
    let mut was_looked_at = false;
    client.create(&request_name, &request).await?;
    let mut follow = client.follow::<DownloadRequest>(&request_name);
    loop {
        let Ok(seen) = timeout_at(end, follow.next()).await else {
            return Err(ArtifactError::NoUrl { what: what(kind, name) });
        };
        let FollowedObject::Is(found) = seen? else {
            return Err(ArtifactError::Refused(format!("the server dropped the request for {}", what(kind, name))));
        };
        let status = found.status;
        if !status.download_url.is_empty() {
            return Ok(status.download_url);
        }
        if status.phase == Some(DownloadRequestPhase::Failed) {
            let message = if status.message.is_empty() { "the server's log says why" } else { &status.message };
            return Err(ArtifactError::Refused(message.to_owned()));
        }
        // Velero 1.18 has no word for a failed request: that it expires is all it says.
        if status.expiration.is_some() && !was_looked_at {
            was_looked_at = true;
            end = end.min(Instant::now() + SECOND_TRY);
        }
    }
}

fn what(kind: DownloadTargetKind, name: &str) -> String {
    format!("{} of {name}", kind.as_str())
}

impl PackedFile {
    /// The unpacked bytes, piece by piece; an error beyond a gigabyte.
    pub fn reader(&self) -> impl Read + '_ {
        gzip::capped(self.0.as_slice(), MOST_UNPACKED)
    }

    /// The content as JSON.
    ///
    /// # Errors
    /// When it is not gzip, too large, or not the JSON asked for.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, lifeboat_archive::sidecar::SidecarError> {
        lifeboat_archive::sidecar::decode(&self.0, MOST_UNPACKED)
    }

    #[cfg(test)]
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}
