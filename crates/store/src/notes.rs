//! Notes beside the claim of a backup that is being written. They outlive all that its cluster knows of it.
//!
//! They are files of the backup like any other, and are deleted with it, or with the files of a backup that was never
//! committed.

use crate::{Store, StoreError};
use bytes::Bytes;
use lifeboat_archive::layout::{note_key, note_of, notes_prefix};
use lifeboat_bucket::{BlobStore, Entry, ListOptions, PutOptions};

impl Store {
    /// Puts a note in place of the one of this name.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn put_note(&self, backup: &str, note: &str, content: Bytes) -> Result<(), StoreError> {
        let options = PutOptions { content_type: Some("application/json"), ..PutOptions::default() };
        self.put(&note_key(backup, note), content, options).await
    }

    /// A note; `None` when there is none of this name.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn note(&self, backup: &str, note: &str) -> Result<Option<Bytes>, StoreError> {
        self.read(&note_key(backup, note)).await
    }

    /// The names of all notes that begin with this, in order.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn note_names(&self, backup: &str, prefix: &str) -> Result<Vec<String>, StoreError> {
        let mut options = ListOptions { prefix: notes_prefix(backup, prefix), ..ListOptions::default() };
        let mut names = Vec::new();
        loop {
            let page = self.bucket.list(options.clone()).await?;
            names.extend(page.entries.iter().filter_map(|entry| match entry {
                Entry::Object(object) => note_of(backup, &object.key).map(str::to_owned),
                Entry::Prefix(_) => None,
            }));
            options.continuation = page.continuation;
            if options.continuation.is_none() {
                return Ok(names);
            }
        }
    }

    /// Removes notes; it is no error when there are none of these names.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn remove_notes(&self, backup: &str, notes: &[String]) -> Result<(), StoreError> {
        if notes.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = notes.iter().map(|note| note_key(backup, note)).collect();
        Ok(self.bucket.delete(&keys).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn notes_are_files_of_their_backup() {
        let store = Store::in_memory();
        for (backup, note, content) in [
            ("a", "snapshot-1", "old"),
            ("a", "snapshot-1", "1"),
            ("a", "snapshot-2", "2"),
            ("a", "x", "3"),
            ("ab", "snapshot-1", "4"),
        ] {
            store.put_note(backup, note, Bytes::from_static(content.as_bytes())).await.unwrap();
        }
        assert_eq!(store.note_names("a", "snapshot-").await.unwrap(), ["snapshot-1", "snapshot-2"]);
        assert_eq!(store.note("a", "snapshot-1").await.unwrap(), Some(Bytes::from_static(b"1")));
        let gone = ["snapshot-1", "none"].map(str::to_owned);
        store.remove_notes("a", &gone).await.unwrap();
        assert_eq!(store.note("a", "snapshot-1").await.unwrap(), None);
        store.sweep("a").await.unwrap();
        assert_eq!(store.note_names("a", "").await.unwrap(), [""; 0]);
        assert_eq!(store.note_names("ab", "").await.unwrap(), ["snapshot-1"]);
    }
}
