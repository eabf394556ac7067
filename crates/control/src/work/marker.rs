//! Which bucket the directory of a location is.

use lifeboat_api::{BackupStorageLocation, BackupStorageLocationAccessMode as AccessMode, well_known};
use lifeboat_bucket::{BlobStore, is_not_as_before, put_marker, read_marker};

/// The bucket that the directory of a location was when it was seen before.
fn known(location: &BackupStorageLocation) -> Option<&str> {
    location.metadata.annotations.get(well_known::ANNOTATION_BUCKET_ID).map(String::as_str).filter(|id| !id.is_empty())
}

/// Refuses a directory that is not the bucket that it was before.
///
/// # Errors
/// Why, for people.
pub(super) async fn check(location: &BackupStorageLocation, bucket: &dyn BlobStore) -> Result<(), String> {
    if known(location).is_none() {
        return Ok(());
    }
    let found = read_marker(bucket).await.map_err(|e| e.to_string())?;
    let forget = format!("take the annotation {} off the location", well_known::ANNOTATION_BUCKET_ID);
    match is_not_as_before(known(location), found.as_deref(), &forget) {
        Some(why) => Err(format!("{}: {why}", bucket.describe())),
        None => Ok(()),
    }
}

/// Which bucket a directory is that can be used, to be noted on its location: one that is not marked yet is marked, unless it is only
/// read. `None` when nothing is to be noted.
///
/// # Errors
/// Why it cannot be read or marked.
pub(super) async fn mark(location: &BackupStorageLocation, bucket: &dyn BlobStore) -> Result<Option<String>, String> {
    if known(location).is_some() {
        return Ok(None);
    }
    let found = read_marker(bucket).await.map_err(|e| e.to_string())?;
    if found.is_some() || location.metadata.uid.is_empty() || location.spec.access_mode == Some(AccessMode::ReadOnly) {
        return Ok(found);
    }
    // The UID of the location that comes first is as good as any that nobody else has.
    put_marker(bucket, &location.metadata.uid).await.map(Some).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_bucket::{MARKER, Memory};

    #[tokio::test]
    async fn a_location_whose_disk_is_not_mounted_is_unavailable() {
        let (disk, empty) = (Memory::default(), Memory::default());
        let mut location = BackupStorageLocation::default();
        location.metadata.uid = "first".to_owned();
        let mut read = location.clone();
        read.spec.access_mode = Some(AccessMode::ReadOnly);
        assert_eq!(mark(&read, &disk).await, Ok(None), "nothing is written where it is only read");
        assert!(!disk.exists(MARKER).await.unwrap());
        assert_eq!(mark(&location, &disk).await, Ok(Some("first".to_owned())));
        let mut of_another = read.clone();
        of_another.metadata.uid = "second".to_owned();
        assert_eq!(mark(&of_another, &disk).await, Ok(Some("first".to_owned())), "each cluster knows it by the same");
        location.metadata.annotations.insert(well_known::ANNOTATION_BUCKET_ID.to_owned(), "first".to_owned());
        assert_eq!((check(&location, &disk).await, mark(&location, &disk).await), (Ok(()), Ok(None)));
        let refused = check(&location, &empty).await.unwrap_err();
        assert!(refused.contains("is its file system mounted?"), "{refused}");
        assert!(!empty.exists(MARKER).await.unwrap(), "nothing is written into what stands in its place");
    }
}
