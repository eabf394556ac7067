//! Limits the calls into file systems that are in flight at once.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Calls into one directory at once.
const PLACES: usize = 16;
/// Calls into all directories of [`Gates`] at once: fewer than the threads that the runtime has for what blocks, so that those that hang
/// leave some to others.
const PLACES_IN_ALL: usize = 256;

/// Lets calls into a directory wait for their place.
///
/// A call into a file system whose server is away, such as a mount of NFS, hangs in the kernel, with its thread. Nobody can end it, so it
/// keeps its place until it returns, also when its caller has given it up; those that come later wait without a thread.
#[derive(Clone, Debug)]
pub struct Gate {
    own: Arc<Semaphore>,
    all: Option<Arc<Semaphore>>,
}

/// The thread of a call died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateThreadDied;

impl fmt::Display for GateThreadDied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the thread died")
    }
}

impl std::error::Error for GateThreadDied {}

impl Default for Gate {
    fn default() -> Self {
        Self { own: Arc::new(Semaphore::new(PLACES)), all: None }
    }
}

impl Gate {
    /// Does work that may block, on a thread of its own.
    ///
    /// # Errors
    /// [`GateThreadDied`].
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, GateThreadDied> {
        let own = place(&self.own).await?;
        let all = match &self.all {
            Some(all) => Some(place(all).await?),
            None => None,
        };
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop((own, all));
            done
        });
        done.await.map_err(|_| GateThreadDied)
    }
}

async fn place(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, GateThreadDied> {
    // It is never closed.
    Arc::clone(places).acquire_owned().await.map_err(|_| GateThreadDied)
}

/// The gates of many directories, which outlive the stores that go through them.
#[derive(Debug)]
pub struct Gates {
    all: Arc<Semaphore>,
    of: Mutex<HashMap<PathBuf, Arc<Semaphore>>>,
}

impl Default for Gates {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(PLACES_IN_ALL)), of: Mutex::default() }
    }
}

impl Gates {
    /// The gate of a directory: the same one for all its users, as long as somebody has it or a call through it hangs.
    #[must_use]
    pub fn of(&self, path: &Path) -> Gate {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        of.retain(|_, places| Arc::strong_count(places) > 1);
        let own = of.entry(path.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(PLACES)));
        Gate { own: Arc::clone(own), all: Some(Arc::clone(&self.all)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::BoxFuture;
    use futures::{FutureExt, poll};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    /// Calls that hang until somebody ends them.
    struct Hanging {
        begun: Arc<AtomicUsize>,
        ends: Vec<SyncSender<()>>,
    }

    impl Hanging {
        /// Makes a call that the caller may give up.
        async fn call(&mut self, gate: &Gate) -> BoxFuture<'static, Result<(), GateThreadDied>> {
            let (end, hangs): (SyncSender<()>, Receiver<()>) = sync_channel(1);
            let (gate, begun) = (gate.clone(), Arc::clone(&self.begun));
            self.ends.push(end);
            let work = move || {
                begun.fetch_add(1, Ordering::Relaxed);
                let _ = hangs.recv();
            };
            let mut call = async move { gate.run(work).await }.boxed();
            // The runtime lets a task that never waits have a bounded number of places.
            tokio::task::yield_now().await;
            assert!(poll!(&mut call).is_pending());
            call
        }
    }

    /// Every call has given its place back.
    async fn all_ended(gates: &Gates) {
        drop(gates.all.acquire_many(u32::try_from(PLACES_IN_ALL).unwrap()).await.unwrap());
    }

    #[tokio::test]
    async fn what_hangs_keeps_its_place_though_nobody_waits_for_it() {
        let (gates, path) = (Gates::default(), Path::new("/mnt/a"));
        let mut hanging = Hanging { begun: Arc::default(), ends: Vec::new() };
        for _ in 0..PLACES {
            drop(hanging.call(&gates.of(path)).await);
        }
        // All places are taken: this one waits, and has no thread.
        let mut late = hanging.call(&gates.of(path)).await;
        assert_eq!(gates.of(Path::new("/mnt/b")).run(|| 7).await, Ok(7), "another directory");
        assert!(poll!(&mut late).is_pending());
        assert!(hanging.begun.load(Ordering::Relaxed) <= PLACES);
        hanging.ends.clear();
        assert_eq!(late.await, Ok(()));
        all_ended(&gates).await;
        assert_eq!(hanging.begun.load(Ordering::Relaxed), PLACES + 1);
    }

    #[tokio::test]
    async fn many_directories_that_hang_have_fewer_threads_than_there_are() {
        let gates = Gates::default();
        let mut hanging = Hanging { begun: Arc::default(), ends: Vec::new() };
        for directory in 0..2 * PLACES_IN_ALL / PLACES {
            let gate = gates.of(Path::new(&format!("/mnt/{directory}")));
            for _ in 0..PLACES {
                drop(hanging.call(&gate).await);
            }
        }
        // Those that were given up before they had a place do not begin any more.
        let good = gates.of(Path::new("/mnt/good"));
        let mut late = good.run(|| 7).boxed();
        assert!(poll!(&mut late).is_pending());
        hanging.ends.clear();
        assert_eq!(late.await, Ok(7));
        all_ended(&gates).await;
        assert_eq!(hanging.begun.load(Ordering::Relaxed), PLACES_IN_ALL);
    }

    #[tokio::test]
    async fn a_gate_that_nobody_has_is_forgotten() {
        let gates = Gates::default();
        let kept = gates.of(Path::new("/mnt/a"));
        drop(gates.of(Path::new("/mnt/b")));
        drop(gates.of(Path::new("/mnt/a")));
        let paths = || gates.of.lock().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(paths(), [PathBuf::from("/mnt/a")]);
        drop(kept);
        let _other = gates.of(Path::new("/mnt/c"));
        assert_eq!(paths(), [PathBuf::from("/mnt/c")]);
    }

    #[tokio::test]
    async fn a_call_that_dies_gives_its_place_back() {
        let gate = Gate::default();
        for _ in 0..=PLACES {
            let died: Result<(), GateThreadDied> = gate.run(|| panic!("it dies")).await;
            assert_eq!(died, Err(GateThreadDied));
        }
    }
}
