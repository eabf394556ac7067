//! Every algorithm by its name: what we write kopia reads and continues with the same contents. What kopia writes with each
//! is read by the tests of golden repositories.

use crate::ground::{PASSWORD, contents, create, newest, open, take};
use crate::source::make_small;
use lifeboat_kopia::crypto::{CipherAlgorithm, HashAlgorithm};
use lifeboat_kopia::format::repository::NewRepository;
use lifeboat_kopia::splitter::SplitterAlgorithm;
use lifeboat_testbed::Kopia;

/// The tests among which the splitters are divided.
const PARTS: usize = 8;

/// A repository for each splitter of a part, with the next hash and cipher in turn.
async fn check(part: usize) {
    // Kopia cannot open a repository with this one, which needs a key that it does not give.
    let hashes: Vec<_> = HashAlgorithm::ALL.into_iter().filter(|hash| hash.name() != "BLAKE2S-128").collect();
    let splitters = SplitterAlgorithm::names();
    for n in (part..splitters.len()).step_by(PARTS) {
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

macro_rules! parts {
    ($($name:ident: $part:literal,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                check($part).await;
            }
        )*

        #[test]
        fn every_part_of_the_algorithms_is_checked() {
            assert_eq!([$($part),*], std::array::from_fn::<usize, PARTS, _>(|part| part));
        }
    };
}

parts! {
    kopia_takes_our_algorithms_part_one: 0,
    kopia_takes_our_algorithms_part_two: 1,
    kopia_takes_our_algorithms_part_three: 2,
    kopia_takes_our_algorithms_part_four: 3,
    kopia_takes_our_algorithms_part_five: 4,
    kopia_takes_our_algorithms_part_six: 5,
    kopia_takes_our_algorithms_part_seven: 6,
    kopia_takes_our_algorithms_part_eight: 7,
}
