//! The JSONPath of `additionalPrinterColumns`, as far as an API server understands it.
//!
//! Fields (`.a.b`, `.a\.b`, `['a']`), elements (`[0]`, `[-1]`, `[1:3]`, `[*]`, `[0,2]`), wildcards (`.*`), descent (`..a`) and filters
//! (`[?(@.type=="Ready")]`).

mod steps;

use serde_json::Value;
use std::cmp::Ordering;
use steps::{Elements, Operand, Operator, PathStep, steps};

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath(Vec<PathStep>);

/// The path cannot be applied to the value: there is no such element, what is not comparable is compared, or it would take too long.
pub(super) struct Inapplicable;

/// The number of values that may still be visited. It is bounded because descents in a row multiply, and the author of
/// the path is not trusted.
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

    /// The values that the path selects; `None` when it cannot be applied.
    pub(super) fn find<'a>(&self, object: &'a Value, visits: &mut Visits) -> Option<Vec<&'a Value>> {
        // A path without steps takes its time too.
        visits.spend(1).ok()?;
        walk(&self.0, vec![object], visits).ok()
    }
}

fn walk<'a>(
    steps: &[PathStep],
    mut values: Vec<&'a Value>,
    visits: &mut Visits,
) -> Result<Vec<&'a Value>, Inapplicable> {
    for step in steps {
        values = apply(step, values, visits)?;
    }
    Ok(values)
}

fn apply<'a>(step: &PathStep, values: Vec<&'a Value>, visits: &mut Visits) -> Result<Vec<&'a Value>, Inapplicable> {
    visits.spend(values.len())?;
    let mut found = Vec::new();
    match step {
        PathStep::Field(name) => found.extend(values.into_iter().filter_map(|value| value.get(name))),
        PathStep::Everything => {
            for value in values {
                let inside = children(value);
                visits.spend(inside.len())?;
                found.extend(inside);
            }
        }
        PathStep::Descent => {
            for value in values {
                descend(value, &mut found, visits)?;
            }
        }
        PathStep::Union(parts) => {
            for part in parts {
                found.extend(walk(part, values.clone(), visits)?);
            }
        }
        PathStep::Elements(elements) => {
            for value in values.into_iter().filter(|value| !value.is_null()) {
                let list = value.as_array().ok_or(Inapplicable)?;
                visits.spend(list.len())?;
                found.extend(elements.of(list)?);
            }
        }
        PathStep::Filter { left, comparison } => {
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

/// Collects the value and all values in it that are not empty, from the outside to the inside. JSON that was read is
/// never nested deep.
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
    left: &[PathStep],
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
            // compat: an API server compares whole numbers with whole ones alone, and broken ones with broken ones.
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
