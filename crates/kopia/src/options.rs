//! Options of a writer.

use std::fmt;
use std::sync::Arc;

/// Random bytes of the caller: of the operating system in the product, of a seed in tests.
pub type Random = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// Options of a writer.
#[derive(Clone)]
pub struct WriteOptions {
    /// The user in markers of sessions.
    pub user: String,
    /// The host in markers of sessions.
    pub host: String,
    /// The source of nonces, names and padding.
    pub random: Random,
    /// The threads that hash, compress and encrypt.
    pub threads: usize,
    /// The most bytes of contents and packs in flight. Less than two packs and two of the longest chunks is raised to that. Beside it
    /// there is a pack of metadata, which mostly is short.
    pub memory: u64,
    /// The most puts at once.
    pub uploads: usize,
}

impl fmt::Debug for WriteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, host, random: _, threads, memory, uploads } = self;
        f.debug_struct("WriteOptions")
            .field("user", user)
            .field("host", host)
            .field("threads", threads)
            .field("memory", memory)
            .field("uploads", uploads)
            .finish_non_exhaustive()
    }
}

impl WriteOptions {
    /// The memory with which so many threads have work while packs are put: contents that are hashed, and as many that wait.
    pub fn usual_memory(threads: usize) -> u64 {
        (80_u64 << 20).saturating_add((threads as u64).saturating_mul(8 << 20)).min(160 << 20)
    }
}

/// So many random bytes.
pub(crate) fn random_bytes<const N: usize>(random: &Random) -> [u8; N] {
    let mut bytes = [0; N];
    random(&mut bytes);
    bytes
}
