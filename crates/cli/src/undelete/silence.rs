//! Where nobody answers: a search does not wait for each backup there. Pure.

use crate::resource::artifact::ArtifactError;
use lifeboat_cluster::ClusterError;
use lifeboat_store::StoreError;
use std::collections::BTreeMap;

/// Storage locations of which nothing comes, by name.
#[derive(Debug)]
pub(super) struct Silence {
    /// After how many failures in a row a location is given up.
    patience: usize,
    /// Failures in a row.
    failed: BTreeMap<String, usize>,
    /// Backups for which nobody was asked.
    skipped: BTreeMap<String, usize>,
}

impl Silence {
    pub(super) fn after(patience: usize) -> Self {
        Self { patience, failed: BTreeMap::new(), skipped: BTreeMap::new() }
    }

    /// Whether a backup of this location is not asked for; it is counted then.
    pub(super) fn skips(&mut self, location: &str) -> bool {
        let is_given_up = self.failed.get(location).is_some_and(|failed| *failed >= self.patience);
        if is_given_up {
            *self.skipped.entry(location.to_owned()).or_default() += 1;
        }
        is_given_up
    }

    /// Takes what came of a backup of this location.
    pub(super) fn note<T>(&mut self, location: &str, came: &anyhow::Result<T>) {
        match came {
            Err(e) if is_silent(e) => *self.failed.entry(location.to_owned()).or_default() += 1,
            _ => drop(self.failed.remove(location)),
        }
    }

    /// Whether somebody did not answer.
    pub(super) fn has_any(&self) -> bool {
        !self.failed.is_empty()
    }

    /// The backups for which nobody was asked, for people.
    pub(super) fn told(&self) -> impl Iterator<Item = String> {
        self.skipped.iter().map(|(location, count)| match location.as_str() {
            "" => format!("{count} more, for which the bucket was not asked any more"),
            location => {
                format!(
                    "{count} more in the storage location {location:?}, for which the server was not asked any more"
                )
            }
        })
    }
}

/// Whether an error says that nobody answers, so that the next backup would wait for as long.
fn is_silent(error: &anyhow::Error) -> bool {
    let of_server = error.downcast_ref::<ArtifactError>();
    of_server.is_some_and(|e| matches!(e, ArtifactError::NoUrl { .. } | ArtifactError::Cluster(_)))
        || error.downcast_ref::<ClusterError>().is_some()
        || error.downcast_ref::<StoreError>().is_some_and(StoreError::can_pass)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, Result, anyhow};

    fn no_url() -> Result<()> {
        Err(ArtifactError::NoUrl { what: "the list".to_owned() }).context("get the list")
    }

    #[test]
    fn where_nobody_answers_no_more_backups_are_asked_for() {
        let mut silence = Silence::after(2);
        for (location, came, skips) in [
            ("a", no_url(), false),
            ("a", Err(anyhow!("the index is damaged")), false),
            ("a", no_url(), false),
            ("a", no_url(), true),
            ("b", no_url(), false),
            ("", Ok(()), false),
        ] {
            silence.note(location, &came);
            assert_eq!(silence.skips(location), skips, "{location}: {came:?}");
        }
        assert!(silence.skips("a"));
        let told = "2 more in the storage location \"a\", for which the server was not asked any more";
        assert_eq!(silence.told().collect::<Vec<_>>(), [told]);
    }
}
