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
    /// The most bytes of contents and packs in flight. Less than two packs and two of the longest chunks is raised to that.
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

/// So many random bytes.
pub(crate) fn random_bytes<const N: usize>(random: &Random) -> [u8; N] {
    let mut bytes = [0; N];
    random(&mut bytes);
    bytes
}
