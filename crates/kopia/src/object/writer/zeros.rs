//! Long stretches of zeros in an object, such as the holes of a file: their chunks are all the same, so that one is stored.

use super::{ObjectWriter, splitter_of};
use crate::KopiaError;
use crate::format::object_id::ObjectId;
use crate::splitter::SplitterAlgorithm;
use bytes::Bytes;

static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// The chunks that a splitter makes of zeros when it begins with them.
#[derive(Debug, Clone, Copy)]
pub(super) struct ZeroChunk {
    length: u64,
    /// As soon as one is stored.
    object: Option<ObjectId>,
}

impl ObjectWriter {
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
            if self.chunk.length == 0 && self.zero_chunk(algorithm, count).is_some_and(|zeros| zeros.length <= count) {
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

    /// The chunk of zeros, looked for when there are enough of them.
    fn zero_chunk(&mut self, algorithm: SplitterAlgorithm, count: u64) -> Option<ZeroChunk> {
        // No splitter makes shorter ones.
        if self.zeros.is_none() && count >= u64::from(algorithm.max_chunk() / 4) {
            self.zeros = Some(ZeroChunk { length: length_of_zeros(algorithm), object: None });
        }
        self.zeros
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
                self.pieces.last().copied().flatten().ok_or(KopiaError::Cancelled)?
            }
        };
        self.zeros = Some(ZeroChunk { length, object: Some(object) });
        for _ in 0..count / length {
            self.pieces.push(Some(object));
            self.lengths.push(length);
        }
        Ok(count % length)
    }
}

/// Zeros, as many as are wanted or there are.
fn stretch(wanted: u64) -> &'static [u8] {
    usize::try_from(wanted).ok().and_then(|wanted| ZEROS.get(..wanted)).unwrap_or(&ZEROS)
}

/// The length of the first chunk of an endless stretch of zeros.
fn length_of_zeros(algorithm: SplitterAlgorithm) -> u64 {
    let (mut splitter, mut length) = (algorithm.begin(), 0);
    loop {
        match splitter.next_cut(&ZEROS) {
            Some(cut) => return length + cut as u64,
            None => length += ZEROS.len() as u64,
        }
    }
}
