//! Everything that one flush writes.

use super::context::Context;
use super::entry::Pending;
use super::pack::{OpenPack, Region};
use super::session::Session;
use super::shares::pack_buffer;
use crate::KopiaError;
use crate::format::blob_name::pack_name;
use crate::format::content_id::ContentId;
use crate::format::pack::write_replica;
use crate::options::random_bytes;
use crate::tasks::{blocking, join};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The contents that lie together: data, and metadata with a prefix.
const KINDS: [char; 2] = ['p', 'q'];

/// A content that is ready to be put into a pack.
pub(super) struct Ready<'a> {
    pub(super) id: ContentId,
    pub(super) stored: &'a [u8],
    /// The entry but for its pack and offset.
    pub(super) entry: Pending,
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
    pub(super) fn stored(&mut self, id: &ContentId, entry: &Pending) -> Option<Bytes> {
        let pack = self.open.get_mut(kind_of(id))?.as_mut()?;
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
        let Ready { id, stored, entry } = ready;
        self.add(context, id, entry, |pack, entry| pack.push(id, entry, stored))
    }

    /// Makes room for a content in the open pack of its kind, to be filled by the caller. A pack that is full is put as soon as
    /// all of its regions are filled; one that is not given back ends the writer.
    pub(super) fn split(
        &mut self,
        context: &Arc<Context>,
        id: ContentId,
        entry: Pending,
    ) -> Result<Region, KopiaError> {
        self.add(context, id, entry, |pack, entry| pack.split(id, entry))
    }

    fn add<T>(
        &mut self,
        context: &Arc<Context>,
        id: ContentId,
        mut entry: Pending,
        add: impl FnOnce(&mut OpenPack, Pending) -> T,
    ) -> Result<T, KopiaError> {
        let kind = kind_of(&id);
        let mut pack = match self.open.get_mut(kind).and_then(Option::take) {
            Some(pack) => pack,
            None => self.begin_pack(context, kind)?,
        };
        entry.pack = pack.name.clone();
        entry.offset = u32::try_from(pack.len()).unwrap_or(u32::MAX);
        let added = entry.check(&id).map(|()| {
            let added = add(&mut pack, entry.clone());
            self.entries.insert(id, entry);
            added
        });
        if pack.len() >= context.format().max_pack_size {
            self.upload(context, kind, pack)?;
        } else if let Some(open) = self.open.get_mut(kind) {
            *open = Some(pack);
        }
        added
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
        let buffer = pack_buffer(&context.format());
        let mut bytes = context.packs.buffers.get(kind).map_or_else(Vec::new, |buffers| buffers.take(buffer));
        bytes.extend_from_slice(&replica);
        Ok(OpenPack::begin(name, bytes, &context.options.random))
    }

    /// Finishes the packs that are open and puts them.
    pub(super) fn close(&mut self, context: &Arc<Context>) -> Result<(), KopiaError> {
        for kind in 0..self.open.len() {
            let pack = self.open.get_mut(kind).and_then(Option::take);
            if let Some(pack) = pack.filter(|pack| !pack.entries.is_empty()) {
                self.upload(context, kind, pack)?;
            }
        }
        Ok(())
    }

    fn upload(&mut self, context: &Arc<Context>, kind: usize, pack: OpenPack) -> Result<(), KopiaError> {
        // Those that ended well are nothing more to wait for.
        while let Some(done) = self.uploads.try_join_next() {
            join(done)??;
        }
        let on_its_way = OnItsWay::begin(context, kind, &pack);
        let (context, session) = (context.clone(), self.session(context));
        self.uploads.spawn(async move {
            let result = put_pack(&context, &session, on_its_way, pack).await;
            if let Err(error) = &result {
                // Its entries are among those that wait for an index.
                context.fail(error);
            }
            result
        });
        Ok(())
    }
}

/// A pack that is on its way: counted, and readable as soon as all of its contents are there. Dropped, it is neither.
struct OnItsWay {
    context: Arc<Context>,
    kind: usize,
    name: Arc<str>,
    kept: watch::Sender<Option<Bytes>>,
}

impl OnItsWay {
    fn begin(context: &Arc<Context>, kind: usize, pack: &OpenPack) -> Self {
        let kept = context.packs.keep(pack.name.clone());
        Self { context: context.clone(), kind, name: pack.name.clone(), kept }
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.context.packs.forget(&self.name);
        if let (Some(bytes), Some(buffers)) = (self.kept.send_replace(None), self.context.packs.buffers.get(self.kind))
        {
            buffers.give_bytes(bytes);
        }
    }
}

/// Waits for the contents of a pack, adds its index, and puts it, the marker of its session before it.
async fn put_pack(
    context: &Arc<Context>,
    session: &Session,
    on_its_way: OnItsWay,
    pack: OpenPack,
) -> Result<(), KopiaError> {
    let name = pack.name.clone();
    let joined = pack.join().await?;
    let bytes = {
        let (context, name) = (context.clone(), name.clone());
        blocking(move || {
            let finished = joined.finish(context.format().index_version, context.crypto(), &context.options.random);
            finished.map_err(|e| KopiaError::refused(format!("finish pack {name}"), e))
        })
        .await?
    };
    let length = bytes.len() as u64;
    on_its_way.kept.send_replace(Some(bytes.clone()));
    let _turn = context.packs.uploads.acquire().await.map_err(|_| KopiaError::Cancelled)?;
    session.mark(context).await?;
    context.put(&name, bytes).await?;
    context.count(|written| {
        written.packs += 1;
        written.pack_bytes += length;
    });
    Ok(())
}
