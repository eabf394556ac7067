//! Objects through a writer: chunks, listings, checkpoints, joined ones.

use crate::compression::Compression;
use crate::content::Contents;
use crate::crypto::{CipherAlgorithm, HashAlgorithm};
use crate::format::object_id::ObjectId;
use crate::format::repository::NewRepository;
use crate::object::writer::{ObjectOptions, concatenate};
use crate::object::{bytes, length};
use crate::splitter::SplitterAlgorithm;
use crate::testing::{Fixture, noise};
use crate::{KopiaError, RepositoryWriter};
use bytes::Bytes;
use futures::TryStreamExt;

async fn read(contents: &Contents, object: &ObjectId) -> Vec<u8> {
    let pieces: Vec<Bytes> = bytes(contents, object).try_collect().await.unwrap();
    let joined = pieces.concat();
    assert_eq!(length(contents, object).await.unwrap(), joined.len() as u64);
    joined
}

async fn write_in(
    writer: &RepositoryWriter,
    options: ObjectOptions,
    plain: &[u8],
    piece: usize,
) -> Result<ObjectId, KopiaError> {
    let mut object = writer.object(options);
    for piece in plain.chunks(piece) {
        object.write(Bytes::copy_from_slice(piece)).await?;
    }
    object.finish().await
}

fn fixed(size: u32) -> ObjectOptions {
    ObjectOptions { splitter: Some(SplitterAlgorithm::Fixed(size)), ..ObjectOptions::default() }
}

#[tokio::test]
async fn zeros_that_are_counted_give_the_same_object_as_written_ones() {
    let fixture = Fixture::usual();
    let repository = fixture.open(fixture.store().await).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    for name in ["DYNAMIC-128K-BUZHASH", "DYNAMIC-256K-RABINKARP", "FIXED-128K"] {
        let options =
            ObjectOptions { splitter: Some(SplitterAlgorithm::parse(name).unwrap()), ..ObjectOptions::default() };
        // Bytes and zeros in turn.
        for lengths in
            [[0, 3 << 20, 0, 0], [1000, 1 << 20, 70_000, 3_000_001], [300_000, 5, 7, 131_072], [0, 65_536, 1, 1]]
        {
            let (mut object, mut plain) = (writer.object(options), Vec::new());
            for (at, length) in lengths.into_iter().enumerate() {
                if at % 2 == 0 {
                    let bytes = noise(at as u64 + 3, length);
                    plain.extend_from_slice(&bytes);
                    object.write(bytes.into()).await.unwrap();
                } else {
                    plain.resize(plain.len() + length, 0);
                    object.write_zeros(length as u64).await.unwrap();
                }
            }
            let counted = object.finish().await.unwrap();
            assert_eq!(counted, write_in(&writer, options, &plain, 1 << 20).await.unwrap(), "{name} {lengths:?}");
        }
        // 16 GiB are a listing of one content.
        let mut object = writer.object(options);
        object.write_zeros(1 << 34).await.unwrap();
        let object = object.finish().await.unwrap();
        writer.flush().await.unwrap();
        assert_eq!(length(repository.contents(), &object).await.unwrap(), 1 << 34, "{name}");
    }
}

#[tokio::test]
async fn an_object_is_the_same_however_its_bytes_come() {
    let fixture =
        Fixture::new(&NewRepository { splitter: "DYNAMIC-128K-BUZHASH".to_owned(), ..NewRepository::default() });
    let repository = fixture.open(fixture.store().await).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let plain = noise(3, 1_500_000);
    let mut ids = Vec::new();
    for piece in [1_500_000, 1000, 64 << 10, 131_072, 999_999] {
        ids.push(write_in(&writer, ObjectOptions::default(), &plain, piece).await.unwrap());
    }
    let written = writer.flush().await.unwrap();
    assert!(ids[0].levels == 1 && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(read(repository.contents(), &ids[0]).await, plain);
    assert_eq!(written.reused_contents, 4 * written.new_contents);
    // Chunks in order, of which the first ones end where the splitter says.
    let mut splitter = SplitterAlgorithm::parse("DYNAMIC-128K-BUZHASH").unwrap().begin();
    let first = splitter.next_cut(&plain).unwrap();
    let extents: Vec<_> = crate::object::extents(repository.contents(), &ids[0]).try_collect().await.unwrap();
    assert_eq!(extents[0].length, first as u64);
}

#[tokio::test]
async fn an_object_of_one_chunk_is_its_content_also_without_bytes() {
    let fixture = Fixture::usual();
    let repository = fixture.open(fixture.store().await).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    for (plain, contents, levels) in [(0, 1, 0), (999, 1, 0), (1000, 1, 0), (1001, 3, 1), (3000, 4, 1)] {
        let plain = noise(plain, usize::try_from(plain).unwrap());
        let id = write_in(&writer, fixed(1000), &plain, 77).await.unwrap();
        let written = writer.flush().await.unwrap();
        assert_eq!((id.levels, written.new_contents), (levels, contents), "{}", plain.len());
        assert_eq!(id.content.prefix(), (levels > 0).then_some(b'x'));
        assert_eq!(read(repository.contents(), &id).await, plain);
    }
}

#[tokio::test]
async fn a_listing_that_is_long_has_a_listing_itself() {
    let fixture = Fixture::new(&NewRepository { splitter: "FIXED-128K".to_owned(), ..NewRepository::default() });
    let repository = fixture.open(fixture.store().await).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let plain = noise(5, 4_000_000);
    let directory = ObjectOptions {
        prefix: Some(b'k'),
        compression: Some(Compression::ZstdFastest),
        metadata_compression: Some(Compression::ZstdFastest),
        ..fixed(1000)
    };
    for (options, prefix) in [(fixed(1000), b'x'), (directory, b'k')] {
        let id = write_in(&writer, options, &plain, 1 << 20).await.unwrap();
        writer.flush().await.unwrap();
        assert_eq!((id.levels, id.content.prefix()), (2, Some(prefix)));
        assert_eq!(read(repository.contents(), &id).await, plain);
        let entry = repository.contents().find(&id.content).unwrap().unwrap();
        assert_eq!(entry.compression, if prefix == b'k' { 0x1101 } else { 0 });
    }
}

#[tokio::test]
async fn a_checkpoint_is_cut_at_the_last_chunk_and_the_object_goes_on() {
    let fixture = Fixture::usual();
    let repository = fixture.open(fixture.store().await).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let plain = noise(5, 5500);
    let mut object = writer.object(fixed(1000));
    assert_eq!(object.checkpoint().await.unwrap(), None);
    let mut cuts = Vec::new();
    for piece in plain.chunks(700) {
        object.write(Bytes::copy_from_slice(piece)).await.unwrap();
        cuts.extend(object.checkpoint().await.unwrap());
    }
    let whole = object.finish().await.unwrap();
    writer.flush().await.unwrap();
    let mut lengths = Vec::new();
    for cut in &cuts {
        let part = read(repository.contents(), cut).await;
        assert_eq!(part, &plain[..part.len()]);
        lengths.push(part.len());
    }
    assert_eq!(lengths, [1000, 2000, 2000, 3000, 4000, 4000, 5000]);
    assert_eq!(read(repository.contents(), &whole).await, plain);
}

#[tokio::test]
async fn objects_are_joined_by_a_listing_of_their_contents() {
    let fixture = Fixture::usual();
    let repository = fixture.open(fixture.store().await).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let plain = noise(5, 5500);
    let mut parts = Vec::new();
    for range in [0..2500, 2500..2500, 2500..3000, 3000..5500] {
        parts.push(write_in(&writer, fixed(1000), &plain[range], 5500).await.unwrap());
    }
    let contents = writer.contents();
    let none = concatenate(contents, &[], ObjectOptions::default()).await.unwrap_err();
    assert_eq!(none.to_string(), "cannot join objects: there are none");
    assert_eq!(concatenate(contents, &parts[..1], ObjectOptions::default()).await.unwrap(), parts[0]);
    // Before they are flushed, and after it.
    let joined = concatenate(contents, &parts, ObjectOptions::default()).await.unwrap();
    writer.flush().await.unwrap();
    assert_eq!(concatenate(contents, &parts, ObjectOptions::default()).await.unwrap(), joined);
    assert_eq!((joined.levels, joined.content.prefix()), (1, Some(b'x')));
    assert_eq!(read(repository.contents(), &joined).await, plain);
    let listing = read(repository.contents(), &joined.listing().unwrap()).await;
    let starts: Vec<(u64, u64)> =
        crate::format::listing::parse(&listing).unwrap().iter().map(|piece| (piece.start, piece.length)).collect();
    let expected =
        [(0, 1000), (1000, 1000), (2000, 500), (2500, 0), (2500, 500), (3000, 1000), (4000, 1000), (5000, 500)];
    assert_eq!(starts, expected);
}

#[tokio::test]
async fn an_object_whose_chunk_fails_says_so_ever_after() {
    let fixture = Fixture::usual();
    let repository = fixture.open(fixture.store().await).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let mut object = writer.object(ObjectOptions { compression: Some(Compression::Lz4), ..fixed(1000) });
    let mut error = None;
    for _ in 0..100 {
        error = object.write(vec![0; 1000].into()).await.err();
        if error.is_some() {
            break;
        }
        tokio::task::yield_now().await;
    }
    let error = match error {
        Some(error) => error,
        None => object.checkpoint().await.unwrap_err(),
    };
    assert!(error.to_string().contains("lz4 is no longer written"), "{error}");
    assert_eq!(object.checkpoint().await.unwrap_err().to_string(), error.to_string());
    assert_eq!(object.finish().await.unwrap_err().to_string(), error.to_string());
}

/// Every name of the format: hashes, ciphers, splitters, compressions, versions, error correction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_with_every_algorithm_of_the_format_is_read() {
    let compressions: Vec<Compression> = Compression::all().filter(|one| one.is_writable()).collect();
    let splitters = SplitterAlgorithm::names();
    assert_eq!((compressions.len(), splitters.len()), (17, 23));
    for (number, splitter) in splitters.iter().enumerate() {
        let new = NewRepository {
            hash: HashAlgorithm::ALL[number % HashAlgorithm::ALL.len()],
            encryption: CipherAlgorithm::ALL[number % 2],
            version: [3, 2, 1][number % 3],
            ecc_overhead_percent: [0, 2, 10, 0][number % 4],
            splitter: splitter.clone(),
            ..NewRepository::default()
        };
        let compression = compressions.get(number).copied();
        let name = format!("{new:?} {compression:?}");
        let fixture = Fixture::new(&new);
        let store = fixture.store().await;
        let repository = fixture.open(store.clone()).await.unwrap();
        let writer = repository.writer(fixture.write_options(7)).await.unwrap();
        let max = SplitterAlgorithm::parse(splitter).unwrap().max_chunk() as usize;
        // One piece that can be compressed, one that cannot.
        let plain = [noise(1, 200_000).as_slice(), &vec![7; max], &noise(1, 1000)].concat();
        let options = ObjectOptions { compression, metadata_compression: compression, ..ObjectOptions::default() };
        let data = write_in(&writer, options, &plain, 1 << 20).await.unwrap();
        let directory =
            write_in(&writer, ObjectOptions { prefix: Some(b'k'), ..options }, &plain, 1 << 20).await.unwrap();
        writer.flush().await.unwrap();
        let again = fixture.open(store).await.unwrap();
        assert!(read(again.contents(), &data).await == plain, "{name}");
        assert!(read(again.contents(), &directory).await == plain, "{name}");
        assert_eq!((data.levels, directory.levels), (1, 1), "{name}");
        let is_compressed = again.contents().scan(None).any(|entry| entry.unwrap().compression != 0);
        assert_eq!(is_compressed, compression.is_some() && new.version > 1, "{name}");
        if new.version == 1 {
            let extents: Vec<_> = crate::object::extents(again.contents(), &data).try_collect().await.unwrap();
            assert_eq!(extents.iter().any(|extent| extent.is_compressed), compression.is_some(), "{name}");
        }
    }
}

#[tokio::test]
async fn chunks_of_another_object_are_taken_over_between_those_that_are_written() {
    let fixture = Fixture::usual();
    let repository = fixture.open(fixture.store().await).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let listing = SplitterAlgorithm::Fixed(200);
    let written = async |plain: &[u8]| {
        let mut object = writer.object(fixed(1000)).always_listed(listing);
        object.write(Bytes::copy_from_slice(plain)).await.unwrap();
        object.finish().await.unwrap()
    };
    let old = noise(3, 5000);
    let whole = written(&old).await;
    writer.flush().await.unwrap();
    let extents: Vec<_> = crate::object::extents(repository.contents(), &whole).try_collect().await.unwrap();
    let mut new = old.clone();
    new[2000..3000].copy_from_slice(&noise(4, 1000));
    let mut object = writer.object(fixed(1000)).always_listed(listing);
    for (at, extent) in extents.iter().enumerate() {
        if at == 2 {
            object.write(Bytes::copy_from_slice(&new[2000..3000])).await.unwrap();
        } else {
            object.append(ObjectId::direct(extent.content), extent.length, 1).await.unwrap();
        }
    }
    let changed = object.finish().await.unwrap();
    assert_eq!(changed, written(&new).await);
    writer.flush().await.unwrap();
    assert_eq!(read(repository.contents(), &changed).await, new);
    // One chunk has a listing, too, and one that is cut has a listing itself.
    assert_eq!((written(&old[..1000]).await.levels, changed.levels), (1, 2));
    let mut inside = writer.object(fixed(1000));
    inside.write(Bytes::from_static(b"x")).await.unwrap();
    let error = inside.append(changed, 5000, 1).await.unwrap_err().to_string();
    assert!(error.contains("it would be inside of a chunk"), "{error}");
}

#[tokio::test]
async fn a_listing_that_is_written_meanwhile_has_checkpoints_and_is_the_same() {
    let fixture = Fixture::usual();
    let repository = fixture.open(fixture.store().await).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let listing = SplitterAlgorithm::Fixed(128 << 10);
    // More text than is kept before it goes into the listing.
    let plain = noise(9, 300 * 9000);
    let mut object = writer.object(fixed(300)).always_listed(listing);
    let mut ends = Vec::new();
    for (at, part) in plain.chunks(90_000).enumerate() {
        object.write(Bytes::copy_from_slice(part)).await.unwrap();
        if at % 7 == 3 {
            ends.push((object.checkpoint().await.unwrap().unwrap(), (at + 1) * 90_000));
        }
    }
    let whole = object.finish().await.unwrap();
    let mut at_once = writer.object(fixed(300)).always_listed(listing);
    at_once.write(plain.clone().into()).await.unwrap();
    assert_eq!(at_once.finish().await.unwrap(), whole);
    writer.flush().await.unwrap();
    ends.push((whole, plain.len()));
    for (object, end) in ends {
        assert!(read(repository.contents(), &object).await == plain[..end], "{end}");
    }
}
