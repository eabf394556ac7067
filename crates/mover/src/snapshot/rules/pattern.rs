//! A rule of what is left out, in the syntax of `.gitignore` as kopia reads it (kopia: internal/wcmatch).

use super::class::{Class, Set};
use std::fmt;

/// The longest rule, in characters: a walk takes this times the length of a path at most.
const MAX_LENGTH: usize = 4096;

/// A rule that no name can be compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BadPattern(pub(super) &'static str);

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A rule.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    tokens: Vec<Token>,
    only_directories: bool,
    is_negated: bool,
}

#[derive(Debug, Clone)]
enum Token {
    Exactly(char),
    /// `?`: anything but a slash.
    Any,
    /// `*`: any number of anything but slashes.
    Star,
    /// `**`: any number of anything.
    DoubleStar,
    /// `[…]`
    OneOf(Set),
}

impl Pattern {
    /// Reads a rule that counts below a directory, whose path begins with a slash, or is empty for the root.
    pub(super) fn parse(text: &str, base: &str) -> Result<Self, BadPattern> {
        let text = trimmed(text);
        let text = text.trim_start();
        let (is_negated, text) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
        let (only_directories, body) = text.strip_suffix('/').map_or((false, text), |rest| (true, rest));
        let chars: Vec<char> = body.chars().collect();
        if chars.len() + base.len() > MAX_LENGTH {
            return Err(BadPattern("it is too long"));
        }
        let mut tokens: Vec<Token> = Vec::new();
        let is_rooted = text.starts_with('/');
        if !text.is_empty() {
            tokens.extend(base.chars().map(Token::Exactly));
            // A slash in the middle ties a rule to its directory; one without counts in all below.
            if !is_rooted && text != "**" {
                tokens.push(Token::Exactly('/'));
                if !body.contains('/') {
                    tokens.extend([Token::DoubleStar, Token::Exactly('/')]);
                }
            } else if text == "**" && !base.is_empty() {
                tokens.push(Token::Exactly('/'));
            }
        }
        parse_body(&chars, &mut tokens)?;
        Ok(Self { tokens, only_directories, is_negated })
    }

    /// True for a rule that takes back what others leave out.
    pub(super) fn is_negated(&self) -> bool {
        self.is_negated
    }

    /// True where the rule leaves the path out, or, where it is negated, does not take it back.
    pub(super) fn leaves_out(&self, path: &str, is_directory: bool) -> bool {
        if self.only_directories && !is_directory {
            return self.is_negated;
        }
        self.fits(path) != self.is_negated
    }

    /// Follows all ways through the rule at once, so that no rule takes longer than its length times that of the path.
    fn fits(&self, path: &str) -> bool {
        let end = self.tokens.len();
        let mut now = vec![false; end + 1];
        self.enter(&mut now, 0);
        let mut next = vec![false; end + 1];
        for c in path.chars() {
            next.fill(false);
            for (at, token) in self.tokens.iter().enumerate() {
                if !now.get(at).copied().unwrap_or_default() {
                    continue;
                }
                match token {
                    Token::Exactly(wanted) if c == *wanted => self.enter(&mut next, at + 1),
                    Token::Any if c != '/' => self.enter(&mut next, at + 1),
                    Token::OneOf(set) if set.has(c) => self.enter(&mut next, at + 1),
                    Token::Star if c != '/' => self.stay(&mut next, at),
                    Token::DoubleStar => self.stay(&mut next, at),
                    _ => {}
                }
            }
            std::mem::swap(&mut now, &mut next);
        }
        now.get(end).copied().unwrap_or_default()
    }

    /// Marks a place in the rule, and those that are reached from it without a character.
    fn enter(&self, places: &mut [bool], at: usize) {
        if let (Some(Token::DoubleStar), Some(Token::Exactly('/'))) = (self.tokens.get(at), self.tokens.get(at + 1)) {
            // No directory at all.
            self.enter(places, at + 2);
        }
        self.stay(places, at);
    }

    /// As [`Pattern::enter`], where something was taken by the place already.
    fn stay(&self, places: &mut [bool], at: usize) {
        match places.get_mut(at) {
            Some(place) if !*place => *place = true,
            _ => return,
        }
        if let Some(Token::Star | Token::DoubleStar) = self.tokens.get(at) {
            self.enter(places, at + 1);
        }
    }
}

/// Without blanks at the ends, unless the last one is quoted.
fn trimmed(text: &str) -> &str {
    let mut back = text.bytes().rev();
    match (back.next(), back.next()) {
        (Some(_), Some(before)) if text.len() > 2 && before != b'\\' => text.trim(),
        _ => text,
    }
}

fn parse_body(chars: &[char], tokens: &mut Vec<Token>) -> Result<(), BadPattern> {
    let mut at = 0;
    while let Some(c) = chars.get(at) {
        at += 1;
        match c {
            '\\' => {
                let quoted = chars.get(at).ok_or(BadPattern("it ends with a backslash; two of them stand for one"))?;
                tokens.push(Token::Exactly(*quoted));
                at += 1;
            }
            '?' => tokens.push(Token::Any),
            '*' => {
                let before = at.checked_sub(2).and_then(|before| chars.get(before));
                let mut is_double = false;
                while chars.get(at) == Some(&'*') {
                    is_double = true;
                    at += 1;
                }
                let is_alone = before.is_none() || before == Some(&'/') && matches!(chars.get(at), None | Some('/'));
                tokens.push(if is_double && is_alone { Token::DoubleStar } else { Token::Star });
            }
            '[' => {
                let (set, length) = Set::parse(chars.get(at..).unwrap_or_default())?;
                tokens.push(Token::OneOf(set));
                at += length;
            }
            c => tokens.push(Token::Exactly(*c)),
        }
    }
    Ok(())
}

impl Set {
    fn parse(chars: &[char]) -> Result<(Self, usize), BadPattern> {
        let unended = BadPattern("a [ has no ]");
        let is_negated = chars.first() == Some(&'!');
        let mut at = usize::from(is_negated);
        let mut classes = Vec::new();
        let take = |at: &mut usize| -> Result<char, BadPattern> {
            let mut c = *chars.get(*at).ok_or(unended.clone())?;
            *at += 1;
            if c == '\\' {
                c = *chars.get(*at).ok_or(unended.clone())?;
                *at += 1;
            }
            Ok(c)
        };
        loop {
            if chars.get(at) == Some(&']') {
                return Ok((Self { is_negated, classes }, at + 1));
            }
            let rest = chars.get(at..).unwrap_or_default();
            if rest.starts_with(&['[', ':'])
                && let Some(end) = rest.windows(2).skip(2).position(|pair| pair == [':', ']'])
            {
                let name: String = rest.iter().skip(2).take(end).collect();
                let class = Class::from_name(&name.to_lowercase());
                classes.push(class.ok_or(BadPattern("it has a class of characters that is not known"))?);
                at += end + 4;
                continue;
            }
            let first = take(&mut at)?;
            if chars.get(at) == Some(&'-') && !matches!(chars.get(at + 1), None | Some(']')) {
                at += 1;
                classes.push(Class::Range(first, take(&mut at)?));
            } else {
                classes.push(Class::Range(first, first));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths that a rule of the root leaves out.
    fn left_out<'a>(rule: &str, paths: &[&'a str]) -> Vec<&'a str> {
        let rule = Pattern::parse(rule, "").unwrap();
        let is_left_out = |path: &&&str| rule.leaves_out(path.trim_end_matches('/'), path.ends_with('/'));
        paths.iter().filter(is_left_out).copied().collect()
    }

    #[test]
    fn a_rule_leaves_out_what_git_would() {
        let paths = ["/a", "/a/", "/b/a", "/b/c/a.txt", "/b/a.txt", "/a.txt", "/b/", "/b/c/", "/ab", "/b/xay/z"];
        for (rule, expected) in [
            ("a", &["/a", "/a/", "/b/a"][..]),
            ("/a", &["/a", "/a/"]),
            ("a/", &["/a/"]),
            ("*.txt", &["/b/c/a.txt", "/b/a.txt", "/a.txt"]),
            ("/*.txt", &["/a.txt"]),
            ("b/*.txt", &["/b/a.txt"]),
            ("b/**/a.txt", &["/b/c/a.txt", "/b/a.txt"]),
            ("**/a.txt", &["/b/c/a.txt", "/b/a.txt", "/a.txt"]),
            ("b/**", &["/b/a", "/b/c/a.txt", "/b/a.txt", "/b/c/", "/b/xay/z"]),
            ("?", &["/a", "/a/", "/b/a", "/b/", "/b/c/", "/b/xay/z"]),
            ("[ab]", &["/a", "/a/", "/b/a", "/b/"]),
            ("[!a]", &["/b/", "/b/c/", "/b/xay/z"]),
            ("[a-b]b", &["/ab"]),
            ("[[:alpha:]].txt", &["/b/c/a.txt", "/b/a.txt", "/a.txt"]),
            ("\\a", &["/a", "/a/", "/b/a"]),
            ("  a  ", &["/a", "/a/", "/b/a"]),
            ("**", &paths),
            ("c", &["/b/c/"]),
        ] {
            assert_eq!(left_out(rule, &paths), expected, "{rule}");
        }
    }

    #[test]
    fn a_rule_counts_below_its_directory_only() {
        let rule = Pattern::parse("x", "/b").unwrap();
        let paths = ["/x", "/b/x", "/b/c/x", "/bx", "/b"];
        assert_eq!(paths.map(|path| rule.leaves_out(path, false)), [false, true, true, false, false]);
        let rule = Pattern::parse("/x", "/b").unwrap();
        assert_eq!(paths.map(|path| rule.leaves_out(path, false)), [false, true, false, false, false]);
    }

    #[test]
    fn a_negated_rule_takes_back_and_a_bad_one_is_refused() {
        let rule = Pattern::parse("!a", "").unwrap();
        assert_eq!(
            (rule.is_negated(), rule.leaves_out("/a", false), rule.leaves_out("/b", false)),
            (true, false, true)
        );
        for bad in ["a\\", "[a", "[[:none:]]", "["] {
            assert!(Pattern::parse(bad, "").is_err(), "{bad}");
        }
    }

    #[test]
    fn a_rule_made_to_take_for_ever_ends_at_once() {
        let rule = Pattern::parse(&format!("{}b", "*a".repeat(500)), "").unwrap();
        assert!(!rule.leaves_out(&format!("/{}", "a".repeat(4000)), false));
    }
}
