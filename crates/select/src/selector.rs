//! Label selectors: kubectl's syntax, the API's structure, matching.

use lifeboat_api::{LabelSelector, LabelSelectorRequirement};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A selector or pattern that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The text is not in kubectl's syntax.
    #[error("unable to parse requirement: {0}")]
    Syntax(String),
    /// A requirement of the structured form is not valid.
    #[error("{0}")]
    Requirement(String),
    /// Two filters of a policy name one type.
    #[error("ambiguous policy: duplicate kind {0:?} detected")]
    Ambiguous(String),
    /// A namespace pattern is not valid (velero: pkg/util/wildcard).
    #[error("error expanding wildcard patterns in namespace includes/excludes: {0}")]
    Wildcard(String),
}

/// A compiled selector. Two that say the same in another order are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Sorted, without repetitions.
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Requirement {
    key: String,
    operator: Operator,
    values: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    /// An operator on whole numbers; only in kubectl's syntax.
    Above,
    Below,
}

/// Parses kubectl's syntax (`a=b,c!=d,e in (x,y),f,!g`) into the API's structure.
///
/// # Errors
/// [`SelectorError::Syntax`]. `<` and `>` are kubectl's too, but the structure cannot hold them.
pub fn parse_selector(text: &str) -> Result<LabelSelector, SelectorError> {
    let mut requirements = Parser { tokens: tokens(text), at: 0, takes_bounds: false }.selector()?;
    requirements.sort();
    let mut selector = LabelSelector::default();
    for Requirement { key, operator, values } in requirements {
        // The map holds one value for a key. Further ones must not replace it: `a=1,a=2` matches nothing.
        if let (Operator::In, 1, Some(value), false) =
            (operator, values.len(), values.first(), selector.match_labels.contains_key(&key))
        {
            selector.match_labels.insert(key, value.clone());
        } else {
            selector.match_expressions.push(LabelSelectorRequirement {
                key,
                operator: operator.name().to_owned(),
                values: values.into_iter().collect(),
                ..LabelSelectorRequirement::default()
            });
        }
    }
    Ok(selector)
}

impl Selector {
    /// Compiles and validates the API's structure.
    ///
    /// # Errors
    /// [`SelectorError::Requirement`].
    pub fn compile(selector: &LabelSelector) -> Result<Self, SelectorError> {
        let labels = selector
            .match_labels
            .iter()
            .map(|(key, value)| Requirement::new(key.clone(), Operator::In, BTreeSet::from([value.clone()])));
        let expressions = selector.match_expressions.iter().map(|r| {
            let operator = match r.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(format!("{other:?} is not a valid label selector operator")),
            };
            Requirement::new(r.key.clone(), operator, r.values.iter().cloned().collect())
        });
        let requirements: Result<BTreeSet<Requirement>, String> = labels.chain(expressions).collect();
        let requirements = requirements.map_err(SelectorError::Requirement)?;
        Ok(Self { requirements: requirements.into_iter().collect() })
    }

    /// Parses kubectl's syntax with `<` and `>`: the syntax of the API server's `labelSelector`.
    ///
    /// # Errors
    /// [`SelectorError::Syntax`].
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let requirements = Parser { tokens: tokens(text), at: 0, takes_bounds: true }.selector()?;
        let sorted = BTreeSet::from_iter(requirements);
        Ok(Self { requirements: sorted.into_iter().collect() })
    }

    /// Returns true if there are no requirements.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns true if no labels can match, because a label has to be there and must not.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        let has = |key: &str, operator| self.requirements.iter().any(|r| r.key == key && r.operator == operator);
        self.requirements.iter().any(|r| r.operator == Operator::Exists && has(&r.key, Operator::DoesNotExist))
    }

    /// Returns true if labels match; a selector without requirements matches everything.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|r| {
            let value = labels.get(&r.key);
            match r.operator {
                Operator::In => value.is_some_and(|v| r.values.contains(v)),
                Operator::NotIn => value.is_none_or(|v| !r.values.contains(v)),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
                Operator::Above => r.bound().zip(number(value)).is_some_and(|(bound, value)| value > bound),
                Operator::Below => r.bound().zip(number(value)).is_some_and(|(bound, value)| value < bound),
            }
        })
    }

    /// The selector as the API server takes it in `labelSelector`, not yet escaped for a URL; empty when it matches
    /// everything. Equal selectors give equal texts.
    #[must_use]
    pub fn to_query(&self) -> String {
        let mut text = String::new();
        for Requirement { key, operator, values } in &self.requirements {
            if !text.is_empty() {
                text.push(',');
            }
            let list = values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
            // Writing to a string cannot fail.
            let _ = match (operator, values.len()) {
                (Operator::In, 1) => write!(text, "{key}={list}"),
                (Operator::In, _) => write!(text, "{key} in ({list})"),
                (Operator::NotIn, 1) => write!(text, "{key}!={list}"),
                (Operator::NotIn, _) => write!(text, "{key} notin ({list})"),
                (Operator::Exists, _) => write!(text, "{key}"),
                (Operator::DoesNotExist, _) => write!(text, "!{key}"),
                (Operator::Above, _) => write!(text, "{key}>{list}"),
                (Operator::Below, _) => write!(text, "{key}<{list}"),
            };
        }
        text
    }
}

impl Operator {
    fn name(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Above => ">",
            Self::Below => "<",
        }
    }
}

impl Requirement {
    fn new(key: String, operator: Operator, values: BTreeSet<String>) -> Result<Self, String> {
        check_key(&key)?;
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                return Err(format!("the requirement on {key:?} is {} without values", operator.name()));
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                return Err(format!("the requirement on {key:?} is {} and takes no values", operator.name()));
            }
            _ => {}
        }
        values.iter().try_for_each(|value| check_value(&key, value))?;
        let requirement = Self { key, operator, values };
        if matches!(operator, Operator::Above | Operator::Below) && requirement.bound().is_none() {
            return Err(format!(
                "the requirement on {:?} is {} without a whole number",
                requirement.key,
                operator.name()
            ));
        }
        Ok(requirement)
    }

    fn bound(&self) -> Option<i64> {
        number(self.values.first())
    }
}

fn number(text: Option<&String>) -> Option<i64> {
    text?.parse().ok()
}

/// The label keys Kubernetes accepts: an optional DNS name and a slash, then a name.
fn check_key(key: &str) -> Result<(), String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let refuse = |why: &str| Err(format!("{key:?} is not a valid label key: {why}"));
    if prefix.is_some_and(|p| !is_dns_subdomain(p)) {
        return refuse("what stands before the slash must be a DNS subdomain of at most 253 characters");
    }
    if name.is_empty() || !is_label_name(name) {
        return refuse(
            "a name has 1 to 63 alphanumeric characters, '-', '_' or '.' and begins and ends with an alphanumeric one",
        );
    }
    Ok(())
}

fn check_value(key: &str, value: &str) -> Result<(), String> {
    if value.is_empty() || is_label_name(value) {
        return Ok(());
    }
    Err(format!(
        "{value:?} is not a valid value of the label {key:?}: it must be empty or have at most 63 alphanumeric \
         characters, '-', '_' or '.' and begin and end with an alphanumeric one"
    ))
}

fn is_label_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_word)
}

/// Returns true for a text that is made like a DNS label, whatever its length.
pub(crate) fn is_dns_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    bytes.first().is_some_and(plain) && bytes.last().is_some_and(plain) && bytes.iter().all(|b| plain(b) || *b == b'-')
}

fn tokens(text: &str) -> Vec<&str> {
    const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];
    const SYMBOLS: [char; 7] = ['=', '!', '(', ')', ',', '<', '>'];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(SPACE);
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("==") || rest.starts_with("!=") {
            2
        } else if SYMBOLS.contains(&first) {
            1
        } else {
            rest.find(|c| SPACE.contains(&c) || SYMBOLS.contains(&c)).unwrap_or(rest.len())
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start_matches(SPACE);
    }
    tokens
}

/// Reads the tokens of a selector. `in` and `notin` are operators only where an operator can stand.
struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
    /// True when `<` and `>` are operators.
    takes_bounds: bool,
}

impl<'a> Parser<'a> {
    /// The next token; empty at the end.
    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).copied().unwrap_or("")
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn word(&mut self) -> Result<&'a str, String> {
        match self.next() {
            token if is_symbol(token) || token.is_empty() => Err(found(token, "identifier")),
            word => Ok(word),
        }
    }

    fn selector(mut self) -> Result<Vec<Requirement>, SelectorError> {
        self.requirements().map_err(SelectorError::Syntax)
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        if self.peek().is_empty() {
            return Ok(requirements);
        }
        loop {
            requirements.push(self.requirement()?);
            match self.next() {
                "" => return Ok(requirements),
                "," => {}
                other => return Err(found(other, "',' or end of string")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        if self.peek() == "!" {
            self.at += 1;
            return Requirement::new(self.word()?.to_owned(), Operator::DoesNotExist, BTreeSet::new());
        }
        let key = self.word()?.to_owned();
        if matches!(self.peek(), "" | ",") {
            return Requirement::new(key, Operator::Exists, BTreeSet::new());
        }
        let (operator, values) = match self.next() {
            "=" | "==" => (Operator::In, self.exact_value()?),
            "!=" => (Operator::NotIn, self.exact_value()?),
            "in" => (Operator::In, self.values()?),
            "notin" => (Operator::NotIn, self.values()?),
            ">" if self.takes_bounds => (Operator::Above, self.exact_value()?),
            "<" if self.takes_bounds => (Operator::Below, self.exact_value()?),
            symbol @ ("<" | ">") => return Err(format!("operator {symbol:?} is not supported in label selectors")),
            other => return Err(found(other, "in, notin, =, ==, !=")),
        };
        Requirement::new(key, operator, values)
    }

    fn exact_value(&mut self) -> Result<BTreeSet<String>, String> {
        let value = if matches!(self.peek(), "" | ",") { "" } else { self.word()? };
        Ok(BTreeSet::from([value.to_owned()]))
    }

    /// `(a,b)`; a place without a word is the empty value.
    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        match self.next() {
            "(" => {}
            other => return Err(found(other, "'('")),
        }
        let mut values = BTreeSet::new();
        loop {
            let value = if matches!(self.peek(), "," | ")") { "" } else { self.word()? };
            values.insert(value.to_owned());
            match self.next() {
                "," => {}
                ")" => return Ok(values),
                other => return Err(found(other, "',' or ')'")),
            }
        }
    }
}

fn is_symbol(token: &str) -> bool {
    matches!(token, "=" | "==" | "!=" | "!" | "(" | ")" | "," | "<" | ">")
}

fn found(token: &str, expected: &str) -> String {
    format!("found '{token}', expected: {expected}")
}

/// Returns true if at least one of several selectors matches, and if there are none.
#[must_use]
pub fn matches_any(selectors: &[Selector], labels: &BTreeMap<String, String>) -> bool {
    selectors.is_empty() || selectors.iter().any(|selector| selector.matches(labels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_map, btree_set, vec};
    use proptest::prelude::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> LabelSelectorRequirement {
        LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(|v| (*v).to_owned()).collect(),
            ..LabelSelectorRequirement::default()
        }
    }

    fn selector(pairs: &[(&str, &str)], match_expressions: &[LabelSelectorRequirement]) -> LabelSelector {
        LabelSelector {
            match_labels: labels(pairs),
            match_expressions: match_expressions.to_vec(),
            ..LabelSelector::default()
        }
    }

    #[test]
    fn parses_kubectl_syntax() {
        for (text, expected, query) in [
            ("", selector(&[], &[]), ""),
            (" \t\n", selector(&[], &[]), ""),
            ("tier=gold", selector(&[("tier", "gold")], &[]), "tier=gold"),
            (" b == 2 , a = 1 ", selector(&[("a", "1"), ("b", "2")], &[]), "a=1,b=2"),
            ("a=", selector(&[("a", "")], &[]), "a="),
            ("a=,b", selector(&[("a", "")], &[expression("b", "Exists", &[])]), "a=,b"),
            ("a=1,a=2", selector(&[("a", "1")], &[expression("a", "In", &["2"])]), "a=1,a=2"),
            ("a=1,a=1", selector(&[("a", "1")], &[expression("a", "In", &["1"])]), "a=1"),
            ("a!=1", selector(&[], &[expression("a", "NotIn", &["1"])]), "a!=1"),
            ("a!=", selector(&[], &[expression("a", "NotIn", &[""])]), "a!="),
            ("!g,f", selector(&[], &[expression("f", "Exists", &[]), expression("g", "DoesNotExist", &[])]), "f,!g"),
            ("e in (y, x,y)", selector(&[], &[expression("e", "In", &["x", "y"])]), "e in (x,y)"),
            ("e in (x)", selector(&[("e", "x")], &[]), "e=x"),
            ("e notin(x,)", selector(&[], &[expression("e", "NotIn", &["", "x"])]), "e notin (,x)"),
            ("e in ()", selector(&[("e", "")], &[]), "e="),
            ("e in (,)", selector(&[("e", "")], &[]), "e="),
            (
                "in in (in,notin),notin=in",
                selector(&[("notin", "in")], &[expression("in", "In", &["in", "notin"])]),
                "in in (in,notin),notin=in",
            ),
            (
                "app.kubernetes.io/name=a_b.C-1",
                selector(&[("app.kubernetes.io/name", "a_b.C-1")], &[]),
                "app.kubernetes.io/name=a_b.C-1",
            ),
        ] {
            let parsed = parse_selector(text).unwrap();
            assert_eq!(parsed, expected, "{text}");
            assert_eq!(Selector::compile(&parsed).unwrap().to_query(), query, "{text}");
        }
    }

    #[test]
    fn refuses_what_kubectl_refuses() {
        let name =
            "a name has 1 to 63 alphanumeric characters, '-', '_' or '.' and begins and ends with an alphanumeric one";
        for (text, expected) in [
            ("a,", "found '', expected: identifier".to_owned()),
            (",a", "found ',', expected: identifier".to_owned()),
            ("a b", "found 'b', expected: in, notin, =, ==, !=".to_owned()),
            ("a=b c", "found 'c', expected: ',' or end of string".to_owned()),
            ("!a=b", "found '=', expected: ',' or end of string".to_owned()),
            ("!", "found '', expected: identifier".to_owned()),
            ("!!a", "found '!', expected: identifier".to_owned()),
            ("=a", "found '=', expected: identifier".to_owned()),
            ("a===b", "found '=', expected: identifier".to_owned()),
            ("a in b", "found 'b', expected: '('".to_owned()),
            ("a in (b", "found '', expected: ',' or ')'".to_owned()),
            ("a in (b c)", "found 'c', expected: ',' or ')'".to_owned()),
            ("a>1", "operator \">\" is not supported in label selectors".to_owned()),
            ("a<1", "operator \"<\" is not supported in label selectors".to_owned()),
            ("-a", format!("\"-a\" is not a valid label key: {name}")),
            ("a/", format!("\"a/\" is not a valid label key: {name}")),
            ("a/b/c", format!("\"a/b/c\" is not a valid label key: {name}")),
            ("A.b/c", "\"A.b/c\" is not a valid label key: what stands before the slash must be a DNS subdomain of at most 253 characters".to_owned()),
            ("a=é", "\"é\" is not a valid value of the label \"a\": it must be empty or have at most 63 alphanumeric characters, '-', '_' or '.' and begin and end with an alphanumeric one".to_owned()),
        ] {
            assert_eq!(parse_selector(text), Err(SelectorError::Syntax(expected)), "{text}");
        }
        assert!(parse_selector(&format!("a={}", "v".repeat(63))).is_ok());
        assert!(parse_selector(&format!("a={}", "v".repeat(64))).is_err());
        assert!(parse_selector(&format!("{}/a=b", "v".repeat(253))).is_ok());
        assert!(parse_selector(&format!("{}/a=b", "v".repeat(254))).is_err());
    }

    #[test]
    fn refuses_invalid_structures() {
        for (requirement, expected) in [
            (expression("a", "In", &[]), "the requirement on \"a\" is In without values"),
            (expression("a", "NotIn", &[]), "the requirement on \"a\" is NotIn without values"),
            (expression("a", "Exists", &["b"]), "the requirement on \"a\" is Exists and takes no values"),
            (expression("a", "DoesNotExist", &["b"]), "the requirement on \"a\" is DoesNotExist and takes no values"),
            (expression("a", "in", &["b"]), "\"in\" is not a valid label selector operator"),
        ] {
            assert_eq!(
                Selector::compile(&selector(&[], &[requirement])),
                Err(SelectorError::Requirement(expected.to_owned()))
            );
        }
        assert!(Selector::compile(&selector(&[("a b", "c")], &[])).is_err());
    }

    #[test]
    fn matches_as_kubernetes_does() {
        let gold = labels(&[("tier", "gold"), ("empty", "")]);
        for (text, expected) in [
            ("", true),
            ("tier=gold", true),
            ("tier=silver", false),
            ("tier", true),
            ("!tier", false),
            ("missing", false),
            ("!missing", true),
            ("tier!=gold", false),
            ("missing!=gold", true),
            ("tier in (gold,silver)", true),
            ("missing in (,gold)", false),
            ("tier notin (silver)", true),
            ("empty=", true),
            ("missing=", false),
            ("tier=gold,missing", false),
            ("tier=gold,tier=silver", false),
        ] {
            let compiled = Selector::compile(&parse_selector(text).unwrap()).unwrap();
            assert_eq!(compiled.matches(&gold), expected, "{text}");
        }
    }

    #[test]
    fn a_label_that_has_to_be_there_and_must_not_lets_nothing_in() {
        for (text, expected) in [("a,!a", true), ("b,a,!a", true), ("", false), ("a,!b", false), ("a=1,a=2", false)] {
            assert_eq!(Selector::parse(text).unwrap().is_nothing(), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_compared_as_the_api_server_does() {
        let labels = labels(&[("n", "5"), ("tier", "gold")]);
        for (text, expected) in [
            ("n>4", true),
            ("n > 5", false),
            ("n<6,n>4", true),
            ("n<5", false),
            ("tier>1", false),
            ("missing<1", false),
            ("tier=gold,n<6", true),
        ] {
            let selector = Selector::parse(text).unwrap();
            assert_eq!(selector.matches(&labels), expected, "{text}");
            assert_eq!(Selector::parse(&selector.to_query()), Ok(selector), "{text}");
        }
        for (text, expected) in [
            ("n>x", "the requirement on \"n\" is > without a whole number"),
            ("n<", "the requirement on \"n\" is < without a whole number"),
            ("n><", "found '<', expected: identifier"),
            ("n>1 2", "found '2', expected: ',' or end of string"),
        ] {
            assert_eq!(Selector::parse(text), Err(SelectorError::Syntax(expected.to_owned())), "{text}");
        }
        assert_eq!(Selector::parse(" a=1,b "), Selector::compile(&parse_selector("b,a=1").unwrap()));
        assert!(Selector::parse(" ").unwrap().is_everything());
    }

    fn any_requirement() -> impl Strategy<Value = LabelSelectorRequirement> {
        let value = "([a-z]([a-zA-Z0-9._-]{0,3}[a-z0-9])?)?|in|notin";
        (any_key(), btree_set(value, 1..4), 0..4usize).prop_map(|(key, values, operator)| LabelSelectorRequirement {
            key,
            operator: ["In", "NotIn", "Exists", "DoesNotExist"][operator].to_owned(),
            values: if operator < 2 { values.into_iter().collect() } else { Vec::new() },
            ..LabelSelectorRequirement::default()
        })
    }

    fn any_key() -> impl Strategy<Value = String> {
        "(a(\\.b-c)?/)?([a-zA-Z]([a-z._-]{0,3}[a-z0-9])?|in|notin)"
    }

    proptest! {
        #[test]
        fn queries_round_trip(
            match_labels in btree_map(any_key(), "([a-z]{1,3})?", 0..3),
            match_expressions in vec(any_requirement(), 0..4),
        ) {
            let compiled = Selector::compile(&LabelSelector { match_labels, match_expressions, ..LabelSelector::default() }).unwrap();
            let query = compiled.to_query();
            let parsed = parse_selector(&query).unwrap();
            prop_assert_eq!(&Selector::compile(&parsed).unwrap(), &compiled);
            prop_assert_eq!(Selector::compile(&parsed).unwrap().to_query(), query);
        }

        #[test]
        fn never_panics(text in "\\PC{0,20}", selector_like in "[a-c=!,<>() é/.]{0,16}|a (not)?in \\([a,b() ]{0,6}\\)?") {
            for text in [text, selector_like] {
                let _ = Selector::parse(&text).map(|selector| selector.matches(&BTreeMap::new()));
                if let Ok(parsed) = parse_selector(&text) {
                    prop_assert!(Selector::compile(&parsed).is_ok(), "{:?} parses but does not compile", text);
                }
            }
        }
    }
}
