//! Values in, text or JSON out: rows of tables, pages of descriptions, the status of an installation, plans of backups and
//! restores.
//!
//! Nothing here reads a cluster or a bucket: who shows a page has gathered its facts before. A new column of a list is a line in the
//! file of its kind in [`table`]. Start reading at [`describe`].

pub mod describe;
pub mod preview;
pub mod status;
pub mod table;
pub mod transfer;
