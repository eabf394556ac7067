//! The script of a proxy: the requests that are broken, and their faults. Pure.

use std::time::Duration;

/// A rule of a script: the requests that it meets, and their fault.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The method, such as `GET`; `*` for any.
    pub method: &'static str,
    /// Pattern for the path with its query: `*` stands for any text, also with slashes.
    pub path: String,
    /// The requests that it meets among those that match, counted by this rule.
    pub nth: Nth,
    /// The fault that they get.
    pub fault: Fault,
}

impl Rule {
    /// A rule for requests of this method and path.
    #[must_use]
    pub fn new(method: &'static str, path: &str, nth: Nth, fault: Fault) -> Self {
        Self { method, path: path.to_owned(), nth, fault }
    }
}

/// Picks among the requests that match a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nth {
    /// All of them.
    Every,
    /// The n-th, from 1.
    Only(u64),
    /// The first n.
    First(u64),
    /// The n-th and all after it, from 1.
    From(u64),
}

impl Nth {
    fn meets(self, count: u64) -> bool {
        match self {
            Self::Every => true,
            Self::Only(n) => count == n,
            Self::First(n) => count <= n,
            Self::From(n) => count >= n,
        }
    }
}

/// Faults of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is passed on after this time.
    Delay(Duration),
    /// It is answered with this status and body instead of being passed on.
    Answer {
        /// The status code.
        status: u16,
        /// More headers, such as `retry-after`.
        headers: Vec<(&'static str, String)>,
        /// The body.
        body: String,
    },
    /// The connection is closed before the request is passed on.
    CutBefore,
    /// The server gets this many bytes of the request's body, then both connections are closed.
    CutWithin(usize),
    /// The request is passed on, its effect is there, and the connection is closed instead of an answer.
    CutAfter,
    /// The request is passed on, and this status and body come back instead of the answer.
    AnswerAfter {
        /// The status code.
        status: u16,
        /// The body.
        body: String,
    },
    /// The answer's body ends after this many bytes: the connection is closed.
    Truncate(usize),
    /// The answer's body ends after this many bytes as if it were whole: its length is a lie.
    Shorten(usize),
    /// Nothing is passed on and no answer comes, until the client gives up.
    Hang,
    /// The process that [`Proxy::victim`](super::Proxy::victim) names dies by SIGKILL.
    Kill(Kill),
}

/// When a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// The request has arrived and is not passed on.
    Before,
    /// The request has had its effect; its answer is not passed back.
    After,
}

/// A request that came by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its method.
    pub method: String,
    /// Its path with its query.
    pub path: String,
    /// Its `Accept` header; empty for none.
    pub accept: String,
    /// The status code that came back, or 0 when the connection was cut, no response came, or the client was gone.
    pub status: u16,
    /// True when a rule met it.
    pub met: bool,
}

/// Rules with how often each was met.
#[derive(Debug, Default)]
pub(super) struct Script {
    rules: Vec<(Rule, u64)>,
    /// True when a request was met.
    pub(super) met: bool,
}

impl Script {
    pub(super) fn new(rules: Vec<Rule>) -> Self {
        Self { rules: rules.into_iter().map(|rule| (rule, 0)).collect(), met: false }
    }

    /// Finds the fault of the next request. Every rule counts it; the first that meets it decides.
    pub(super) fn next(&mut self, method: &str, path: &str) -> Option<Fault> {
        let mut decided = None;
        for (rule, count) in &mut self.rules {
            if (rule.method == "*" || rule.method == method) && matches(&rule.path, path) {
                *count += 1;
                if decided.is_none() && rule.nth.meets(*count) {
                    decided = Some(rule.fault.clone());
                }
            }
        }
        self.met |= decided.is_some();
        decided
    }
}

/// `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    let mut rest = rest;
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, text, expected) in [
            ("*", "/a", true),
            ("/a", "/a", true),
            ("/a", "/ab", false),
            ("/a*", "/ab/c", true),
            ("*/c", "/ab/c", true),
            ("*/b*.gz", "/a/b/c.gz", true),
            ("*/b*.gz", "/a/c.gz", false),
            ("/a*b*c", "/abc", true),
            ("/a*c*c", "/ac", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn every_rule_counts_and_the_first_decides() {
        let mut script = Script::new(vec![
            Rule::new("PUT", "/b/*", Nth::Only(2), Fault::CutBefore),
            Rule::new("*", "*", Nth::From(3), Fault::CutAfter),
        ]);
        let got: Vec<Option<Fault>> = [("GET", "/b/1"), ("PUT", "/b/1"), ("PUT", "/b/2"), ("PUT", "/b/3")]
            .iter()
            .map(|(method, path)| script.next(method, path))
            .collect();
        assert_eq!(got, [None, None, Some(Fault::CutBefore), Some(Fault::CutAfter)]);
    }
}
