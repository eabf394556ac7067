//! A new password, typed at the terminal.

use anyhow::{Context, Result, bail};
use lifeboat_kopia::crypto::{Password, Zeroizing};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use std::fs::File;
use std::io::{Read, Write};

/// The longest password that can be typed, in bytes.
const MAX_TYPED: usize = 1024;

/// Asks twice for a new password; nothing of it is shown.
///
/// # Errors
/// No terminal; two different passwords; an empty one; Ctrl-C.
pub(super) fn ask() -> Result<Password> {
    let terminal = File::options().read(true).write(true).open("/dev/tty");
    let mut terminal = terminal.context(
        "ask for the new password: there is no terminal here; write it into a file and name that by --new-password-file",
    )?;
    let hidden = HiddenInput::begin(terminal.try_clone()?).context("ask for the new password: hide what is typed")?;
    let mut typed = |question: &str| {
        terminal.write_all(question.as_bytes())?;
        let password = read_typed(&mut terminal);
        terminal.write_all(b"\r\n")?;
        password
    };
    let first = typed("New password: ")?;
    let second = typed("New password, once more: ")?;
    drop(hidden);
    if first.as_bytes() != second.as_bytes() {
        bail!("nothing was changed: the two passwords that were typed are not equal");
    }
    Ok(first)
}

/// A terminal that shows nothing of what is typed, and gives Ctrl-C as a byte; as before when this is dropped.
struct HiddenInput {
    terminal: File,
    before: Termios,
}

impl HiddenInput {
    fn begin(terminal: File) -> std::io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&terminal, OptionalActions::Flush, &modes)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Reads a password up to Enter. Backspace takes back a character, Ctrl-U all of them.
fn read_typed(input: &mut impl Read) -> Result<Password> {
    // It never grows, so that no copy of it is left behind.
    let mut typed = Zeroizing::new(Vec::<u8>::with_capacity(MAX_TYPED));
    loop {
        let mut byte = [0];
        if input.read(&mut byte).context("read the new password")? == 0 {
            bail!("nothing was changed: the input ended before the new password did");
        }
        match byte {
            [b'\r' | b'\n'] => break,
            [0x03 | 0x04] => bail!("nothing was changed: interrupted"),
            [0x08 | 0x7f] => {
                // The bytes of one character in UTF-8.
                while typed.pop().is_some_and(|byte: u8| byte & 0xc0 == 0x80) {}
            }
            [0x15] => typed.clear(),
            [_] if typed.len() == MAX_TYPED => {
                bail!("nothing was changed: the new password has more than {MAX_TYPED} bytes")
            }
            [byte] => typed.push(byte),
        }
    }
    if typed.is_empty() {
        bail!("nothing was changed: the new password is empty");
    }
    Password::from_bytes(std::mem::take(&mut *typed)).context("nothing was changed: the new password is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typed_password_ends_with_enter_and_can_be_corrected() {
        let typed = |bytes: &str| read_typed(&mut bytes.as_bytes()).map(|password| password.as_bytes().to_vec());
        for (bytes, expected) in [
            ("secret\nrest", "secret"),
            ("sex\u{7f}cret\r", "secret"),
            ("aü\u{8}b\n", "ab"),
            ("\u{7f}a\n", "a"),
            ("wrong\u{15}right\n", "right"),
        ] {
            assert_eq!(typed(bytes).unwrap(), expected.as_bytes(), "{bytes:?}");
        }
        for bytes in ["", "\n", "abc", "abc\u{3}\n", "\u{4}"] {
            let error = typed(bytes).unwrap_err().to_string();
            assert!(error.starts_with("nothing was changed: "), "{bytes:?}: {error}");
        }
        assert!(typed(&format!("{}\n", "a".repeat(MAX_TYPED + 1))).is_err());
    }
}
