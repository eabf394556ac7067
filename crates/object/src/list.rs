//! Splits the body of a Kubernetes list into its elements while it arrives.

use bytes::{Bytes, BytesMut};
use serde::Deserialize;

/// The fields that surround the elements of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListEnvelope {
    /// `apiVersion` of the list.
    pub api_version: String,
    /// `kind` of the list, such as `ConfigMapList`.
    pub kind: String,
    /// `metadata.resourceVersion`: the revision the list was read at.
    pub resource_version: String,
    /// `metadata.continue`: the token of the next page; empty on the last one.
    pub continue_token: String,
    /// `metadata.remainingItemCount`, when the server knows it.
    pub remaining_item_count: Option<u64>,
}

/// Bounds on what the splitter keeps in memory.
#[derive(Clone, Copy, Debug)]
pub struct SplitLimits {
    /// Longest element in bytes.
    pub max_element: usize,
    /// Longest everything-else in bytes.
    pub max_envelope: usize,
    /// Deepest nesting.
    pub max_depth: usize,
}

impl Default for SplitLimits {
    /// 64 MiB per element (etcd's own limit is far below, aggregated APIs have none), 1 MiB of envelope, and the
    /// nesting of 10,000 levels at which the API server refuses JSON.
    fn default() -> Self {
        Self { max_element: 64 << 20, max_envelope: 1 << 20, max_depth: 10_000 }
    }
}

/// Reasons for which a body could not be split.
#[derive(Debug, thiserror::Error)]
pub enum SplitError {
    /// The body is not a JSON object, or brackets do not match.
    #[error("the body is not a list: {0} at byte {1}")]
    Syntax(&'static str, u64),
    /// The body ended before the list did.
    #[error("the list ends early, after {0} bytes")]
    Truncated(u64),
    /// A bound of [`SplitLimits`] was passed.
    #[error("the list is refused: {0} at byte {1}")]
    TooLarge(&'static str, u64),
    /// The envelope is not that of a Kubernetes list.
    #[error("the list has no valid metadata")]
    Envelope(#[source] serde_json::Error),
    /// There was no `items` array.
    #[error("the body has no items")]
    NoItems,
}

/// Large elements take memory in multiples of this, so that an allocator can use the memory of one element again for another
/// of about the same size.
const GRAIN: usize = 64 << 10;

/// Copies an element, so that it does not keep the buffer of its page alive.
fn copy(element: &[u8]) -> Bytes {
    if element.len() < GRAIN {
        return Bytes::copy_from_slice(element);
    }
    let mut out = Vec::with_capacity(element.len().next_multiple_of(GRAIN));
    out.extend_from_slice(element);
    out.into()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListState {
    /// Before the opening brace.
    Start,
    /// Inside the envelope.
    Envelope,
    /// Between elements of `items`.
    Items,
    /// Inside an element that began with `{`.
    Element,
    /// After the closing brace of the list.
    End,
}

/// An incremental splitter: feed it the body in pieces of any size, it hands out each element of `items` as soon as
/// its last byte is there. `metadata` may stand before or after `items`. Memory is one element and the envelope.
#[derive(Debug)]
pub struct ListSplitter {
    limits: SplitLimits,
    state: ListState,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The key at depth 1 that was read last, to recognise `items`.
    key: Vec<u8>,
    reading_key: bool,
    /// At depth 1: a colon came, the next thing is a value.
    expect_value: bool,
    seen_items: bool,
    need_comma: bool,
    envelope: Vec<u8>,
    element: BytesMut,
    offset: u64,
}

impl Default for ListSplitter {
    fn default() -> Self {
        Self::new(SplitLimits::default())
    }
}

impl ListSplitter {
    /// A splitter with the given bounds.
    #[must_use]
    pub fn new(limits: SplitLimits) -> Self {
        Self {
            limits,
            state: ListState::Start,
            depth: 0,
            in_string: false,
            escaped: false,
            key: Vec::new(),
            reading_key: false,
            expect_value: false,
            seen_items: false,
            need_comma: false,
            envelope: Vec::new(),
            element: BytesMut::new(),
            offset: 0,
        }
    }

    /// Takes the next piece of the body and appends every element that it completes to `out`.
    ///
    /// # Errors
    /// [`SplitError::Syntax`] and [`SplitError::TooLarge`]; the splitter must not be used afterwards.
    pub fn feed(&mut self, piece: &[u8], out: &mut Vec<Bytes>) -> Result<(), SplitError> {
        let mut i = 0;
        while i < piece.len() {
            let used = match self.state {
                ListState::Start => self.start(&piece[i..])?,
                ListState::Envelope => self.envelope(&piece[i..])?,
                ListState::Items => self.between(&piece[i..])?,
                ListState::Element => self.element(&piece[i..], out)?,
                ListState::End => {
                    if !piece[i].is_ascii_whitespace() {
                        return Err(SplitError::Syntax("data after the list", self.offset));
                    }
                    1
                }
            };
            i += used;
            self.offset += used as u64;
        }
        Ok(())
    }

    /// Ends the body and gives the envelope that stood around the elements.
    ///
    /// # Errors
    /// [`SplitError::Truncated`] when the list is not complete, [`SplitError::NoItems`], [`SplitError::Envelope`].
    pub fn finish(self) -> Result<ListEnvelope, SplitError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Raw {
            #[serde(default)]
            api_version: String,
            #[serde(default)]
            kind: String,
            #[serde(default)]
            metadata: Meta,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase")]
        struct Meta {
            #[serde(default)]
            resource_version: Option<String>,
            #[serde(default, rename = "continue")]
            continue_token: Option<String>,
            #[serde(default)]
            remaining_item_count: Option<u64>,
        }
        if self.state != ListState::End {
            return Err(SplitError::Truncated(self.offset));
        }
        let raw: Raw = serde_json::from_slice(&self.envelope).map_err(SplitError::Envelope)?;
        if !self.seen_items {
            return Err(SplitError::NoItems);
        }
        Ok(ListEnvelope {
            api_version: raw.api_version,
            kind: raw.kind,
            resource_version: raw.metadata.resource_version.unwrap_or_default(),
            continue_token: raw.metadata.continue_token.unwrap_or_default(),
            remaining_item_count: raw.metadata.remaining_item_count,
        })
    }

    fn start(&mut self, rest: &[u8]) -> Result<usize, SplitError> {
        match rest[0] {
            b'{' => {
                self.state = ListState::Envelope;
                self.depth = 1;
                self.envelope.push(b'{');
                Ok(1)
            }
            b if b.is_ascii_whitespace() => Ok(1),
            _ => Err(SplitError::Syntax("expected an object", self.offset)),
        }
    }

    /// Reads the envelope, one byte at a time: it is small.
    fn envelope(&mut self, rest: &[u8]) -> Result<usize, SplitError> {
        let b = rest[0];
        if self.envelope.len() >= self.limits.max_envelope {
            return Err(SplitError::TooLarge("too much beside the items", self.offset));
        }
        self.envelope.push(b);
        if self.in_string {
            if self.escaped {
                self.escaped = false;
            } else if b == b'\\' {
                self.escaped = true;
            } else if b == b'"' {
                self.in_string = false;
                self.reading_key = false;
                return Ok(1);
            }
            if self.reading_key {
                self.key.push(b);
            }
            return Ok(1);
        }
        match b {
            b'"' => {
                self.in_string = true;
                if self.depth == 1 && !self.expect_value {
                    self.reading_key = true;
                    self.key.clear();
                }
            }
            b':' if self.depth == 1 => self.expect_value = true,
            b',' if self.depth == 1 => self.expect_value = false,
            b'[' if self.depth == 1 && self.expect_value && self.key == b"items" => {
                if self.seen_items {
                    return Err(SplitError::Syntax("items stands twice", self.offset));
                }
                self.seen_items = true;
                self.need_comma = false;
                self.state = ListState::Items;
            }
            // A nil slice of Go: a list without elements.
            b'n' if self.depth == 1 && self.expect_value && self.key == b"items" => self.seen_items = true,
            b'{' | b'[' => self.deeper()?,
            b'}' | b']' => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.state = ListState::End;
                }
            }
            _ => {}
        }
        Ok(1)
    }

    fn between(&mut self, rest: &[u8]) -> Result<usize, SplitError> {
        match rest[0] {
            b if b.is_ascii_whitespace() => {}
            b',' if self.need_comma => self.need_comma = false,
            b']' => {
                self.envelope.push(b']');
                self.expect_value = false;
                self.state = ListState::Envelope;
            }
            b'{' if !self.need_comma => {
                self.state = ListState::Element;
                self.deeper()?;
                self.element.extend_from_slice(b"{");
            }
            _ => return Err(SplitError::Syntax("expected an element", self.offset)),
        }
        Ok(1)
    }

    /// Scans to the end of the element or of the piece; strings are skipped by vector search.
    fn element(&mut self, rest: &[u8], out: &mut Vec<Bytes>) -> Result<usize, SplitError> {
        let mut i = 0;
        while i < rest.len() {
            if self.in_string {
                if self.escaped {
                    self.escaped = false;
                    i += 1;
                    continue;
                }
                match memchr::memchr2(b'"', b'\\', &rest[i..]) {
                    None => i = rest.len(),
                    Some(at) => {
                        if rest[i + at] == b'"' {
                            self.in_string = false;
                        } else {
                            self.escaped = true;
                        }
                        i += at + 1;
                    }
                }
                continue;
            }
            let b = rest[i];
            i += 1;
            match b {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.deeper()?,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 1 {
                        self.keep(&rest[..i])?;
                        out.push(copy(&self.element));
                        self.element.clear();
                        self.need_comma = true;
                        self.state = ListState::Items;
                        return Ok(i);
                    }
                }
                _ => {}
            }
        }
        self.keep(rest)?;
        Ok(i)
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), SplitError> {
        if self.element.len() + part.len() > self.limits.max_element {
            return Err(SplitError::TooLarge("an element is too large", self.offset));
        }
        self.element.extend_from_slice(part);
        Ok(())
    }

    fn deeper(&mut self) -> Result<(), SplitError> {
        self.depth += 1;
        if self.depth > self.limits.max_depth {
            return Err(SplitError::TooLarge("nested too deeply", self.offset));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn split(body: &[u8], cut: usize) -> Result<(Vec<Value>, ListEnvelope), SplitError> {
        let mut splitter = ListSplitter::default();
        let mut out = Vec::new();
        for piece in body.chunks(cut.max(1)) {
            splitter.feed(piece, &mut out)?;
        }
        let values = out.iter().map(|b| serde_json::from_slice(b).unwrap()).collect();
        Ok((values, splitter.finish()?))
    }

    #[test]
    fn metadata_may_stand_on_either_side() {
        let envelope = ListEnvelope {
            api_version: "v1".into(),
            kind: "PodList".into(),
            resource_version: "12".into(),
            continue_token: "t".into(),
            remaining_item_count: Some(3),
        };
        let meta = r#""metadata":{"resourceVersion":"12","continue":"t","remainingItemCount":3,"items":[1]}"#;
        let items = r#""items": [ {"a":"}]\"\\"} , {"b":[{"items":[]}]}]"#;
        for body in [
            format!(r#"{{"kind":"PodList","apiVersion":"v1",{meta},{items}}}"#),
            format!(" {{{items},{meta},\"apiVersion\":\"v1\",\"kind\":\"PodList\"}}\n"),
        ] {
            for cut in 1..body.len() {
                let (values, got) = split(body.as_bytes(), cut).unwrap();
                assert_eq!(values, vec![json!({"a":"}]\"\\"}), json!({"b":[{"items":[]}]})]);
                assert_eq!(got, envelope);
            }
        }
    }

    #[test]
    fn null_items_are_no_items() {
        assert_eq!(split(br#"{"items":null}"#, 3).unwrap(), (vec![], ListEnvelope::default()));
        assert!(matches!(split(br#"{"kind":"Status"}"#, 3), Err(SplitError::NoItems)));
    }

    #[test]
    fn refuses_what_is_no_list() {
        for (body, expected) in [
            ("[]", "the body is not a list: expected an object at byte 0"),
            (r#"{"items":[1]}"#, "the body is not a list: expected an element at byte 10"),
            (r#"{"items":[{}{}]}"#, "the body is not a list: expected an element at byte 12"),
            (r#"{"items":[{}],"items":[]}"#, "the body is not a list: items stands twice at byte 22"),
            (r#"{"items":[{"a":1}"#, "the list ends early, after 17 bytes"),
            (r#"{"items":[]} x"#, "the body is not a list: data after the list at byte 13"),
        ] {
            assert_eq!(split(body.as_bytes(), 4).unwrap_err().to_string(), expected, "{body}");
        }
    }

    #[test]
    fn bounds_hold() {
        let limits = SplitLimits { max_element: 8, max_envelope: 64, max_depth: 4 };
        let mut splitter = ListSplitter::new(limits);
        let error = splitter.feed(br#"{"items":[{"a":"123456789"}]}"#, &mut vec![]).unwrap_err();
        assert!(matches!(error, SplitError::TooLarge("an element is too large", _)), "{error}");
        let mut splitter = ListSplitter::new(limits);
        let error = splitter.feed(br#"{"items":[{"a":[[[["#, &mut vec![]).unwrap_err();
        assert!(matches!(error, SplitError::TooLarge("nested too deeply", _)), "{error}");
        let mut splitter = ListSplitter::new(limits);
        let error = splitter.feed(&[b"{\"a\":\"".as_slice(), &[b'x'; 80]].concat(), &mut vec![]).unwrap_err();
        assert!(matches!(error, SplitError::TooLarge("too much beside the items", _)), "{error}");
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".{0,6}", inner, 0..4).prop_map(|m| json!(m)),
            ]
        })
    }

    proptest! {
        #[test]
        fn gives_back_every_element(items in prop::collection::vec(prop::collection::btree_map(".{0,6}", value(), 0..4), 0..6), cut in 1usize..64) {
            let body = json!({"metadata": {"resourceVersion": "1"}, "items": items}).to_string();
            let (values, envelope) = split(body.as_bytes(), cut).unwrap();
            prop_assert_eq!(values, items.into_iter().map(|m| json!(m)).collect::<Vec<_>>());
            prop_assert_eq!(envelope.resource_version, "1");
        }

        #[test]
        fn never_panics(body in prop::collection::vec(prop::sample::select(br#"{}[]",:\items1 n"#.to_vec()), 0..80), cut in 1usize..16) {
            let _ = split(&body, cut);
        }
    }
}
