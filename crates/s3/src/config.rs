//! Reads what a user says of a bucket: the settings of a storage location, or the query of a URL.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::path::PathBuf;
use std::time::Duration;

/// The address of a bucket, and options for writing to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct S3Config {
    /// Its name.
    pub bucket: String,
    /// Its region; [`S3::connect`](crate::S3::connect) asks the server when it is not given.
    pub region: Option<String>,
    /// The server, such as `https://minio.example.com:9000`; Amazon's when it is not given.
    pub endpoint: Option<String>,
    /// The server as other clients reach it; presigned URLs point there.
    pub public_endpoint: Option<String>,
    /// Put the bucket's name into the path instead of the host name. By default so when an endpoint is given.
    pub force_path_style: Option<bool>,
    /// The profile of the AWS files; credentials come from there alone when it is given.
    pub profile: Option<String>,
    /// A credentials file in the format of AWS; credentials come from there alone when it is given.
    pub credentials_file: Option<CredentialsFile>,
    /// Certificates in PEM that are trusted besides those of the system, for the bucket only.
    pub ca_bundle: Option<Vec<u8>>,
    /// Do not verify the certificate of the bucket's server. Servers that give credentials are verified all the same.
    pub insecure_skip_tls_verify: bool,
    /// `CRC32`, `CRC32C`, `CRC64NVME`, `SHA1` or `SHA256`, sent with every object. Without one only what the
    /// protocol requires is sent, as some servers refuse the rest.
    pub checksum_algorithm: Option<String>,
    /// `AES256`, `aws:kms` or `aws:kms:dsse`.
    pub server_side_encryption: Option<String>,
    /// Key of the key service; implies `aws:kms`.
    pub kms_key_id: Option<String>,
    /// Tags of every object, such as `team=a&tier=cold`.
    pub tagging: Option<String>,
    /// Time limit of one request, all attempts together; three minutes when left out.
    pub patience: Option<Duration>,
}

/// A credentials file in the format of AWS.
#[derive(Clone, PartialEq, Eq)]
pub enum CredentialsFile {
    /// The path of the file.
    At(PathBuf),
    /// The content of the file, which stays in memory: a process that is killed leaves no file behind.
    Text(String),
}

/// Without the secret.
impl Debug for CredentialsFile {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(path) => f.debug_tuple("At").field(path).finish(),
            Self::Text(_) => f.write_str("Text(..)"),
        }
    }
}

/// Keys of a location's `config` that mean something here.
const LOCATION_KEYS: [&str; 15] = [
    "region",
    "s3Url",
    "publicUrl",
    "s3ForcePathStyle",
    "profile",
    "insecureSkipTLSVerify",
    "caCert",
    "checksumAlgorithm",
    "serverSideEncryption",
    "kmsKeyId",
    "tagging",
    "signatureVersion",
    "enableSharedConfig",
    "customerKeyEncryptionFile",
    "customerKeyEncryptionSecret",
];

/// Keys that the server adds to a location's `config` before it hands it on, and one that users may not set.
const IGNORED_KEYS: [&str; 3] = ["bucket", "prefix", "credentialsFile"];

/// Keys of the query of a `s3://` URL.
const QUERY_KEYS: [&str; 12] = [
    "region",
    "endpoint",
    "publicEndpoint",
    "forcePathStyle",
    "profile",
    "credentialsFile",
    "insecureSkipTLSVerify",
    "checksumAlgorithm",
    "serverSideEncryption",
    "kmsKeyId",
    "tagging",
    "caFile",
];

const CHECKSUMS: [&str; 5] = ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"];
const ENCRYPTIONS: [&str; 3] = ["AES256", "aws:kms", "aws:kms:dsse"];

impl S3Config {
    /// The keys that `config` of a storage location may have.
    pub const LOCATION_KEYS: [&str; 15] = LOCATION_KEYS;

    /// Reads the `config` of a storage location of provider `velero.io/aws`.
    ///
    /// `credentialsFile` is ignored: a user of the API must not name files of the server. The caller reads the location's Secret
    /// and sets [`S3Config::credentials_file`].
    ///
    /// # Errors
    /// When a key is not known or a value is none that the key takes; the message names what is.
    pub fn from_velero(bucket: &str, config: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut out = Self {
            bucket: check_bucket(bucket)?,
            // compat: Velero's plug-in addresses buckets by host name unless told otherwise, also at an own endpoint;
            // some providers take nothing else.
            force_path_style: Some(false),
            // compat: Velero's plug-in sends this one unless the key is there and empty.
            checksum_algorithm: Some("CRC32".to_owned()),
            ..Self::default()
        };
        for (key, value) in config {
            let text = || (!value.is_empty()).then(|| value.clone());
            match key.as_str() {
                "region" => out.region = text(),
                "s3Url" => out.endpoint = check_endpoint(key, value)?,
                "publicUrl" => out.public_endpoint = check_endpoint(key, value)?,
                "s3ForcePathStyle" => out.force_path_style = Some(check_flag(key, value)?),
                "profile" => out.profile = text(),
                "insecureSkipTLSVerify" => out.insecure_skip_tls_verify = check_flag(key, value)?,
                "caCert" => out.ca_bundle = text().map(String::into_bytes),
                "checksumAlgorithm" => out.checksum_algorithm = check_one_of(key, value, &CHECKSUMS)?,
                "serverSideEncryption" => out.server_side_encryption = check_one_of(key, value, &ENCRYPTIONS)?,
                "kmsKeyId" => out.kms_key_id = text(),
                "tagging" => out.tagging = text(),
                "signatureVersion" if matches!(value.as_str(), "" | "4") => {}
                "signatureVersion" => return Err(format!("signatureVersion {value:?} is not supported: only 4 is")),
                // The files are always read together.
                "enableSharedConfig" => drop(check_flag(key, value)?),
                "customerKeyEncryptionFile" | "customerKeyEncryptionSecret" if value.is_empty() => {}
                "customerKeyEncryptionFile" | "customerKeyEncryptionSecret" => {
                    return Err(format!(
                        "{key}: encryption with a customer's key is not supported; use serverSideEncryption or kmsKeyId"
                    ));
                }
                ignored if IGNORED_KEYS.contains(&ignored) => {}
                other => return Err(unknown(other, &LOCATION_KEYS)),
            }
        }
        Ok(out)
    }

    /// Reads the query of a `s3://` URL, decoded. Without an endpoint every object is sent with a `CRC32`.
    ///
    /// # Errors
    /// When a key is not known, given twice, or a value is none that the key takes; the message names what is.
    pub fn from_url_query(bucket: &str, query: &[(String, String)]) -> Result<Self, String> {
        let mut out = Self { bucket: check_bucket(bucket)?, ..Self::default() };
        let mut seen = Vec::new();
        for (key, value) in query {
            if value.is_empty() {
                return Err(format!("{key} has no value"));
            }
            if seen.contains(key) {
                return Err(format!("{key} is given twice"));
            }
            seen.push(key.clone());
            match key.as_str() {
                "region" => out.region = Some(value.clone()),
                "endpoint" => out.endpoint = check_endpoint(key, value)?,
                "publicEndpoint" => out.public_endpoint = check_endpoint(key, value)?,
                "forcePathStyle" => out.force_path_style = Some(check_flag(key, value)?),
                "profile" => out.profile = Some(value.clone()),
                "credentialsFile" => out.credentials_file = Some(CredentialsFile::At(value.into())),
                "insecureSkipTLSVerify" => out.insecure_skip_tls_verify = check_flag(key, value)?,
                "checksumAlgorithm" => out.checksum_algorithm = check_one_of(key, value, &CHECKSUMS)?,
                "serverSideEncryption" => out.server_side_encryption = check_one_of(key, value, &ENCRYPTIONS)?,
                "kmsKeyId" => out.kms_key_id = Some(value.clone()),
                "tagging" => out.tagging = Some(value.clone()),
                "caFile" => {
                    let pem = std::fs::read(value).map_err(|e| format!("cannot read caFile {value}: {e}"))?;
                    out.ca_bundle = Some(pem);
                }
                other => return Err(unknown(other, &QUERY_KEYS)),
            }
        }
        // Amazon's buckets with object lock take no object without one; of other servers some take none with one.
        if out.checksum_algorithm.is_none() && out.endpoint.is_none() {
            out.checksum_algorithm = Some("CRC32".to_owned());
        }
        Ok(out)
    }
}

fn unknown(key: &str, valid: &[&str]) -> String {
    format!("{key:?} is not known; valid are {}", valid.join(", "))
}

fn check_bucket(bucket: &str) -> Result<String, String> {
    // Access points have slashes in their names.
    if bucket.starts_with("arn:aws:s3") {
        return Ok(bucket.to_owned());
    }
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    match bucket {
        "" => Err("the name of the bucket is missing".to_owned()),
        name if name.contains('/') => Err(format!(
            "the bucket's name {name:?} must not contain a slash; what follows the bucket belongs into the prefix"
        )),
        name if !name.chars().all(good) => {
            Err(format!("the bucket's name {name:?} may only have letters, digits, dots, hyphens and underscores"))
        }
        name => Ok(name.to_owned()),
    }
}

/// An `http` or `https` URL of host and port, without a slash at the end; none for no text.
fn check_endpoint(key: &str, value: &str) -> Result<Option<String>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    let wrong = |why: &str| Err(format!("{key} {why}; write it such as https://storage.example.com:9000"));
    let Some(rest) = value.strip_prefix("https://").or_else(|| value.strip_prefix("http://")) else {
        return wrong(&format!("{value:?} must begin with http:// or https://"));
    };
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.contains('@') {
        // Not repeated: it may hold a password.
        return wrong("must not hold a user name or a password");
    }
    let url = value.trim_end_matches('/');
    let parsed: Result<http::Uri, _> = url.parse();
    if parsed.is_err() || authority.is_empty() || rest.contains(['?', '#']) {
        return wrong(&format!("{value:?} is no URL of a server"));
    }
    Ok(Some(url.to_owned()))
}

/// The spellings that Go's `strconv.ParseBool` takes, as Velero does.
fn check_flag(key: &str, value: &str) -> Result<bool, String> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "" | "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{key} {value:?} must be true or false")),
    }
}

fn check_one_of(key: &str, value: &str, valid: &[&str]) -> Result<Option<String>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    if valid.contains(&value) {
        return Ok(Some(value.to_owned()));
    }
    Err(format!("{key} {value:?} is not known; valid are {}", valid.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn velero(pairs: &[(&str, &str)]) -> Result<S3Config, String> {
        let config = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        S3Config::from_velero("b", &config)
    }

    fn query(pairs: &[(&str, &str)]) -> Result<S3Config, String> {
        let pairs: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        S3Config::from_url_query("b", &pairs)
    }

    /// The configuration of a location that sets no key.
    fn plain() -> S3Config {
        S3Config {
            bucket: "b".to_owned(),
            force_path_style: Some(false),
            checksum_algorithm: Some("CRC32".to_owned()),
            ..S3Config::default()
        }
    }

    #[test]
    fn reads_the_config_of_a_location() {
        let some = |text: &str| Some(text.to_owned());
        let table: [(&[(&str, &str)], S3Config); 9] = [
            (&[], plain()),
            (&[("region", "eu-west-1")], S3Config { region: some("eu-west-1"), ..plain() }),
            (
                &[("region", "minio"), ("s3Url", "http://minio:9000/"), ("s3ForcePathStyle", "true")],
                S3Config {
                    region: some("minio"),
                    endpoint: some("http://minio:9000"),
                    force_path_style: Some(true),
                    ..plain()
                },
            ),
            (&[("publicUrl", "https://x")], S3Config { public_endpoint: some("https://x"), ..plain() }),
            (&[("checksumAlgorithm", "")], S3Config { checksum_algorithm: None, ..plain() }),
            (
                &[("kmsKeyId", "alias/a"), ("serverSideEncryption", "aws:kms"), ("tagging", "a=b")],
                S3Config {
                    kms_key_id: some("alias/a"),
                    server_side_encryption: some("aws:kms"),
                    tagging: some("a=b"),
                    ..plain()
                },
            ),
            (
                &[("insecureSkipTLSVerify", "True"), ("profile", "p"), ("enableSharedConfig", "1")],
                S3Config { insecure_skip_tls_verify: true, profile: some("p"), ..plain() },
            ),
            (&[("caCert", "pem")], S3Config { ca_bundle: Some(b"pem".to_vec()), ..plain() }),
            (
                &[("credentialsFile", "/etc/shadow"), ("bucket", "other"), ("prefix", "p"), ("signatureVersion", "4")],
                plain(),
            ),
        ];
        for (pairs, expected) in table {
            assert_eq!(velero(pairs), Ok(expected), "{pairs:?}");
        }
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
        let table: [(&str, &str, &str); 9] = [
            ("zone", "x", r#""zone" is not known; valid are region, s3Url, publicUrl, s3ForcePathStyle, profile, "#),
            ("s3Url", "minio:9000", r#"s3Url "minio:9000" must begin with http:// or https://"#),
            ("s3Url", "https://", r#"s3Url "https://" is no URL of a server"#),
            ("s3Url", "https://u:pass@host", "s3Url must not hold a user name or a password; write"),
            ("s3ForcePathStyle", "yes", r#"s3ForcePathStyle "yes" must be true or false"#),
            ("checksumAlgorithm", "MD5", r#"checksumAlgorithm "MD5" is not known; valid are CRC32, CRC32C,"#),
            ("serverSideEncryption", "aes", r#"serverSideEncryption "aes" is not known; valid are AES256"#),
            ("signatureVersion", "1", r#"signatureVersion "1" is not supported: only 4 is"#),
            ("customerKeyEncryptionFile", "/k", "customerKeyEncryptionFile: encryption with a customer's key"),
        ];
        for (key, value, expected) in table {
            let message = velero(&[(key, value)]).unwrap_err();
            assert!(message.starts_with(expected), "{message}");
        }
    }

    #[test]
    fn refuses_names_that_are_no_bucket() {
        for name in ["", "a/b", "a b", "a?b", "ü"] {
            assert!(S3Config::from_velero(name, &BTreeMap::new()).is_err(), "{name:?}");
            assert!(S3Config::from_url_query(name, &[]).is_err(), "{name:?}");
        }
        let arn = "arn:aws:s3:us-east-1:1:accesspoint/a";
        assert_eq!(S3Config::from_velero(arn, &BTreeMap::new()).map(|c| c.bucket), Ok(arn.to_owned()));
    }

    #[test]
    fn reads_the_query_of_a_url() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, "pem").unwrap();
        let all = [
            ("region", "r"),
            ("endpoint", "https://e/"),
            ("publicEndpoint", "https://p"),
            ("forcePathStyle", "false"),
            ("profile", "x"),
            ("credentialsFile", "/c"),
            ("insecureSkipTLSVerify", "true"),
            ("checksumAlgorithm", "SHA256"),
            ("serverSideEncryption", "AES256"),
            ("kmsKeyId", "k"),
            ("tagging", "a=b"),
            ("caFile", file.to_str().unwrap()),
        ];
        let expected = S3Config {
            bucket: "b".to_owned(),
            region: Some("r".to_owned()),
            endpoint: Some("https://e".to_owned()),
            public_endpoint: Some("https://p".to_owned()),
            force_path_style: Some(false),
            profile: Some("x".to_owned()),
            credentials_file: Some(CredentialsFile::At("/c".into())),
            ca_bundle: Some(b"pem".to_vec()),
            insecure_skip_tls_verify: true,
            checksum_algorithm: Some("SHA256".to_owned()),
            server_side_encryption: Some("AES256".to_owned()),
            kms_key_id: Some("k".to_owned()),
            tagging: Some("a=b".to_owned()),
            patience: None,
        };
        assert_eq!(query(&all), Ok(expected));
        assert_eq!(query(&[]), Ok(S3Config { force_path_style: None, ..plain() }));
        let server = S3Config { bucket: "b".to_owned(), endpoint: Some("http://e".to_owned()), ..S3Config::default() };
        assert_eq!(query(&[("endpoint", "http://e")]), Ok(server));
        assert_eq!(query(&[("region", "a"), ("region", "b")]), Err("region is given twice".to_owned()));
        assert_eq!(query(&[("region", "")]), Err("region has no value".to_owned()));
        assert!(query(&[("s3Url", "http://x")]).unwrap_err().starts_with(r#""s3Url" is not known; valid are region,"#));
        assert!(query(&[("caFile", "/none")]).unwrap_err().starts_with("cannot read caFile /none: "));
    }
}
