use super::*;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

/// A server that gives each connection the next of its answers, and keeps what it was asked.
struct Server {
    address: String,
    asked: mpsc::Receiver<String>,
    _serving: JoinSet<()>,
}

impl Server {
    async fn start(answers: Vec<String>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (sender, asked) = mpsc::channel(answers.len().max(1));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            for answer in answers {
                let (stream, _) = listener.accept().await.unwrap();
                match &tls {
                    // A client that does not trust us hangs up.
                    Some(acceptor) => match acceptor.accept(stream).await {
                        Ok(stream) => talk(stream, &answer, &sender).await,
                        Err(_) => continue,
                    },
                    None => talk(stream, &answer, &sender).await,
                }
            }
        });
        Self { address, asked, _serving: serving }
    }
}

async fn talk(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &str, asked: &mpsc::Sender<String>) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await.unwrap());
    }
    asked.send(String::from_utf8(request).unwrap()).await.unwrap();
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
}

fn fetcher(trust: Trust, proxies: Matcher) -> Fetcher {
    Fetcher { trust, proxies, agent: "test/1".to_owned(), patience: Duration::from_secs(20) }
}

fn plain() -> Fetcher {
    fetcher(Trust::new(Vec::new(), false), Matcher::builder().build())
}

/// The whole file, or what is shown of the error; `None` when there is no file.
async fn get(fetcher: &Fetcher, url: &str) -> Result<Option<String>, String> {
    let Some(mut answer) = fetcher.get(url).await.map_err(|e| format!("{e:?}"))? else { return Ok(None) };
    let mut bytes = Vec::new();
    while let Some(piece) = answer.next().await.map_err(|e| format!("{e:?}"))? {
        bytes.extend_from_slice(&piece);
    }
    Ok(Some(String::from_utf8(bytes).unwrap()))
}

#[tokio::test]
async fn answers_are_told_apart() {
    let long = "x".repeat(3 * MOST_REFUSAL);
    let answers = vec![
        answer("200 OK", "", "content"),
        answer("404 Not Found", "", "nothing"),
        answer("403 Forbidden", "", "<Code>AccessDenied</Code>\n"),
        answer("500 Oh", "", &long),
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort".to_owned(),
        answer("307 Temporary Redirect", "Location: /elsewhere?x=y\r\n", ""),
        answer("200 OK", "", "from elsewhere"),
        "nonsense\r\n\r\n".to_owned(),
    ];
    let mut server = Server::start(answers, None).await;
    let url = format!("http://{}/a/b?signature=c", server.address);
    let fetcher = plain();
    assert_eq!(get(&fetcher, &url).await, Ok(Some("content".to_owned())));
    assert_eq!(
        server.asked.recv().await.unwrap(),
        format!(
            "GET /a/b?signature=c HTTP/1.1\r\nhost: {}\r\nuser-agent: test/1\r\naccept-encoding: gzip\r\n\r\n",
            server.address
        )
    );
    assert_eq!(get(&fetcher, &url).await, Ok(None));
    assert_eq!(
        get(&fetcher, &url).await,
        Err("Answered { status: 403, body: \"<Code>AccessDenied</Code>\" }".to_owned())
    );
    let short = "x".repeat(MOST_REFUSAL);
    assert_eq!(get(&fetcher, &url).await, Err(format!("Answered {{ status: 500, body: {short:?} }}")));
    let broken = get(&fetcher, &url).await.unwrap_err();
    assert!(broken.starts_with("Broken("), "{broken}");
    for _ in 0..4 {
        server.asked.recv().await.unwrap();
    }
    assert_eq!(get(&fetcher, &url).await, Ok(Some("from elsewhere".to_owned())));
    server.asked.recv().await.unwrap();
    assert!(server.asked.recv().await.unwrap().starts_with("GET /elsewhere?x=y HTTP/1.1\r\n"));
    let nonsense = get(&fetcher, &url).await.unwrap_err();
    assert!(nonsense.starts_with("Unreachable {"), "{nonsense}");
}

#[tokio::test]
async fn who_is_not_there_is_not_reached() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let refused = get(&plain(), &format!("http://{gone}/x")).await.unwrap_err();
    assert!(refused.starts_with(&format!("Unreachable {{ server: \"{gone}\"")), "{refused}");
    let strange = get(&plain(), "ftp://x/y").await.unwrap_err();
    assert!(strange.contains("neither http nor https"), "{strange}");
    assert!(get(&plain(), "no url").await.unwrap_err().starts_with("Invalid("));
}

#[tokio::test]
async fn certificates_are_trusted_by_name_only() {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
    let answers = vec![answer("200 OK", "", "secret"); 3];
    let mut server = Server::start(answers, Some(TlsAcceptor::from(Arc::new(config)))).await;
    let url = format!("https://{}/x", server.address.replace("127.0.0.1", "localhost"));
    let none = || Matcher::builder().build();
    let stranger = get(&fetcher(Trust::new(Vec::new(), false), none()), &url).await.unwrap_err();
    assert!(stranger.starts_with("Unreachable {") && stranger.contains("--cacert"), "{stranger}");
    for trust in [Trust::new(cert.pem().into_bytes(), false), Trust::new(Vec::new(), true)] {
        assert_eq!(get(&fetcher(trust, none()), &url).await, Ok(Some("secret".to_owned())));
        server.asked.recv().await.unwrap();
    }
    let broken = get(&fetcher(Trust::new(b"no PEM".to_vec(), false), none()), &url).await.unwrap_err();
    assert!(broken.contains("there is no certificate (PEM) in what is to be trusted"), "{broken}");
}

#[tokio::test]
async fn a_proxy_is_asked_for_what_is_not_here() {
    let mut server = Server::start(vec![answer("200 OK", "", "by proxy"), answer("403 No", "", "")], None).await;
    let proxy = format!("http://user:word@{}", server.address);
    let fetcher = fetcher(Trust::new(Vec::new(), false), Matcher::builder().all(proxy).build());
    assert_eq!(get(&fetcher, "http://bucket.example:81/x?y").await, Ok(Some("by proxy".to_owned())));
    let asked = server.asked.recv().await.unwrap();
    assert!(asked.starts_with("GET http://bucket.example:81/x?y HTTP/1.1\r\nhost: bucket.example:81\r\n"), "{asked}");
    assert!(asked.contains("proxy-authorization: Basic dXNlcjp3b3Jk\r\n"), "{asked}");
    let refused = get(&fetcher, "https://bucket.example/x").await.unwrap_err();
    assert!(refused.starts_with("Unreachable { server: \"bucket.example\""), "{refused}");
    let asked = server.asked.recv().await.unwrap();
    assert!(asked.starts_with("CONNECT bucket.example:443 HTTP/1.1\r\n"), "{asked}");
    for here in ["http://localhost/x", "http://127.0.0.2/x", "http://[::1]:8/x"] {
        assert!(is_local(&here.parse().unwrap()), "{here}");
    }
}

#[test]
fn redirects_are_relative_to_where_they_come_from() {
    let from: Uri = "https://a:1/b?c".parse().unwrap();
    for (target, expected) in
        [("/d?e", "https://a:1/d?e"), ("http://f/g", "http://f/g"), ("https://a:2/", "https://a:2/")]
    {
        let found = redirected(&from, &HeaderValue::from_static(target)).unwrap();
        assert_eq!(found.to_string(), expected);
    }
}
