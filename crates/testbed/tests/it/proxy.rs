//! Each fault once, before a server of a few lines.

use lifeboat_testbed::{Fault, Kill, Nth, Proxy, Rule, Seen};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A server that answers every whole request with `0123456789`, and remembers how much of each body it got.
struct Server {
    url: String,
    got: Arc<Mutex<Vec<usize>>>,
}

impl Server {
    /// Its threads end with the process: nobody connects to it after the test.
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let got = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&got);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let log = Arc::clone(&log);
                std::thread::spawn(move || serve(stream.expect("a connection"), &log));
            }
        });
        Self { url, got }
    }

    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut self.got.lock().expect("the log"))
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Vec<usize>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("the other half"));
    let mut length = 0;
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
        line.clear();
    }
    let mut body = Vec::new();
    // Nothing more comes when the connection breaks.
    let _ = reader.take(length).read_to_end(&mut body);
    log.lock().expect("the log").push(body.len());
    if body.len() as u64 == length {
        let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 10\r\nconnection: close\r\n\r\n0123456789");
    }
}

/// Puts `abcdef` and gives all that comes back: empty when the connection was closed at once.
fn put(proxy: &Proxy, path: &str) -> String {
    let mut stream = TcpStream::connect(proxy.url().trim_start_matches("http://")).expect("the proxy");
    stream.set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
    write!(stream, "PUT {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: 6\r\n\r\nabcdef")
        .expect("a request");
    let mut out = Vec::new();
    let _ = stream.read_to_end(&mut out);
    String::from_utf8(out).expect("text")
}

fn body_of(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

fn seen(status: u16, met: bool) -> Seen {
    Seen { method: "PUT".into(), path: "/a?b=c".into(), accept: String::new(), status, met }
}

/// Waits a little: what a connection's end brings comes after it.
fn soon<T: PartialEq + std::fmt::Debug>(expected: &T, mut look: impl FnMut() -> T) {
    let end = Instant::now() + Duration::from_secs(10);
    let mut last = look();
    while last != *expected && Instant::now() < end {
        std::thread::park_timeout(Duration::from_millis(10));
        last = look();
    }
    assert_eq!(last, *expected);
}

/// A fault, the body that comes back, the status in the log, and how many bytes of each body reached the server.
type Case = (Fault, &'static str, u16, &'static [usize]);

#[test]
fn each_fault_does_what_it_says() {
    let server = Server::start();
    let proxy = Proxy::start(&server.url, None).expect("a proxy");
    let answer = || Fault::Answer { status: 429, headers: vec![("retry-after", "7".into())], body: "slow".into() };
    let after = Fault::AnswerAfter { status: 500, body: "lost".into() };
    let cases: [Case; 9] = [
        (Fault::Delay(Duration::from_millis(10)), "0123456789", 200, &[6]),
        (answer(), "slow", 429, &[]),
        (Fault::CutBefore, "", 0, &[]),
        (Fault::CutWithin(4), "", 0, &[4]),
        (Fault::CutAfter, "", 0, &[6]),
        (after, "lost", 500, &[6]),
        (Fault::Truncate(3), "012", 200, &[6]),
        (Fault::Shorten(3), "012", 200, &[6]),
        (Fault::Hang, "", 0, &[]),
    ];
    for (fault, body, status, got) in cases {
        let name = format!("{fault:?}");
        proxy.script(vec![Rule::new("PUT", "/a*", Nth::Only(1), fault)]);
        let first = put(&proxy, "/a?b=c");
        assert_eq!(body_of(&first), body, "{name}: {first}");
        soon(&vec![seen(status, true)], || proxy.take_seen());
        soon(&got.to_vec(), || server.take());
        // What no rule meets passes.
        assert_eq!(body_of(&put(&proxy, "/a?b=c")), "0123456789", "after {name}");
        assert_eq!(proxy.take_seen(), [seen(200, false)], "after {name}");
        assert_eq!(server.take(), [6], "after {name}");
    }
}

#[test]
fn lies_are_told_in_the_headers() {
    let server = Server::start();
    let proxy = Proxy::start(&server.url, None).expect("a proxy");
    let has = |answer: &str, header: &str| answer.to_lowercase().contains(&format!("\r\n{header}\r\n"));
    proxy.script(vec![Rule::new("*", "*", Nth::Every, Fault::Shorten(3))]);
    assert!(has(&put(&proxy, "/"), "content-length: 3"));
    proxy.script(vec![Rule::new("*", "*", Nth::Every, Fault::Truncate(3))]);
    assert!(has(&put(&proxy, "/"), "content-length: 10"));
    let headers = vec![("retry-after", "7".to_owned())];
    let answer = Fault::Answer { status: 429, headers, body: String::new() };
    proxy.script(vec![Rule::new("*", "*", Nth::Every, answer)]);
    assert!(has(&put(&proxy, "/"), "retry-after: 7"));
}

fn victim() -> Child {
    Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().expect("a process")
}

#[test]
fn a_process_dies_before_or_after_the_effect() {
    let server = Server::start();
    for (when, got) in [(Kill::Before, vec![]), (Kill::After, vec![6])] {
        let proxy = Proxy::start(&server.url, None).expect("a proxy");
        proxy.script(vec![Rule::new("PUT", "*", Nth::Only(1), Fault::Kill(when))]);
        let mut victim = victim();
        // The request waits until the process is named.
        let answer = std::thread::scope(|scope| {
            let asking = scope.spawn(|| put(&proxy, "/a?b=c"));
            proxy.victim(victim.id());
            asking.join().expect("an answer")
        });
        assert_eq!(answer, "", "{when:?}");
        assert_eq!(victim.wait().expect("its end").signal(), Some(9), "{when:?}");
        assert_eq!(server.take(), got, "{when:?}");
        soon(&vec![seen(0, true)], || proxy.take_seen());
        proxy.no_victim();
    }
}
