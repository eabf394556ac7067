//! JSON as Go's decoder reads it, from a stream, without a tree in memory.

use super::text::Text;
use crate::format::FormatError;
use std::io::BufRead;

/// The deepest nesting that is read. Documents of the format have about six levels.
const MAX_DEPTH: u32 = 128;
/// The longest string, key or number.
const MAX_STRING: usize = 64 << 20;

/// A JSON document that is read from its beginning to its end.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    structure: &'static str,
    offset: u64,
    depth: u32,
    /// The bytes since the beginning of a value that is kept as it stands.
    captured: Option<Vec<u8>>,
}

impl<R: BufRead> Reader<R> {
    /// A reader of `source`; errors are told of `structure`.
    pub fn new(structure: &'static str, source: R) -> Self {
        Self { source, structure, offset: 0, depth: 0, captured: None }
    }

    /// The error of this document at the current position.
    pub fn error(&self, why: impl std::fmt::Display) -> FormatError {
        FormatError::new(self.structure, format!("{why} at byte {}", self.offset))
    }

    /// Reads an object: `each` gets the reader and every key, in lower case, whose value is not `null`, and reads the
    /// value.
    ///
    /// # Errors
    /// No object; those of `each`.
    pub fn object<E: From<FormatError>>(
        &mut self,
        mut each: impl FnMut(&mut Self, &str) -> Result<(), E>,
    ) -> Result<(), E> {
        self.map(|reader, key| each(reader, &fold(key)))
    }

    /// Reads an object whose keys are data: `each` gets them as they stand.
    ///
    /// # Errors
    /// No object; those of `each`.
    pub fn map<E: From<FormatError>>(
        &mut self,
        mut each: impl FnMut(&mut Self, String) -> Result<(), E>,
    ) -> Result<(), E> {
        self.expect(b'{')?;
        self.enter()?;
        let mut is_first = true;
        loop {
            match self.token()? {
                b'}' if is_first => break,
                _ if is_first => is_first = false,
                b'}' => break,
                b',' => self.advance(1),
                _ => return Err(self.error("unexpected character in an object").into()),
            }
            let key = self.string()?;
            self.expect(b':')?;
            if !self.null()? {
                each(self, key)?;
            }
        }
        self.advance(1);
        self.depth -= 1;
        Ok(())
    }

    /// Reads an array: `each` reads one item. `null` items are passed over.
    ///
    /// # Errors
    /// No array; those of `each`.
    pub fn array<E: From<FormatError>>(&mut self, mut each: impl FnMut(&mut Self) -> Result<(), E>) -> Result<(), E> {
        self.expect(b'[')?;
        self.enter()?;
        let mut is_first = true;
        loop {
            match self.token()? {
                b']' if is_first => break,
                _ if is_first => is_first = false,
                b']' => break,
                b',' => self.advance(1),
                _ => return Err(self.error("unexpected character in an array").into()),
            }
            if !self.null()? {
                each(self)?;
            }
        }
        self.advance(1);
        self.depth -= 1;
        Ok(())
    }

    /// Reads a string.
    ///
    /// # Errors
    /// No string.
    pub fn string(&mut self) -> Result<String, FormatError> {
        self.text().map(Text::into_string)
    }

    /// Reads a string and keeps which of its characters stand for lost bytes.
    ///
    /// # Errors
    /// No string.
    pub fn text(&mut self) -> Result<Text, FormatError> {
        self.expect(b'"')?;
        let mut bytes = Vec::new();
        let mut replaced = Vec::new();
        loop {
            let chunk = match self.source.fill_buf() {
                Ok(chunk) if !chunk.is_empty() => chunk,
                Ok(_) => return Err(self.error("the string does not end")),
                Err(error) => return Err(self.error(format!("it cannot be read ({error})"))),
            };
            let end = memchr::memchr2(b'"', b'\\', chunk).unwrap_or(chunk.len());
            let plain = &chunk[..end];
            let has_control = plain.iter().any(|byte| *byte < 0x20);
            bytes.extend_from_slice(plain);
            let stop = chunk.get(end).copied();
            self.advance(end + usize::from(stop.is_some()));
            if has_control {
                return Err(self.error("control character in a string"));
            }
            if bytes.len() > MAX_STRING {
                return Err(self.error("too long a string"));
            }
            match stop {
                None => {}
                Some(b'"') => return Ok(Text::from_decoded(bytes, replaced)),
                Some(_) => self.escape(&mut bytes, &mut replaced)?,
            }
        }
    }

    /// Reads a number without fraction that fits into `T`.
    ///
    /// # Errors
    /// Another value.
    pub fn integer<T: TryFrom<i128>>(&mut self) -> Result<T, FormatError> {
        let text = self.number()?;
        text.parse::<i128>()
            .ok()
            .and_then(|value| T::try_from(value).ok())
            .ok_or_else(|| self.error(format!("the number {text} has a fraction or is out of range")))
    }

    /// Reads `true` or `false`.
    ///
    /// # Errors
    /// Another value.
    pub fn boolean(&mut self) -> Result<bool, FormatError> {
        if self.token()? == b't' {
            self.word(b"true")?;
            Ok(true)
        } else {
            self.word(b"false")?;
            Ok(false)
        }
    }

    /// Passes over any value.
    ///
    /// # Errors
    /// No value.
    pub fn skip(&mut self) -> Result<(), FormatError> {
        match self.token()? {
            b'{' => self.object(|reader, _| reader.skip()),
            b'[' => self.array(Self::skip),
            b'"' => self.text().map(drop),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number().map(drop),
        }
    }

    /// Reads any value as the text that stands for it.
    ///
    /// # Errors
    /// No value; a value inside another that is being kept.
    pub fn raw(&mut self) -> Result<String, FormatError> {
        self.token()?;
        if self.captured.is_some() {
            return Err(self.error("value inside a kept one"));
        }
        self.captured = Some(Vec::new());
        let result = self.skip();
        let captured = self.captured.take().unwrap_or_default();
        result?;
        Ok(Text::from_decoded(captured, Vec::new()).into_string())
    }

    /// Reads the end of the document: nothing but white space.
    ///
    /// # Errors
    /// Anything else.
    pub fn end(mut self) -> Result<(), FormatError> {
        match self.peek_token()? {
            None => Ok(()),
            Some(_) => Err(self.error("more after the end")),
        }
    }

    fn enter(&mut self) -> Result<(), FormatError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error("too deep a nesting"));
        }
        Ok(())
    }

    /// Takes a `null` where there is one.
    fn null(&mut self) -> Result<bool, FormatError> {
        if self.token()? == b'n' {
            self.word(b"null")?;
            return Ok(true);
        }
        Ok(false)
    }

    fn word(&mut self, word: &'static [u8]) -> Result<(), FormatError> {
        for expected in word {
            if self.peek()? != Some(*expected) {
                return Err(self.error("unexpected character"));
            }
            self.advance(1);
        }
        Ok(())
    }

    fn number(&mut self) -> Result<String, FormatError> {
        self.token()?;
        let mut text = String::new();
        while let Some(byte @ (b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) = self.peek()? {
            text.push(char::from(byte));
            self.advance(1);
            if text.len() > 64 {
                return Err(self.error("too long a number"));
            }
        }
        if is_number(text.as_bytes()) { Ok(text) } else { Err(self.error("a number was expected")) }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>, replaced: &mut Vec<u32>) -> Result<(), FormatError> {
        let Some(letter) = self.peek()? else {
            return Err(self.error("the string does not end"));
        };
        self.advance(1);
        let plain = match letter {
            b'"' | b'\\' | b'/' => letter,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let mut unit = self.hex4()?;
                // A high surrogate without its low one stands for a lost character; what follows it stands for itself.
                while (0xd800..0xdc00).contains(&unit) && self.peek()? == Some(b'\\') {
                    self.advance(1);
                    if self.peek()? != Some(b'u') {
                        push_char(bytes, None, replaced);
                        return self.escape(bytes, replaced);
                    }
                    self.advance(1);
                    let low = self.hex4()?;
                    if (0xdc00..0xe000).contains(&low) {
                        let code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                        push_char(bytes, char::from_u32(code), replaced);
                        return Ok(());
                    }
                    push_char(bytes, None, replaced);
                    unit = low;
                }
                let found = char::from_u32(unit).filter(|found| *found != '\u{fffd}');
                push_char(bytes, found, replaced);
                return Ok(());
            }
            _ => return Err(self.error("unknown escape in a string")),
        };
        bytes.push(plain);
        Ok(())
    }

    fn hex4(&mut self) -> Result<u32, FormatError> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = self.peek()?.and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.error("an escape needs four hex digits"));
            };
            value = value * 16 + digit;
            self.advance(1);
        }
        Ok(value)
    }

    /// The next byte that is no white space, which is left there.
    fn token(&mut self) -> Result<u8, FormatError> {
        self.peek_token()?.ok_or_else(|| self.error("unexpected end"))
    }

    fn peek_token(&mut self) -> Result<Option<u8>, FormatError> {
        while let Some(byte) = self.peek()? {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Ok(Some(byte));
            }
            self.advance(1);
        }
        Ok(None)
    }

    fn expect(&mut self, expected: u8) -> Result<(), FormatError> {
        if self.token()? != expected {
            return Err(self.error(format!("'{}' was expected", char::from(expected))));
        }
        self.advance(1);
        Ok(())
    }

    fn peek(&mut self) -> Result<Option<u8>, FormatError> {
        match self.source.fill_buf() {
            Ok(chunk) => Ok(chunk.first().copied()),
            Err(error) => Err(self.error(format!("it cannot be read ({error})"))),
        }
    }

    /// Takes bytes that lie in the buffer of the source.
    fn advance(&mut self, count: usize) {
        if let Some(captured) = &mut self.captured
            && let Ok(chunk) = self.source.fill_buf()
        {
            captured.extend_from_slice(chunk.get(..count).unwrap_or(chunk));
        }
        self.source.consume(count);
        self.offset += count as u64;
    }
}

fn push_char(bytes: &mut Vec<u8>, found: Option<char>, replaced: &mut Vec<u32>) {
    let character = found.unwrap_or_else(|| {
        replaced.push(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        '\u{fffd}'
    });
    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Lower case as Go compares keys: ASCII letters, and the two other characters whose lower case is an ASCII letter.
fn fold(key: String) -> String {
    if key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        return key;
    }
    key.chars()
        .map(|c| match c {
            '\u{017f}' => 's',
            '\u{212a}' => 'k',
            _ => c.to_ascii_lowercase(),
        })
        .collect()
}

/// True for a number by the grammar of JSON.
fn is_number(text: &[u8]) -> bool {
    let mut rest = text.strip_prefix(b"-").unwrap_or(text);
    let digits = |rest: &mut &[u8]| {
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        *rest = &rest[count..];
        count
    };
    let leading_zero = rest.first() == Some(&b'0');
    let whole = digits(&mut rest);
    if whole == 0 || (leading_zero && whole > 1) {
        return false;
    }
    if let Some(fraction) = rest.strip_prefix(b".") {
        rest = fraction;
        if digits(&mut rest) == 0 {
            return false;
        }
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        rest = match exponent {
            [b'+' | b'-', exponent @ ..] => exponent,
            _ => exponent,
        };
        if digits(&mut rest) == 0 {
            return false;
        }
    }
    rest.is_empty()
}
