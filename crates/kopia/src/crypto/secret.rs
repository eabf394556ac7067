//! Passwords and key material in memory that is zeroed.

use std::fmt;
use std::io::{Error, ErrorKind, Read};
use zeroize::Zeroizing;

/// The most bytes of a password that is read.
const LONGEST: usize = 64 << 10;

/// A password; zeroed when dropped, never printed.
#[derive(Clone)]
pub struct Password(Zeroizing<String>);

impl Password {
    /// Takes a password. The caller's copies are the caller's.
    pub fn new(password: String) -> Self {
        Self(Zeroizing::new(password))
    }
    /// Takes the bytes of a password. `None` where they are not UTF-8: they are zeroed then, too.
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        match String::from_utf8(bytes) {
            Ok(text) => Some(Self::new(text)),
            Err(e) => {
                drop(Zeroizing::new(e.into_bytes()));
                None
            }
        }
    }
    /// Reads a password, and leaves no copy of it behind.
    ///
    /// # Errors
    /// Errors of the source; a text of more than 64 KiB; a text that is not UTF-8.
    pub fn read(from: impl Read) -> Result<Self, Error> {
        // There is more room than is ever read: a buffer that grows would leave its old bytes behind.
        let mut bytes = Zeroizing::new(Vec::<u8>::with_capacity(LONGEST + 2));
        from.take(LONGEST as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > LONGEST {
            let why = format!("it has more than {LONGEST} bytes: that is no password");
            return Err(Error::new(ErrorKind::InvalidData, why));
        }
        let password = Self::from_bytes(std::mem::take(&mut *bytes));
        password.ok_or_else(|| Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
    }
    /// Removes a line break at the end.
    #[must_use]
    pub fn without_line_break(mut self) -> Self {
        let line = self.0.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line).len());
        if let Some(length) = line {
            self.0.truncate(length);
        }
        self
    }
    /// Removes white space at both ends.
    #[must_use]
    pub fn trimmed(mut self) -> Self {
        let end = self.0.trim_end().len();
        self.0.truncate(end);
        let start = end - self.0.trim_start().len();
        drop(self.0.drain(..start));
        self
    }
    /// The bytes from which keys are derived.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// Key material; zeroed when dropped, never printed.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes key material.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }
    /// The key material.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}
