//! Sends objects to the archive that did not come with the budget of a list.

use crate::collect::spool::cost;
use crate::output::entry::{ArchiveEntry, Entries};
use lifeboat_store::{ReceiverGone, StreamSender};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Bytes of such objects between their stage and the upload. They have this reserve of their own, so that they never wait
/// for what came with the lists.
const RESERVE: usize = 8 << 20;
/// The least that is sent together, if there is more.
const LEAST: usize = 64 << 10;

/// Sends objects on in batches for which the reserve has room.
pub(crate) struct EntrySender {
    sender: StreamSender<Entries>,
    reserve: Arc<Semaphore>,
    /// The largest share of the reserve. As in the spool, there is room for the next objects while a member of the
    /// archive is not full.
    most: usize,
    /// The largest batch.
    together: usize,
    batch: Vec<ArchiveEntry>,
    /// The memory that the batch takes.
    size: usize,
}

impl EntrySender {
    /// Creates the output of a stage that does `what`.
    pub(crate) fn one(sender: &StreamSender<Entries>, what: &'static str) -> Self {
        Self::within(RESERVE, sender, what)
    }

    /// Creates an output with the same reserve for a worker of the stage, of which there are so many.
    pub(crate) fn for_worker(&self, of: usize, what: &'static str) -> Self {
        let together = (self.most / of.max(1)).max(LEAST.min(self.most));
        let (sender, reserve) = (self.sender.another(what), Arc::clone(&self.reserve));
        Self { sender, reserve, most: self.most, together, batch: Vec::new(), size: 0 }
    }

    fn within(reserve: usize, sender: &StreamSender<Entries>, what: &'static str) -> Self {
        let most = reserve / 4;
        let reserve = Arc::new(Semaphore::new(reserve));
        Self { sender: sender.another(what), reserve, most, together: most, batch: Vec::new(), size: 0 }
    }

    /// Takes one object; it is sent with others, or by the next [`EntrySender::flush`].
    pub(crate) async fn take(&mut self, entry: ArchiveEntry) -> Result<(), ReceiverGone> {
        let size = cost(entry.body.len());
        if self.size + size > self.together {
            self.flush().await?;
        }
        self.size += size;
        self.batch.push(entry);
        Ok(())
    }

    /// Sends what was taken, as soon as the reserve has room for it. An object that is larger than the largest share
    /// counts as that.
    pub(crate) async fn flush(&mut self) -> Result<(), ReceiverGone> {
        let (entries, size) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.size));
        if entries.is_empty() {
            return Ok(());
        }
        let share = u32::try_from(size.clamp(1, self.most.max(1))).unwrap_or(u32::MAX);
        let budget = Arc::clone(&self.reserve).acquire_many_owned(share).await.map_err(|_| ReceiverGone)?;
        self.sender.send(Entries { entries, budget: Some(budget) }).await
    }

    /// Sends what was taken, and says that nothing follows from here.
    pub(crate) async fn end(mut self) -> Result<(), ReceiverGone> {
        self.flush().await?;
        self.sender.end();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::ApiResource;
    use lifeboat_store::stream;
    use std::task::Poll;
    use tokio::task::unconstrained;

    const LITTLE: usize = 64 << 10;

    fn entry(number: usize, size: usize) -> ArchiveEntry {
        ArchiveEntry {
            resource: Arc::new(ApiResource::new("", "v1", "configmaps", "ConfigMap")),
            namespace: Some("n".to_owned()),
            name: format!("c{number}"),
            body: bytes::Bytes::from(vec![b'x'; size]).into(),
        }
    }

    #[tokio::test]
    async fn objects_without_a_budget_take_no_more_memory_than_their_reserve() {
        // The stream alone would hold all of them.
        let (sender, mut entries) = stream(10_000, "running actions");
        let sizes = (0..1000).map(|n| if n % 100 == 0 { 2 * LITTLE } else { 100 + n });
        let mut out = EntrySender::within(LITTLE, &sender, "running actions");
        let mut send = Box::pin(unconstrained(async move {
            for (number, size) in sizes.enumerate() {
                out.take(entry(number, size)).await.unwrap();
            }
            out.end().await.unwrap();
        }));
        let (mut held, mut shares, mut came, mut waited) = (Vec::new(), 0, 0, 0);
        loop {
            let is_over = matches!(futures::poll!(&mut send), Poll::Ready(()));
            while let Poll::Ready(batch) = futures::poll!(Box::pin(unconstrained(entries.next()))) {
                let Entries { entries: batch, budget } = batch.unwrap().unwrap();
                let budget = budget.unwrap();
                let bytes: usize = batch.iter().map(|entry| entry.body.len()).sum();
                assert!(bytes <= LITTLE / 4 || batch.len() == 1, "{bytes} bytes in one batch");
                shares += budget.num_permits();
                came += batch.len();
                held.push(budget);
            }
            assert!(shares <= LITTLE, "{shares} of {LITTLE} bytes are on their way");
            if is_over {
                break;
            }
            waited += 1;
            // They are written.
            held.clear();
            shares = 0;
        }
        assert_eq!(came, 1000);
        assert!(waited > 10, "it went on without waiting for the upload");
    }
}
