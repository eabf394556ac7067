//! Indexes of packs, read from their ends, where the index blobs are lost.
