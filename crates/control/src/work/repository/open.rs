//! Options with which the server opens repositories.

use crate::work::Context;
use lifeboat_kopia::OpenOptions;
use lifeboat_kopia::content::IndexSource;
use lifeboat_repository::{EnsureOptions, WriterOptions, repository_clock};

/// The most memory for the indexes of a repository, and for contents that are under way.
const MEMORY: u64 = 32 << 20;

/// Options with which a repository is opened and changed.
pub(super) fn writer_options(context: &Context) -> WriterOptions {
    let clock = context.env.clock.0.clone();
    WriterOptions {
        random: context.env.random.0.clone(),
        open: OpenOptions {
            scratch: context.env.scratch.clone(),
            clock: repository_clock(move || clock()),
            memory: MEMORY,
            threads: 1,
            indexes: IndexSource::IndexBlobs,
        },
    }
}

/// Options with which a repository is looked for, and none is made.
pub(super) fn look_options(context: &Context) -> EnsureOptions {
    EnsureOptions { may_create: false, full_maintenance: None, writer: writer_options(context) }
}
