//! Options with which the server opens repositories.

use crate::work::Context;
use lifeboat_kopia::OpenOptions;
use lifeboat_kopia::content::IndexSource;
use lifeboat_repository::{EnsureOptions, repository_clock};

/// The most memory for what is read of a repository, of which nothing but its parameters are.
const MEMORY: u64 = 32 << 20;

/// Options that make nothing.
pub(super) fn of_reader(context: &Context) -> EnsureOptions {
    let clock = context.env.clock.0.clone();
    EnsureOptions {
        may_create: false,
        full_maintenance: None,
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
