//! The indexes that count in a repository of format version 1 (kopia: repo/content/indexblob): `n` blobs without the
//! inputs of finished compactions.
