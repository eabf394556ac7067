//! Flag values with Velero's syntax (velero: pkg/cmd/util/flag).

pub mod confirm;
pub mod dry_run;
pub mod globals;
pub mod hooks;
pub mod object_name;
pub mod object_namespace;
pub mod object_type;
pub mod pflag;
pub mod spec;

use clap::builder::{PathBufValueParser, PossibleValue, TypedValueParser, ValueParserFactory};
use clap::{Arg, Command};
use lifeboat_api::{BackupType, Duration, ExistingResourcePolicyOverride, LabelSelector, VolumeGroupFallback};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Deref;
use std::path::PathBuf;

/// A value that an empty text takes back: scripts write `--flag "$VALUE"`, and mean none when there is no such variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Optional<T>(pub Option<T>);

impl<T> Default for Optional<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Deref for Optional<T> {
    type Target = Option<T>;

    fn deref(&self) -> &Option<T> {
        &self.0
    }
}

/// Parses a value, or nothing from an empty text.
#[derive(Clone)]
pub struct OptionalParser<P>(P);

/// This parser, which also takes an empty text. The flag needs `default_value = ""`.
pub fn optional<P: TypedValueParser>(parser: P) -> OptionalParser<P> {
    OptionalParser(parser)
}

impl<P: TypedValueParser> TypedValueParser for OptionalParser<P> {
    type Value = Optional<P::Value>;

    fn parse_ref(&self, cmd: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Self::Value, clap::Error> {
        let parsed = (!value.is_empty()).then(|| self.0.parse_ref(cmd, arg, value));
        parsed.transpose().map(Optional)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}

impl ValueParserFactory for Optional<bool> {
    type Parser = OptionalParser<fn(&str) -> Result<bool, String>>;

    fn value_parser() -> Self::Parser {
        optional(boolean)
    }
}

impl ValueParserFactory for Optional<PathBuf> {
    type Parser = OptionalParser<PathBufValueParser>;

    fn value_parser() -> Self::Parser {
        optional(PathBufValueParser::new())
    }
}

/// A truth value in one of Go's spellings.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("it is neither true nor false".to_owned()),
    }
}

/// A truth value that must be given: the flag takes the next word, whatever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequiredBool(pub bool);

/// Parses a truth value that has to be there.
///
/// # Errors
/// When it is none.
pub fn stated(text: &str) -> Result<RequiredBool, String> {
    boolean(text).map(RequiredBool)
}

/// Comma-separated values; the last occurrence of a flag wins, as in Velero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List(pub Vec<String>);

/// Parses a list, separated by commas.
///
/// # Errors
/// None: any text is a list.
pub fn list(text: &str) -> Result<List, String> {
    Ok(List(text.split(',').filter(|p| !p.is_empty()).map(str::to_owned).collect()))
}

/// Values of a flag of which all occurrences count, each a CSV line.
pub fn strings(text: &str) -> Result<List, String> {
    Ok(List(records(text)?.into_iter().filter(|record| !record.is_empty()).collect()))
}

/// Joins the values of all occurrences of a flag, in their order.
pub fn joined(given: &[List]) -> Vec<String> {
    given.iter().flat_map(|list| list.0.iter().cloned()).collect()
}

/// `key=value,…`; see [`merged`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyValuePairs(pub BTreeMap<String, String>);

/// Parses pairs `KEY=VALUE`, separated by commas.
///
/// # Errors
/// When one is no pair.
pub fn pairs(text: &str) -> Result<KeyValuePairs, String> {
    split_pairs(text, '=')
}

/// Parses pairs `KEY:VALUE`, separated by commas.
///
/// # Errors
/// When one is no pair.
pub fn mappings(text: &str) -> Result<KeyValuePairs, String> {
    split_pairs(text, ':')
}

/// The pairs of all occurrences of a flag; of those with the same key the last counts.
pub fn merged(given: &[KeyValuePairs]) -> BTreeMap<String, String> {
    given.iter().flat_map(|pairs| pairs.0.clone()).collect()
}

fn split_pairs(text: &str, delimiter: char) -> Result<KeyValuePairs, String> {
    let mut out = BTreeMap::new();
    for record in records(text)? {
        let (key, value) =
            record.split_once(delimiter).ok_or_else(|| format!("{record:?} is not of the form key{delimiter}value"))?;
        out.insert(key.to_owned(), value.to_owned());
    }
    Ok(KeyValuePairs(out))
}

/// Parses a CSV line: records may be quoted, then commas and doubled quotes stand inside them.
fn records(text: &str) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut record = String::new();
            let mut chars = quoted.char_indices().peekable();
            let end = loop {
                match chars.next() {
                    None => return Err(format!("a quote is not closed in {text:?}")),
                    Some((_, '"')) if chars.peek().is_some_and(|(_, c)| *c == '"') => {
                        chars.next();
                        record.push('"');
                    }
                    Some((at, '"')) => break at + 1,
                    Some((_, c)) => record.push(c),
                }
            };
            out.push(record);
            rest = &quoted[end..];
            rest = match rest.strip_prefix(',') {
                Some(next) => next,
                None if rest.is_empty() => rest,
                None => return Err(format!("expected a comma after a quoted record in {text:?}")),
            };
        } else {
            let (record, next) = rest.split_once(',').unwrap_or((rest, ""));
            out.push(record.to_owned());
            rest = next;
        }
    }
    Ok(out)
}

/// A path, also an empty one, which scripts write for none.
pub fn path(text: &str) -> Result<PathBuf, std::convert::Infallible> {
    Ok(PathBuf::from(text))
}

/// So many a second.
pub fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|e: std::num::ParseFloatError| e.to_string())?;
    if rate >= 0.0 { Ok(rate) } else { Err("it must not be negative".to_owned()) }
}

/// Parses a duration of Go, such as `1h30m`.
///
/// # Errors
/// When it is none.
pub fn duration(text: &str) -> Result<Duration, String> {
    text.parse().map_err(|e: lifeboat_api::ParseDurationError| e.to_string())
}

/// Parses a duration of more than zero.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        positive if positive > Duration::ZERO => Ok(positive),
        _ => Err("it must be more than 0".to_owned()),
    }
}

/// Any case, as in Velero.
pub(crate) fn backup_type(text: &str) -> Result<BackupType, String> {
    [BackupType::Full, BackupType::Incremental]
        .into_iter()
        .find(|word| format!("{word:?}").eq_ignore_ascii_case(text))
        .ok_or_else(|| format!("{text:?} is neither Full nor Incremental"))
}

/// Any case, as of the other words.
pub(crate) fn volume_group_fallback(text: &str) -> Result<VolumeGroupFallback, String> {
    let word = VolumeGroupFallback::Single;
    text.eq_ignore_ascii_case(word.as_str()).then_some(word).ok_or_else(|| format!("{text:?} is not {}", word.as_str()))
}

/// `kind=ns/name,ns/name;kind2=…`.
pub fn ordered_resources(text: &str) -> Result<KeyValuePairs, String> {
    let mut out = BTreeMap::new();
    for entry in text.split(';').filter(|e| !e.trim().is_empty()) {
        let (kind, names) = match entry.split('=').collect::<Vec<_>>()[..] {
            [kind, names] => (kind.trim(), names),
            _ => return Err(format!("{entry:?} is not of the form kind=namespace/name,…")),
        };
        let names: Vec<&str> = names.split(',').map(str::trim).filter(|n| !n.is_empty()).collect();
        if kind.is_empty() || names.is_empty() {
            return Err(format!("{entry:?} names no kind or no objects"));
        }
        out.insert(kind.to_owned(), names.join(","));
    }
    Ok(KeyValuePairs(out))
}

/// Parses a policy for existing objects of some types: `type,type=policy`.
pub(crate) fn policy_override(text: &str) -> Result<ExistingResourcePolicyOverride, String> {
    let Some((types, policy)) = text.split_once('=') else {
        return Err(format!("{text:?} is not of the form TYPE,…=POLICY, such as secrets=none"));
    };
    let included_resources = types.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
    if included_resources.iter().any(String::is_empty) {
        return Err(format!("{text:?} names no type, or an empty one"));
    }
    match policy.trim() {
        policy @ ("none" | "update" | "recreate") => Ok(ExistingResourcePolicyOverride {
            policy: policy.to_owned().into(),
            included_resources,
            ..ExistingResourcePolicyOverride::default()
        }),
        other => Err(format!("{other:?} is no policy: it must be none, update or recreate")),
    }
}

/// A label selector in kubectl's syntax.
pub fn selector(text: &str) -> Result<LabelSelector, String> {
    lifeboat_select::parse_selector(text).map_err(|e| e.to_string())
}

/// Selectors of which one must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrSelectors(pub Vec<LabelSelector>);

/// Selectors joined by ` or `.
pub fn or_selectors(text: &str) -> Result<OrSelectors, String> {
    text.split(" or ").map(selector).collect::<Result<_, _>>().map(OrSelectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> KeyValuePairs {
        KeyValuePairs(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn pairs_split_at_the_first_delimiter_and_may_be_quoted() {
        assert_eq!(pairs("k1=v1,\"k2=a=b,c=d\",k3=").unwrap(), map(&[("k1", "v1"), ("k2", "a=b,c=d"), ("k3", "")]));
        assert_eq!(pairs("\"a=say \"\"hi\"\"\"").unwrap(), map(&[("a", "say \"hi\"")]));
        assert_eq!(mappings("a:b,c:d").unwrap(), map(&[("a", "b"), ("c", "d")]));
        assert!(pairs("novalue").is_err() && pairs("\"a=b").is_err() && pairs("\"a=b\"c").is_err());
    }

    #[test]
    fn truth_has_gos_spellings() {
        for (texts, expected) in
            [(["1", "t", "T", "TRUE", "true", "True"], true), (["0", "f", "F", "FALSE", "false", "False"], false)]
        {
            for text in texts {
                assert_eq!(boolean(text), Ok(expected), "{text}");
            }
        }
        for wrong in ["", "yes", "tRUE", " true", "2"] {
            assert!(boolean(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_empty_text_is_no_value() {
        let command = Command::new("test");
        let parse = |text: &str| optional(backup_type).parse_ref(&command, None, OsStr::new(text)).ok();
        assert_eq!(parse(""), Some(Optional(None)));
        assert_eq!(parse("full"), Some(Optional(Some(BackupType::Full))));
        assert_eq!(parse("x"), None);
    }

    #[test]
    fn occurrences_of_maps_merge_and_of_strings_accumulate() {
        let maps = [pairs("a=1,b=2").unwrap(), pairs("").unwrap(), pairs("b=3,c=4").unwrap()];
        assert_eq!(merged(&maps), map(&[("a", "1"), ("b", "3"), ("c", "4")]).0);
        let lists = [strings("b,\"a,c\"").unwrap(), strings("").unwrap(), strings("b").unwrap()];
        assert_eq!(joined(&lists), ["b", "a,c", "b"]);
    }

    #[test]
    fn ordered_resources_name_kinds_and_objects() {
        assert_eq!(
            ordered_resources("pods=ns1/p1, ns1/p2;persistentvolumes=pv1,").unwrap(),
            map(&[("pods", "ns1/p1,ns1/p2"), ("persistentvolumes", "pv1")])
        );
        for wrong in ["pods", "=a", "pods=", "a=b=c"] {
            assert!(ordered_resources(wrong).is_err(), "{wrong}");
        }
    }
}
