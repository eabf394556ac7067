//! Globs as Velero's library reads them: no separators, so `*` crosses dots and slashes
//! (velero: pkg/util/collections/includes_excludes.go).
//!
//! A glob library for paths will not do: those give `/` and `**` a meaning of their own and read classes more
//! generously. Patterns come from users, so a glob is a small automaton that runs in time proportional to
//! pattern × text, whatever the pattern.

use std::collections::BTreeSet;

/// Globs of which any may match.
///
/// The globs are tried in sorted order and one that does not compile ends the search: it and all behind it match
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Globs {
    given: bool,
    /// Patterns that match one text only: most are, and lists of namespaces can be long.
    texts: BTreeSet<String>,
    globs: Vec<Glob>,
}

impl Globs {
    /// Compiles the patterns.
    #[must_use]
    pub fn new(patterns: &[String]) -> Self {
        // compat: without the order and the end at the first malformed one, a list with a malformed glob would match
        // other objects than it does in Velero.
        let sorted: BTreeSet<&String> = patterns.iter().collect();
        let mut globs = Self { given: !patterns.is_empty(), ..Self::default() };
        for glob in sorted.into_iter().map_while(|p| Glob::compile(p).ok()) {
            match glob.text() {
                Some(text) => _ = globs.texts.insert(text),
                None => globs.globs.push(glob),
            }
        }
        globs
    }

    /// Returns true if any of the globs matches the whole of `s`.
    #[must_use]
    pub fn matches(&self, s: &str) -> bool {
        self.texts.contains(s) || self.globs.iter().any(|g| g.matches(s))
    }

    /// Returns true if there were no patterns. Globs that do not compile count: a list of them is not empty, it matches
    /// nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.given
    }
}

/// Returns true if a text is a glob, not a plain name.
pub(crate) fn is_glob(pattern: &str) -> bool {
    Glob::compile(pattern).is_ok()
}

/// Returns true if a namespace pattern has to be expanded: it contains `*`, `?` or `[`.
#[must_use]
pub fn has_wildcard(pattern: &str) -> bool {
    pattern.contains(['*', '?', '['])
}

/// Checks a namespace name or pattern for what Velero refuses in namespace globs.
///
/// # Errors
/// The text of Velero (velero: pkg/util/wildcard).
pub(crate) fn validate_wildcards(pattern: &str) -> Result<(), String> {
    if pattern.contains(['|', '(', ')', '!', '{', '}', ',']) {
        return Err("wildcard pattern contains unsupported characters: |, (, ), !, {, }, ,".to_owned());
    }
    if pattern.contains("**") {
        return Err("wildcard pattern contains consecutive asterisks (only single * allowed)".to_owned());
    }
    let mut rest = pattern;
    while let Some(at) = rest.find(['[', ']']) {
        if rest[at..].starts_with(']') {
            return Err("wildcard pattern contains unmatched closing bracket ']'".to_owned());
        }
        rest = match rest[at + 1..].split_once(']') {
            None => return Err("wildcard pattern contains unclosed bracket '['".to_owned()),
            Some(("", _)) => return Err("wildcard pattern contains empty bracket pattern '[]'".to_owned()),
            Some((_, after)) => after,
        };
    }
    Ok(())
}

/// A glob of names with dots, as resource modifiers use it for types: `*` and `?` stop at a dot, `**` does not
/// (velero: internal/resourcemodifiers).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeGlob(Glob);

impl TypeGlob {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// A message that says what is wrong with it.
    pub fn new(pattern: &str) -> Result<Self, String> {
        let glob = Glob::compile_with(pattern, Some('.')).map_err(|Malformed| format!("{pattern:?} is no glob"))?;
        Ok(Self(glob))
    }

    /// Returns true if it matches the whole of a type, such as `pods` or `deployments.apps`.
    #[must_use]
    pub fn matches(&self, group_resource: &str) -> bool {
        self.0.matches(group_resource)
    }
}

/// A compiled glob: the program of an automaton. A step falls through to the next unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Glob {
    program: Vec<GlobStep>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum GlobStep {
    Char(char),
    /// `?`: any character but this one.
    One {
        but: Option<char>,
    },
    /// `*`: any number of characters but this one.
    Run {
        but: Option<char>,
    },
    Class {
        negated: bool,
        class: Class,
    },
    /// Goes on at each of these steps.
    Split(Vec<usize>),
    /// Goes on at this step.
    Jump(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Class {
    List(Vec<char>),
    Range(char, char),
}

/// A pattern that is not a glob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Malformed;

/// Alternatives whose closing brace has not come yet.
struct Group {
    split: usize,
    branches: Vec<usize>,
    ends: Vec<usize>,
}

impl Glob {
    /// Outside classes nothing is malformed: an unclosed `{` closes at the end of the pattern, a stray `}` or `,` is
    /// literal, a trailing backslash is dropped.
    fn compile(pattern: &str) -> Result<Self, Malformed> {
        Self::compile_with(pattern, None)
    }

    /// A glob in which `*` and `?` stop at a separator.
    fn compile_with(pattern: &str, separator: Option<char>) -> Result<Self, Malformed> {
        let mut program = Vec::new();
        let mut groups: Vec<Group> = Vec::new();
        let mut rest = pattern.chars();
        while let Some(c) = rest.next() {
            match c {
                '*' if separator.is_some() && rest.as_str().starts_with('*') => {
                    rest.next();
                    program.push(GlobStep::Run { but: None });
                }
                '*' => program.push(GlobStep::Run { but: separator }),
                '?' => program.push(GlobStep::One { but: separator }),
                '[' => program.push(compile_class(&mut rest)?),
                '{' => {
                    groups.push(Group { split: program.len(), branches: vec![program.len() + 1], ends: Vec::new() });
                    program.push(GlobStep::Split(Vec::new()));
                }
                ',' if let Some(group) = groups.last_mut() => {
                    group.ends.push(program.len());
                    program.push(GlobStep::Jump(0));
                    group.branches.push(program.len());
                }
                '}' if let Some(group) = groups.pop() => group.close(&mut program),
                '\\' => program.extend(rest.next().map(GlobStep::Char)),
                c => program.push(GlobStep::Char(c)),
            }
        }
        while let Some(group) = groups.pop() {
            group.close(&mut program);
        }
        Ok(Self { program })
    }

    /// The only text that matches, when the pattern is plain.
    fn text(&self) -> Option<String> {
        self.program.iter().map(|step| if let GlobStep::Char(c) = step { Some(*c) } else { None }).collect()
    }

    fn matches(&self, s: &str) -> bool {
        let mut now = States::new(self.program.len());
        now.enter(0, &self.program);
        for c in s.chars() {
            let mut next = States::new(self.program.len());
            for &at in &now.list {
                match self.program.get(at) {
                    Some(GlobStep::Run { but }) if *but != Some(c) => next.enter(at, &self.program),
                    Some(step) if step.takes(c) => next.enter(at + 1, &self.program),
                    _ => {}
                }
            }
            if next.list.is_empty() {
                return false;
            }
            now = next;
        }
        now.seen.last() == Some(&true)
    }
}

impl Group {
    fn close(self, program: &mut [GlobStep]) {
        let end = program.len();
        for at in self.ends {
            program[at] = GlobStep::Jump(end);
        }
        program[self.split] = GlobStep::Split(self.branches);
    }
}

impl GlobStep {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Char(expected) => *expected == c,
            Self::One { but } => *but != Some(c),
            Self::Class { negated, class: Class::List(list) } => list.contains(&c) != *negated,
            Self::Class { negated, class: Class::Range(low, high) } => (*low..=*high).contains(&c) != *negated,
            Self::Run { .. } | Self::Split(_) | Self::Jump(_) => false,
        }
    }
}

/// The steps an automaton stands at; the one behind the last step means that the glob has matched.
struct States {
    list: Vec<usize>,
    seen: Vec<bool>,
}

impl States {
    fn new(steps: usize) -> Self {
        Self { list: Vec::new(), seen: vec![false; steps + 1] }
    }

    fn enter(&mut self, at: usize, program: &[GlobStep]) {
        let mut todo = vec![at];
        while let Some(at) = todo.pop() {
            if std::mem::replace(&mut self.seen[at], true) {
                continue;
            }
            match program.get(at) {
                Some(GlobStep::Split(branches)) => todo.extend(branches),
                Some(GlobStep::Jump(to)) => todo.push(*to),
                Some(GlobStep::Run { .. }) => {
                    self.list.push(at);
                    todo.push(at + 1);
                }
                _ => self.list.push(at),
            }
        }
    }
}

/// The rest of a class behind its `[`: either one range, or a list in which a later `-` is literal.
fn compile_class(rest: &mut std::str::Chars<'_>) -> Result<GlobStep, Malformed> {
    let negated = rest.as_str().starts_with('!');
    if negated {
        rest.next();
    }
    let mut ahead = rest.clone();
    if let (Some(low), Some('-')) = (ahead.next(), ahead.next())
        && low != ']'
    {
        let (Some(high), Some(']')) = (ahead.next(), ahead.next()) else { return Err(Malformed) };
        *rest = ahead;
        return if low <= high {
            Ok(GlobStep::Class { negated, class: Class::Range(low, high) })
        } else {
            Err(Malformed)
        };
    }
    let mut list = Vec::new();
    loop {
        match rest.next().ok_or(Malformed)? {
            ']' if list.is_empty() => return Err(Malformed),
            ']' => return Ok(GlobStep::Class { negated, class: Class::List(list) }),
            '\\' => list.push(rest.next().ok_or(Malformed)?),
            c => list.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(patterns: &[&str]) -> Vec<String> {
        patterns.iter().map(|p| (*p).to_owned()).collect()
    }

    /// The answers of Velero's library, but for its defects: it looks at bytes instead of characters, lets the ends of
    /// `a*a` overlap in `a`, and forgets alternatives.
    #[test]
    fn matches_what_velero_matches() {
        for (pattern, yes, no) in [
            ("a*", &["a", "ab", "a.b/c"][..], &["b", ""][..]),
            ("**", &["", "a.b"], &[]),
            ("a**b", &["ab", "a.b"], &["a"]),
            ("?", &["a", "é"], &["", "ab"]),
            ("é?", &["éa"], &["é"]),
            ("*a?", &["xab", "ab"], &["a"]),
            ("a*b*c", &["abc", "axbxc"], &["axc"]),
            ("[abc]", &["a", "c"], &["d", ""]),
            ("[a-c]", &["b"], &["d", "-"]),
            ("[!a]", &["b"], &["a", ""]),
            ("[!a-c]", &["d"], &["b"]),
            ("[é-ü]", &["ö"], &["a"]),
            ("[xa-c]", &["x", "a", "-", "c"], &["b"]),
            ("[abc-]", &["-", "a"], &["d"]),
            ("[-a]", &["-", "a"], &["b"]),
            ("[--a]", &["-", "0", "a"], &["b"]),
            ("[^a]", &["^", "a"], &["b"]),
            ("[*?]", &["*", "?"], &["a"]),
            ("[!!]", &["a"], &["!"]),
            ("[\\]]", &["]"], &["\\"]),
            ("[a\\-c]", &["a", "-", "c"], &["b", "\\"]),
            ("{a,b}", &["a", "b"], &["c", "", "a,b"]),
            ("{a*,b}c", &["ac", "axc", "bc"], &["c"]),
            ("{ab,abc}d", &["abd", "abcd"], &["abc"]),
            ("{a,}b", &["ab", "b"], &["a"]),
            ("{a,{b,c}}d", &["ad", "bd", "cd"], &["d"]),
            ("{[},a]}", &["}", ",", "a"], &["["]),
            ("{a\\,b}", &["a,b"], &["a", "b"]),
            ("{}", &[""], &["{}"]),
            ("{a,b", &["a", "b"], &["{a,b"]),
            ("a}", &["a}"], &["a"]),
            ("a]", &["a]"], &["a"]),
            ("a,b", &["a,b"], &["a"]),
            ("!a", &["!a"], &["a", "b"]),
            ("(a|b)", &["(a|b)"], &["a"]),
            (".+", &[".+"], &["a", "aa"]),
            ("\\*\\a", &["*a"], &["xa"]),
            ("a\\", &["a"], &["a\\"]),
            ("", &[""], &["a"]),
            ("*.example.com", &["widgets.example.com", "a.b.example.com"], &["example.com", "widgetsXexample.com"]),
        ] {
            let globs = Globs::new(&list(&[pattern]));
            for s in yes {
                assert!(globs.matches(s), "{pattern} {s}");
            }
            for s in no {
                assert!(!globs.matches(s), "{pattern} {s}");
            }
        }
    }

    #[test]
    fn refuses_what_velero_refuses() {
        for pattern in [
            "[", "[a", "[!", "[a-", "[]", "[!]", "[]a]", "[a-]", "[!a-]", "[a-cx]", "[a-b-c]", "[c-a]", "[a\\]", "x{[}",
        ] {
            assert_eq!(Glob::compile(pattern), Err(Malformed), "{pattern}");
        }
    }

    #[test]
    fn a_malformed_glob_ends_the_search() {
        let globs = Globs::new(&list(&["b", "[", "A*"]));
        assert_eq!(["Ax", "b", "["].map(|s| globs.matches(s)), [true, false, false]);
        let globs = Globs::new(&list(&["["]));
        assert_eq!((globs.is_empty(), globs.matches("[")), (false, false));
        assert!(Globs::new(&[]).is_empty());
        assert!(!Globs::new(&[]).matches(""));
    }

    #[test]
    fn wildcards_are_seen() {
        for (pattern, expected) in
            [("a*", true), ("a?", true), ("[a]", true), ("a", false), ("{a,b}", false), ("", false)]
        {
            assert_eq!(has_wildcard(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn namespace_globs_are_checked() {
        const CHARACTERS: &str = "wildcard pattern contains unsupported characters: |, (, ), !, {, }, ,";
        const UNCLOSED: &str = "wildcard pattern contains unclosed bracket '['";
        const UNMATCHED: &str = "wildcard pattern contains unmatched closing bracket ']'";
        const EMPTY: &str = "wildcard pattern contains empty bracket pattern '[]'";
        for (pattern, expected) in [
            ("", None),
            ("*", None),
            ("app-*-?[a-c][xy]", None),
            ("a|b", Some(CHARACTERS)),
            ("[!a]", Some(CHARACTERS)),
            ("{a,b}", Some(CHARACTERS)),
            ("a**", Some("wildcard pattern contains consecutive asterisks (only single * allowed)")),
            ("a[]b", Some(EMPTY)),
            ("a[bc", Some(UNCLOSED)),
            ("[a][", Some(UNCLOSED)),
            ("a]", Some(UNMATCHED)),
            ("[a]]", Some(UNMATCHED)),
        ] {
            assert_eq!(validate_wildcards(pattern).err().as_deref(), expected, "{pattern}");
        }
    }

    #[test]
    fn hostile_patterns_end_in_time() {
        let text = "a".repeat(2_000) + "c";
        assert!(!Globs::new(&["*a".repeat(200) + "b"]).matches(&text));
        assert!(!Globs::new(&["{a,a*".repeat(300) + "b"]).matches(&text));
        assert!(!Globs::new(&["{".repeat(100_000) + "a"]).matches("b"));
    }

    proptest! {
        #[test]
        fn never_panics(pattern in "[\\[\\]{},!*?\\\\a-cé-]{0,12}", s in "[\\[\\]{},!*?\\\\a-cé-]{0,6}") {
            let globs = Globs::new(std::slice::from_ref(&pattern));
            let _ = (globs.matches(&s), validate_wildcards(&pattern));
        }

        #[test]
        fn an_escaped_text_matches_itself_only(s in "[\\[\\]{},!*?\\\\a-cé-]{0,8}", other in "[a-c*]{0,8}") {
            let escaped: String = s.chars().flat_map(|c| ['\\', c]).collect();
            let globs = Globs::new(&[escaped]);
            prop_assert!(globs.matches(&s));
            prop_assert_eq!(globs.matches(&other), s == other);
        }
    }

    #[test]
    fn stars_of_types_stop_at_dots() {
        let types = ["pods", "deployments.apps", "ingresses.networking.k8s.io"];
        for (pattern, expected) in [
            ("*", [true, false, false]),
            ("*.apps", [false, true, false]),
            ("*.*", [false, true, false]),
            ("*.**", [false, true, true]),
            ("**", [true, true, true]),
            ("{pods,deployments.apps}", [true, true, false]),
            ("ingresses.*.k8s.io", [false, false, true]),
            ("deployments", [false, false, false]),
            ("[a-p]ods", [true, false, false]),
            ("p?ds", [true, false, false]),
            ("deployments?apps", [false, false, false]),
        ] {
            let glob = TypeGlob::new(pattern).unwrap();
            assert_eq!(types.map(|name| glob.matches(name)), expected, "{pattern}");
        }
        assert_eq!(TypeGlob::new("[a"), Err(r#""[a" is no glob"#.to_owned()));
    }
}
