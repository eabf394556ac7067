//! The health and the metrics of a node agent, and a small server for both.

use crate::latency::{BackupLatencies, BackupLatency};
use crate::transfer::TransferKind;
use lifeboat_api::DataPathPhase;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// An agent that has not looked at its transfers for so long is not healthy.
const SILENT: Duration = Duration::from_secs(300);
/// The longest time for one request.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// The most bytes of a request.
const REQUEST_BYTES: usize = 8 << 10;
/// Requests at once.
const MOST_REQUESTS: usize = 16;

/// The health of an agent, and the counts of its transfers.
#[derive(Debug)]
pub struct Health {
    node: String,
    begun: Instant,
    looked: Mutex<Option<Instant>>,
    ended: BTreeMap<(TransferKind, &'static str), AtomicU64>,
    /// PodVolumeBackups that have begun.
    begun_backups: AtomicU64,
    latencies: Mutex<BackupLatencies>,
}

/// The word of a metric for each phase that ends a transfer.
const ENDS: [(DataPathPhase, &str); 3] =
    [(DataPathPhase::Completed, "success"), (DataPathPhase::Failed, "failure"), (DataPathPhase::Canceled, "cancel")];

impl Health {
    /// The health of an agent on this node that has not looked at anything.
    #[must_use]
    pub fn new(node: String) -> Self {
        let counts =
            TransferKind::ALL.into_iter().flat_map(|kind| ENDS.map(|(_, word)| ((kind, word), AtomicU64::new(0))));
        Self {
            node,
            begun: Instant::now(),
            looked: Mutex::new(None),
            ended: counts.collect(),
            begun_backups: AtomicU64::new(0),
            latencies: Mutex::default(),
        }
    }

    pub(crate) fn looked(&self) {
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    pub(crate) fn count(&self, kind: TransferKind, phase: DataPathPhase) {
        let word = ENDS.iter().find(|(of, _)| *of == phase).map(|(_, word)| *word);
        if let Some(count) = word.and_then(|word| self.ended.get(&(kind, word))) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a transfer that has begun.
    pub(crate) fn count_begun(&self, kind: TransferKind) {
        if kind == TransferKind::PodVolumeBackup {
            self.begun_backups.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes the time that a backup of a volume took.
    pub(crate) fn note_latency(&self, latency: BackupLatency) {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner).add(latency);
    }

    /// The reason for which the agent is not healthy.
    fn trouble(&self) -> Option<String> {
        let looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or(self.begun);
        let silent = looked.elapsed();
        (silent > SILENT)
            .then(|| format!("no look at the transfers for {} s: is the API server reachable?", silent.as_secs()))
    }

    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        for ((kind, word), count) in &self.ended {
            let name = match kind {
                TransferKind::PodVolumeRestore => "pod_volume_restore",
                TransferKind::DataDownload => "data_download",
                TransferKind::PodVolumeBackup => "pod_volume_backup",
                TransferKind::DataUpload => "data_upload",
            };
            let metric = format!("podVolume_{name}_{word}_total");
            let count = count.load(Ordering::Relaxed);
            text.push_str(&format!(
                "# HELP {metric} Transfers of this node that ended so.\n# TYPE {metric} counter\n{metric}{{node=\"{}\"}} {count}\n",
                self.node
            ));
        }
        let completed = self.ended.get(&(TransferKind::PodVolumeBackup, "success"));
        let counts = [
            ("enqueue", "that have begun", self.begun_backups.load(Ordering::Relaxed)),
            ("dequeue", "that are completed", completed.map_or(0, |count| count.load(Ordering::Relaxed))),
        ];
        for (word, which, count) in counts {
            let metric = format!("podVolume_pod_volume_backup_{word}_count");
            text.push_str(&format!(
                "# HELP {metric} Backups of volumes of this node {which}.\n# TYPE {metric} counter\n{metric}{{node=\"{}\"}} {count}\n",
                self.node
            ));
        }
        text + &self.latencies.lock().unwrap_or_else(PoisonError::into_inner).metrics(&self.node)
    }

    fn respond(&self, path: &str) -> (&'static str, String) {
        match path {
            "/metrics" => ("200 OK", self.metrics()),
            "/healthz" | "/readyz" => match self.trouble() {
                None => ("200 OK", "ok\n".to_owned()),
                Some(why) => ("503 Service Unavailable", format!("{why}\n")),
            },
            _ => ("404 Not Found", "there is /metrics, /healthz and /readyz\n".to_owned()),
        }
    }
}

/// Serves metrics and health without end.
pub async fn serve(listener: TcpListener, health: Arc<Health>) {
    let mut requests = JoinSet::new();
    loop {
        while requests.len() >= MOST_REQUESTS {
            requests.join_next().await;
        }
        while requests.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let health = Arc::clone(&health);
                requests.spawn(async move {
                    // A client that goes away, or says nothing, has no use for an error.
                    let _ = timeout(REQUEST_LIMIT, handle(stream, &health)).await;
                });
            }
            Err(e) => {
                tracing::warn!(error = %e, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn handle(mut stream: TcpStream, health: &Health) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_BYTES {
        let mut piece = [0; 1024];
        match stream.read(&mut piece).await? {
            0 => break,
            count => request.extend_from_slice(&piece[..count]),
        }
    }
    let line = String::from_utf8_lossy(&request);
    let path = line.split_whitespace().nth(1).unwrap_or_default();
    let (status, body) = health.respond(path.split('?').next().unwrap_or_default());
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_agent_tells_its_health_and_counts_what_it_did() {
        let health = Arc::new(Health::new("n1".to_owned()));
        health.count(TransferKind::DataDownload, DataPathPhase::Completed);
        health.count(TransferKind::PodVolumeBackup, DataPathPhase::Completed);
        (0..2).for_each(|_| health.count_begun(TransferKind::PodVolumeBackup));
        health.count_begun(TransferKind::DataUpload);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, health));
        let mut answers = Vec::new();
        for path in ["/metrics", "/healthz", "/other"] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answers.push(answer);
        }
        assert!(answers[0].contains("podVolume_data_download_success_total{node=\"n1\"} 1\n"), "{}", answers[0]);
        assert!(answers[0].contains("podVolume_pod_volume_backup_enqueue_count{node=\"n1\"} 2\n"), "{}", answers[0]);
        assert!(answers[0].contains("podVolume_pod_volume_backup_dequeue_count{node=\"n1\"} 1\n"), "{}", answers[0]);
        assert!(
            answers[1].starts_with("HTTP/1.1 200 OK\r\n") && answers[1].ends_with("\r\n\r\nok\n"),
            "{}",
            answers[1]
        );
        assert!(answers[2].starts_with("HTTP/1.1 404 Not Found\r\n"), "{}", answers[2]);
    }
}
