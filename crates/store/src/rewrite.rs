//! Replaces objects and files of a committed backup, so that it can be proved at every moment.

use crate::archive::Archive;
use crate::change::folder;
use crate::open::OpenOptions;
use crate::{Content, Store, StoreError};
use bytes::Bytes;
use lifeboat_api::Backup;
use lifeboat_archive::gojson;
use lifeboat_archive::gzip::Packer;
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::sidecar::{FileDigest, Manifest, NextFiles};
use lifeboat_archive::tarball::{Assembler, Member, ObjectEntry, Segment, TarballSummary};
use lifeboat_object::ObjectKey;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Write;
use std::path::Path;
use tempfile::NamedTempFile;
use tokio::task::{JoinSet, spawn_blocking};

/// Compression of members that are packed anew.
const LEVEL: u32 = 1;

/// The changes to a committed backup.
#[derive(Debug)]
pub struct Rewrite {
    /// Objects that take the place of those of their key and version; the others are added.
    pub objects: Vec<NewObject>,
    /// Files beside the archive.
    pub files: Vec<(BackupFile, Content)>,
    /// The record, which is put last.
    pub record: Backup,
    /// Modification time of the new entries, in seconds since 1970.
    pub mtime: u64,
}

/// An object for the archive.
#[derive(Clone, Debug)]
pub struct NewObject {
    /// Its key.
    pub key: ObjectKey,
    /// The version its JSON is in.
    pub version: String,
    /// True when the cluster prefers that version.
    pub preferred: bool,
    /// Its JSON, with `apiVersion` and `kind`.
    pub body: Bytes,
}

/// The new archive, in scratch space.
struct NewArchive {
    archive: Content,
    summary: TarballSummary,
    index: Vec<u8>,
    counts: BTreeMap<String, u64>,
}

impl Store {
    /// Rewrites a committed backup. It can be proved ([`Store::verify`]) and restored at every moment, also when this is cut
    /// off anywhere; doing it again with the same change goes on. Members of the archive that hold none of the objects are
    /// copied as they are. The new archive lies in scratch space until it is stored.
    ///
    /// A backup without a manifest (Velero's) is rewritten in the same order, but cannot be proved before or after.
    ///
    /// # Errors
    /// [`StoreError`]: [`StoreError::Altered`] when a file is neither the one that was stored nor the one that a
    /// rewriting was to store, before anything is changed.
    pub async fn rewrite(&self, name: &str, change: Rewrite, options: &OpenOptions) -> Result<(), StoreError> {
        let manifest = self.manifest(name, &change.record.metadata.uid).await?;
        // Of a rewriting that was cut off while the archive went up.
        self.abort_uploads(name).await?;
        let mut files = change.files;
        let tarball = BackupFile::Tarball.file_name(name);
        // One that was cut off may have left an archive that its index does not belong to.
        let may_disagree =
            manifest.as_ref().and_then(|m| m.next.as_ref()).is_some_and(|n| n.files.contains_key(&tarball));
        let built = match change.objects.as_slice() {
            [] if !may_disagree => None,
            objects => {
                let archive = self.open_archive(name, options).await?;
                Some(build(&archive, objects, change.mtime, &options.scratch).await?)
            }
        };
        let mut next: BTreeMap<String, FileDigest> = BTreeMap::new();
        if let Some(built) = &built {
            let TarballSummary { size, sha256, .. } = &built.summary;
            next.insert(tarball, FileDigest { size: *size, sha256: sha256.clone() });
            files.insert(0, (BackupFile::Index, built.index.clone().into()));
        }
        for (file, content) in &files {
            next.insert(file.file_name(name), content.digest(&file.key(name)).await?);
        }
        let manifest = match manifest {
            None => None,
            Some(manifest) => {
                let counts = built.as_ref().map_or_else(|| manifest.counts.clone(), |built| built.counts.clone());
                Some(self.announce(name, manifest, NextFiles { counts, files: next }).await?)
            }
        };
        if let Some(built) = &built {
            self.replace_file(name, BackupFile::Tarball, built.archive.clone()).await?;
        }
        for (file, content) in files {
            self.replace_file(name, file, content).await?;
        }
        if let Some(mut manifest) = manifest {
            if let Some(next) = manifest.next.take() {
                manifest.counts = next.counts;
                manifest.files.extend(next.files);
            }
            self.put_manifest(name, &manifest).await?;
        }
        self.replace_record(&change.record).await
    }

    /// The manifest of this very backup; `None` when it has none.
    async fn manifest(&self, name: &str, uid: &str) -> Result<Option<Manifest>, StoreError> {
        let key = BackupFile::Manifest.key(name);
        let Some(bytes) = self.read(&key).await? else { return Ok(None) };
        let altered = |problem: String| StoreError::Altered { key: key.clone(), problem };
        let manifest: Manifest =
            serde_json::from_slice(&bytes).map_err(|e| altered(format!("it is not valid JSON: {e}")))?;
        if manifest.backup_uid != uid {
            return Err(altered(format!("it belongs to the backup of UID {}", manifest.backup_uid)));
        }
        Ok(Some(manifest))
    }

    /// Puts the manifest that lists the present files and the next ones.
    async fn announce(&self, name: &str, mut manifest: Manifest, next: NextFiles) -> Result<Manifest, StoreError> {
        // A rewriting that was cut off has left some files old and some new, also such that this one leaves as they are.
        let of_before = manifest.next.iter().flat_map(|before| before.files.keys().cloned());
        let files: BTreeSet<String> = next.files.keys().cloned().chain(of_before).collect();
        for file in &files {
            let key = format!("{}{file}", folder(name));
            match self.digest(&key).await {
                Ok(found) if manifest.admits(file, &found) => drop(manifest.files.insert(file.clone(), found)),
                Ok(_) => {
                    let problem = "its content is neither what was stored nor what was to take its place".to_owned();
                    return Err(StoreError::Altered { key, problem });
                }
                Err(e) if e.is_not_found() && !manifest.files.contains_key(file) => {}
                Err(e) => return Err(e.into()),
            }
        }
        if let Some(before) = manifest.next.take()
            && manifest.files.get(&BackupFile::Tarball.file_name(name))
                == before.files.get(&BackupFile::Tarball.file_name(name))
        {
            manifest.counts = before.counts;
        }
        manifest.next = Some(next);
        self.put_manifest(name, &manifest).await?;
        Ok(manifest)
    }

    async fn put_manifest(&self, name: &str, manifest: &Manifest) -> Result<(), StoreError> {
        let bytes = gojson::to_vec_pretty(manifest).map_err(|e| StoreError::Encode("the manifest", e))?;
        self.replace_file(name, BackupFile::Manifest, bytes).await
    }
}

/// Makes the new archive: members without any of the objects are copied, the others packed anew.
async fn build(archive: &Archive, objects: &[NewObject], mtime: u64, scratch: &Path) -> Result<NewArchive, StoreError> {
    let replaced: HashSet<([u8; 16], &str)> =
        objects.iter().map(|object| (object.key.digest(), object.version.as_str())).collect();
    let is_replaced =
        |row: usize| archive.row(row).is_some_and(|row| replaced.contains(&(row.key().digest(), &*row.version)));
    let mut out = RewrittenArchive::begin(scratch)?;
    let mut packing = Segment::default();
    for (number, (member, rows)) in archive.members().into_iter().enumerate() {
        if !rows.iter().any(|row| is_replaced(*row)) {
            let gzip = archive.fetch(member.offset..member.offset + member.length).await?;
            let rows = rows.iter().filter_map(|row| archive.row(*row));
            out.add(Member::copied(gzip.into(), member.tar_length, rows))?;
            continue;
        }
        if number == 0 {
            // It stands before all objects.
            packing.push_version(mtime);
        }
        let mut reading = JoinSet::new();
        let kept = rows.into_iter().filter(|row| !is_replaced(*row)).collect();
        let mut contents = archive.read(kept, &mut reading);
        while let Some(item) = contents.next().await? {
            let Some(row) = archive.row(item.row) else { continue };
            let entry = ObjectEntry {
                resource: &row.resource,
                version: &row.version,
                preferred: row.preferred,
                namespace: row.namespace(),
                name: &row.name,
                body: [&item.body, &[]],
            };
            packing = out.pack(packing, &entry, mtime).await?;
        }
        // What is first stays first.
        if number == 0 {
            packing = out.close(packing).await?;
        }
    }
    for NewObject { key, version, preferred, body } in objects {
        let ObjectKey { resource, namespace, name } = key;
        let (preferred, namespace) = (*preferred, namespace.as_deref());
        let entry = ObjectEntry { resource, version, preferred, namespace, name, body: [body, &[]] };
        packing = out.pack(packing, &entry, mtime).await?;
    }
    if !packing.is_empty() {
        out.close(packing).await?;
    }
    let mut counts = BTreeMap::new();
    let kept = (0..archive.rows().len()).filter(|row| !is_replaced(*row)).filter_map(|row| archive.row(row));
    let names =
        kept.map(|row| row.resource.to_string()).chain(objects.iter().map(|object| object.key.resource.to_string()));
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    out.end(counts, archive.size())
}

/// The new archive on its way into scratch space.
struct RewrittenArchive {
    file: NamedTempFile,
    place: String,
    assembler: Assembler,
    packer: Option<Packer>,
}

impl RewrittenArchive {
    fn begin(scratch: &Path) -> Result<Self, StoreError> {
        let place = scratch.display().to_string();
        let made = tempfile::Builder::new().prefix("lifeboat-").tempfile_in(scratch);
        let file = made.map_err(|source| StoreError::Scratch { place: place.clone(), source })?;
        Ok(Self { file, place, assembler: Assembler::new(), packer: None })
    }

    fn add(&mut self, member: Member) -> Result<(), StoreError> {
        let bytes = self.assembler.append(member);
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let written = self.file.write_all(bytes);
        written.map_err(|source| StoreError::Scratch { place: self.place.clone(), source })
    }

    /// Adds an object; a full segment is compressed and written.
    async fn pack(
        &mut self,
        mut segment: Segment,
        object: &ObjectEntry<'_>,
        mtime: u64,
    ) -> Result<Segment, StoreError> {
        segment
            .push_object(object, mtime)
            .map_err(|e| StoreError::Archive { key: object.name.to_owned(), source: e.into() })?;
        if segment.is_full() { self.close(segment).await } else { Ok(segment) }
    }

    /// Compresses a segment on another thread and writes it; gives it back empty.
    async fn close(&mut self, mut segment: Segment) -> Result<Segment, StoreError> {
        let mut packer = self.packer.take().unwrap_or_else(|| Packer::new(LEVEL));
        let compressed = spawn_blocking(move || (segment.compress(&mut packer), segment, packer)).await;
        let (member, segment, packer) = compressed.map_err(|_| StoreError::Worker("compressing the archive"))?;
        self.packer = Some(packer);
        self.add(member)?;
        Ok(segment)
    }

    fn end(mut self, counts: BTreeMap<String, u64>, before: u64) -> Result<NewArchive, StoreError> {
        let (last, summary, index) = std::mem::take(&mut self.assembler).finish_unlike(before);
        self.write(&last)?;
        self.file.flush().map_err(|source| StoreError::Scratch { place: self.place.clone(), source })?;
        let archive = Content::of_file(self.file.into_file(), summary.size);
        Ok(NewArchive { archive, summary, index, counts })
    }
}
