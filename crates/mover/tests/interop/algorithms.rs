//! Every algorithm by its name: what we write kopia reads and continues with the same contents. What kopia writes with each
//! is read by the tests of golden repositories.

use crate::ground::{PASSWORD, contents, create, newest, open, take};
use crate::source::make_small;
use lifeboat_kopia::crypto::{CipherAlgorithm, HashAlgorithm};
use lifeboat_kopia::format::repository::NewRepository;
use lifeboat_kopia::splitter::SplitterAlgorithm;
use lifeboat_testbed::Kopia;

/// A repository for each splitter, with the next hash and cipher in turn.
async fn round(numbers: std::ops::Range<usize>) {
    // Kopia cannot open a repository with this one, which needs a key that it does not give.
    let hashes: Vec<_> = HashAlgorithm::ALL.into_iter().filter(|hash| hash.name() != "BLAKE2S-128").collect();
    let splitters = SplitterAlgorithm::names();
    for n in numbers {
        let new = NewRepository {
            hash: hashes[n % hashes.len()],
            encryption: CipherAlgorithm::ALL[n % 2],
            splitter: splitters[n].clone(),
            ecc_overhead_percent: if n % 5 == 4 { 10 } else { 0 },
            version: if n % 7 == 6 { 2 } else { 3 },
            ..NewRepository::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let (bucket, tree) = (folder.path().join("repository"), folder.path().join("tree"));
        make_small(&tree);
        create(&bucket, &new).await;
        let repository = open(&bucket, folder.path()).await;
        let ours = take(&repository, &tree).await;
        let first = contents(&repository).await;
        let kopia = Kopia::new("v0.23.1", PASSWORD).unwrap();
        kopia.connect(&bucket).unwrap();
        kopia.run(&["snapshot", "create", tree.to_str().unwrap(), "--force-hash=100"]).unwrap();
        kopia.run(&["snapshot", "verify", "--verify-files-percent=100"]).unwrap();
        let theirs = newest(&repository).await;
        assert_eq!((theirs.root, theirs.stats), (ours.document.root, ours.document.stats), "{new:?}");
        assert_eq!(contents(&repository).await, first, "{new:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kopia_takes_every_hash_cipher_and_splitter_of_ours_first_part() {
    round(0..8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kopia_takes_every_hash_cipher_and_splitter_of_ours_second_part() {
    round(8..16).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kopia_takes_every_hash_cipher_and_splitter_of_ours_last_part() {
    round(16..23).await;
}
