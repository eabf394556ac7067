//! Backups in a bucket: written, read, proved, damaged.
#![allow(clippy::unwrap_used, reason = "tests")]

mod rewrite;
mod sequential;

use bytes::Bytes;
use jiff::Timestamp;
use lifeboat_api::Backup;
use lifeboat_archive::ReadLimits;
use lifeboat_archive::gzip::{Packer, pack, unpack};
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::tarball::{Assembler, ObjectEntry, Segment};
use lifeboat_bucket::{BlobStore, Memory, PutOptions, collect};
use lifeboat_object::GroupResource;
use lifeboat_store::{
    Archive, BackupWriter, ClaimOutcome, ClaimRequest, Content, OpenOptions, Store, StoreError, VerifyProblem, stream,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use tokio::task::JoinSet;

const NAME: &str = "nightly";

fn options(ignore_index: bool) -> OpenOptions {
    OpenOptions { limits: ReadLimits::default(), scratch: std::env::temp_dir(), ignore_index }
}

fn body(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"shop"}},"data":{{"x":"y"}}}}"#
    )
}

/// Writes a backup of so many ConfigMaps, one a member, whose paths come from `path`.
async fn write(bucket: &Arc<dyn BlobStore>, objects: u32, path: impl Fn(u32) -> String) -> Store {
    write_bodies(bucket, objects, path, names).await
}

async fn write_bodies(
    bucket: &Arc<dyn BlobStore>,
    objects: u32,
    path: impl Fn(u32) -> String,
    object: impl Fn(u32) -> String,
) -> Store {
    let (store, writer) = begin(bucket, objects, path, object).await;
    commit(writer, objects).await;
    store
}

/// A backup that has its archive, and lacks its record.
async fn begin(
    bucket: &Arc<dyn BlobStore>,
    objects: u32,
    path: impl Fn(u32) -> String,
    object: impl Fn(u32) -> String,
) -> (Store, BackupWriter) {
    let store = Store::new(Arc::clone(bucket));
    let request = ClaimRequest {
        name: NAME.into(),
        backup_uid: "u".into(),
        cluster_uid: "c".into(),
        namespace: String::new(),
        take_over: false,
        now: Timestamp::UNIX_EPOCH,
    };
    let ClaimOutcome::Writer(mut writer) = store.claim(&request).await.unwrap() else { panic!("a new name") };
    let resource = GroupResource::new("", "configmaps");
    let mut assembler = Assembler::new();
    let mut pieces = Vec::new();
    for n in 0..objects {
        let mut segment = Segment::default();
        let (name, body) = (path(n), body(&object(n)));
        let entry = ObjectEntry {
            resource: &resource,
            version: "v1",
            preferred: true,
            namespace: Some("shop"),
            name: &name,
            body: [body.as_bytes(), b""],
        };
        segment.push_object(&entry, 0).unwrap();
        pieces.push(assembler.append(segment.compress(&mut Packer::new(3))));
    }
    let (last, summary, index) = assembler.finish();
    pieces.push(last);
    let (sender, receiver) = stream(64, "making the archive");
    for piece in pieces {
        sender.send(piece.into()).await.unwrap();
    }
    sender.end();
    writer.put_tarball(receiver).await.unwrap();
    writer.record_tarball(&summary);
    writer.put(BackupFile::Index, index).await.unwrap();
    (store, *writer)
}

async fn commit(writer: BackupWriter, objects: u32) {
    let mut backup = Backup::default();
    backup.metadata.name = NAME.into();
    backup.metadata.uid = "u".into();
    let counts = BTreeMap::from([("configmaps".to_owned(), u64::from(objects))]);
    writer.commit(&backup, "test", counts, "v1").await.unwrap();
}

/// Bytes of a file that is nowhere as a whole.
fn bytes(range: Range<u64>, seed: u64) -> Vec<u8> {
    range.map(|n| (n.wrapping_mul(seed) >> 3).to_le_bytes()[0]).collect()
}

fn content(length: u64, seed: u64) -> Content {
    Content::read_by(length, move |at, most| {
        assert!(most <= 1 << 20 && at + most as u64 <= length);
        // It need not give all that it is asked for.
        let most = most.min(700_000) as u64;
        Ok(bytes(at..at + most, seed).into())
    })
}

#[tokio::test]
async fn a_file_of_many_pieces_is_stored_whole_and_can_be_proved() {
    for length in [0, 1, 3 << 20, 10 << 20] {
        let bucket = memory();
        let (store, mut writer) = begin(&bucket, 3, names, names).await;
        writer.put(BackupFile::Logs, content(length, 3)).await.unwrap();
        commit(writer, 3).await;
        let key = BackupFile::Logs.key(NAME);
        let stored = collect(bucket.get(&key, None).await.unwrap(), 16 << 20).await.unwrap();
        assert!(stored == bytes(0..length, 3), "{length}");
        let found = store.verify(NAME, &options(false)).await.unwrap();
        // The archive, its index and the log.
        assert_eq!((found.problems.as_slice(), found.files), ([].as_slice(), 3), "{length}");

        change(&bucket, BackupFile::Logs, |bytes| bytes.push(0)).await;
        let found = store.verify(NAME, &options(false)).await.unwrap();
        let problem = format!("it has {} bytes, {length} were written", length + 1);
        assert_eq!(found.problems, [VerifyProblem { what: key, problem }]);
    }
}

#[tokio::test]
async fn a_file_whose_pieces_cannot_be_read_is_never_visible() {
    let bucket = memory();
    let (_, mut writer) = begin(&bucket, 1, names, names).await;
    type Read = fn(u64) -> std::io::Result<Bytes>;
    let fails: Read = |_| Err(std::io::Error::other("the disk is gone"));
    let ends: Read = |at| Ok(vec![1; if at == 0 { 1000 } else { 0 }].into());
    for (read, why) in [(fails, "the disk is gone"), (ends, "unexpected end of file")] {
        for length in [2000, 10 << 20] {
            let key = BackupFile::Logs.key(NAME);
            let content = Content::read_by(length, move |at, _| read(at));
            let error = writer.put(BackupFile::Logs, content).await.unwrap_err().to_string();
            let expected = format!("cannot put \"{key}\" in scratch space: what is to be stored cannot be read: {why}");
            assert_eq!(error, expected);
            assert!(bucket.head(&key).await.unwrap_err().is_not_found());
        }
    }
}

fn names(n: u32) -> String {
    format!("c{n}")
}

async fn read(archive: &Archive) -> Result<Vec<String>, StoreError> {
    let mut tasks = JoinSet::new();
    let mut contents = archive.read((0..archive.rows().len()).collect(), &mut tasks);
    let mut out = Vec::new();
    while let Some(item) = contents.next().await? {
        assert_eq!(item.body, body(&item.head.name));
        out.push(item.head.name);
    }
    out.sort();
    Ok(out)
}

async fn change(bucket: &Arc<dyn BlobStore>, file: BackupFile, edit: impl FnOnce(&mut Vec<u8>)) {
    let key = file.key(NAME);
    let mut bytes = collect(bucket.get(&key, None).await.unwrap(), 16 << 20).await.unwrap().to_vec();
    edit(&mut bytes);
    bucket.put(&key, bytes.into(), PutOptions::default()).await.unwrap();
}

fn memory() -> Arc<dyn BlobStore> {
    Arc::new(Memory::default())
}

#[tokio::test]
async fn an_archive_reads_the_same_with_and_without_its_index() {
    let bucket = memory();
    let store = write(&bucket, 30, names).await;
    let mut expected: Vec<String> = (0..30).map(names).collect();
    expected.sort();
    for ignore_index in [false, true] {
        let archive = store.open_archive(NAME, &options(ignore_index)).await.unwrap();
        assert_eq!(read(&archive).await.unwrap(), expected, "{ignore_index}");
    }
    let found = store.verify(NAME, &options(false)).await.unwrap();
    assert_eq!((found.problems.len(), found.files, found.objects, found.has_manifest), (0, 2, 30, true));
}

#[tokio::test]
async fn an_index_of_another_archive_is_not_used() {
    let bucket = memory();
    let store = write(&bucket, 3, names).await;
    let other = memory();
    write(&other, 5, names).await;
    let key = BackupFile::Tarball.key(NAME);
    let tarball = collect(other.get(&key, None).await.unwrap(), 1 << 20).await.unwrap();
    bucket.put(&key, tarball.into(), PutOptions::default()).await.unwrap();
    let archive = store.open_archive(NAME, &options(false)).await.unwrap();
    assert_eq!(read(&archive).await.unwrap().len(), 5);
}

#[tokio::test]
async fn every_damage_is_found() {
    for (file, expected) in [
        (BackupFile::Tarball, "its content is not what was written (SHA-256 differs)"),
        (BackupFile::Index, "its content is not what was written (SHA-256 differs)"),
    ] {
        let bucket = memory();
        let store = write(&bucket, 20, names).await;
        change(&bucket, file, |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x55;
        })
        .await;
        let found = store.verify(NAME, &options(false)).await.unwrap();
        assert!(found.problems.iter().any(|p| p.problem == expected), "{file:?}: {found:?}");

        bucket.delete(&[file.key(NAME)]).await.unwrap();
        let found = store.verify(NAME, &options(false)).await.unwrap();
        assert!(found.problems.iter().any(|p| p.problem == "it is missing"), "{file:?}: {found:?}");
    }
}

#[tokio::test]
async fn a_truncated_archive_is_refused() {
    let bucket = memory();
    let store = write(&bucket, 20, names).await;
    change(&bucket, BackupFile::Tarball, |bytes| bytes.truncate(bytes.len() / 2)).await;
    let refused = store.open_archive(NAME, &options(false)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Archive { .. }), "{refused:?}");
}

/// It would slip past filters and namespace mappings.
#[tokio::test]
async fn an_object_under_another_name_is_refused() {
    let bucket = memory();
    let store = write(&bucket, 3, |n| format!("other{n}")).await;
    let archive = store.open_archive(NAME, &options(false)).await.unwrap();
    let refused = read(&archive).await.unwrap_err();
    assert!(matches!(refused, StoreError::Disagrees { .. }), "{refused:?}");
    let refused = store.open_archive(NAME, &options(true)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Disagrees { .. }), "{refused:?}");
}

#[tokio::test]
async fn an_archive_whose_maker_died_is_never_visible() {
    let bucket = memory();
    let store = Store::new(Arc::clone(&bucket));
    let request = ClaimRequest {
        name: NAME.into(),
        backup_uid: "u".into(),
        cluster_uid: "c".into(),
        namespace: String::new(),
        take_over: false,
        now: Timestamp::UNIX_EPOCH,
    };
    let ClaimOutcome::Writer(writer) = store.claim(&request).await.unwrap() else { panic!("a new name") };
    let (sender, receiver) = stream(4, "making the archive");
    sender.send(b"half"[..].into()).await.unwrap();
    drop(sender);
    assert!(writer.put_tarball(receiver).await.is_err());
    assert!(bucket.head(&BackupFile::Tarball.key(NAME)).await.unwrap_err().is_not_found());
    assert_eq!(store.backup_names().await.unwrap(), [""; 0], "a claim is no backup");
}

/// The number of objects that are read from an archive, or the error that refuses it.
async fn outcome(store: &Store, options: &OpenOptions) -> Result<usize, String> {
    let read = async { read(&store.open_archive(NAME, options).await?).await };
    read.await.map(|names| names.len()).map_err(|e| lifeboat_object::chain(&e))
}

#[tokio::test]
async fn the_limits_hold_beside_an_index_as_without_one() {
    let bucket = memory();
    let store = write(&bucket, 30, names).await;
    let default = ReadLimits::default();
    for (limits, expected) in [
        (default, Ok(30)),
        (
            ReadLimits { total: 20_000, ..default },
            Err("decompressed backup exceeds maximum allowed size of 20000 bytes"),
        ),
        (ReadLimits { entries: 50, ..default }, Err("the archive is refused: it has more than 50 entries")),
        (ReadLimits { entries: 5, ..default }, Err("the archive is refused: it has more than 5 entries")),
        (ReadLimits { entry: 80, ..default }, Err("bytes, allowed are 80")),
    ] {
        for ignore_index in [false, true] {
            let got = outcome(&store, &OpenOptions { limits, ..options(ignore_index) }).await;
            let fits = match (&got, expected) {
                (Err(got), Err(expected)) => got.ends_with(expected),
                (Ok(got), Ok(expected)) => *got == expected,
                _ => false,
            };
            assert!(fits, "{limits:?}, {ignore_index}: {got:?}");
        }
    }
}

/// Index and archive together are made by somebody else: what the index says must not make us read, or hold, more than the
/// archive is good for.
#[tokio::test]
async fn an_index_that_lies_is_not_used() {
    let honest = memory();
    write(&honest, 3, names).await;
    let key = BackupFile::Index.key(NAME);
    let bytes = collect(honest.get(&key, None).await.unwrap(), 1 << 20).await.unwrap();
    let text = String::from_utf8(unpack(&bytes, 1 << 20).unwrap()).unwrap();
    let index: serde_json::Value = serde_json::from_str(&text).unwrap();
    type Lie = fn(&mut serde_json::Value);
    let lies: [(&str, Lie); 7] = [
        ("a member that unpacks to a terabyte", |i| i["members"][1][2] = (1_u64 << 40).into()),
        ("a member that is all of the archive", |i| i["members"][0][1] = (1_u64 << 40).into()),
        ("a row that is four gigabytes", |i| i["objects"][0][7] = u32::MAX.into()),
        ("a row that another one holds", |i| i["objects"][1] = i["objects"][0].clone()),
        ("two rows of the same bytes", |i| {
            i["objects"][1] = i["objects"][0].clone();
            i["objects"][1][4] = "other".into();
        }),
        ("rows without end", |i| {
            let row = i["objects"][0].clone();
            i["objects"] = vec![row; 100_000].into();
        }),
        ("a name without end", |i| i["objects"][0][4] = "x".repeat(64 << 20).into()),
    ];
    for (what, lie) in lies {
        let bucket = memory();
        let store = write(&bucket, 3, names).await;
        let mut index = index.clone();
        lie(&mut index);
        bucket.put(&key, pack(index.to_string().as_bytes()).into(), PutOptions::default()).await.unwrap();
        let got = outcome(&store, &options(false)).await;
        let expected = if what.contains("gigabytes") {
            Err("entry \"configmaps/shop/c0\" has 4294967295 bytes, allowed are 67108864")
        } else {
            Ok(3)
        };
        let fits = match (&got, expected) {
            (Err(got), Err(expected)) => got.ends_with(expected),
            (got, expected) => got.as_ref().ok() == expected.ok().as_ref(),
        };
        assert!(fits, "{what}: {got:?}");
    }
}

#[tokio::test]
async fn an_object_that_stands_in_an_archive_twice_is_refused() {
    let bucket = memory();
    let same = |_| "c0".to_owned();
    let store = write_bodies(&bucket, 2, same, same).await;
    for ignore_index in [false, true] {
        let refused = "configmaps/shop/c0 stands in the archive twice";
        let got = outcome(&store, &options(ignore_index)).await.unwrap_err();
        assert!(got.ends_with(refused), "{ignore_index}: {got}");
    }
}
