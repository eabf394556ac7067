//! The JSONPath of `additionalPrinterColumns`, as far as an API server understands it.
//!
//! Fields (`.a.b`, `.a\.b`, `['a']`), elements (`[0]`, `[-1]`, `[1:3]`, `[*]`, `[0,2]`), wildcards (`.*`), descent (`..a`) and filters
//! (`[?(@.type=="Ready")]`).

use serde_json::Value;
use std::cmp::Ordering;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Elements(Elements),
    /// All elements or all fields.
    Everything,
    /// The value itself and everything in it.
    Descent,
    Union(Vec<Vec<Step>>),
    /// The elements in which `left` finds something, or in which the comparison holds.
    Filter {
        left: Vec<Step>,
        comparison: Option<(Operator, Operand)>,
    },
}

/// A part of a list.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Elements {
    from: i64,
    /// The end, which does not belong to it; `None` for that of the list.
    to: Option<i64>,
    /// `[n]`: the end is 0 for the last element, and then means the end of the list.
    is_single: bool,
    step: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Literal(Value),
    Path(Vec<Step>),
}

/// The path cannot be applied to the value: there is no such element, what is not comparable is compared, or it would take too long.
pub(super) struct Inapplicable;

/// How many values may still be visited. Descents in a row multiply, and who has written the path is not known.
pub(super) struct Visits(pub(super) usize);

impl Visits {
    /// # Errors
    /// When so many are not left; then none are.
    pub(super) fn spend(&mut self, count: usize) -> Result<(), Inapplicable> {
        let left = self.0.checked_sub(count);
        self.0 = left.unwrap_or(0);
        left.map(drop).ok_or(Inapplicable)
    }
}

impl JsonPath {
    /// `None` when the text is no path.
    pub(super) fn parse(text: &str) -> Option<Self> {
        steps(text).map(Self)
    }

    /// What the path finds; `None` when it cannot be applied.
    pub(super) fn find<'a>(&self, object: &'a Value, visits: &mut Visits) -> Option<Vec<&'a Value>> {
        // A path without steps takes its time too.
        visits.spend(1).ok()?;
        walk(&self.0, vec![object], visits).ok()
    }
}

fn steps(text: &str) -> Option<Vec<Step>> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '@', '$']);
        if rest.is_empty() {
            return Some(found);
        }
        if let Some(inside) = rest.strip_prefix("[?(") {
            let (step, after) = filter(inside)?;
            found.push(step);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("..") {
            if found.last() == Some(&Step::Descent) {
                return None;
            }
            found.push(Step::Descent);
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
fn field(text: &str) -> (Step, &str) {
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
    let step = if name == "*" { Step::Everything } else { Step::Field(name) };
    (step, text.get(end..).unwrap_or_default())
}

/// What stands between brackets.
fn bracket(text: &str) -> Option<Vec<Step>> {
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 1 {
        let parts = parts.into_iter().map(|part| bracket(part.trim_matches(' '))).collect::<Option<_>>()?;
        return Some(vec![Step::Union(parts)]);
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
    numbers.next().is_none().then(|| vec![Step::Elements(Elements { from, to, is_single, step })])
}

/// A filter after its `[?(`, and what follows its `)]`.
fn filter(text: &str) -> Option<(Step, &str)> {
    let end = end_of_filter(text)?;
    let after = text.get(end + 1..)?.strip_prefix(']')?;
    let inside = text.get(..end)?;
    let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
    let Some(at) = inside.find(is_operator).filter(|at| *at > 0) else {
        return Some((Step::Filter { left: steps(inside)?, comparison: None }, after));
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
    Some((Step::Filter { left: steps(left)?, comparison: Some((operator, operand(right.trim())?)) }, after))
}

/// Where the parenthesis is that is not in quotes.
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

fn walk<'a>(steps: &[Step], mut values: Vec<&'a Value>, visits: &mut Visits) -> Result<Vec<&'a Value>, Inapplicable> {
    for step in steps {
        values = apply(step, values, visits)?;
    }
    Ok(values)
}

fn apply<'a>(step: &Step, values: Vec<&'a Value>, visits: &mut Visits) -> Result<Vec<&'a Value>, Inapplicable> {
    visits.spend(values.len())?;
    let mut found = Vec::new();
    match step {
        Step::Field(name) => found.extend(values.into_iter().filter_map(|value| value.get(name))),
        Step::Everything => {
            for value in values {
                let inside = children(value);
                visits.spend(inside.len())?;
                found.extend(inside);
            }
        }
        Step::Descent => {
            for value in values {
                descend(value, &mut found, visits)?;
            }
        }
        Step::Union(parts) => {
            for part in parts {
                found.extend(walk(part, values.clone(), visits)?);
            }
        }
        Step::Elements(elements) => {
            for value in values.into_iter().filter(|value| !value.is_null()) {
                let list = value.as_array().ok_or(Inapplicable)?;
                visits.spend(list.len())?;
                found.extend(elements.of(list)?);
            }
        }
        Step::Filter { left, comparison } => {
            for value in values {
                for element in value.as_array().ok_or(Inapplicable)? {
                    visits.spend(1)?;
                    if passes(element, left, comparison.as_ref(), visits)? {
                        found.push(element);
                    }
                }
            }
        }
    }
    Ok(found)
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(elements) => elements.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    }
}

/// What has something in it, from the outside to the inside. JSON that is read is never nested deep.
fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>, visits: &mut Visits) -> Result<(), Inapplicable> {
    let inside = children(value);
    visits.spend(inside.len())?;
    if !inside.is_empty() {
        found.push(value);
    }
    inside.into_iter().try_for_each(|value| descend(value, found, visits))
}

impl Elements {
    fn of(self, list: &[Value]) -> Result<Vec<&Value>, Inapplicable> {
        let length = i64::try_from(list.len()).map_err(|_| Inapplicable)?;
        let from = if self.from < 0 { self.from + length } else { self.from };
        let to = self.to.unwrap_or(length);
        let to = if to < 0 || (to == 0 && self.is_single) { to + length } else { to };
        if from == to {
            return Ok(Vec::new());
        }
        let step = self.step.map_or(Ok(1), usize::try_from).map_err(|_| Inapplicable)?;
        let (Ok(from), Ok(to)) = (usize::try_from(from), usize::try_from(to)) else { return Err(Inapplicable) };
        if step == 0 {
            return Err(Inapplicable);
        }
        Ok(list.get(from..to).ok_or(Inapplicable)?.iter().step_by(step).collect())
    }
}

fn passes(
    element: &Value,
    left: &[Step],
    comparison: Option<&(Operator, Operand)>,
    visits: &mut Visits,
) -> Result<bool, Inapplicable> {
    let lefts = walk(left, vec![element], visits);
    let Some((operator, right)) = comparison else { return Ok(lefts.is_ok_and(|found| !found.is_empty())) };
    let lefts = lefts?;
    let rights = match right {
        Operand::Literal(value) => vec![value],
        Operand::Path(steps) => walk(steps, vec![element], visits)?,
    };
    match (lefts.as_slice(), rights.as_slice()) {
        ([], _) | (_, []) => Ok(false),
        ([left], [right]) => operator.holds(left, right),
        _ => Err(Inapplicable),
    }
}

impl Operator {
    fn holds(self, left: &Value, right: &Value) -> Result<bool, Inapplicable> {
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Bool(left), Value::Bool(right)) => match self {
                Self::Equal => return Ok(left == right),
                Self::NotEqual => return Ok(left != right),
                _ => return Err(Inapplicable),
            },
            // Whole numbers are compared with whole ones alone.
            (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => left.cmp(&right),
                (None, None) => {
                    let (left, right) = left.as_f64().zip(right.as_f64()).ok_or(Inapplicable)?;
                    left.partial_cmp(&right).ok_or(Inapplicable)?
                }
                _ => return Err(Inapplicable),
            },
            _ => return Err(Inapplicable),
        };
        Ok(match self {
            Self::Equal => order == Ordering::Equal,
            Self::NotEqual => order != Ordering::Equal,
            Self::Less => order == Ordering::Less,
            Self::LessOrEqual => order != Ordering::Greater,
            Self::Greater => order == Ordering::Greater,
            Self::GreaterOrEqual => order != Ordering::Less,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn object() -> Value {
        json!({
            "a": {"b": 1, "c.d": 2, "e": null},
            "l": [10, 20, 30, 40],
            "m": {"x": {"v": 5}, "y": {"v": 6}},
            "conditions": [
                {"type": "Ready", "status": "True", "n": 1, "on": true},
                {"type": "Odd) \"one\"", "status": "False", "n": 2, "f": 1.5, "same": 2},
            ],
        })
    }

    #[test]
    fn paths_find_what_a_server_finds() {
        for (path, expected) in [
            (".a.b", json!([1])),
            ("$.a.b", json!([1])),
            (".a.none.c", json!([])),
            (".a.e", json!([null])),
            (".a.e.f", json!([])),
            (r".a.c\.d", json!([2])),
            ("['a']['b']", json!([1])),
            (r".a['c\.d']", json!([2])),
            (".l[0]", json!([10])),
            (".l[-1]", json!([40])),
            (".l[-2]", json!([30])),
            (".l[1:3]", json!([20, 30])),
            (".l[1:]", json!([20, 30, 40])),
            (".l[:-1]", json!([10, 20, 30])),
            (".l[::3]", json!([10, 40])),
            (".l[1:1]", json!([])),
            (".l[*]", json!([10, 20, 30, 40])),
            (".l[0, 2]", json!([10, 30])),
            (".m.*.v", json!([5, 6])),
            ("..v", json!([5, 6])),
            (".conditions[*].type", json!(["Ready", "Odd) \"one\""])),
            (r#".conditions[?(@.type=="Ready")].status"#, json!(["True"])),
            (".conditions[?(@.type == 'Ready')].status", json!(["True"])),
            (r#".conditions[?(@.type=="Odd) \"one\"")].n"#, json!([2])),
            (".conditions[?(@.f)].n", json!([2])),
            (".conditions[?(@.n!=1)].n", json!([2])),
            (".conditions[?(@.n>=1)].n", json!([1, 2])),
            (".conditions[?(@.n<2)].n", json!([1])),
            (".conditions[?(@.f>1.25)].n", json!([2])),
            (".conditions[?(@.on==true)].n", json!([1])),
            (".conditions[?(@.same==@.n)].n", json!([2])),
            (".conditions[?(@.none=='x')].n", json!([])),
        ] {
            let object = object();
            let found = JsonPath::parse(path).unwrap().find(&object, &mut Visits(1000));
            assert_eq!(json!(found), expected, "{path}");
        }
    }

    #[test]
    fn what_cannot_be_applied_finds_nothing() {
        for path in [
            ".l[4]",
            ".l[-5]",
            ".l[3:1]",
            ".l[::0]",
            ".a[0]",
            ".a[?(@.b)]",
            ".conditions[?(@.n=='1')]",
            ".conditions[?(@.n==1.5)]",
            ".conditions[?(@.on<true)]",
            ".m[?(@.v)]",
        ] {
            assert_eq!(JsonPath::parse(path).unwrap().find(&object(), &mut Visits(1000)), None, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in [
            "a",
            "{.a}",
            ".a[",
            ".a[x]",
            ".a[1:2:3:4]",
            ".a[?(@.b]",
            ".a[?(@.b)",
            ".a[?(@.b=~'c')]",
            "....a",
            ".a['b'c']",
        ] {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
    }

    #[test]
    fn descents_in_a_row_come_to_an_end() {
        let deep = (0..100).fold(json!({"a": 1}), |inside, _| json!({"a": inside}));
        let find =
            |path: &str| JsonPath::parse(path).unwrap().find(&deep, &mut Visits(1_000_000)).map(|found| found.len());
        assert_eq!(find("..a..a..a..a..a..a..a"), None);
        assert_eq!(find("..a"), Some(101));
    }

    proptest! {
        #[test]
        fn nothing_panics(path in r#"[.\[\]?()@$*:,'"=<>!\\a-c0-2 -]{0,24}"#) {
            if let Some(path) = JsonPath::parse(&path) {
                let _ = path.find(&json!({"a": [{"b": [1, 2], "c": "x"}, null], "b": {"c": 1.5}}), &mut Visits(1000));
            }
        }
    }
}
