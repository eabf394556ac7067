//! Just enough HTTP/1.1 for one API server: requests one after the other on a connection that stays open.

use anyhow::{Context, Result, bail};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Silence that counts as a broken connection.
const SILENCE: Duration = Duration::from_secs(60);
/// Bytes read from the socket at once: rustls alone asks for 4 KiB.
const SOCKET_READ: usize = 128 << 10;

/// The address of the server, and the credentials for it.
pub(crate) struct ApiServer {
    address: String,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
    headers: String,
}

impl ApiServer {
    pub(crate) fn new(address: &str, authority: &Path, token: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(authority).context("read the certificate authority")? {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        Ok(Self {
            address: address.to_owned(),
            name: ServerName::try_from(host.to_owned())?,
            config: Arc::new(config),
            headers: format!(
                "Host: {address}\r\nUser-Agent: floor\r\nAuthorization: Bearer {token}\r\nAccept: application/json\r\nAccept-Encoding: identity\r\n"
            ),
        })
    }
}

/// An open connection.
pub(crate) struct Connection<'a> {
    server: &'a ApiServer,
    stream: StreamOwned<ClientConnection, Socket>,
}

impl<'a> Connection<'a> {
    /// Connects; the TLS handshake is done when this returns.
    pub(crate) fn open(server: &'a ApiServer) -> Result<Self> {
        let socket = TcpStream::connect(&server.address).with_context(|| format!("connect to {}", server.address))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SILENCE))?;
        socket.set_write_timeout(Some(SILENCE))?;
        let mut socket = Socket(BufReader::with_capacity(SOCKET_READ, socket));
        let mut tls = ClientConnection::new(Arc::clone(&server.config), server.name.clone())?;
        while tls.is_handshaking() {
            tls.complete_io(&mut socket).context("TLS handshake")?;
        }
        Ok(Self { server, stream: StreamOwned::new(tls, socket) })
    }

    /// Hands the body of an answer to `sink`, piece by piece as it arrives, and gives the status.
    pub(crate) fn get(&mut self, path: &str, sink: impl FnMut(&[u8])) -> Result<u16> {
        let request = format!("GET {path} HTTP/1.1\r\n{}\r\n", self.server.headers);
        self.exchange(request.as_bytes(), sink).with_context(|| format!("GET {path}"))
    }

    /// Sends JSON; the rest as for [`Self::get`].
    pub(crate) fn post(&mut self, path: &str, body: &str, sink: impl FnMut(&[u8])) -> Result<u16> {
        let headers = &self.server.headers;
        let length = body.len();
        // In one piece, so that a small request is one TLS record and one packet.
        let request = format!(
            "POST {path} HTTP/1.1\r\n{headers}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        self.exchange(request.as_bytes(), sink).with_context(|| format!("POST {path}"))
    }

    fn exchange(&mut self, request: &[u8], sink: impl FnMut(&[u8])) -> Result<u16> {
        self.stream.write_all(request)?;
        self.stream.flush()?;
        read_response(&mut self.stream, sink)
    }
}

/// Reads in large pieces, writes directly.
struct Socket(BufReader<TcpStream>);

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.get_mut().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.get_mut().flush()
    }
}

/// Reads one answer to its end and no further.
fn read_response(stream: &mut impl BufRead, mut sink: impl FnMut(&[u8])) -> Result<u16> {
    let first = read_line(stream)?;
    let status = first.split(' ').nth(1).and_then(|code| code.parse().ok()).context("the answer is no HTTP")?;
    let mut length = None;
    let mut chunked = false;
    loop {
        let line = read_line(stream)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').context("a header without a colon")?;
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse().context("Content-Length")?);
        }
        chunked |= name.eq_ignore_ascii_case("transfer-encoding") && value.trim().eq_ignore_ascii_case("chunked");
        if name.eq_ignore_ascii_case("content-encoding") {
            bail!("the answer is encoded: {value}");
        }
    }
    match length {
        _ if chunked => read_chunks(stream, &mut sink)?,
        Some(length) => pass_on(stream, length, &mut sink)?,
        None => bail!("the answer has neither a length nor chunks"),
    }
    Ok(status)
}

fn read_chunks(stream: &mut impl BufRead, sink: &mut impl FnMut(&[u8])) -> Result<()> {
    loop {
        let line = read_line(stream)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).with_context(|| format!("the size of a chunk: {line:?}"))?;
        if size == 0 {
            break;
        }
        pass_on(stream, size, sink)?;
        if !read_line(stream)?.is_empty() {
            bail!("a chunk is longer than its size");
        }
    }
    // Trailers.
    while !read_line(stream)?.is_empty() {}
    Ok(())
}

fn pass_on(stream: &mut impl BufRead, mut left: u64, sink: &mut impl FnMut(&[u8])) -> Result<()> {
    while left > 0 {
        let data = stream.fill_buf()?;
        if data.is_empty() {
            bail!("the answer ends {left} bytes early");
        }
        // No more than `data` has.
        let taken = left.min(data.len() as u64) as usize;
        sink(&data[..taken]);
        stream.consume(taken);
        left -= taken as u64;
    }
    Ok(())
}

/// A line without its end. Heads are small: a line of more than 64 KiB is none.
fn read_line(stream: &mut impl BufRead) -> Result<String> {
    let mut line = Vec::new();
    stream.take(64 << 10).read_until(b'\n', &mut line)?;
    let Some(line) = line.strip_suffix(b"\r\n") else { bail!("the answer ends in its head") };
    Ok(String::from_utf8_lossy(line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status, body, and what is left for the next answer.
    fn read(mut text: &[u8]) -> Result<(u16, String, String)> {
        let mut body = Vec::new();
        let status = read_response(&mut text, |piece| body.extend_from_slice(piece))?;
        Ok((status, String::from_utf8(body)?, String::from_utf8(text.to_vec())?))
    }

    #[test]
    fn an_answer_ends_where_its_length_or_last_chunk_says() {
        let answer = |status, body: &str, rest: &str| (status, body.to_owned(), rest.to_owned());
        let sized = b"HTTP/1.1 201 Created\r\ncontent-length: 3\r\nX-A: b:c\r\n\r\nabcHTTP/1.1";
        assert_eq!(read(sized).unwrap(), answer(201, "abc", "HTTP/1.1"));
        let empty = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(read(empty).unwrap(), answer(200, "", ""));
        let chunked =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\nHTTP/1.1";
        assert_eq!(read(chunked).unwrap(), answer(200, "abc0123456789", "HTTP/1.1"));
    }

    #[test]
    fn what_is_cut_or_encoded_is_an_error() {
        for wrong in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\na",
        ] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }
}
