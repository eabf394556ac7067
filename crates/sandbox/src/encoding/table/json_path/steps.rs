//! The steps of a JSONPath, read from its text.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum PathStep {
    Field(String),
    Elements(Elements),
    /// All elements or all fields.
    Everything,
    /// The value itself and everything in it.
    Descent,
    Union(Vec<Vec<PathStep>>),
    /// The elements in which `left` finds something, or in which the comparison holds.
    Filter {
        left: Vec<PathStep>,
        comparison: Option<(Operator, Operand)>,
    },
}

/// A part of a list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Elements {
    pub(super) from: i64,
    /// The end, which does not belong to it; `None` for that of the list.
    pub(super) to: Option<i64>,
    /// compat: `[n]`. Its end is 0 for `[-1]`, and then means the end of the list, without which the last element could not be named.
    pub(super) is_single: bool,
    pub(super) step: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    Literal(Value),
    Path(Vec<PathStep>),
}

/// The steps of a path; `None` when the text is none.
pub(super) fn steps(text: &str) -> Option<Vec<PathStep>> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        // compat: an API server passes over these wherever a step could begin, so that `.a$.b` is `.a.b`.
        rest = rest.trim_start_matches([' ', '@', '$']);
        if rest.is_empty() {
            return Some(found);
        }
        if let Some(inside) = rest.strip_prefix("[?(") {
            let (step, after) = filter(inside)?;
            found.push(step);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("..") {
            if found.last() == Some(&PathStep::Descent) {
                return None;
            }
            found.push(PathStep::Descent);
            rest = after;
            if rest.starts_with(|c: char| c == '_' || c.is_alphanumeric()) {
                let (step, after) = field(rest);
                found.push(step);
                rest = after;
            }
        } else if let Some(inside) = rest.strip_prefix('[') {
            let (inside, after) = inside.split_once(']')?;
            found.extend(bracket(inside)?);
            rest = after;
        } else {
            let (step, after) = field(rest.strip_prefix('.')?);
            found.push(step);
            rest = after;
        }
    }
}

/// A field name, and what follows it. A backslash lets the next character belong to the name.
fn field(text: &str) -> (PathStep, &str) {
    const ENDS: [char; 12] = [' ', '\t', '\r', '\n', '.', ',', '[', ']', '$', '@', '{', '}'];
    let mut name = String::new();
    let mut characters = text.char_indices();
    let mut end = text.len();
    while let Some((at, character)) = characters.next() {
        if character == '\\' {
            name.extend(characters.next().map(|(_, escaped)| escaped));
        } else if ENDS.contains(&character) {
            end = at;
            break;
        } else {
            name.push(character);
        }
    }
    let step = if name == "*" { PathStep::Everything } else { PathStep::Field(name) };
    (step, text.get(end..).unwrap_or_default())
}

/// Parses the text between brackets.
fn bracket(text: &str) -> Option<Vec<PathStep>> {
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 1 {
        let parts = parts.into_iter().map(|part| bracket(part.trim_matches(' '))).collect::<Option<_>>()?;
        return Some(vec![PathStep::Union(parts)]);
    }
    if let Some(name) = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')) {
        return if name.contains('\'') { None } else { steps(&format!(".{name}")) };
    }
    let text = if text == "*" { ":" } else { text };
    let mut numbers = text.split(':').map(|part| match part {
        "" => Some(None),
        digits => digits.parse::<i32>().ok().map(|n| Some(i64::from(n))),
    });
    let from = numbers.next()??.unwrap_or(0);
    let second = numbers.next();
    let is_single = second.is_none();
    let to = match second {
        Some(to) => to?,
        None => Some(from + 1),
    };
    let step = numbers.next().unwrap_or(Some(None))?;
    numbers.next().is_none().then(|| vec![PathStep::Elements(Elements { from, to, is_single, step })])
}

/// A filter after its `[?(`, and what follows its `)]`.
fn filter(text: &str) -> Option<(PathStep, &str)> {
    let end = end_of_filter(text)?;
    let after = text.get(end + 1..)?.strip_prefix(']')?;
    let inside = text.get(..end)?;
    let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
    let Some(at) = inside.find(is_operator).filter(|at| *at > 0) else {
        return Some((PathStep::Filter { left: steps(inside)?, comparison: None }, after));
    };
    let (left, rest) = inside.split_at(at);
    let right = rest.trim_start_matches(is_operator);
    let operator = match rest.strip_suffix(right)? {
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        _ => return None,
    };
    Some((PathStep::Filter { left: steps(left)?, comparison: Some((operator, operand(right.trim())?)) }, after))
}

/// The position of the closing parenthesis that is not in quotes.
fn end_of_filter(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        match (character, quote) {
            (')', None) => return Some(at),
            ('"' | '\'', None) => quote = Some(character),
            (_, Some(open)) if character == open && !is_escaped => quote = None,
            _ => {}
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    None
}

fn operand(text: &str) -> Option<Operand> {
    let quoted = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(inside) = quoted('"').or_else(|| quoted('\'')) {
        let mut value = String::new();
        let mut characters = inside.chars();
        while let Some(character) = characters.next() {
            value.extend(if character == '\\' { characters.next() } else { Some(character) });
        }
        return Some(Operand::Literal(value.into()));
    }
    match text.strip_prefix('+').unwrap_or(text).parse::<serde_json::Number>() {
        Ok(number) => Some(Operand::Literal(number.into())),
        Err(_) if text == "true" || text == "false" => Some(Operand::Literal((text == "true").into())),
        Err(_) if text.is_empty() => None,
        Err(_) => steps(text).map(Operand::Path),
    }
}
