//! Backups in object storage, and archives that are made to do harm.

mod hostile;
mod object_storage;
