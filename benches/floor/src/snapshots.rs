//! Asks for snapshots of claims, all at once, and waits until all of them are ready.

use crate::create::{Created, send};
use crate::http::{ApiServer, Connection};
use crate::objects::{Object, disk};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(200);
/// As long as this is waited.
const PATIENCE: Duration = Duration::from_secs(600);

/// Of which claims.
#[derive(Debug, Args)]
pub(crate) struct Disks {
    /// The namespace of the claims, which `create --kind disks` has made
    #[arg(long)]
    namespace: String,
    /// Claims
    #[arg(long)]
    count: usize,
    /// The snapshot class
    #[arg(long)]
    class: String,
}

/// Takes a snapshot of each claim.
#[allow(clippy::disallowed_methods, reason = "there is nothing to wait on but time between two looks")]
pub(crate) fn snapshots(server: &ApiServer, of: &Disks, connections: usize) -> Result<Created> {
    let Disks { namespace, count, class } = of;
    let path = format!("/apis/snapshot.storage.k8s.io/v1/namespaces/{namespace}/volumesnapshots");
    let opened = (0..connections).map(|_| Connection::open(server)).collect::<Result<Vec<_>>>()?;
    let mut looking = Connection::open(server)?;
    let next = AtomicUsize::new(0);
    let work = |mut connection: Connection<'_>| -> Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= *count {
                return Ok(());
            }
            let claim = disk(index);
            let body = format!(
                r#"{{"apiVersion":"snapshot.storage.k8s.io/v1","kind":"VolumeSnapshot","metadata":{{"name":"{claim}"}},"spec":{{"volumeSnapshotClassName":"{class}","source":{{"persistentVolumeClaimName":"{claim}"}}}}}}"#
            );
            send(&mut connection, &Object { path: path.clone(), body })?;
        }
    };
    let began = Instant::now();
    thread::scope(|scope| {
        let workers: Vec<_> = opened.into_iter().map(|connection| scope.spawn(|| work(connection))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
    })?;
    let bytes = loop {
        let mut body = Vec::new();
        let status = looking.get(&path, |piece| body.extend_from_slice(piece))?;
        if status != 200 {
            bail!("GET {path}: {status}");
        }
        let text = String::from_utf8(body).context("a list")?;
        if text.matches(r#""readyToUse":true"#).count() >= *count {
            break text.len() as u64;
        }
        if began.elapsed() > PATIENCE {
            bail!("not all snapshots are ready after {} s", PATIENCE.as_secs());
        }
        thread::sleep(PAUSE);
    };
    Ok(Created { seconds: began.elapsed().as_secs_f64(), requests: *count, bytes })
}
