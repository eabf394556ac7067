//! Tests of the certificate authorities that a client trusts.

use crate::server::credentials_file;
use lifeboat_bucket::{BlobStore, ErrorKind, PutOptions};
use lifeboat_s3::{CredentialsFile, S3, S3Config};
use lifeboat_testbed::S3Server;

#[tokio::test]
async fn a_server_is_trusted_by_its_authority_or_when_told_so() {
    let server = S3Server::start_tls().unwrap();
    server.make_bucket("trusted").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let plain = S3Config {
        bucket: "trusted".to_owned(),
        region: Some(server.region().to_owned()),
        endpoint: Some(server.endpoint().to_owned()),
        credentials_file: Some(CredentialsFile::At(credentials_file(
            &folder,
            server.access_key(),
            server.secret_key(),
        ))),
        ..S3Config::default()
    };
    let authority = server.authority().unwrap().as_bytes().to_vec();
    let put = async |config: S3Config| {
        let store = S3::connect(config).await?;
        store.put("small", b"x".to_vec().into(), PutOptions::default()).await?;
        store.put("large", vec![0; 9 << 20].into(), PutOptions::default()).await
    };
    assert_eq!(put(S3Config { ca_bundle: Some(authority), ..plain.clone() }).await.unwrap(), 9 << 20);
    assert_eq!(put(S3Config { insecure_skip_tls_verify: true, ..plain.clone() }).await.unwrap(), 9 << 20);
    let error = put(plain.clone()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert!(error.message.starts_with("the server's certificate is not trusted ("), "{error}");
    let stranger = S3Server::start_tls().unwrap();
    let authority = stranger.authority().unwrap().as_bytes().to_vec();
    let error = put(S3Config { ca_bundle: Some(authority), ..plain.clone() }).await.unwrap_err();
    assert!(error.message.starts_with("the server's certificate is not trusted ("), "{error}");
    let error = put(S3Config { ca_bundle: Some(b"none".to_vec()), ..plain }).await.unwrap_err();
    assert_eq!(error.message, "the CA bundle holds no certificate in PEM");
}
