//! Commands on a repository in a bucket or a directory, without a cluster: `lifeboat repo create`, `snapshot`, `snapshots`,
//! `ls`, `cat`, `restore`, `mount`, `verify`, `diff`, `stats`, `password`, `maintenance`. Those that list and read take
//! repositories of restic, too.

pub(crate) mod blocks;
pub(crate) mod cat;
pub(crate) mod choice;
pub(crate) mod create;
pub(crate) mod describe;
pub(crate) mod diff;
pub(crate) mod format;
pub(crate) mod gaps;
mod identity;
pub(crate) mod list;
pub(crate) mod maintenance;
pub(crate) mod mount;
mod new_password;
pub(crate) mod password;
mod progress;
pub(crate) mod recovery;
pub(crate) mod restore;
pub(crate) mod snapshot;
pub(crate) mod snapshots;
pub(crate) mod source;
pub(crate) mod stats;
pub(crate) mod verbs;
pub(crate) mod verify;

use anyhow::{Context, Result, bail};
use choice::SnapshotSourceArgs;
use clap::Args;
use format::{RepositoryFormat, restic_of_velero, restic_prefix};
use gaps::SnapshotGaps;
use lifeboat_api::well_known::{KEY_REPOSITORY_PASSWORD, SECRET_REPOSITORY};
use lifeboat_bucket::{BlobStore, ListOptions};
use lifeboat_kopia::content::IndexSource;
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::format::directory::DirectoryEntry;
use lifeboat_kopia::snapshot::{Snapshot, entry_at};
use lifeboat_kopia::{KopiaError, OpenOptions, Repository, WriteOptions};
use lifeboat_repository::{blobs_of, prefix_of, repository_clock};
use lifeboat_standalone::bucket_url;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::process::clock::clock;
use lifeboat_terminal::process::random::random;
use lifeboat_terminal::process::scratch::{ScratchArgs, ScratchFolder};
use recovery::IndexArgs;
use std::fs::File;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most memory for indexes and for contents that are under way.
const MEMORY: u64 = 96 << 20;

/// The most puts at once.
const UPLOADS: usize = 8;

/// The repository that a command is about.
#[derive(Debug, Args)]
pub(crate) struct RepositoryArgs {
    /// The repository: a directory, file:///directory, or s3://bucket/prefix?region=REGION&endpoint=URL
    #[arg(long, value_name = "URL")]
    repo: Option<String>,
    /// The repository of this namespace's volumes in the bucket of a backup storage location, which --bucket names
    #[arg(long, value_name = "NAMESPACE")]
    velero: Option<String>,
    /// The bucket of --velero: a directory, file:///directory, or s3://bucket/prefix?region=REGION&endpoint=URL
    #[arg(long, value_name = "URL")]
    bucket: Option<String>,
    /// A file with the password of the repository; that of Velero is the key repository-password of the Secret velero-repo-credentials
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The format of the repository; found by itself where this is left out
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<RepositoryFormat>,
    #[command(flatten)]
    indexes: IndexArgs,
    #[command(flatten)]
    scratch: ScratchArgs,
}

/// An open repository, and the folder in which its indexes may lie.
pub(crate) struct OpenRepository {
    pub(crate) repository: Repository,
    _scratch: ScratchFolder,
}

/// The place of a repository, as the flags name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Location<'a> {
    Url(&'a str),
    Velero { namespace: &'a str, bucket: &'a str },
}

impl RepositoryArgs {
    fn location(&self) -> Result<Location<'_>> {
        match (&self.repo, &self.velero, &self.bucket) {
            (Some(url), None, None) => Ok(Location::Url(url)),
            (None, Some(namespace), Some(bucket)) => Ok(Location::Velero { namespace, bucket }),
            _ => bail!("name the repository either by --repo, or by --velero and --bucket"),
        }
    }

    fn password_file(&self) -> Result<&Path> {
        let file = self.password_file.as_deref();
        file.context("--password-file is missing: the file with the password of the repository")
    }

    /// True for the repository of a namespace, which a server has made.
    pub(crate) fn is_of_velero(&self) -> bool {
        self.velero.is_some()
    }

    /// Refuses `--recover-indexes`, for a command that writes.
    fn refuse_recovery(&self) -> Result<()> {
        if self.indexes.are_recovered() {
            bail!("--recover-indexes is for reading; leave it out to write");
        }
        Ok(())
    }

    /// Opens the bucket or directory of a repository of kopia's, which must be there.
    async fn store(&self, globals: &Globals) -> Result<Arc<dyn BlobStore>> {
        match self.located(globals).await? {
            (store, RepositoryFormat::Kopia) => Ok(store),
            (store, RepositoryFormat::Restic) => bail!(
                "{} holds a restic repository, and this command is for those of kopia: lifeboat repo snapshots, ls, cat, restore and mount \
                 read it",
                store.describe()
            ),
        }
    }

    /// Opens the bucket or directory of the repository, which must be there, and finds its format.
    async fn located(&self, globals: &Globals) -> Result<(Arc<dyn BlobStore>, RepositoryFormat)> {
        match self.location()? {
            Location::Url(url) => {
                let store = bucket_url::open_existing("--repo", url, globals.patience()).await?;
                let format = match self.format {
                    Some(format) => format,
                    None if lifeboat_restic::Repository::is_in(&*store).await? => RepositoryFormat::Restic,
                    None => RepositoryFormat::Kopia,
                };
                Ok((store, format))
            }
            Location::Velero { namespace, bucket } => {
                let bucket = bucket_url::open_existing("--bucket", bucket, globals.patience()).await?;
                of_velero(bucket, namespace, self.format).await
            }
        }
    }

    /// Opens the repository, which must be there.
    pub(crate) async fn open(&self, globals: &Globals) -> Result<OpenRepository> {
        self.open_at(globals, kopia_clock()).await
    }

    /// Opens it as [`RepositoryArgs::open`] does, with another clock.
    pub(crate) async fn open_at(&self, globals: &Globals, clock: lifeboat_kopia::Clock) -> Result<OpenRepository> {
        let store = self.store(globals).await?;
        self.open_kopia(store, clock).await
    }

    async fn open_kopia(&self, store: Arc<dyn BlobStore>, clock: lifeboat_kopia::Clock) -> Result<OpenRepository> {
        let password_file = self.password_file()?;
        let password = password(password_file)?;
        let scratch = self.scratch.folder()?;
        let source = PasswordSource::File(password_file.to_owned());
        let password = RepositoryPassword { password, source };
        OpenRepository::open(store, password, self.indexes.source(), scratch, clock).await
    }
}

/// The password of a repository, and where it comes from.
pub(crate) struct RepositoryPassword {
    pub(crate) password: Password,
    pub(crate) source: PasswordSource,
}

/// The origin of a password, for people when it is wrong.
#[derive(Clone, Debug)]
pub(crate) enum PasswordSource {
    /// This file.
    File(PathBuf),
    /// The one that Velero sets, because none was named.
    OfVelero,
    /// The Secret of the cluster.
    Cluster,
}

impl PasswordSource {
    fn next_step(&self) -> String {
        match self {
            Self::File(file) => format!("look at {}", file.display()),
            Self::OfVelero => format!(
                "the one that Velero sets was tried; --password-file names a file with another: that of the key {KEY_REPOSITORY_PASSWORD} of the \
                 Secret {SECRET_REPOSITORY} of its cluster"
            ),
            Self::Cluster => format!(
                "look at the Secret {SECRET_REPOSITORY}, which may have changed since the backup; --password-file names a file with another"
            ),
        }
    }
}

impl OpenRepository {
    /// Opens the repository of these blobs by a password. Its indexes may lie in `scratch`.
    pub(crate) async fn open(
        store: Arc<dyn BlobStore>,
        password: RepositoryPassword,
        indexes: IndexSource,
        scratch: ScratchFolder,
        clock: lifeboat_kopia::Clock,
    ) -> Result<Self> {
        let RepositoryPassword { password, source } = password;
        let options =
            OpenOptions { scratch: scratch.path().to_owned(), clock, memory: MEMORY, threads: threads(), indexes };
        let repository = Repository::open(store, password, options).await.map_err(|error| match error {
            KopiaError::WrongPassword { .. } => anyhow::Error::new(error).context(source.next_step()),
            error => recovery::with_advice(error),
        })?;
        if indexes == IndexSource::Packs {
            recovery::warn_of_recovery(&repository);
        }
        Ok(Self { repository, _scratch: scratch })
    }
}

/// Options of a writer as this user on this host.
fn write_options(user: &str, host: &str) -> WriteOptions {
    WriteOptions {
        user: user.to_owned(),
        host: host.to_owned(),
        random: random(),
        threads: threads(),
        memory: WriteOptions::usual_memory(threads()),
        uploads: UPLOADS,
    }
}

/// The threads that hash, compress and encrypt.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// The real clock, as repositories count.
pub(crate) fn kopia_clock() -> lifeboat_kopia::Clock {
    let clock = clock();
    repository_clock(move || clock())
}

/// Reads a password: a file without a line break at its end.
pub(crate) fn password(file: &Path) -> Result<Password> {
    let path = file.display();
    let read = File::open(file).and_then(Password::read);
    let password = read.with_context(|| format!("read the password of the repository from {path}"))?;
    let password = password.without_line_break();
    if password.as_bytes().is_empty() {
        bail!("{path} is empty: it has to hold the password of the repository");
    }
    Ok(password)
}

/// The part of a location's bucket that holds the repository of a namespace, and its format. Where both are there, and none
/// is asked for, it is that of kopia, which is newer.
pub(crate) async fn of_velero(
    bucket: Arc<dyn BlobStore>,
    namespace: &str,
    format: Option<RepositoryFormat>,
) -> Result<(Arc<dyn BlobStore>, RepositoryFormat)> {
    let (kopia, restic) = (prefix_of(namespace), restic_prefix(namespace));
    let has = async |prefix: &str| -> Result<bool> {
        let page = bucket.list(ListOptions { prefix: prefix.to_owned(), ..ListOptions::default() }).await?;
        Ok(!page.entries.is_empty() || page.continuation.is_some())
    };
    if format != Some(RepositoryFormat::Restic) && has(&kopia).await? {
        if format.is_none() && has(&restic).await? {
            let text = format!(
                "note: namespace {namespace} has a restic repository of an older Velero as well: --format restic reads that"
            );
            lifeboat_terminal::output::errors::warn(Some(&text));
        }
        return Ok((blobs_of(bucket, namespace), RepositoryFormat::Kopia));
    }
    if format != Some(RepositoryFormat::Kopia) && has(&restic).await? {
        return Ok((restic_of_velero(bucket, namespace), RepositoryFormat::Restic));
    }
    let looked_at = match format {
        Some(RepositoryFormat::Kopia) => kopia,
        Some(RepositoryFormat::Restic) => restic,
        None => format!("{kopia} or {restic}"),
    };
    bail!(
        "{} has nothing below {looked_at}: namespace {namespace} has no such repository there (a server makes one for each \
         namespace whose volumes it saves)",
        bucket.describe()
    );
}

/// A snapshot, or a path in it, as a command names it: `SNAPSHOT[:PATH]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotPath {
    pub(crate) snapshot: String,
    pub(crate) path: String,
}

impl std::str::FromStr for SnapshotPath {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (snapshot, path) = text.split_once(':').unwrap_or((text, ""));
        Ok(Self { snapshot: snapshot.to_owned(), path: path.to_owned() })
    }
}

/// An entry that a command has found in a snapshot of kopia.
pub(crate) struct FoundInKopia {
    pub(crate) snapshot: Snapshot,
    pub(crate) entry: DirectoryEntry,
    /// The gaps below the entry.
    pub(crate) gaps: SnapshotGaps,
}

impl SnapshotPath {
    /// Finds the entry; `latest` is of the named source.
    pub(crate) async fn find(&self, repository: &Repository, of: &SnapshotSourceArgs) -> Result<FoundInKopia> {
        let snapshot = of.choose(&repository.snapshots().await?, &self.snapshot)?;
        let document = snapshot
            .document
            .as_ref()
            .map_err(|why| anyhow::anyhow!("the manifest of snapshot {} cannot be read: {why}", snapshot.id))?;
        let root = document.root.as_ref().with_context(|| format!("snapshot {} has no root", snapshot.id))?;
        let entry = entry_at(repository.contents(), root, &self.path).await?;
        let gaps = SnapshotGaps::below(document, &entry);
        Ok(FoundInKopia { snapshot, entry, gaps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_bucket::{Memory, PutOptions};

    #[test]
    fn a_path_follows_the_snapshot_after_a_colon() {
        let parsed = |text: &str| text.parse::<SnapshotPath>().map(|one| (one.snapshot, one.path)).unwrap();
        let expected = |snapshot: &str, path: &str| (snapshot.to_owned(), path.to_owned());
        assert_eq!(parsed("latest"), expected("latest", ""));
        assert_eq!(parsed("abcd:/a/b:c"), expected("abcd", "/a/b:c"));
        assert_eq!(parsed("abcd:"), expected("abcd", ""));
    }

    #[tokio::test]
    async fn the_repository_of_a_namespace_is_found_in_either_format() {
        let bucket: Arc<dyn BlobStore> = Arc::new(Memory::default());
        for key in
            ["kopia/shop/kopia.repository", "restic/old/config", "kopia/both/kopia.repository", "restic/both/config"]
        {
            bucket.put(key, b"x".to_vec().into(), PutOptions::default()).await.unwrap();
        }
        let opened = async |namespace: &str, format| match of_velero(bucket.clone(), namespace, format).await {
            Ok((store, format)) => {
                let file = if format == RepositoryFormat::Kopia { "kopia.repository" } else { "config" };
                assert!(store.exists(file).await.unwrap());
                Ok(format)
            }
            Err(error) => Err(error.to_string().split_once(" has nothing below ").unwrap().1.to_owned()),
        };
        let (kopia, restic) = (RepositoryFormat::Kopia, RepositoryFormat::Restic);
        assert_eq!(opened("shop", None).await, Ok(kopia));
        assert_eq!(opened("old", None).await, Ok(restic));
        assert_eq!(opened("both", None).await, Ok(kopia));
        assert_eq!(opened("both", Some(restic)).await, Ok(restic));
        // A name that only begins like another is none.
        let why = "a server makes one for each namespace whose volumes it saves";
        for (namespace, format, places) in [
            ("sho", None, "kopia/sho/ or restic/sho/"),
            ("old", Some(kopia), "kopia/old/"),
            ("shop", Some(restic), "restic/shop/"),
        ] {
            let expected = format!("{places}: namespace {namespace} has no such repository there ({why})");
            assert_eq!(opened(namespace, format).await, Err(expected));
        }
    }
}
