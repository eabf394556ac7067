//! Characters in brackets.

/// Characters, or all others.
#[derive(Debug, Clone)]
pub(super) struct Set {
    pub(super) is_negated: bool,
    pub(super) classes: Vec<Class>,
}

/// Some characters.
#[derive(Debug, Clone, Copy)]
pub(super) enum Class {
    /// From one to another.
    Range(char, char),
    /// A class with a name of POSIX.
    Named(fn(char) -> bool),
}

impl Set {
    pub(super) fn has(&self, c: char) -> bool {
        self.classes.iter().any(|class| class.has(c)) != self.is_negated
    }
}

impl Class {
    /// The class of a name in lower case.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let class: fn(char) -> bool = match name {
            "alnum" => char::is_alphanumeric,
            "alpha" => char::is_alphabetic,
            "ascii" => |c| c.is_ascii(),
            "blank" => |c| c == '\t' || c.is_whitespace() && !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}'),
            "cntrl" => char::is_control,
            "digit" => char::is_numeric,
            "graph" => |c| !c.is_control(),
            "lower" => char::is_lowercase,
            "print" => |c| !c.is_control() && (!c.is_whitespace() || c == ' '),
            "punct" => |c| c.is_ascii_punctuation(),
            "space" => char::is_whitespace,
            "upper" => char::is_uppercase,
            "xdigit" => |c| c.is_ascii_hexdigit(),
            _ => return None,
        };
        Some(Self::Named(class))
    }

    fn has(self, c: char) -> bool {
        match self {
            Self::Range(first, last) => (first..=last).contains(&c),
            Self::Named(class) => class(c),
        }
    }
}
