//! The identity of the bucket in the directory of a location.

use lifeboat_api::{BackupStorageLocation, well_known};
use lifeboat_bucket::{BlobStore, BucketError, BucketNotes, ListOptions, MARKER, put_marker, read_marker};
use lifeboat_object::first_names;

/// The bucket that the directory of a location was when it was seen before.
fn known(location: &BackupStorageLocation) -> Option<&str> {
    location.metadata.annotations.get(well_known::ANNOTATION_BUCKET_ID).map(String::as_str).filter(|id| !id.is_empty())
}

/// Refuses a directory that is not the bucket that it was before.
///
/// # Errors
/// A message for people that says why it is refused.
pub(super) async fn check(location: &BackupStorageLocation, bucket: &dyn BlobStore) -> Result<(), String> {
    if known(location).is_none() {
        return Ok(());
    }
    let found = read_marker(bucket).await.map_err(|e| e.to_string())?;
    let (annotation, known) = (well_known::ANNOTATION_BUCKET_ID, known(location));
    let add = format!("append to the annotation {annotation} of the location, after a blank,");
    let notes = BucketNotes { known, forget: format!("take the annotation {annotation} off the location"), add };
    match notes.refusal(found.as_deref()) {
        Some(why) => Err(format!("{}: {why}", bucket.describe())),
        None => Ok(()),
    }
}

/// Returns true if a directory is empty and no annotation says which bucket it was before: it may be the folder below a
/// file system that is not mounted.
///
/// # Errors
/// The reason for which it cannot be listed.
pub(super) async fn may_be_unmounted(location: &BackupStorageLocation, bucket: &dyn BlobStore) -> Result<bool, String> {
    Ok(known(location).is_none() && is_empty(bucket).await.map_err(|e| e.to_string())?)
}

async fn is_empty(bucket: &dyn BlobStore) -> Result<bool, BucketError> {
    let mut options = ListOptions { page_size: 1, ..ListOptions::default() };
    // A page may have no entries though there are some.
    loop {
        let page = bucket.list(options.clone()).await?;
        if !page.entries.is_empty() {
            return Ok(false);
        }
        options.continuation = page.continuation;
        if options.continuation.is_none() {
            return Ok(true);
        }
    }
}

/// A message for people that an empty directory is not used, because these backups should be in it.
pub(super) fn empty_though(bucket: &str, backups: &[String]) -> String {
    format!(
        "{bucket}: it is empty, and the files of {} should be there; is its file system mounted? When they are gone for good, delete these \
         Backups (`kubectl delete backups.velero.io`)",
        first_names(backups)
    )
}

/// The result of the search for the marker of a directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MarkerSearch {
    /// Which bucket it is, when that is to be noted on its location.
    pub(super) id: Option<String>,
    /// A message for people that says why the bucket is not known.
    pub(super) remark: Option<String>,
}

/// Looks which bucket a directory is that can be used: one that is not marked yet is marked, unless it is only read. What cannot be marked
/// can be used all the same, such as a disk that is full or mounted read-only.
pub(super) async fn mark(location: &BackupStorageLocation, bucket: &dyn BlobStore) -> MarkerSearch {
    if known(location).is_some() {
        return MarkerSearch::default();
    }
    match find_or_put(location, bucket).await {
        Ok(id) => MarkerSearch { id, remark: None },
        Err(e) => MarkerSearch {
            id: None,
            remark: Some(format!(
                "Nothing says later which bucket this directory is, because it has no file {MARKER} ({e}): an empty folder in its place, \
                 whose file system is not mounted, could be taken for it"
            )),
        },
    }
}

async fn find_or_put(location: &BackupStorageLocation, bucket: &dyn BlobStore) -> Result<Option<String>, BucketError> {
    let found = read_marker(bucket).await?;
    if found.is_some() || location.metadata.uid.is_empty() || location.is_read_only() {
        return Ok(found);
    }
    // The UID of the location that comes first is as good as any that nobody else has.
    put_marker(bucket, &location.metadata.uid).await.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::BackupStorageLocationAccessMode as AccessMode;
    use lifeboat_bucket::{Memory, PutOptions};

    fn noted(id: Option<&str>) -> MarkerSearch {
        MarkerSearch { id: id.map(str::to_owned), remark: None }
    }

    #[tokio::test]
    async fn a_location_whose_disk_is_not_mounted_is_unavailable() {
        let (disk, empty) = (Memory::default(), Memory::default());
        let mut location = BackupStorageLocation::default();
        location.metadata.uid = "first".to_owned();
        let mut read = location.clone();
        read.spec.access_mode = Some(AccessMode::ReadOnly);
        assert_eq!(mark(&read, &disk).await, noted(None), "nothing is written where it is only read");
        assert!(!disk.exists(MARKER).await.unwrap());
        assert_eq!(mark(&location, &disk).await, noted(Some("first")));
        let mut of_another = read.clone();
        of_another.metadata.uid = "second".to_owned();
        assert_eq!(mark(&of_another, &disk).await, noted(Some("first")), "each cluster knows it by the same");
        location.metadata.annotations.insert(well_known::ANNOTATION_BUCKET_ID.to_owned(), "first".to_owned());
        assert_eq!((check(&location, &disk).await, mark(&location, &disk).await), (Ok(()), noted(None)));
        let refused = check(&location, &empty).await.unwrap_err();
        assert!(refused.contains("is its file system mounted?"), "{refused}");
        assert!(!empty.exists(MARKER).await.unwrap(), "nothing is written into what stands in its place");
    }

    #[tokio::test]
    async fn a_directory_that_cannot_be_marked_is_used_all_the_same() {
        let disk = Memory::default();
        // It is somebody else's file, and stays.
        disk.put(MARKER, b"welcome".to_vec().into(), PutOptions::default()).await.unwrap();
        let mut location = BackupStorageLocation::default();
        location.metadata.uid = "first".to_owned();
        assert_eq!(check(&location, &disk).await, Ok(()));
        let MarkerSearch { id, remark } = mark(&location, &disk).await;
        let remark = remark.unwrap();
        assert!(id.is_none() && remark.contains("it is no marker of a bucket"), "{remark}");
    }

    #[tokio::test]
    async fn an_empty_directory_with_no_bucket_id_may_be_an_unmounted_one() {
        let (disk, empty) = (Memory::default(), Memory::default());
        disk.put("backups/b/velero-backup.json", b"{}".to_vec().into(), PutOptions::default()).await.unwrap();
        let mut location = BackupStorageLocation::default();
        assert_eq!(may_be_unmounted(&location, &disk).await, Ok(false));
        assert_eq!(may_be_unmounted(&location, &empty).await, Ok(true));
        // The marker decides, and was looked for before.
        location.metadata.annotations.insert(well_known::ANNOTATION_BUCKET_ID.to_owned(), "first".to_owned());
        assert_eq!(may_be_unmounted(&location, &empty).await, Ok(false));
        let why = empty_though("/backups", &["a".to_owned(), "b".to_owned()]);
        let expected = "/backups: it is empty, and the files of a, b should be there; is its file system mounted? When they are gone for \
                        good, delete these Backups (`kubectl delete backups.velero.io`)";
        assert_eq!(why, expected);
    }
}
