//! Lists that are read from the store page by page, so that none is in memory as a whole.

use crate::store::object_store::{ListPage, ListQuery, ObjectStore, StoreError};
use crate::store::stored::StoredObject;
use std::sync::Arc;

/// Objects that are read at once.
const PAGE: usize = 500;

/// The objects of a list, in their order.
pub(crate) struct ListPages {
    /// The revision that all of them are from.
    pub(crate) revision: u64,
    /// The namespace and name after which the client has to ask for more; `None` when this is the whole rest.
    pub(crate) ends_after: Option<(String, String)>,
    page: std::vec::IntoIter<Arc<StoredObject>>,
    next: Option<NextPage>,
}

/// The query for the page after the present one.
struct NextPage {
    store: Arc<dyn ObjectStore>,
    query: ListQuery,
}

impl ListPages {
    /// Objects that are there already.
    pub(crate) fn of(page: ListPage) -> Self {
        Self { revision: page.revision, ends_after: None, page: page.objects.into_iter(), next: None }
    }

    /// Reads the first page. From a store that cannot be changed, a list without a limit is read page by page while it
    /// is written. From any other store it is read as a whole, since the history may no longer reach back when a slow
    /// client asks for more.
    ///
    /// # Errors
    /// The errors of [`ObjectStore::list`].
    pub(crate) async fn begin(store: &Arc<dyn ObjectStore>, mut query: ListQuery) -> Result<Self, StoreError> {
        let reads_on = query.limit == 0 && store.read_only().is_some();
        if reads_on {
            query.limit = PAGE;
        }
        let page = store.list(&query).await?;
        let mut pages = Self { revision: page.revision, ends_after: None, page: Vec::new().into_iter(), next: None };
        if reads_on {
            query.revision = Some(page.revision);
            pages.take(page, NextPage { store: store.clone(), query })?;
        } else {
            pages.ends_after = page.objects.last().filter(|_| page.more).map(|last| place(last));
            pages.page = page.objects.into_iter();
        }
        Ok(pages)
    }

    /// The next object; `None` at the end.
    ///
    /// # Errors
    /// The errors of [`ObjectStore::list`].
    pub(crate) async fn next(&mut self) -> Result<Option<Arc<StoredObject>>, StoreError> {
        loop {
            if let Some(object) = self.page.next() {
                return Ok(Some(object));
            }
            let Some(next) = self.next.take() else { return Ok(None) };
            let page = next.store.list(&next.query).await?;
            self.take(page, next)?;
        }
    }

    fn take(&mut self, page: ListPage, mut next: NextPage) -> Result<(), StoreError> {
        if page.more {
            let last = page.objects.last().map(|last| place(last));
            let nothing =
                || StoreError::Unavailable("a page of a list is empty, although more should follow".to_owned());
            next.query.after = Some(last.ok_or_else(nothing)?);
            self.next = Some(next);
        }
        self.page = page.objects.into_iter();
        Ok(())
    }
}

fn place(object: &StoredObject) -> (String, String) {
    (object.key.namespace.clone().unwrap_or_default(), object.key.name.clone())
}
