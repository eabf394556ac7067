//! Stores the files of a restore, within a time.

use crate::state::env::Env;
use lifeboat_archive::layout::RestoreFile;
use lifeboat_store::Content;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// Longest time for storing the files of a restore, and the files of a cancelled one.
const STORING: Duration = Duration::from_secs(600);
const STORING_CANCELLED: Duration = Duration::from_secs(4);
/// The same of one that broke off because of the bucket: its next run stores them again.
const STORING_BROKEN_OFF: Duration = Duration::from_secs(30);

/// The files of a restore on their way.
pub(crate) struct FileUploads<'a> {
    env: &'a Env,
    name: &'a str,
    /// The reason for which none may be stored.
    withheld: Option<String>,
    time: StoringTime,
    /// The reasons why some files are not stored.
    pub(crate) unstored: Vec<String>,
}

impl<'a> FileUploads<'a> {
    /// Files of the restore of this name. A restore that broke off has waited for the bucket already, and gets a short
    /// time only.
    pub(crate) fn of(name: &'a str, has_broken_off: bool, env: &'a Env) -> Self {
        let within = if has_broken_off { STORING_BROKEN_OFF } else { STORING };
        Self { env, name, time: StoringTime::begin(within), withheld: None, unstored: Vec::new() }
    }

    /// Stores none of them, for this reason.
    pub(crate) fn withheld(self, why: Option<String>) -> Self {
        Self { withheld: why, ..self }
    }

    /// Stores a file. Why that fails is among `unstored` then.
    pub(crate) async fn put(&mut self, file: RestoreFile, content: impl Into<Content>) {
        if let Some(why) = &self.withheld {
            if self.unstored.is_empty() {
                self.unstored.push(why.clone());
            }
            return;
        }
        let what = if file == RestoreFile::Logs { "log file".to_owned() } else { file.key(self.name) };
        let putting = self.env.store.put_restore_file(self.name, file, content);
        let why = match self.time.bound(&self.env.operation.cancel, putting).await {
            Some(Ok(())) => return,
            Some(Err(e)) => e.to_string(),
            None => "the bucket did not answer in time".to_owned(),
        };
        self.unstored.push(format!("error uploading {what} to backup storage: {why}"));
    }
}

/// Until when all files of a restore must be stored.
struct StoringTime {
    deadline: Instant,
    /// The restore is cancelled, and the deadline a near one.
    is_short: bool,
}

impl StoringTime {
    fn begin(within: Duration) -> Self {
        Self { deadline: Instant::now() + within, is_short: false }
    }

    /// Runs the storing of a file within its time; `None` when that takes too long, which is soon once the restore is
    /// cancelled.
    async fn bound<O>(&mut self, cancel: &CancellationToken, storing: impl Future<Output = O>) -> Option<O> {
        let mut storing = std::pin::pin!(timeout_at(self.deadline, storing));
        if !self.is_short {
            tokio::select! {
                stored = &mut storing => return stored.ok(),
                () = cancel.cancelled() => {}
            }
            self.is_short = true;
            self.deadline = self.deadline.min(Instant::now() + STORING_CANCELLED);
        }
        timeout_at(self.deadline, storing).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::time::sleep;

    /// Stores a file in a bucket that never answers, in a restore that is cancelled after this time. Returns how long
    /// that took, and whether a second file, which takes a second, is stored.
    async fn stored(cancelled_after: Duration) -> (Duration, bool) {
        let (begun, cancel) = (Instant::now(), CancellationToken::new());
        let mut time = StoringTime::begin(STORING);
        let storing = async {
            assert_eq!(time.bound(&cancel, pending::<()>()).await, None);
            let took = begun.elapsed();
            (took, time.bound(&cancel, sleep(Duration::from_secs(1))).await.is_some())
        };
        let cancelling = async {
            sleep(cancelled_after).await;
            cancel.cancel();
        };
        tokio::join!(storing, cancelling).0
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_that_hangs_holds_a_cancelled_restore_for_seconds_only() {
        let seconds = Duration::from_secs;
        assert_eq!(stored(seconds(0)).await, (seconds(4), false));
        assert_eq!(stored(seconds(60)).await, (seconds(64), false));
        assert_eq!(stored(seconds(598)).await, (seconds(600), false));
        assert_eq!(stored(seconds(700)).await, (seconds(600), false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_restore_stores_what_the_bucket_takes() {
        let cancel = CancellationToken::new();
        let mut time = StoringTime::begin(STORING);
        cancel.cancel();
        for _ in 0..3 {
            assert_eq!(time.bound(&cancel, sleep(Duration::from_secs(1))).await, Some(()));
        }
        assert_eq!(time.bound(&cancel, sleep(Duration::from_secs(2))).await, None);
    }
}
