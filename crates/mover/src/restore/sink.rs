//! Where the pieces of the plan go.

use super::file::FileTask;
use super::link::LinkTask;
use super::run::{Ended, Run};
use crate::RepositoryError;
use crate::progress::add;
use crate::tree::Reader;
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// A piece that is to be read.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) place: PieceTarget,
    /// A permit for one of the pieces that there may be at once.
    pub(super) _room: OwnedSemaphorePermit,
}

/// The place of the bytes of a content.
#[derive(Debug)]
pub(super) enum PieceTarget {
    /// A part of a file.
    File {
        /// The file.
        task: Arc<FileTask>,
        /// The offset in the file.
        offset: u64,
        /// The length, which may be less than that of the content.
        length: u64,
    },
    /// The target of a symlink.
    Link {
        /// The symlink.
        task: LinkTask,
        /// The length.
        length: u64,
    },
}

/// Writes pieces into the target.
pub(super) struct Writer(pub(super) Arc<Run>);

fn first(bytes: &[u8], length: u64) -> &[u8] {
    // The plan gives no piece with fewer bytes than were asked for.
    usize::try_from(length).ok().and_then(|length| bytes.get(..length)).unwrap_or(bytes)
}

impl Writer {
    fn write(&self, bytes: &Bytes, pieces: Vec<Piece>) -> Result<(), Ended> {
        let run = &*self.0;
        add(&run.progress.bytes_fetched, bytes.len() as u64);
        for piece in pieces {
            let _step = run.enter()?;
            match piece.place {
                PieceTarget::File { task, offset, length } => task.take(run, offset, first(bytes, length)),
                PieceTarget::Link { task, length } => task.make(run, first(bytes, length)),
            }?;
        }
        Ok(())
    }

    fn lose(&self, error: &RepositoryError, pieces: Vec<Piece>) -> Result<(), Ended> {
        let run = &*self.0;
        for piece in pieces {
            let _step = run.enter()?;
            match piece.place {
                PieceTarget::File { task, .. } => task.lose(run, error.repeat()),
                PieceTarget::Link { task, .. } => task.lose(run, error.repeat()),
            }?;
        }
        Ok(())
    }
}

impl Reader<Piece> for Writer {
    fn take(&self, bytes: &Bytes, pieces: Vec<Piece>) -> bool {
        self.write(bytes, pieces).is_ok()
    }

    fn fail(&self, error: &RepositoryError, pieces: Vec<Piece>) -> bool {
        self.lose(error, pieces).is_ok()
    }
}
