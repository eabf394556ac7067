use super::blob::{FormatBlob, open_sealed, seal};
use super::*;
use crate::crypto::derive::PasswordKdf;
use crate::crypto::secret::Secret;
use crate::crypto::{CipherAlgorithm, HashAlgorithm};
use crate::format::time::UnixNanos;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The format blob of a small repository that kopia wrote.
const BLOB: &str = "ewogICJ0b29sIjogImh0dHBzOi8vZ2l0aHViLmNvbS9rb3BpYS9rb3BpYSIsCiAgImJ1aWxkVmVyc2lvbiI6ICJ2MC11bm9mZmljaWFsIiwKICAiYnVpbGRJbmZvIjogIi0odW5rbm93bl9yZXZpc2lvbikiLAogICJ1bmlxdWVJRCI6ICJBQUVDQXdRRkJnY0lDUW9MREEwT0R4QVJFaE1VRlJZWEdCa2FHeHdkSGg4PSIsCiAgImtleUFsZ28iOiAic2NyeXB0LTY1NTM2LTgtMSIsCiAgImVuY3J5cHRpb24iOiAiQUVTMjU2X0dDTSIsCiAgImVuY3J5cHRlZEJsb2NrRm9ybWF0IjogIjc5a3RpdXBnYzRxcTBrZC9LUkFtNmZEMEZ0NDJzdm95dkJOZWhuVDZic1p0QVZQVTV6d0Rpd0oxOGY1dTJnU2xBZlV6eCtMWjFDTHBJd2k2eDdjb3V4TXJWbHFVTktTOE1UTzRoeGtsa2N5WkdxaGpubFIweVJrbGxkam5vV2tBN2JCd0xodkp6Z1c5VjVtRlBlL0l2M2hlNmJGcHZXWXFjWVR2UWFMYTlTVjdXbVFOenM0WFFyc3FlUDRZemVnUU43VWw5THhzNENvb2tMbGNWeHlKc2s4bGFuU0VNT2M5OWpXVXMweDVBczMzK0s0VG5mRzkxeWEyVUlmTlN2Znc4L2FUVUFiN2x5WXlXMHZEUDR3ejRhaUhTVjNIK3R6a0RWT2xjeTdqK05Md2N3c2crZk9pWE1PeVgydXVKVDVrVHlaZ1ViVXNNNUN6bG9lbklPMERSL2RLWnBWbVg3bjdoekhQdFRHNEtCQ3ExVTVMcUVQbjBaNjY4VTlWeEk5QjI1YUF0N2swNmVpblVVNXZmWjFSNTZGNmZLL1NIWEczc2U2WnRRamRmbFF0OWo4Q29SOHdZVXpyUU16dHVhVzUwTnJ4aHdZVnBuR2tRd0N1aURHNnhZN3ZDSmtSZHVmZVNQU0ttSUZSbXdLZ3RMbWpwb3hsWVkwMDV4WWgwWEV6ZFNmUDU2NGVjMFEyblVMdG8vNmxZa09acHY2WnV0N203YWVMK2czM00rc01yR0lvQzdVZzlsT2xXdjd1cGwwcmppTE9NNVl6aGJNd0k1RGlSdlc3OWV1UzRHNUdxaFVBa3NlWFJOaTF2VDNUWUhSdDFFWENVcXF6RHJ5Qzlaa3Y1K01JMmllQzRrK21GQ3FpY1ZjMzBoTE83MkhQdTFjR1ViTkNzaUQyUTZwTG1PQkVCYlBab0UySDdWV0Y0Tm5VK0RDZmVJVE1DeEpwLzVjMEd4WWhpb3BWYWwycjF6QWcxK2VPUi9jazU3dGYvRUZVSHZKTWlzdjVTeXhqWFRza0trbkE4bkROTVZvWGs5TW5sUE0wSkVtUFlZT2ZocmVUUjNoaWR1SnFyUT09Igp9Cg==";
const DOCUMENT: &str = r#"{"format":{"hash":"BLAKE2B-256-128","encryption":"AES256-GCM-HMAC-SHA256","secret":"ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=","masterKey":"QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8=","version":3,"maxPackSize":20971520,"indexVersion":2,"epochParameters":{"Enabled":true,"EpochRefreshFrequency":1200000000000,"FullCheckpointFrequency":7,"CleanupSafetyMargin":14400000000000,"MinEpochDuration":86400000000000,"EpochAdvanceOnCountThreshold":20,"EpochAdvanceOnTotalSizeBytesThreshold":10485760,"DeleteParallelism":4},"enablePasswordChange":true,"splitter":"DYNAMIC-4M-BUZHASH"}}"#;
const MINUTE: i64 = 60_000_000_000;

fn sequence<const N: usize>(first: u8) -> [u8; N] {
    std::array::from_fn(|number| first + number as u8)
}

fn password(text: &str) -> Password {
    Password::new(text.to_owned())
}

fn blob() -> Vec<u8> {
    STANDARD.decode(BLOB).expect("base64")
}

fn random() -> FormatRandom {
    FormatRandom {
        unique_id: sequence(0),
        secret: sequence(0x20),
        master_key: sequence(0x40),
        format_nonce: sequence(0x60),
        config_nonce: sequence(0x70),
    }
}

fn new_repository() -> NewRepository {
    // The cheaper one of the two.
    NewRepository { kdf: PasswordKdf::Pbkdf2, ..NewRepository::default() }
}

#[test]
fn a_format_blob_of_kopia_opens_and_is_written_again_byte_by_byte() {
    let parsed = FormatBlob::parse(&blob()).expect("a format blob");
    assert_eq!(parsed.write(), blob());
    let key = parsed.kdf.derive(&password("static-passw0rd"), &parsed.unique_id).expect("a long salt");
    let plain = parsed.open(&key).expect("the right password");
    assert_eq!(str::from_utf8(&plain), Ok(DOCUMENT));
    let format = document::parse(&plain, parsed.unique_id.clone(), key).expect("a format");
    assert_eq!(str::from_utf8(&document::write(&format)), Ok(DOCUMENT));
    assert_eq!(format.unique_id, sequence::<32>(0));
    assert_eq!(format.secret.as_bytes(), sequence::<32>(0x20));
    assert_eq!(format.master_key.as_bytes(), sequence::<32>(0x40));
    assert_eq!(format.epochs, EpochParameters::enabled());
}

#[test]
fn a_wrong_password_is_told_as_one() {
    let result = open_format(&blob(), &password("static-passw0rd "));
    assert!(matches!(result, Err(OpenFormatError::WrongPassword)));
}

#[test]
fn two_bytes_are_sealed_as_kopia_seals_them() {
    let vectors = [
        (
            "ffe609844d93eddf89ad495da77bd83e8cec100e27b03a6257d505de6e36094d",
            "650838a3d54294f9ef79fb889c4a6da1471f6c884ef926bcb8134980f26d",
        ),
        (
            "518d6d7b82de0409ec8e6ac75d7c8bbffc679b706969d9122bf26bfdccaa034b",
            "968dc8ebc768335510b1017fc5dbe6548866534edd54633d441ff6b6ef47",
        ),
    ];
    for (key, stored) in vectors {
        let key = Secret::new(hex::decode(key).expect("hex"));
        let stored = hex::decode(stored).expect("hex");
        let opened = open_sealed(&key, &sequence::<32>(0), &stored).expect("a key that fits");
        assert_eq!(opened.as_deref().map(Vec::as_slice), Some(b"{}".as_slice()));
        let nonce = *stored.first_chunk().expect("a nonce");
        assert_eq!(seal(&key, &sequence::<32>(0), nonce, b"{}"), Ok(stored));
    }
}

#[test]
fn a_new_repository_opens_with_the_parameters_it_was_made_with() {
    let retention = Some(Retention { mode: RetentionMode::Compliance, period: 48 * 60 * MINUTE });
    let new = NewRepository {
        hash: HashAlgorithm::Blake3_256_128,
        encryption: CipherAlgorithm::ChaCha20Poly1305HmacSha256,
        ecc_overhead_percent: 5,
        splitter: "DYNAMIC-8M-RABINKARP".to_owned(),
        retention,
        ..new_repository()
    };
    let blobs = create_format(&new, &password("x"), &random()).expect("good parameters");
    let opened = open_format(&blobs.format_blob, &password("x")).expect("a format");
    assert_eq!(document::write(&opened), document::write(&blobs.format));
    assert_eq!((opened.hash, opened.encryption, opened.ecc_overhead_percent), (new.hash, new.encryption, 5));
    assert_eq!((opened.version, opened.index_version, opened.splitter.as_str()), (3, 2, "DYNAMIC-8M-RABINKARP"));
    assert_eq!(open_blob_config(&opened, &blobs.blob_config), Ok(retention));
}

#[test]
fn the_default_of_a_new_repository_is_the_format_of_kopia_and_velero() {
    let blobs = create_format(&new_repository(), &password("x"), &random()).expect("good parameters");
    assert_eq!(str::from_utf8(&document::write(&blobs.format)), Ok(DOCUMENT));
    assert_eq!(open_blob_config(&blobs.format, &blobs.blob_config), Ok(None));
}

#[test]
fn a_new_repository_of_version_1_has_no_epochs_and_no_error_correction() {
    let new = NewRepository { version: 1, ecc_overhead_percent: 5, ..new_repository() };
    let blobs = create_format(&new, &password("x"), &random()).expect("good parameters");
    let opened = open_format(&blobs.format_blob, &password("x")).expect("a format");
    assert_eq!(opened.epochs, EpochParameters::default());
    assert_eq!((opened.index_version, opened.ecc_overhead_percent, opened.enable_password_change), (1, 0, false));
}

#[test]
fn parameters_that_kopia_refuses_are_refused() {
    let day = Retention { mode: RetentionMode::Locked, period: 24 * 60 * MINUTE - 1 };
    let epochs = |change: fn(&mut EpochParameters)| {
        let mut epochs = EpochParameters::enabled();
        change(&mut epochs);
        NewRepository { epochs, ..new_repository() }
    };
    let refused = [
        NewRepository { version: 0, ..new_repository() },
        NewRepository { version: 4, ..new_repository() },
        NewRepository { max_pack_size: (10 << 20) - 1, ..new_repository() },
        NewRepository { max_pack_size: (120 << 20) + 1, ..new_repository() },
        NewRepository { ecc_overhead_percent: 101, ..new_repository() },
        NewRepository { splitter: "DYNAMIC-3M-BUZHASH".to_owned(), ..new_repository() },
        NewRepository { retention: Some(day), ..new_repository() },
        epochs(|epochs| epochs.min_epoch_duration = 10 * MINUTE - 1),
        epochs(|epochs| epochs.epoch_refresh_frequency = 24 * 20 * MINUTE + 1),
        epochs(|epochs| epochs.full_checkpoint_frequency = 0),
        epochs(|epochs| epochs.cleanup_safety_margin = 60 * MINUTE - 1),
        epochs(|epochs| epochs.epoch_advance_on_count_threshold = 9),
        epochs(|epochs| epochs.epoch_advance_on_total_size_bytes_threshold = (1 << 20) - 1),
    ];
    for new in refused {
        assert!(create_format(&new, &password("x"), &random()).is_err(), "{new:?}");
    }
}

fn parse(document: &str) -> Result<RepositoryFormat, String> {
    let key = Secret::new(vec![0; 32]);
    document::parse(document.as_bytes(), vec![0; 32], key).map_err(|error| error.to_string())
}

/// The document with other values.
fn parse_with(from: &str, to: &str) -> Result<RepositoryFormat, String> {
    assert!(DOCUMENT.contains(from), "{from}");
    parse(&DOCUMENT.replace(from, to))
}

#[test]
fn what_is_not_known_is_refused_by_its_own_name() {
    let vectors = [
        ("\"version\":3", "\"version\":4", "version 4 of the format is not known"),
        ("\"version\":3", "\"version\":0", "version 0 of the format is not known"),
        ("\"indexVersion\":2", "\"indexVersion\":3", "version 3 of indexes is not known"),
        ("BLAKE2B-256-128", "MD5", "the hash \"MD5\" is not known"),
        ("AES256-GCM-HMAC-SHA256", "NONE", "the encryption \"NONE\" is not known"),
        (
            "\"secret\"",
            "\"ecc\":\"LDPC\",\"eccOverheadPercent\":5,\"secret\"",
            "the error correction \"LDPC\" is not known",
        ),
        (
            "\"splitter\"",
            "\"requiredFeatures\":[{\"feature\":\"index-v3\",\"ifNotUnderstood\":{\"warn\":false,\"message\":\"upgrade\"}}],\"splitter\"",
            "the feature \"index-v3\" (upgrade) is not known",
        ),
    ];
    for (from, to, expected) in vectors {
        let result = parse_with(from, to).map(|format| format.version);
        assert_eq!(result, Err(expected.to_owned()));
    }
}

#[test]
fn a_feature_that_need_not_be_known_is_a_warning_and_known_ones_are_none() {
    let features = r#""requiredFeatures":[{"feature":"index-v2","ifNotUnderstood":{}},{"feature":"later","ifNotUnderstood":{"warn":true,"message":"slow"}}],"splitter""#;
    let format = parse_with("\"splitter\"", features).expect("a format");
    assert_eq!(format.warnings, ["the feature \"later\" (slow)"]);
}

#[test]
fn absent_values_have_their_defaults() {
    let document =
        r#"{"format":{"hash":"HMAC-SHA256","encryption":"AES256-GCM-HMAC-SHA256","masterKey":"AAAA","version":1}}"#;
    let format = parse(document).expect("a format");
    assert_eq!((format.max_pack_size, format.index_version, format.splitter.as_str()), (20 << 20, 1, "FIXED"));
    assert!(!format.enable_password_change && !format.epochs.enabled);
}

#[test]
fn a_lock_binds_when_its_notice_ends_and_at_once_without_enough_notice() {
    let lock = |advance_notice| UpgradeLock {
        created: UnixNanos(1000 * MINUTE),
        advance_notice,
        io_drain_timeout: 15 * MINUTE,
        max_clock_drift: 5 * MINUTE,
        ..UpgradeLock::default()
    };
    let binds = |notice: i64, after: i64| lock(notice * MINUTE).binds_at(UnixNanos((1000 + after) * MINUTE));
    assert!(binds(0, 0) && binds(0, -100) && binds(34, -100));
    assert!(binds(35, 0) && !binds(35, -1));
    assert!(!binds(60, 24) && binds(60, 25));
    let hostile = UpgradeLock { advance_notice: i64::MAX, io_drain_timeout: i64::MIN, ..lock(0) };
    assert!(!hostile.binds_at(UnixNanos(0)));
}

#[test]
fn other_bytes_are_no_format_blob() {
    let blob = String::from_utf8(blob()).expect("text");
    let vectors = [
        (blob.replace("AES256_GCM", "NONE"), "the encryption \"NONE\" of the format is not known"),
        (blob.replace("scrypt-65536-8-1", "md5"), "the key derivation \"md5\" is not known"),
        (
            blob.replace("AAECAwQF", "AAECAwQ!"),
            "format blob: bytes in base64 are damaged (Invalid symbol 33, offset 7.) at byte 179",
        ),
        ("{}".to_owned(), "the encryption \"\" of the format is not known"),
        ("[]".to_owned(), "format blob: '{' was expected at byte 0"),
        (String::new(), "format blob: unexpected end at byte 0"),
    ];
    for (text, expected) in vectors {
        let result = FormatBlob::parse(text.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(result.map(|_| ()), Err(expected.to_owned()));
    }
}
