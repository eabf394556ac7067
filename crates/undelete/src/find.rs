//! Looks for an object in one backup after the other, the newest first.

use super::report::{missing, named_with_time, others_text, perhaps_not_the_newest, skipped_text};
use super::requested_object::{ObjectPresence, RequestedObject};
use super::resume_state::backup_of;
use super::silence::{SearchedSource, UnansweredSources};
use anyhow::{Context, Result, bail};
use lifeboat_api::{Backup, SourceCluster, source_cluster};
use lifeboat_browse::BackupStore;
use lifeboat_object::{Catalog, ObjectKey, chain};
use lifeboat_requests::archive::{ArchiveDownload, FromServerArgs};
use lifeboat_restore::{check_record, check_source};
use lifeboat_standalone::backup_source::{OpenBackup, copied, copy_volume_files, open, open_rows, rows_of};
use lifeboat_standalone::local_operation::state::OfBackup;
use lifeboat_store::{ArchiveRows, BackupSummary, Store, UsableBackups};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::errors;
use lifeboat_terminal::output::progress;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// Where backups lie.
pub(super) enum BackupsLocation<'a> {
    /// In a bucket.
    Bucket(Store),
    /// Behind a server, which is asked like this.
    Server(&'a FromServerArgs),
}

impl BackupsLocation<'_> {
    /// Describes the place for people; the text also identifies it in the state of an undelete.
    pub(super) fn describe(&self, globals: &Globals) -> String {
        match self {
            Self::Bucket(store) => store.describe(),
            Self::Server(_) => format!("the server in {}", globals.namespace),
        }
    }

    /// After how many failures in a row nothing more is expected. A server was waited for long.
    fn patience(&self) -> usize {
        match self {
            Self::Bucket(_) => 3,
            Self::Server(_) => 1,
        }
    }

    /// Returns the bucket or location that is asked for a backup.
    fn asked(&self, backup: &Backup) -> SearchedSource {
        match self {
            Self::Bucket(_) => SearchedSource::Bucket,
            Self::Server(_) => SearchedSource::Location(backup.spec.storage_location.clone()),
        }
    }
}

/// The backup that an object is taken from.
#[derive(Clone, Copy, Debug)]
pub(super) enum BackupChoice<'a> {
    /// The newest one that has it.
    Newest,
    /// The one of this name.
    Named(&'a str),
    /// The one from which an undelete was cut off.
    Kept {
        backup: &'a OfBackup,
        /// True when it was not cut off, and has ended with errors.
        has_ended: bool,
    },
}

/// Backups to look through.
#[derive(Debug)]
struct Candidates {
    backups: Vec<Backup>,
    /// Backups that cannot be read, with the reason.
    passed_over: Vec<String>,
    /// True when the user has chosen it, and no other backup will do.
    is_chosen: bool,
}

/// Whose backups are looked through.
pub(super) struct Origin {
    pub(super) from: SourceCluster,
    /// The UID of the cluster into which the object comes; empty when it cannot be read.
    pub(super) this: String,
}

/// The object to look for, and the backups to look through.
pub(super) struct Search<'a> {
    pub(super) origin: Origin,
    pub(super) wanted: &'a RequestedObject,
    pub(super) place: BackupsLocation<'a>,
    /// Set when no backup is taken while newer ones could not be looked through, because nobody is asked.
    pub(super) only_newest: bool,
    /// The types that the cluster serves.
    pub(super) catalog: &'a Catalog,
    pub(super) globals: &'a Globals,
    /// For copies of archives.
    pub(super) folder: &'a Path,
}

/// An object, and the backup that has it.
pub(super) struct FoundObject {
    pub(super) key: ObjectKey,
    pub(super) backup: Backup,
    /// The UID of the cluster that has made the backup; `None` where it is not recorded.
    pub(super) maker: Option<String>,
    /// The backup for people.
    pub(super) what: String,
    /// The backup, open for reading.
    pub(super) contents: BackupStore,
    /// Where the backup lies, or a copy of it.
    pub(super) store: Store,
    /// Where the copy is.
    _copy: Option<TempDir>,
}

/// A backup that may have it.
struct CandidateBackup {
    store: Store,
    opened: OpenBackup,
    copy: Option<(TempDir, ArchiveDownload)>,
}

/// The result of looking at the names of the objects in a backup.
enum NamesCheck {
    /// It may have it.
    MayHave(Box<CandidateBackup>),
    /// It does not have it. Of one in a bucket, what is in it.
    Lacks(Option<ArchiveRows>),
}

/// The results of a search through backups.
struct SearchLog {
    /// Backups that were looked through, as they are reported.
    looked: Vec<String>,
    /// Backups that cannot be read, with the reason.
    passed_over: Vec<String>,
    /// The clusters of backups that were skipped because they are of other clusters; empty where it is not recorded.
    others: Vec<String>,
    silence: UnansweredSources,
    /// Under which key the object would be in one that was opened and does not have it.
    sought: Option<ObjectKey>,
    /// The newest backup in a bucket whose names lack the object, and its rows.
    newest: Option<(Backup, ArchiveRows)>,
}

impl SearchLog {
    /// No results yet, except the backups that are passed over from the beginning.
    fn without(passed_over: Vec<String>, patience: usize) -> Self {
        Self {
            looked: Vec::new(),
            passed_over,
            others: Vec::new(),
            silence: UnansweredSources::after(patience),
            sought: None,
            newest: None,
        }
    }

    /// The backups that were not looked through.
    fn skipped_text(&self) -> String {
        skipped_text(&self.passed_over, &self.silence)
    }
}

impl Search<'_> {
    /// Finds the object in the backup of this name, or in the newest one that has it.
    ///
    /// # Errors
    /// When none has it: the backups that were looked through. When the backup cannot be read; of several, those are passed over,
    /// with a warning, or refused with `only_newest`.
    pub(super) async fn run(self, source: BackupChoice<'_>) -> Result<FoundObject> {
        let candidates = self.candidates(source).await?;
        if candidates.backups.len() < 2 {
            return Box::pin(self.look_through(candidates, |_| {})).await;
        }
        let current = Mutex::new(String::new());
        let look = |what: String| *current.lock().unwrap_or_else(PoisonError::into_inner) = what;
        let found = tokio::select! {
            found = Box::pin(self.look_through(candidates, look)) => found,
            () = progress::tell(|| current.lock().unwrap_or_else(PoisonError::into_inner).clone()) => {
                unreachable!("it is told until the end")
            }
        };
        progress::clear();
        found
    }

    /// Finds the object in the first of these backups that has it. `begins` is called for each.
    async fn look_through(&self, candidates: Candidates, begins: impl Fn(String)) -> Result<FoundObject> {
        let Candidates { backups, passed_over, is_chosen } = candidates;
        let mut seen = SearchLog::without(passed_over, self.place.patience());
        let count = backups.len();
        for (number, backup) in (1..).zip(backups) {
            let asked = self.place.asked(&backup);
            if seen.silence.skips(&asked) {
                continue;
            }
            if !is_chosen && let Some(of_another) = Box::pin(self.of_another(&backup)).await? {
                seen.others.push(of_another);
                continue;
            }
            begins(format!("looking through backup {number} of {count}: {}", named_with_time(&backup)));
            let look = Box::pin(self.look(&backup)).await;
            seen.silence.note(asked, &look);
            let look = match look {
                Err(e) if !is_chosen => {
                    seen.passed_over.push(format!("{}: {}", backup.metadata.name, chain(e.as_ref())));
                    continue;
                }
                look => look?,
            };
            seen.looked.push(named_with_time(&backup));
            match look {
                NamesCheck::MayHave(candidate) => match self.wanted.held_by(&candidate.opened.store, self.catalog)? {
                    ObjectPresence::Yes(key) => {
                        self.accept(&key, &backup, &seen)?;
                        return self.found(key, backup, *candidate).await;
                    }
                    ObjectPresence::No(key) => seen.sought = Some(key),
                    ObjectPresence::NoType => {}
                },
                NamesCheck::Lacks(rows) => seen.newest = seen.newest.or_else(|| rows.map(|rows| (backup, rows))),
            }
        }
        let text = Box::pin(self.missing(seen)).await?;
        bail!(text)
    }

    /// The cluster of a backup that is skipped because it is of another cluster; empty where it is not recorded.
    async fn of_another(&self, backup: &Backup) -> Result<Option<String>> {
        let Origin { from, this } = &self.origin;
        let maker = self.maker(backup).await?;
        let is_admitted = match &self.place {
            BackupsLocation::Bucket(_) => from.admits_claim(maker.as_deref(), this),
            BackupsLocation::Server(_) => from.admits(backup, this),
        };
        Ok((!is_admitted).then(|| maker.unwrap_or_default()))
    }

    /// The UID of the cluster that has made a backup; `None` where it is not recorded.
    async fn maker(&self, backup: &Backup) -> Result<Option<String>> {
        match &self.place {
            BackupsLocation::Bucket(store) => match store.cluster_of(&backup.metadata.name).await {
                // The look at the backup itself says it.
                Err(e) if e.is_damage() => Ok(None),
                claimed => Ok(claimed?),
            },
            BackupsLocation::Server(_) => Ok(source_cluster(backup).map(str::to_owned)),
        }
    }

    /// Accepts this backup as the source, and warns of newer ones that could not be looked through.
    ///
    /// # Errors
    /// With `only_newest`, when there are any.
    fn accept(&self, key: &ObjectKey, backup: &Backup, seen: &SearchLog) -> Result<()> {
        if seen.passed_over.is_empty() {
            return Ok(());
        }
        let skipped = seen.skipped_text();
        if self.only_newest {
            bail!(perhaps_not_the_newest(key, backup, &skipped));
        }
        progress::clear();
        errors::warn(Some(&format!("warning: not looked through: {skipped}")));
        Ok(())
    }

    /// That no backup has the object.
    ///
    /// # Errors
    /// As [`Search::key_in`].
    async fn missing(&self, seen: SearchLog) -> Result<String> {
        let skipped = seen.skipped_text();
        let sought = match (seen.sought, seen.newest) {
            (None, Some((backup, rows))) => Box::pin(self.key_in(backup, rows)).await?,
            (sought, _) => sought,
        };
        // Of what could not be discovered nothing is known.
        let is_type_known = sought.is_some() || !self.catalog.failures.is_empty() || self.wanted.is_served();
        let what = sought.map_or_else(|| self.wanted.to_string(), |key| key.to_string());
        let mut text = missing(&what, &seen.looked, &skipped);
        text.push_str(&others_text(&seen.others));
        if seen.silence.is_silent_now() && matches!(self.place, BackupsLocation::Server(_)) {
            text.push_str(". With --bucket the backups are looked through without the server");
        }
        if is_type_known {
            return Ok(text);
        }
        Ok(format!(
            "the cluster has no type that is called {:?} (`kubectl api-resources` lists those it has), and {text}",
            self.wanted.word()
        ))
    }

    /// Returns the key that the object would have in a backup that lacks it. Without one it is reported as it was asked
    /// for.
    ///
    /// # Errors
    /// When it is not clear which type is meant, objects of the type are never restored, or it takes no namespace.
    async fn key_in(&self, backup: Backup, rows: ArchiveRows) -> Result<Option<ObjectKey>> {
        let BackupsLocation::Bucket(store) = &self.place else { return Ok(None) };
        // An archive that cannot be read says nothing of types, and that none has the object is known without it.
        let Ok(opened) = open_rows(store, backup, rows, self.folder).await else { return Ok(None) };
        Ok(match self.wanted.held_by(&opened.store, self.catalog)? {
            ObjectPresence::Yes(key) | ObjectPresence::No(key) => Some(key),
            ObjectPresence::NoType => None,
        })
    }

    async fn found(&self, key: ObjectKey, backup: Backup, candidate: CandidateBackup) -> Result<FoundObject> {
        let CandidateBackup { store, opened: OpenBackup { store: contents, what, .. }, copy } = candidate;
        if let Some((folder, download)) = &copy {
            copy_volume_files(download, folder.path()).await?;
        }
        let maker = self.maker(&backup).await?;
        Ok(FoundObject { key, backup, maker, what, contents, store, _copy: copy.map(|(folder, _)| folder) })
    }

    async fn named(&self, name: &str) -> Result<Backup> {
        match &self.place {
            BackupsLocation::Bucket(store) => {
                let backup = store.backup(name).await?;
                check_record(&backup)?;
                Ok(backup)
            }
            BackupsLocation::Server(_) => {
                let client = self.globals.client().await?;
                let backup = client.get::<Backup>(name).await?.ok_or_else(|| errors::missing::<Backup>(name))?;
                check_source(&backup)?;
                Ok(backup)
            }
        }
    }

    async fn candidates(&self, source: BackupChoice<'_>) -> Result<Candidates> {
        let one = |backup: Backup| Candidates { backups: vec![backup], passed_over: Vec::new(), is_chosen: true };
        if let BackupChoice::Named(name) = source {
            return Ok(one(self.named(name).await?));
        }
        let usable = match &self.place {
            BackupsLocation::Bucket(store) => store.usable_backups().await?,
            BackupsLocation::Server(_) => of_cluster(self.globals.client().await?.list("").await?),
        };
        if let BackupChoice::Kept { backup, has_ended } = source {
            let (backup, said) = backup_of(backup, has_ended, &usable, self.wanted).map_err(anyhow::Error::msg)?;
            errors::warn(Some(&said));
            if let Some(backup) = backup {
                return Ok(one(backup.clone()));
            }
        }
        let passed_over = usable.unreadable.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        Ok(Candidates { backups: newest_first(usable), passed_over, is_chosen: false })
    }

    /// Looks at the names of the objects in a backup, and opens it when the object may be among them: names are few bytes, and the
    /// archive may be many.
    async fn look(&self, backup: &Backup) -> Result<NamesCheck> {
        let name = &backup.metadata.name;
        match &self.place {
            BackupsLocation::Bucket(store) => {
                let rows = rows_of(store, backup, self.globals, self.folder).await?;
                if !self.wanted.may_be_in(rows.rows()) {
                    return Ok(NamesCheck::Lacks(Some(rows)));
                }
                let opened = open_rows(store, backup.clone(), rows, self.folder).await?;
                Ok(NamesCheck::MayHave(Box::new(CandidateBackup { store: store.clone(), opened, copy: None })))
            }
            BackupsLocation::Server(args) => {
                let download = args.archive_of(name, self.globals).await?;
                if let Some(list) = download.resource_list().await?
                    && !self.wanted.may_be_among(&list)
                {
                    return Ok(NamesCheck::Lacks(None));
                }
                let folder = tempfile::tempdir_in(self.folder).context("make a temporary folder: look at --scratch")?;
                let store = copied(&download, folder.path()).await?;
                let opened = open(&store, name, folder.path()).await?;
                Ok(NamesCheck::MayHave(Box::new(CandidateBackup { store, opened, copy: Some((folder, download)) })))
            }
        }
    }
}

fn of_cluster(backups: Vec<Backup>) -> UsableBackups {
    let summary = |backup: Backup| BackupSummary { name: backup.metadata.name.clone(), backup: Ok(Box::new(backup)) };
    UsableBackups::of(backups.into_iter().map(summary).collect())
}

fn newest_first(usable: UsableBackups) -> Vec<Backup> {
    usable.oldest_first.into_iter().rev().map(|(_, backup)| backup).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::{BackupPhase, Time};

    fn backup(name: &str, phase: BackupPhase, second: i64) -> Backup {
        let mut backup = Backup::default();
        backup.metadata.name = name.to_owned();
        backup.status.phase = Some(phase);
        backup.status.start_timestamp = Some(Time::new(jiff::Timestamp::from_second(second).unwrap()));
        backup
    }

    #[test]
    fn backups_that_have_ended_are_looked_through_the_newest_first() {
        let all = vec![
            backup("a", BackupPhase::Completed, 1),
            backup("b", BackupPhase::PartiallyFailed, 3),
            backup("c", BackupPhase::Failed, 4),
            backup("d", BackupPhase::InProgress, 5),
            backup("e", BackupPhase::Completed, 2),
        ];
        let names: Vec<String> = newest_first(of_cluster(all)).iter().map(named_with_time).collect();
        assert_eq!(names, ["b of 1970-01-01T00:00:03Z", "e of 1970-01-01T00:00:02Z", "a of 1970-01-01T00:00:01Z"]);
    }
}
