//! Does the same with many objects, some at once.

use futures::StreamExt;
use futures::future::BoxFuture;

/// The number of works at once.
pub(crate) const AT_ONCE: usize = 16;

/// Runs these works, some at once, and gives their results in any order. Their type is named, since the compiler does
/// not see otherwise that they can be sent.
pub(crate) async fn some_at_once<T>(works: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    futures::stream::iter(works).buffer_unordered(AT_ONCE).collect().await
}

/// The same for works that can fail; the rest is left when one has failed.
///
/// # Errors
/// The first error.
pub(crate) async fn all_or_none<T, E>(works: Vec<BoxFuture<'_, Result<T, E>>>) -> Result<Vec<T>, E> {
    let mut works = futures::stream::iter(works).buffer_unordered(AT_ONCE);
    let mut out = Vec::new();
    while let Some(done) = works.next().await {
        out.push(done?);
    }
    Ok(out)
}
