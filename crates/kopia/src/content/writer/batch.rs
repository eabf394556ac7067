//! Everything that one flush writes.

use super::context::Context;
use super::entry::Pending;
use super::pack::{FinishedPack, OpenPack};
use super::session::Session;
use crate::KopiaError;
use crate::format::blob_name::pack_name;
use crate::format::content_id::ContentId;
use crate::format::pack::write_replica;
use crate::options::random_bytes;
use crate::tasks::join;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;

/// The contents that lie together: data, and metadata with a prefix.
const KINDS: [char; 2] = ['p', 'q'];

/// The bytes beyond the size of a pack that its last content, index and padding mostly need.
const SLACK: usize = 9 << 20;

/// A content that is ready to be put into a pack.
pub(super) struct Ready<'a> {
    pub(super) id: ContentId,
    pub(super) stored: &'a [u8],
    /// The entry but for its pack and offset.
    pub(super) entry: Pending,
    pub(super) memory: Option<OwnedSemaphorePermit>,
}

/// The packs and entries of a session.
#[derive(Default)]
pub(super) struct Batch {
    session: Option<Arc<Session>>,
    pub(super) entries: BTreeMap<ContentId, Pending>,
    open: [Option<OpenPack>; 2],
    /// Packs that are put. They end when this is dropped.
    pub(super) uploads: JoinSet<Result<(), KopiaError>>,
}

fn kind_of(id: &ContentId) -> usize {
    usize::from(id.prefix().is_some())
}

impl Batch {
    pub(super) fn session(&mut self, context: &Context) -> Arc<Session> {
        self.session.get_or_insert_with(|| Arc::new(Session::begin(context))).clone()
    }

    /// The stored bytes of a content in a pack that is open.
    pub(super) fn stored(&self, id: &ContentId, entry: &Pending) -> Option<&[u8]> {
        let pack = self.open.get(kind_of(id))?.as_ref()?;
        if pack.name == entry.pack { pack.stored(entry) } else { None }
    }

    /// Adds the deletion of a content.
    pub(super) fn delete(&mut self, context: &Context, id: ContentId, entry: Pending) {
        self.session(context);
        if let Some(pack) = self.open.get_mut(kind_of(&id)).and_then(Option::as_mut) {
            pack.entries.insert(id, entry.clone());
        }
        self.entries.insert(id, entry);
    }

    /// Adds a content to the open pack of its kind. A pack that is full is put.
    pub(super) fn push(&mut self, context: &Arc<Context>, ready: Ready<'_>) -> Result<(), KopiaError> {
        let Ready { id, stored, mut entry, memory } = ready;
        let kind = kind_of(&id);
        let mut pack = match self.open.get_mut(kind).and_then(Option::take) {
            Some(pack) => pack,
            None => self.begin_pack(context, kind)?,
        };
        entry.pack = pack.name.clone();
        entry.offset = u32::try_from(pack.len()).unwrap_or(u32::MAX);
        let checked = entry.check(&id);
        if checked.is_ok() {
            pack.push(id, entry.clone(), stored, memory);
            self.entries.insert(id, entry);
        }
        if pack.len() >= context.format().max_pack_size {
            self.upload(context, pack)?;
        } else if let Some(open) = self.open.get_mut(kind) {
            *open = Some(pack);
        }
        checked
    }

    fn begin_pack(&mut self, context: &Context, kind: usize) -> Result<OpenPack, KopiaError> {
        let letter = KINDS.get(kind).copied().unwrap_or('q');
        let random = random_bytes(&context.options.random);
        let name: Arc<str> = pack_name(letter, random, &self.session(context).id).into();
        let mut replica = Vec::new();
        if !context.format().enable_password_change {
            let written = write_replica(&context.format_blob());
            replica = written.map_err(|e| KopiaError::refused(format!("begin pack {name}"), e))?;
        }
        let most = usize::try_from(context.format().max_pack_size).unwrap_or(0).saturating_add(SLACK);
        let mut bytes = context.buffers.take(most);
        bytes.extend_from_slice(&replica);
        Ok(OpenPack::begin(name, bytes, &context.options.random))
    }

    /// Finishes the packs that are open and puts them.
    pub(super) fn close(&mut self, context: &Arc<Context>) -> Result<(), KopiaError> {
        for kind in 0..self.open.len() {
            let pack = self.open.get_mut(kind).and_then(Option::take);
            if let Some(pack) = pack.filter(|pack| !pack.entries.is_empty()) {
                self.upload(context, pack)?;
            }
        }
        Ok(())
    }

    fn upload(&mut self, context: &Arc<Context>, pack: OpenPack) -> Result<(), KopiaError> {
        let name = pack.name.clone();
        let finished = pack.finish(context.format().index_version, context.crypto(), &context.options.random);
        let finished = finished.map_err(|e| {
            let error = KopiaError::refused(format!("finish pack {name}"), e);
            // Its entries are among those that wait for an index.
            context.fail(&error);
            error
        })?;
        context.keep_pack(name, finished.bytes.clone());
        // Those that ended well are nothing more to wait for.
        while let Some(done) = self.uploads.try_join_next() {
            join(done)?;
        }
        let (context, session) = (context.clone(), self.session(context));
        self.uploads.spawn(async move {
            let result = put_pack(&context, &session, finished).await;
            if let Err(error) = &result {
                context.fail(error);
            }
            result
        });
        Ok(())
    }
}

/// Puts a pack, the marker of its session before it.
async fn put_pack(context: &Context, session: &Session, pack: FinishedPack) -> Result<(), KopiaError> {
    let FinishedPack { name, bytes, memory } = pack;
    let length = bytes.len() as u64;
    let put = async {
        let _turn = context.uploads.acquire().await.map_err(|_| KopiaError::Cancelled)?;
        session.mark(context).await?;
        context.put(&name, bytes.clone()).await
    };
    let result = put.await;
    context.forget_pack(&name);
    context.buffers.give_bytes(bytes);
    drop(memory);
    if result.is_ok() {
        context.count(|written| {
            written.packs += 1;
            written.pack_bytes += length;
        });
    }
    result
}
