//! Volumes that the next backups of schedules would leave out: the server looks, and tells whoever asks for its status. An addition of
//! Lifeboat.

use lifeboat_api::{ServerStatusRequest, well_known};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// So many volumes of a schedule are named.
const NAMED: usize = 5;

/// The next backups, by the names of their schedules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NextBackups {
    /// Schedules whose volumes were looked at.
    pub schedules: BTreeMap<String, NextBackup>,
    /// The reason for which nothing is known of other schedules; empty when all were looked at.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unknown: String,
}

/// The volumes of the next backup of a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NextBackup {
    /// The number of volumes whose data it would not save, but for those that are left out on purpose.
    pub unprotected: u64,
    /// The first of them, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub first: Vec<String>,
    /// The reason for which it would be refused, or its volumes are not known; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trouble: String,
}

impl NextBackup {
    /// A backup that leaves these volumes out, each given by its name and the reason.
    pub fn of(unprotected: &[(String, String)], trouble: String) -> Self {
        let first = unprotected.iter().take(NAMED).map(|(name, why)| format!("{name} ({why})")).collect();
        Self { unprotected: unprotected.len() as u64, first, trouble }
    }
}

impl NextBackups {
    /// Has a request for the status of the server ask for it.
    pub fn ask(request: &mut ServerStatusRequest) {
        let annotation = (well_known::ANNOTATION_EXPLAIN_VOLUMES.to_owned(), "true".to_owned());
        request.metadata.annotations.extend([annotation]);
    }

    /// Tells whether a request asks for it.
    pub fn is_asked(request: &ServerStatusRequest) -> bool {
        request.metadata.annotations.get(well_known::ANNOTATION_EXPLAIN_VOLUMES).is_some_and(|asked| asked == "true")
    }

    /// Writes it into the answer.
    pub fn note(&self, request: &mut ServerStatusRequest) {
        let text = serde_json::to_string(self).unwrap_or_default();
        request.metadata.annotations.insert(well_known::ANNOTATION_NEXT_BACKUPS.to_owned(), text);
    }

    /// Reads it out of an answer; `None` where the server does not say it, such as Velero's.
    #[must_use]
    pub fn of(request: &ServerStatusRequest) -> Option<Self> {
        serde_json::from_str(request.metadata.annotations.get(well_known::ANNOTATION_NEXT_BACKUPS)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_what_the_next_backups_would_leave_out() {
        let mut request = ServerStatusRequest::default();
        assert!(!NextBackups::is_asked(&request));
        NextBackups::ask(&mut request);
        assert!(NextBackups::is_asked(&request));
        assert_eq!(NextBackups::of(&request), None, "a server that does not know the question");
        let volumes: Vec<_> = (0..7).map(|n| (format!("shop/data-{n}"), "no driver".to_owned())).collect();
        let nightly = NextBackup::of(&volumes, String::new());
        let schedules = [("nightly".to_owned(), nightly)].into();
        let found = NextBackups { schedules, unknown: String::new() };
        found.note(&mut request);
        assert_eq!(
            request.metadata.annotations[well_known::ANNOTATION_NEXT_BACKUPS],
            r#"{"schedules":{"nightly":{"unprotected":7,"first":["shop/data-0 (no driver)","shop/data-1 (no driver)","shop/data-2 (no driver)","shop/data-3 (no driver)","shop/data-4 (no driver)"]}}}"#
        );
        assert_eq!(NextBackups::of(&request), Some(found));
    }
}
