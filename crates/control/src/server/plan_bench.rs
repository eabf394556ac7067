//! Looks at a world that no server serves, for benchmarks.

use super::explain::{Explanation, explained};
use super::memory::Memory;
use super::plan::{PlanInput, plan};
use crate::options::Options;
use crate::world::{MirrorChange, MirroredKind, World};
use bytes::Bytes;
use jiff::Timestamp;
use lifeboat_reconcile::MirrorEvent;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// All resources of a namespace, as a server that has just begun to lead sees them.
#[doc(hidden)]
#[derive(Debug)]
pub struct PlanBench {
    world: World,
    options: Options,
    now: Timestamp,
}

impl PlanBench {
    /// At these objects, by kind; those of other kinds are left out.
    #[must_use]
    pub fn new(options: Options, mut objects: BTreeMap<&str, Vec<Bytes>>, now: Timestamp) -> Self {
        let mut world = World::default();
        for kind in MirroredKind::ALL {
            let all = objects.remove(kind.word()).unwrap_or_default();
            world.see(MirrorChange { kind: *kind, what: MirrorEvent::All(all) });
        }
        Self { world, options, now }
    }

    /// The number of objects, including those that cannot be read.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.world.all().count()
    }

    /// Makes the plan as the server does after each change, when nothing runs and nothing has failed; how many steps begin.
    #[must_use]
    pub fn plan(&self) -> usize {
        let (memory, now) = (Memory::default(), (self.now, Instant::now()));
        let view = PlanInput { world: &self.world, options: &self.options, memory: &memory, now, explain: false };
        plan(view, std::iter::empty()).work.len()
    }

    /// Explains the plan as `server --explain` does where no server leads.
    #[must_use]
    pub fn explain(&self) -> Explanation {
        explained(&self.world, &self.options, None, self.now)
    }
}
