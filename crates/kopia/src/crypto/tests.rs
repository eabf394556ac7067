use super::derive::expand;
use super::{CipherAlgorithm, Crypto, HashAlgorithm, Password, PasswordKdf, Secret};
use crate::format::content_id::{ContentHash, ContentId};
use crate::format::repository::{EpochParameters, RepositoryFormat};
use proptest::prelude::*;

fn sequence(first: u8, length: u8) -> Vec<u8> {
    (first..first + length).collect()
}

fn format(hash: HashAlgorithm, encryption: CipherAlgorithm, ecc_overhead_percent: u8) -> RepositoryFormat {
    RepositoryFormat {
        unique_id: sequence(0, 32),
        format_key: Secret::new(vec![0; 32]),
        hash,
        encryption,
        ecc_overhead_percent,
        secret: Secret::new(sequence(0x20, 32)),
        master_key: Secret::new(sequence(0x40, 32)),
        version: 3,
        max_pack_size: 20 << 20,
        index_version: 2,
        epochs: EpochParameters::default(),
        enable_password_change: true,
        splitter: "FIXED".to_owned(),
        upgrade_lock: None,
        warnings: Vec::new(),
    }
}

fn crypto(hash: HashAlgorithm, encryption: CipherAlgorithm) -> Crypto {
    Crypto::new(&format(hash, encryption, 0)).expect("keys that fit")
}

fn hex(bytes: &[u8]) -> String {
    hex::encode(bytes)
}

fn bytes(hex: &str) -> Vec<u8> {
    hex::decode(hex).expect("hex")
}

#[test]
fn a_password_is_read_and_trimmed_where_it_lies() {
    let text = |password: Password| String::from_utf8(password.as_bytes().to_vec()).unwrap();
    let read = |bytes: &[u8]| Password::read(bytes).map(text).map_err(|e| e.to_string());
    let longest = "x".repeat(64 << 10);
    assert_eq!(read(b"secret\n"), Ok("secret\n".to_owned()));
    assert_eq!(read(longest.as_bytes()).as_ref(), Ok(&longest));
    let longer = read(format!("{longest}x").as_bytes());
    assert_eq!(longer, Err("it has more than 65536 bytes: that is no password".to_owned()));
    assert_eq!(read(b"secret\xff"), Err("it is not UTF-8".to_owned()));
    for (whole, line, trimmed) in [
        ("secret", "secret", "secret"),
        (" se cret \r\n", " se cret ", "se cret"),
        ("secret\n\n", "secret\n", "secret"),
        ("\t\n", "\t", ""),
        ("", "", ""),
    ] {
        let password = || Password::new(whole.to_owned());
        assert_eq!((text(password().without_line_break()), text(password().trimmed())), (line.into(), trimmed.into()));
        // No other place in memory has it.
        let before = password();
        let at = before.as_bytes().as_ptr();
        assert_eq!(before.without_line_break().trimmed().as_bytes().as_ptr(), at, "{whole:?}");
    }
}

#[test]
fn a_password_gives_the_keys_of_kopia() {
    let vectors = [
        (
            "static-passw0rd",
            PasswordKdf::Scrypt,
            "ffe609844d93eddf89ad495da77bd83e8cec100e27b03a6257d505de6e36094d",
            "40b4dbe53119dcba4a63bfdcda08da6f0c89041d64355962e8a2076796626bc2",
            "d0d652b890ca4d62b340f8466bb95997f7a4a61a1c005a5c7153601dea229045",
        ),
        (
            "static-passw0rd",
            PasswordKdf::Pbkdf2,
            "518d6d7b82de0409ec8e6ac75d7c8bbffc679b706969d9122bf26bfdccaa034b",
            "8d024c2821a3ce99154a38deea7080d5033cb5a010c37766755ebd47196ff5a2",
            "becc0a1efd3278f8b2e06abb71713ac88351763eafb8f8909f7248c5424e40fa",
        ),
        (
            "password",
            PasswordKdf::Scrypt,
            "696fdb19d55e59b19a92dcfd4e3a9dc0418d3b50337b0c7c13ae55f5d8f2c0c5",
            "ba7456af1307338199c4207d21b60d27e7a3c2fb3b5e9616a72b6f146c92ec16",
            "f88b7b2f90c42b624978385e5128663ebb7db02bbd189f0a49abb8784f9352a8",
        ),
        (
            "password",
            PasswordKdf::Pbkdf2,
            "ec8a0ecad184b3682d302776d881d38a15b343627c726dba7d9dbc3864d1cd5a",
            "e4cdfd5779003c7e12596b4efd7d645b68db7dceb056b548d61a9d283147410e",
            "d7d7557f7c0443ea9941ba7d8a1310f86fbcad5dbd20356e5d5d787f05712179",
        ),
    ];
    let salt = sequence(0, 32);
    for (password, kdf, key, aes, checksum) in vectors {
        let derived = kdf.derive(&Password::new(password.to_owned()), &salt).expect("a long salt");
        let part = |info: &[u8]| {
            let part = expand(derived.as_bytes(), &salt, info, 32).expect("a short key");
            hex(part.as_bytes())
        };
        assert_eq!(hex(derived.as_bytes()), key);
        assert_eq!((part(b"AES"), part(b"CHECKSUM")), (aes.to_owned(), checksum.to_owned()));
    }
}

#[test]
fn a_short_unique_id_is_refused_as_a_salt() {
    let password = Password::new("x".to_owned());
    assert!(PasswordKdf::Pbkdf2.derive(&password, &[0; 15]).is_err());
}

#[test]
fn keys_of_keys_are_those_of_kopia() {
    // The key, the salt, the purpose, the length, and what is made of them.
    type Vector = (Vec<u8>, Vec<u8>, &'static str, usize, &'static str);
    let vectors: [Vector; 4] = [
        (
            b"ABCDEFGHIJKLMNOP".to_vec(),
            b"0123456789012345".to_vec(),
            "the-test-purpose",
            32,
            "828769ee8969bc37f11dbaa32838f8db6c19daa6e3ae5f5eed2da2d94d8faddb",
        ),
        (
            sequence(0x40, 32),
            sequence(0, 32),
            "maintenance schedule",
            32,
            "df3abcb527a008fb8f3b8fe556f35133a44bdfe1f801920f6875b2ad1686b17d",
        ),
        (sequence(0x20, 32), sequence(0, 32), "local-cache-integrity", 16, "634276a4f8b9b8b421f8acc3715afc47"),
        (
            sequence(0x40, 32),
            b"encryption".to_vec(),
            "",
            32,
            "efffeb0407ce08e6fca4220165c06bf4508d6ee17538f6a69f8df8149a6067d2",
        ),
    ];
    for (key, salt, info, length, expected) in vectors {
        let derived = expand(&key, &salt, info.as_bytes(), length).expect("a short key");
        assert_eq!(hex(derived.as_bytes()), expected, "{info}");
    }
    let crypto = crypto(HashAlgorithm::Blake2b256, CipherAlgorithm::Aes256GcmHmacSha256);
    let expected = "08b2e823e6f91e7dfe90c369be9263cd922fdc0a0c0c28cdcc2c89e8c0417158";
    assert_eq!(hex(&crypto.key(&sequence(0xa0, 16))), expected);
}

#[test]
fn the_maintenance_key_is_made_of_the_password_where_that_cannot_change() {
    let mut format = format(HashAlgorithm::default(), CipherAlgorithm::default(), 0);
    let key = |format: &RepositoryFormat| hex(format.maintenance_key().expect("a short key").as_bytes());
    let expected = "df3abcb527a008fb8f3b8fe556f35133a44bdfe1f801920f6875b2ad1686b17d";
    assert_eq!(key(&format), expected);
    format.enable_password_change = false;
    assert_ne!(key(&format), expected);
    format.format_key = format.master_key.clone();
    assert_eq!(key(&format), expected);
}

#[test]
fn hashes_are_those_of_kopia() {
    let vectors = [
        (
            HashAlgorithm::Blake2b256,
            "27366ff238c0cfa5f69df1f7a3c5b9b4b624478571ec2dd33368a5fcb803a667",
            "8193581617239d8beb24dd0f7e29a63310da53ebffd34078116fbc2b6cfc4713",
        ),
        (HashAlgorithm::Blake2b256_128, "27366ff238c0cfa5f69df1f7a3c5b9b4", "8193581617239d8beb24dd0f7e29a633"),
        (HashAlgorithm::Blake2s128, "e81d13439e25dfe1a2d3cfc79138ed55", "ec9bee158cb36ccb5658264ff017228a"),
        (
            HashAlgorithm::Blake2s256,
            "ab8f845ba7c1dbfa13d17316bab437a4aa5aa9f6dfe68b6e74a2989362f4b54d",
            "f8d00bcee960137921299ef3f008d3371cda0b069c76ce2f8f2a2360547032b8",
        ),
        (
            HashAlgorithm::Blake3_256,
            "4b57adcaf21ce6ec2187b5732f8e7537feffdd7951cf299f222e55172e33c881",
            "b6665af8855ebe2aa027bc7edfe7a76ee97b035f221b164ba5c36cea62fb8b09",
        ),
        (HashAlgorithm::Blake3_256_128, "4b57adcaf21ce6ec2187b5732f8e7537", "b6665af8855ebe2aa027bc7edfe7a76e"),
        (
            HashAlgorithm::HmacSha224,
            "00eb08ee91a2d54d5bf272dce43fc2c2a7b3308830297fb6f6a53e67",
            "d2467b5ce3cd62282b3ed99ab0cab37acc39a7733ad0d3550c9119c5",
        ),
        (
            HashAlgorithm::HmacSha256,
            "f49240b78aa90e53f46106c3481e377e19696e777328b1cd6ec6061a0bd868a9",
            "102cb8cd958bc2f7754e6e1f400c5591a7b7d84c2e8b5864a25aedc6ce4f97d6",
        ),
        (HashAlgorithm::HmacSha256_128, "f49240b78aa90e53f46106c3481e377e", "102cb8cd958bc2f7754e6e1f400c5591"),
        (
            HashAlgorithm::HmacSha3_224,
            "25ec80451aa6864468fd3ff67484cd701cca5d37ac8d471898df79b1",
            "4350f025ffba5b5b5b6d2bf42bbdf84838553e76a9c5202cd7352953",
        ),
        (
            HashAlgorithm::HmacSha3_256,
            "38d1b237e609baf7f5f6a58f06970d3496f902be36b1cd06ce857fd30cbc72f5",
            "a8a18fef5b8ec6fd5bb6a984ffa250d62c401ffbec4b507001fd8eeb8eb4953c",
        ),
    ];
    for (algorithm, empty, hello) in vectors {
        let crypto = crypto(algorithm, CipherAlgorithm::default());
        let inputs: [&[u8]; 2] = [b"", b"hello world"];
        assert_eq!(inputs.map(|plain| crypto.hash(plain).to_string()), [empty, hello]);
        let together = crypto.hash_all(&inputs);
        assert_eq!(together, inputs.map(|plain| crypto.hash(plain)));
        assert_eq!(together[0].as_bytes().len(), algorithm.length());
        assert_eq!(HashAlgorithm::from_name(algorithm.name()), Some(algorithm));
    }
}

#[test]
fn a_hash_without_key_is_plain_and_one_that_needs_a_key_is_refused() {
    let with_secret = |hash, secret| {
        let mut format = format(hash, CipherAlgorithm::default(), 0);
        format.secret = Secret::new(secret);
        Crypto::new(&format)
    };
    let plain = with_secret(HashAlgorithm::Blake2b256_128, Vec::new()).expect("no key");
    assert_eq!(plain.hash(&[1, 2, 3]).to_string(), "11c0e79b71c3976ccd0c02d1310e2516");
    assert_eq!(plain.hash(&[2, 3, 4]).to_string(), "24ff687b6ca564bd005a99420c90a0db");
    let refused = [(HashAlgorithm::Blake2s128, 0), (HashAlgorithm::Blake2s128, 33), (HashAlgorithm::Blake2b256, 65)];
    for (hash, length) in refused {
        assert!(with_secret(hash, vec![1; length]).is_err(), "{hash:?} {length}");
    }
    let long = with_secret(HashAlgorithm::Blake3_256, sequence(0x20, 40)).expect("a long key");
    let cut = crypto(HashAlgorithm::Blake3_256, CipherAlgorithm::default());
    assert_eq!(long.hash(b"x"), cut.hash(b"x"));
}

#[test]
fn contents_of_kopia_are_decrypted() {
    let id = ContentId::new(None, ContentHash::new(&sequence(0xa0, 16)).expect("16 bytes")).expect("no prefix");
    let vectors = [
        (
            CipherAlgorithm::Aes256GcmHmacSha256,
            "ada2ba1e7f2b0ccb702efa716ac22c7db8a20d878a47962c5e663606ffcf1a87313f9d48b2a8a1",
        ),
        (
            CipherAlgorithm::ChaCha20Poly1305HmacSha256,
            "171e46351aee26f434a6fed5fe94bc698137ca1228e7a5cbe3cb85c23f367f720bc5d318e8a548",
        ),
    ];
    for (cipher, stored) in vectors {
        let crypto = crypto(HashAlgorithm::default(), cipher);
        let stored = bytes(stored);
        assert_eq!(crypto.open_content(&id, &stored), Ok(b"hello world".to_vec()));
        let nonce = *stored.first_chunk().expect("a nonce");
        assert_eq!(crypto.seal_content(&id, b"hello world", nonce), Ok(stored));
        assert_eq!(CipherAlgorithm::from_name(cipher.name()), Some(cipher));
    }
}

#[test]
fn the_iv_of_kopia_s_own_tests_is_used_whole_for_local_indexes() {
    let vectors = [
        (
            "aabbccddeeffgghhiijjkkllmmnnoopp",
            "foo",
            "e43ba07f85a6d70c5f1102ca06cf19c597e5f91e527b21f00fb76e8bec3fd1",
            "118359f3d4d589d939efbbc3168ae4c77c51bcebce6845fe6ef5d11342faa6",
        ),
        (
            "00000000000000000000000000000000",
            "quick brown fox jumps over the lazy dog",
            "eaad755a238f1daa4052db2e5ccddd934790b6cca415b3ccfd46ac5746af33d9d30f4400ffa9eb3a64fb1ce21b888c12c043bf6787d4a5c15ad10f21f6a6027ee3afe0",
            "836d2ba87892711077adbdbe1452d3b2c590bbfdf6fd3387dc6810220a32ec19de862e1a4f865575e328424b5f178afac1b7eeff11494f719d119b7ebb924d1d0846a3",
        ),
    ];
    for (iv, plain, aes, chacha) in vectors {
        for (cipher, stored) in CipherAlgorithm::ALL.into_iter().zip([aes, chacha]) {
            let mut format = format(HashAlgorithm::default(), cipher, 0);
            format.master_key = Secret::new(b"01234567890123456789012345678901".to_vec());
            let crypto = Crypto::new(&format).expect("keys that fit");
            let opened = crypto.open_local_index(iv.as_bytes(), &bytes(stored));
            assert_eq!(opened, Ok(plain.as_bytes().to_vec()), "{iv}");
        }
    }
}

#[test]
fn keys_and_passwords_are_not_printed() {
    let format = format(HashAlgorithm::default(), CipherAlgorithm::default(), 0);
    let printed =
        format!("{format:?} {:?} {:?}", crypto(format.hash, format.encryption), Password::new("geheim".to_owned()));
    assert!(!printed.contains("geheim"));
    assert_eq!(printed.matches("Secret(32 bytes)").count(), 3);
    // The first bytes of the master key, as a list of numbers.
    assert!(!printed.contains("64, 65, 66"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_sealed_opens_and_nothing_else_does(
        plain in prop::collection::vec(any::<u8>(), 0..2000), at in any::<prop::sample::Index>(), bit in 0..8_u8, cut in any::<prop::sample::Index>(),
    ) {
        for hash in [HashAlgorithm::Blake2b256_128, HashAlgorithm::HmacSha224] {
            for cipher in CipherAlgorithm::ALL {
                let crypto = crypto(hash, cipher);
                let id = ContentId::new(Some(b'k'), crypto.hash(&plain)).expect("a prefix");
                let stored = crypto.seal_content(&id, &plain, [7; 12]).expect("few bytes");
                prop_assert_eq!(stored.len(), plain.len() + crypto.overhead() as usize);
                prop_assert_eq!(crypto.open_content(&id, &stored), Ok(plain.clone()));
                prop_assert!(crypto.open_content(&id, &stored[..cut.index(stored.len())]).is_err());
                let mut damaged = stored;
                let at = at.index(damaged.len());
                damaged[at] ^= 1 << bit;
                prop_assert!(crypto.open_content(&id, &damaged).is_err());
            }
        }
    }

    #[test]
    fn blobs_and_local_indexes_open_by_their_hash_also_with_error_correction(
        plain in prop::collection::vec(any::<u8>(), 0..2000), at in any::<prop::sample::Index>(),
    ) {
        let format = format(HashAlgorithm::Blake3_256, CipherAlgorithm::ChaCha20Poly1305HmacSha256, 5);
        let crypto = Crypto::new(&format).expect("keys that fit");
        let (hash, mut stored) = crypto.seal_blob(&plain, [9; 12]).expect("few bytes");
        prop_assert_eq!(hash, crypto.hash(&plain));
        let at = at.index(stored.len());
        stored[at] ^= 0x10;
        prop_assert_eq!(crypto.open_blob(&format!("xn7_{hash}-s1-c1"), &stored), Ok(plain.clone()));
        let local = crypto.seal_local_index(&hash, &plain, [9; 12]).expect("few bytes");
        prop_assert_eq!(crypto.open_local_index(hash.as_bytes(), &local), Ok(plain));
    }
}
