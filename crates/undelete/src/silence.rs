//! Buckets and locations that do not answer: a search does not wait for each backup there. Pure.

use lifeboat_cluster::ClusterError;
use lifeboat_requests::artifact::ArtifactError;
use lifeboat_requests::fetch::FetchError;
use lifeboat_store::StoreError;
use std::collections::BTreeMap;

/// The bucket or location that a search asks for backups: requests to the same one fail together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SearchedSource {
    /// The bucket that the user names.
    Bucket,
    /// The storage location of this name of a server; empty, where the backup names none.
    Location(String),
}

/// Buckets and locations that do not answer.
#[derive(Debug)]
pub(super) struct UnansweredSources {
    /// After how many failures in a row one is given up.
    patience: usize,
    /// Failures in a row.
    failed: BTreeMap<SearchedSource, usize>,
    /// Backups for which nobody was asked.
    skipped: BTreeMap<SearchedSource, usize>,
}

impl UnansweredSources {
    pub(super) fn after(patience: usize) -> Self {
        Self { patience, failed: BTreeMap::new(), skipped: BTreeMap::new() }
    }

    /// Returns true if they are not asked for a backup any more, and counts that backup.
    pub(super) fn skips(&mut self, asked: &SearchedSource) -> bool {
        let is_given_up = self.failed.get(asked).is_some_and(|failed| *failed >= self.patience);
        if is_given_up {
            *self.skipped.entry(asked.clone()).or_default() += 1;
        }
        is_given_up
    }

    /// Takes what came of a backup that they were asked for.
    pub(super) fn note<T>(&mut self, asked: SearchedSource, came: &anyhow::Result<T>) {
        match came {
            Err(e) if is_silent(e) => *self.failed.entry(asked).or_default() += 1,
            _ => drop(self.failed.remove(&asked)),
        }
    }

    /// Returns true if some did not answer when asked last.
    pub(super) fn is_silent_now(&self) -> bool {
        !self.failed.is_empty()
    }

    /// The backups for which nobody was asked, for people.
    pub(super) fn skipped_texts(&self) -> impl Iterator<Item = String> {
        self.skipped.iter().map(|(asked, count)| match asked {
            SearchedSource::Bucket => format!("{count} more, for which the bucket was not asked any more"),
            SearchedSource::Location(name) if name.is_empty() => {
                format!("{count} more that name no storage location, for which the server was not asked any more")
            }
            SearchedSource::Location(name) => {
                format!("{count} more in the storage location {name:?}, for which the server was not asked any more")
            }
        })
    }
}

/// Returns true if an error says that nobody answers, so that the next backup would wait for as long.
fn is_silent(error: &anyhow::Error) -> bool {
    let of_server = error.downcast_ref::<ArtifactError>();
    let is_silent = |e: &ArtifactError| {
        matches!(
            e,
            ArtifactError::NoUrl { .. }
                | ArtifactError::Cluster(_)
                | ArtifactError::Fetch(FetchError::Unreachable { .. })
        )
    };
    of_server.is_some_and(is_silent)
        || error.downcast_ref::<ClusterError>().is_some()
        || error.downcast_ref::<StoreError>().is_some_and(StoreError::can_pass)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, Result, anyhow};
    use lifeboat_bucket::{BucketError, ErrorKind};

    fn no_url() -> Result<()> {
        Err(ArtifactError::NoUrl { what: "the list".to_owned() }).context("get the list")
    }

    #[test]
    fn where_nobody_answers_no_more_backups_are_asked_for() {
        let mut silence = UnansweredSources::after(2);
        let location = |name: &str| SearchedSource::Location(name.to_owned());
        for (name, came, skips) in [
            ("a", no_url(), false),
            ("a", Err(anyhow!("the index is damaged")), false),
            ("a", no_url(), false),
            ("a", no_url(), true),
            ("b", no_url(), false),
            ("", no_url(), false),
            ("", no_url(), true),
        ] {
            silence.note(location(name), &came);
            assert_eq!(silence.skips(&location(name)), skips, "{name}: {came:?}");
        }
        assert!(silence.skips(&location("a")));
        assert_eq!(
            silence.skipped_texts().collect::<Vec<_>>(),
            [
                "1 more that name no storage location, for which the server was not asked any more",
                "2 more in the storage location \"a\", for which the server was not asked any more"
            ]
        );
    }

    #[test]
    fn a_bucket_that_cannot_be_reached_from_here_is_silent() {
        let (server, why) = ("s3.example.com:443".to_owned(), "no route".to_owned());
        let far: Result<()> =
            Err(ArtifactError::Fetch(FetchError::Unreachable { server, why })).context("get the list");
        let answered: Result<()> =
            Err(ArtifactError::Fetch(FetchError::Answered { status: 403, body: "no".to_owned() }))
                .context("get the list");
        let mut silence = UnansweredSources::after(1);
        let asked = || SearchedSource::Location("a".to_owned());
        silence.note(asked(), &answered);
        assert!(!silence.skips(&asked()));
        silence.note(asked(), &far);
        assert!(silence.skips(&asked()));
    }

    #[test]
    fn a_bucket_that_fails_three_times_in_a_row_is_not_asked_any_more() {
        let fails = || -> Result<()> {
            let (key, store) = ("backups/a".to_owned(), "a bucket".to_owned());
            let message = "connection refused".to_owned();
            let why = BucketError { kind: ErrorKind::Transient, operation: "get", key, store, message, source: None };
            Err(StoreError::from(why)).context("read the index")
        };
        let mut silence = UnansweredSources::after(3);
        for (came, is_silent_now, skips) in [
            (fails(), true, false),
            (fails(), true, false),
            (Ok(()), false, false),
            (fails(), true, false),
            (fails(), true, false),
            (fails(), true, true),
        ] {
            silence.note(SearchedSource::Bucket, &came);
            assert_eq!(
                (silence.is_silent_now(), silence.skips(&SearchedSource::Bucket)),
                (is_silent_now, skips),
                "{came:?}"
            );
        }
        assert!(silence.skips(&SearchedSource::Bucket));
        assert_eq!(
            silence.skipped_texts().collect::<Vec<_>>(),
            ["2 more, for which the bucket was not asked any more"]
        );
    }
}
