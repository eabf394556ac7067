//! The objects of a type in one place after the other.

use crate::live_error::LiveError;
use bytes::Bytes;
use lifeboat_cluster::{ClusterError, List};
use lifeboat_object::GroupResource;
use std::collections::BTreeMap;
use tokio::task::JoinSet;

/// Lists that are begun before their turn, the one whose turn it is among them.
const AT_ONCE: usize = 8;

/// Lists that follow each other, of which some are begun before their turn: where there are many, they are short, and one spends its time
/// waiting for the answer.
pub(crate) struct Lists {
    resource: GroupResource,
    /// Lists that are not begun, in their order.
    waiting: std::vec::IntoIter<List>,
    /// Lists that wait for their first response, each in a task, so that its time limit is kept while nobody polls it.
    begun: JoinSet<(usize, AnsweredList)>,
    /// Lists that have their first response, by number.
    ready: BTreeMap<usize, AnsweredList>,
    /// The numbers of the next one to begin, and of the next one whose turn it is.
    next: usize,
    turn: usize,
    /// The one whose turn it is.
    current: Option<List>,
}

/// A list that has had its first answer.
struct AnsweredList {
    list: List,
    /// The first objects that it has brought; `None` when there are none.
    first: Result<Option<Vec<Bytes>>, ClusterError>,
}

impl Lists {
    pub(crate) fn new(resource: GroupResource, lists: Vec<List>) -> Self {
        let (waiting, begun, ready) = (lists.into_iter(), JoinSet::new(), BTreeMap::new());
        Self { resource, waiting, begun, ready, next: 0, turn: 0, current: None }
    }

    /// The next objects, in the order of the lists; `None` when all have ended.
    ///
    /// # Errors
    /// When one of them cannot be read to its end. Nothing follows it.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Bytes>>, LiveError> {
        loop {
            let objects = match self.current.take() {
                Some(mut list) => {
                    let objects = list.next().await;
                    self.current = Some(list);
                    objects
                }
                None => {
                    let Some(AnsweredList { list, first }) = self.next_list().await? else { return Ok(None) };
                    self.current = Some(list);
                    first
                }
            };
            match objects.map_err(|source| LiveError::List { resource: self.resource.clone(), source })? {
                Some(objects) => return Ok(Some(objects)),
                None => self.current = None,
            }
        }
    }

    /// The list whose turn it is; `None` when there are no more.
    async fn next_list(&mut self) -> Result<Option<AnsweredList>, LiveError> {
        while self.next < self.turn + AT_ONCE
            && let Some(mut list) = self.waiting.next()
        {
            let number = self.next;
            self.next += 1;
            self.begun.spawn(async move {
                let first = list.next().await;
                (number, AnsweredList { list, first })
            });
        }
        loop {
            if let Some(answered) = self.ready.remove(&self.turn) {
                self.turn += 1;
                return Ok(Some(answered));
            }
            match self.begun.join_next().await {
                Some(Ok((number, answered))) => drop(self.ready.insert(number, answered)),
                Some(Err(_)) => return Err(LiveError::Worker { resource: self.resource.clone() }),
                None => return Ok(None),
            }
        }
    }
}
