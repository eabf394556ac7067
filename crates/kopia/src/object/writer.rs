//! Writing of objects: cut into contents, listed where there are several (kopia: repo/object).

use super::joined::{direct_length, listing_pieces};
use super::pieces::{MOST, Pieces};
use super::zeros::{ZeroChunk, stretch};
use crate::KopiaError;
use crate::compression::{Compression, Compressor};
use crate::content::writer::{ContentWriter, Memory, Parts, Plain, Ticket};
use crate::format::listing::ListingWriter;
use crate::format::object_id::ObjectId;
use crate::splitter::{Splitter, SplitterAlgorithm};
use crate::tasks::{blocking, join};
use bytes::Bytes;
use tokio::task::JoinSet;

/// The prefix of listings whose object has none.
const LISTING: u8 = b'x';
/// The bytes of a listing that are written at once.
const LISTED_AT_ONCE: usize = 256 << 10;
/// The pieces that are added to a listing at once.
const PIECES_AT_ONCE: usize = 1024;

/// Options of an object that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObjectOptions {
    /// The prefix of its contents: none for data of files, `k` for directories.
    pub prefix: Option<u8>,
    /// The compression of its contents.
    pub compression: Option<Compression>,
    /// The compression of its listing.
    pub metadata_compression: Option<Compression>,
    /// The splitter; `None` for that of the repository.
    pub splitter: Option<SplitterAlgorithm>,
}

impl ObjectOptions {
    /// The options of the listing of an object.
    fn of_listing(&self) -> Self {
        Self {
            prefix: Some(self.prefix.unwrap_or(LISTING)),
            compression: self.metadata_compression,
            metadata_compression: self.metadata_compression,
            splitter: None,
        }
    }
}

/// An object in the making. What it has begun ends when it is dropped.
#[derive(Debug)]
pub struct ObjectWriter {
    contents: ContentWriter,
    options: ObjectOptions,
    /// `None` until the first bytes come.
    splitter: Option<Splitter>,
    /// The bytes of the current chunk.
    chunk: Parts,
    /// The finished chunks, in their order.
    pieces: Pieces,
    tasks: JoinSet<Result<(usize, ObjectId), KopiaError>>,
    failure: Option<KopiaError>,
    zeros: Option<ZeroChunk>,
    /// The listing that it has in any case; `None` where it has one only of several chunks, made at its end.
    listing: Option<Box<StreamedListing>>,
}

/// A listing that is written while its object is: that of a device of terabytes has a million pieces.
#[derive(Debug)]
struct StreamedListing {
    text: ListingWriter,
    object: ObjectWriter,
}

impl ObjectWriter {
    /// Begins an object.
    pub fn begin(contents: &ContentWriter, options: ObjectOptions) -> Self {
        Self {
            contents: contents.clone(),
            options,
            splitter: None,
            chunk: Parts::default(),
            pieces: Pieces::default(),
            tasks: JoinSet::new(),
            failure: None,
            zeros: None,
            listing: None,
        }
    }

    /// Cuts the listing by this splitter, and writes one of a single chunk, too. The pieces that are stored are in the listing,
    /// and not in memory.
    #[must_use]
    pub fn always_listed(self, splitter: SplitterAlgorithm) -> Self {
        let options = ObjectOptions { splitter: Some(splitter), ..self.options.of_listing() };
        let object = Self::begin(&self.contents, options);
        Self { listing: Some(Box::new(StreamedListing { text: ListingWriter::begin(), object })), ..self }
    }

    /// Adds the next bytes of the object. Contents are stored side by side, as far as the memory of the writer reaches; the
    /// failure of one is told by this or a later call.
    ///
    /// # Errors
    /// Errors of [`ContentWriter::write`].
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), KopiaError> {
        self.check()?;
        let result = self.add(bytes).await;
        self.keep(result)
    }

    async fn add(&mut self, mut bytes: Bytes) -> Result<(), KopiaError> {
        let mut splitter = match self.splitter.take() {
            Some(splitter) => splitter,
            None => splitter_of(&self.contents, &self.options)?.begin(),
        };
        while let Some(length) = splitter.next_cut(&bytes) {
            self.chunk.push(bytes.split_to(length));
            self.store_chunk().await?;
        }
        self.chunk.push(bytes);
        self.splitter = Some(splitter);
        Ok(())
    }

    /// Adds so many zeros, as [`ObjectWriter::write`] would. All but the first whole chunk of them cost nothing.
    ///
    /// # Errors
    /// As [`ObjectWriter::write`].
    pub async fn write_zeros(&mut self, count: u64) -> Result<(), KopiaError> {
        self.check()?;
        let result = self.add_zeros(count).await;
        self.keep(result)
    }

    async fn add_zeros(&mut self, mut count: u64) -> Result<(), KopiaError> {
        let algorithm = splitter_of(&self.contents, &self.options)?;
        let mut splitter = self.splitter.take().unwrap_or_else(|| algorithm.begin());
        while count > 0 {
            // Between two chunks the splitter is as at the beginning.
            if self.chunk.is_empty() && self.has_zero_chunk(algorithm, count) {
                count = self.repeat_zeros(count).await?;
                continue;
            }
            let zeros = stretch(count);
            let cut = splitter.next_cut(zeros);
            let zeros = zeros.get(..cut.unwrap_or(zeros.len())).unwrap_or(zeros);
            count -= zeros.len() as u64;
            self.chunk.push(Bytes::from_static(zeros));
            if cut.is_some() {
                self.store_chunk().await?;
            }
        }
        self.splitter = Some(splitter);
        Ok(())
    }

    /// Adds as many whole chunks as there are zeros for, and gives the number of those that are left.
    async fn repeat_zeros(&mut self, mut count: u64) -> Result<u64, KopiaError> {
        let Some(ZeroChunk { length, object }) = self.zeros else { return Ok(count) };
        let object = match object {
            Some(object) => object,
            None => {
                let mut missing = length;
                while missing > 0 {
                    let zeros = stretch(missing);
                    missing -= zeros.len() as u64;
                    self.chunk.push(Bytes::from_static(zeros));
                }
                self.store_chunk().await?;
                self.wait().await?;
                count -= length;
                self.pieces.last().ok_or(KopiaError::Cancelled)?
            }
        };
        self.zeros = Some(ZeroChunk { length, object: Some(object) });
        self.pieces.repeat(object, length, count / length)?;
        Ok(count % length)
    }

    /// Adds an object of so many bytes that is in the repository, as one piece and so many times. It is not looked at.
    ///
    /// # Errors
    /// A chunk that is not finished: the pieces of an object follow each other. More pieces than an object can have.
    pub async fn append(&mut self, object: ObjectId, length: u64, count: u64) -> Result<(), KopiaError> {
        self.check()?;
        let result = match self.chunk.is_empty() {
            true => self.pieces.repeat(object, length, count),
            false => Err(KopiaError::refused("add an object to another one", "it would be inside of a chunk")),
        };
        let result = match result {
            Ok(()) => self.list_stored().await,
            failed => failed,
        };
        self.keep(result)
    }

    /// Adds the pieces that are stored to the listing, where that does not wait for the end.
    async fn list_stored(&mut self) -> Result<(), KopiaError> {
        let Some(listing) = &mut self.listing else { return Ok(()) };
        loop {
            let pieces = self.pieces.take_stored(PIECES_AT_ONCE);
            if pieces.is_empty() {
                return Ok(());
            }
            for piece in &pieces {
                listing.text.push(piece);
            }
            if listing.text.waiting() >= LISTED_AT_ONCE {
                Box::pin(listing.object.write(listing.text.take().into())).await?;
            }
        }
    }

    /// A writer that goes on from here, as this one does.
    async fn fork(&mut self) -> Result<Self, KopiaError> {
        self.check()?;
        self.wait().await?;
        Ok(Self {
            splitter: self.splitter.clone(),
            chunk: self.chunk.clone(),
            pieces: self.pieces.clone(),
            zeros: self.zeros,
            ..Self::begin(&self.contents, self.options)
        })
    }

    /// True where there are enough zeros for a whole chunk of them.
    fn has_zero_chunk(&mut self, algorithm: SplitterAlgorithm, count: u64) -> bool {
        self.zeros = self.zeros.or_else(|| ZeroChunk::of(algorithm, count));
        self.zeros.is_some_and(|zeros| zeros.length <= count)
    }

    /// Stores the current chunk beside what comes next. It may wait for some others, to be hashed side by side with them, as
    /// long as there is memory for that.
    async fn store_chunk(&mut self) -> Result<(), KopiaError> {
        while let Some(done) = self.tasks.try_join_next() {
            let (number, object) = join(done)??;
            self.pieces.settle(number, object);
        }
        // It may wait for memory, and has to before this chunk holds some.
        self.list_stored().await?;
        let memory = match self.contents.try_reserve(self.chunk.len()) {
            Some(memory) => memory,
            None => {
                self.contents.hurry();
                self.contents.reserve(self.chunk.len()).await?
            }
        };
        let number = self.pieces.begin(self.chunk.len() as u64)?;
        let plain = std::mem::take(&mut self.chunk);
        let is_compressed = of_object(&self.contents, &self.options).is_some();
        let ticket = if is_compressed { None } else { self.contents.enqueue(&plain) };
        let chunk = ReservedChunk { plain, memory, ticket };
        let (contents, options) = (self.contents.clone(), self.options);
        self.tasks.spawn(async move { Ok((number, store(&contents, &options, chunk).await?)) });
        if !self.contents.has_room() {
            self.contents.hurry();
        }
        Ok(())
    }

    async fn wait(&mut self) -> Result<(), KopiaError> {
        self.contents.hurry();
        while let Some(done) = self.tasks.join_next().await {
            let (number, object) = join(done)??;
            self.pieces.settle(number, object);
        }
        Ok(())
    }

    /// The object of the chunks that are stored; `None` where there are none.
    async fn object(&mut self) -> Result<Option<ObjectId>, KopiaError> {
        self.wait().await?;
        // All tasks have ended well.
        if !self.pieces.are_stored() {
            return Err(KopiaError::Cancelled);
        }
        match (self.pieces.count(), &mut self.listing) {
            (0, _) => Ok(None),
            (_, Some(listing)) => {
                // More may follow.
                let object = listing.object.fork().await?;
                end_listing(object, listing.text.clone(), &self.pieces).await.map(Some)
            }
            (1, None) => Ok(self.pieces.last()),
            (_, None) => write_listing(&self.contents, &self.pieces, self.options.of_listing()).await.map(Some),
        }
    }

    /// The ID of what was written so far, cut at the end of the last finished chunk; `None` where no chunk is finished. The
    /// object goes on.
    ///
    /// # Errors
    /// As [`ObjectWriter::write`].
    pub async fn checkpoint(&mut self) -> Result<Option<ObjectId>, KopiaError> {
        self.check()?;
        let result = self.object().await;
        self.keep(result)
    }

    /// Stores the rest and gives the ID of the object.
    ///
    /// # Errors
    /// As [`ObjectWriter::write`].
    pub async fn finish(mut self) -> Result<ObjectId, KopiaError> {
        self.check()?;
        // An object without bytes is a content without bytes.
        if !self.chunk.is_empty() && self.pieces.count() > 0 {
            self.store_chunk().await?;
        } else if self.pieces.count() == 0 {
            let memory = self.contents.reserve(self.chunk.len()).await?;
            let number = self.pieces.begin(self.chunk.len() as u64)?;
            let plain = std::mem::take(&mut self.chunk);
            let chunk = ReservedChunk { plain, memory, ticket: None };
            let object = store(&self.contents, &self.options, chunk).await?;
            self.pieces.settle(number, object);
        }
        self.object().await?.ok_or(KopiaError::Cancelled)
    }

    fn check(&self) -> Result<(), KopiaError> {
        self.contents.note_use();
        self.failure.as_ref().map_or(Ok(()), |failure| Err(failure.repeat()))
    }

    fn keep<T>(&mut self, result: Result<T, KopiaError>) -> Result<T, KopiaError> {
        if let Err(error) = &result {
            self.failure.get_or_insert_with(|| error.repeat());
        }
        result
    }
}

fn splitter_of(contents: &ContentWriter, options: &ObjectOptions) -> Result<SplitterAlgorithm, KopiaError> {
    match options.splitter {
        Some(splitter) => Ok(splitter),
        None => SplitterAlgorithm::parse(&contents.format().splitter)
            .map_err(|e| KopiaError::Unsupported { what: e.to_string() }),
    }
}

/// The length beyond which no object with these options can be, however it is cut.
///
/// # Errors
/// A splitter that is not known.
pub fn longest(contents: &ContentWriter, options: &ObjectOptions) -> Result<u64, KopiaError> {
    Ok(MOST.saturating_mul(splitter_of(contents, options)?.max_chunk().into()))
}

/// The bytes of a chunk, with memory for them.
struct ReservedChunk {
    plain: Parts,
    memory: Memory,
    /// Where they wait for their hash already.
    ticket: Option<Ticket>,
}

/// The compression of each content as an object (`Z`): where indexes cannot tell a compression.
fn of_object(contents: &ContentWriter, options: &ObjectOptions) -> Option<Compression> {
    options.compression.filter(|_| options.prefix.is_none() && contents.format().index_version < 2)
}

/// Stores one chunk.
async fn store(
    contents: &ContentWriter,
    options: &ObjectOptions,
    chunk: ReservedChunk,
) -> Result<ObjectId, KopiaError> {
    let ObjectOptions { prefix, compression, .. } = *options;
    let ReservedChunk { plain, memory, ticket } = chunk;
    let Some(of_object) = of_object(contents, options) else {
        let content = contents.store(Plain { prefix, bytes: plain, compression, ticket }, memory).await?;
        return Ok(ObjectId::direct(content));
    };
    let (bytes, is_compressed) = blocking(move || {
        let refused = |why| KopiaError::refused("compress an object", why);
        let mut compressor = Compressor::new(of_object).map_err(refused)?;
        let plain = plain.joined();
        let compressed = compressor.compress(&plain).map_err(refused)?;
        Ok(compressed.map_or((plain.into(), false), |bytes| (Bytes::from(bytes).into(), true)))
    })
    .await?;
    let content = contents.store(Plain { prefix, bytes, compression: None, ticket: None }, memory).await?;
    Ok(ObjectId { is_compressed, ..ObjectId::direct(content) })
}

/// Writes the listing of pieces, as an object of its own.
async fn write_listing(
    contents: &ContentWriter,
    pieces: &Pieces,
    options: ObjectOptions,
) -> Result<ObjectId, KopiaError> {
    end_listing(ObjectWriter::begin(contents, options), ListingWriter::begin(), pieces).await
}

/// Writes the rest of a listing, and gives the object that it is of.
async fn end_listing(
    mut writer: ObjectWriter,
    mut listing: ListingWriter,
    pieces: &Pieces,
) -> Result<ObjectId, KopiaError> {
    for piece in pieces.iter() {
        listing.push(&piece);
        if listing.waiting() >= LISTED_AT_ONCE {
            writer.write(listing.take().into()).await?;
        }
    }
    writer.write(listing.end().into()).await?;
    // A listing that is long has one itself.
    let listing = Box::pin(writer.finish()).await?;
    Ok(ObjectId { levels: listing.levels.saturating_add(1), ..listing })
}

/// The object whose bytes are those of several, one after the other: a listing of their contents. Of one part it is that
/// part.
///
/// # Errors
/// No parts; a part that is missing or damaged; those of [`ContentWriter::write`].
pub async fn concatenate(
    contents: &ContentWriter,
    parts: &[ObjectId],
    options: ObjectOptions,
) -> Result<ObjectId, KopiaError> {
    match parts {
        [] => return Err(KopiaError::refused("join objects", "there are none")),
        [only] => return Ok(*only),
        _ => {}
    }
    let mut joined = Pieces::default();
    for part in parts {
        if part.levels == 0 {
            joined.repeat(*part, direct_length(contents, part).await?, 1)?;
            continue;
        }
        for piece in listing_pieces(contents, part).await? {
            joined.repeat(piece.object, piece.length, 1)?;
        }
    }
    let options = ObjectOptions { prefix: None, ..options };
    write_listing(contents, &joined, options.of_listing()).await
}
