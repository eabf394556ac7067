//! Directories.

use super::Repository;
use crate::format::tree::{self, Node, NodeKind};
use crate::read_plan::{Sink, Wanted, read};
use crate::tasks::blocking;
use crate::{Id, ResticError};
use bytes::Bytes;
use std::sync::Arc;

/// Keeps trees in the cache.
struct Keep(Repository);

impl Sink<Id> for Keep {
    fn take(&self, bytes: &Bytes, trees: Vec<Id>) -> Result<(), ResticError> {
        trees.into_iter().for_each(|id| self.0.inner.cache.keep(id, bytes));
        Ok(())
    }

    fn fail(&self, _: ResticError, _: Vec<Id>) -> Result<(), ResticError> {
        // The one that reads the tree is told.
        Ok(())
    }
}

impl Repository {
    /// Reads the entries of a directory.
    ///
    /// # Errors
    /// A tree that is missing or damaged; errors of the bucket and of the scratch space.
    pub async fn tree(&self, id: &Id) -> Result<Vec<Node>, ResticError> {
        let bytes = match self.inner.cache.get(id) {
            Some(bytes) => bytes,
            None => self.blob(id).await?,
        };
        self.inner.cache.keep(*id, &bytes);
        let id = *id;
        blocking(move || tree::read(&bytes).map_err(|e| ResticError::damaged(format!("tree {id}"), e))).await
    }

    /// Reads trees into memory with few requests, while nobody waits for each of them. What fails is told when it is read.
    pub async fn read_ahead(&self, trees: Vec<Id>) {
        let missing: Vec<Id> = trees.into_iter().filter(|id| self.inner.cache.get(id).is_none()).collect();
        if missing.len() > 1 {
            let wanted = futures::stream::iter(missing.into_iter().map(|id| Ok(Wanted { id, tag: id })));
            let _ = read(self, wanted, self.limits(), Arc::new(Keep(self.clone()))).await;
        }
    }

    /// Finds the entry at a path below the root of a snapshot. Names are compared byte by byte; empty parts of the path are
    /// passed over. `None` stands for the root itself.
    ///
    /// # Errors
    /// A path that does not exist, with the longest part that does.
    pub async fn node_at(&self, root: &Id, path: &str) -> Result<Option<Node>, ResticError> {
        let (mut found, mut walked) = (None::<Node>, String::new());
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let missing = |why: &str| {
                let place = if walked.is_empty() { "the root" } else { &walked };
                ResticError::Missing { what: format!("the path {path:?} of the snapshot ({place} {why} {name:?})") }
            };
            let tree = match found.as_ref().map(|node| &node.kind) {
                None => *root,
                Some(NodeKind::Directory(tree)) => *tree,
                Some(_) => return Err(missing("is no directory that could hold")),
            };
            let nodes = self.tree(&tree).await?;
            let node = nodes.into_iter().rfind(|node| node.name == name.as_bytes());
            found = Some(node.ok_or_else(|| missing("is a directory without"))?);
            walked = format!("{walked}/{name}");
        }
        Ok(found)
    }
}
