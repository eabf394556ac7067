//! Removes secrets from a bundle, because it is sent to others. Pure.
//!
//! Secrets of Kubernetes are never read. Apart from them, passwords occur in configurations, in commands of hooks, in
//! the environment of containers, and in URLs. docs/cli.md lists what is removed.

use serde_json::{Map, Value};

/// Placeholder for text that was removed.
const REMOVED: &str = "<removed>";

/// Words of keys and variables whose values are secret; letters and digits only, in lower case.
const SECRET_WORDS: [&str; 11] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "accesskey",
    "apikey",
    "privatekey",
    "signingkey",
    "encryptionkey",
];
/// Keys with such words whose values are only the place of a secret, or the way in which it is used.
const NAMES_OF_PLACES: [&str; 8] = [
    "credentialsFile",
    "serviceAccountToken",
    "secretName",
    "secretRef",
    "secretKeyRef",
    "imagePullSecrets",
    "automountServiceAccountToken",
    "customerKeyEncryptionSecret",
];
/// Texts in a line that precede a secret.
const BEFORE_SECRETS: [&str; 17] = [
    "X-Amz-Signature=",
    "X-Amz-Credential=",
    "X-Amz-Security-Token=",
    "X-Goog-Signature=",
    "X-Goog-Credential=",
    "Signature=",
    "sig=",
    "sign=",
    "Bearer ",
    "password=",
    "password: ",
    "passwd=",
    "passphrase=",
    "secret=",
    "token=",
    "apikey=",
    "accesskey=",
];

/// The object without secrets, and without what only servers need.
pub(super) fn clean(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
            for (key, value) in annotations {
                // The commands of hooks.
                if key.ends_with("hook.backup.velero.io/command") || key.ends_with("hook.restore.velero.io/command") {
                    hide(value);
                }
            }
        }
    }
    walk(&mut object, "");
    object
}

/// A line without what looks secret: signatures and user information of URLs, tokens, passwords behind their name.
pub(super) fn clean_line(line: &str) -> String {
    let mut line = line.to_owned();
    for word in BEFORE_SECRETS {
        let mut from = 0;
        while let Some(at) = find(&line[from..], word) {
            let begin = from + at + word.len();
            let length = value_length(&line[begin..]);
            line.replace_range(begin..begin + length, REMOVED);
            from = begin + REMOVED.len();
        }
    }
    without_words_of_commands(&without_user_information(&line))
}

/// Before the command of a hook: in logs as text and as JSON, and in descriptions.
const BEFORE_COMMANDS: [&str; 3] = ["command=\"", "\"command\":\"", "Command: "];

/// A line in which of the command of a hook stays which program it runs.
fn without_words_of_commands(line: &str) -> String {
    for word in BEFORE_COMMANDS {
        let Some(at) = find(line, word) else { continue };
        let (before, rest) = line.split_at(at + word.len());
        let end = if word.ends_with('"') { rest.find('"') } else { rest.find('\n') }.unwrap_or(rest.len());
        let (command, after) = rest.split_at(end);
        let blanks = command.len() - command.trim_start().len();
        if let Some(first) = command[blanks..].find(' ') {
            return format!("{before}{}{REMOVED}{after}", &command[..=blanks + first]);
        }
    }
    line.to_owned()
}

/// Returns the position of a word, ignoring case.
fn find(text: &str, word: &str) -> Option<usize> {
    let (text, word) = (text.as_bytes(), word.as_bytes());
    text.windows(word.len()).position(|window| window.eq_ignore_ascii_case(word))
}

/// The bytes of a value, up to what ends one in a URL, in JSON or in a log.
fn value_length(text: &str) -> usize {
    let quoted = text.strip_prefix(['"', '\'']);
    let ends: &[char] = &['&', '"', '\'', '\\', ' ', ',', ')', '}', '\n'];
    match quoted {
        Some(inner) => 1 + inner.find(ends).unwrap_or(inner.len()),
        None => text.find(ends).unwrap_or(text.len()),
    }
}

/// A line in which no URL names a user.
fn without_user_information(line: &str) -> String {
    let (mut out, mut rest) = (String::new(), line);
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after.find(['/', ' ', '"', '\'', '\n', '?']).unwrap_or(after.len());
        rest = match after[..end].rfind('@') {
            Some(user) => {
                out.push_str(REMOVED);
                &after[user..]
            }
            None => after,
        };
    }
    out + rest
}

fn walk(value: &mut Value, key: &str) {
    match value {
        Value::Object(map) => {
            if is_literal(map) {
                map.insert("value".to_owned(), REMOVED.into());
            }
            for (key, value) in map {
                walk(value, key);
            }
        }
        // The commands of hooks and of containers: which program is run is kept.
        Value::Array(words) if matches!(key, "command" | "args") => {
            for word in words.iter_mut().skip(usize::from(key == "command")) {
                if !word.as_str().is_some_and(is_plain_flag) {
                    hide(word);
                }
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| walk(element, key)),
        Value::String(text) if names_a_secret(key) => REMOVED.clone_into(text),
        Value::String(text) => {
            let clean = clean_line(text);
            if clean != *text {
                *text = clean;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns true if this is a variable of an environment that holds its value itself and whose name says that it is
/// secret.
fn is_literal(map: &Map<String, Value>) -> bool {
    let name = map.get("name").and_then(Value::as_str);
    map.get("value").is_some_and(Value::is_string) && name.is_some_and(names_a_secret)
}

fn names_a_secret(key: &str) -> bool {
    let plain: String = key.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    !NAMES_OF_PLACES.contains(&key) && SECRET_WORDS.iter().any(|word| plain.contains(word))
}

/// Returns true if a word of a command is a flag without a secret: those of our own server and the like.
fn is_plain_flag(word: &str) -> bool {
    let Some(flag) = word.strip_prefix("--") else { return !word.starts_with('-') && is_bare(word) };
    let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
    !names_a_secret(name) && clean_line(value) == value
}

/// Returns true if a word is only a name, such as `server`.
fn is_bare(word: &str) -> bool {
    matches!(word, "server" | "node-agent" | "/velero" | "/lifeboat" | "sh" | "bash" | "/bin/sh" | "/bin/bash")
}

fn hide(value: &mut Value) {
    *value = REMOVED.into();
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_names_a_secret_is_taken_out_of_objects_and_the_rest_stays() {
        let object = json!({
            "kind": "BackupStorageLocation",
            "metadata": {
                "name": "a", "managedFields": [1],
                "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "x",
                    "pre.hook.backup.velero.io/command": "[\"psql\", \"-pgeheim\"]"
                }
            },
            "spec": {
                "config": {"region": "r", "secretAccessKey": "k", "s3Url": "http://s", "credentialsFile": "/c", "apiKey": "a"},
                "credential": {"name": "cloud", "key": "cloud"},
                "hooks": {"resources": [{"pre": [{"exec": {"command": ["psql", "-p", "geheim"], "timeout": "3s"}}]}]}
            },
            "status": {"downloadURL": "https://b/k?X-Amz-Credential=me&X-Amz-Signature=abc&x=1"}
        });
        assert_eq!(
            clean(object),
            json!({
                "kind": "BackupStorageLocation",
                "metadata": {
                    "name": "a", "annotations": {"note": "x", "pre.hook.backup.velero.io/command": "<removed>"}
                },
                "spec": {
                    "config": {"region": "r", "secretAccessKey": "<removed>", "s3Url": "http://s", "credentialsFile": "/c", "apiKey": "<removed>"},
                    "credential": {"name": "cloud", "key": "cloud"},
                    "hooks": {"resources": [{"pre": [{"exec": {"command": ["psql", "<removed>", "<removed>"], "timeout": "3s"}}]}]}
                },
                "status": {"downloadURL": "https://b/k?X-Amz-Credential=<removed>&X-Amz-Signature=<removed>&x=1"}
            })
        );
    }

    #[test]
    fn of_a_container_stay_the_flags_and_the_places_of_secrets() {
        let container = json!({"spec": {"containers": [{
            "command": ["/velero"], "args": ["server", "--features=EnableCSI", "--token=t", "--url=https://me:pw@host", "-pgeheim"],
            "env": [
                {"name": "DB_PASSWORD", "value": "p"}, {"name": "LANG", "value": "C"},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
            ]
        }]}});
        assert_eq!(
            clean(container),
            json!({"spec": {"containers": [{
                "command": ["/velero"], "args": ["server", "--features=EnableCSI", "<removed>", "<removed>", "<removed>"],
                "env": [
                    {"name": "DB_PASSWORD", "value": "<removed>"}, {"name": "LANG", "value": "C"},
                    {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
                ]
            }]}})
        );
    }

    #[test]
    fn what_looks_secret_is_taken_out_of_lines() {
        for (line, expected) in [
            ("level=info msg=\"plain\"", "level=info msg=\"plain\""),
            ("Authorization: Bearer abc.def, next", "Authorization: Bearer <removed>, next"),
            ("GET \"https://b/k?sig=a%2Fb&sv=1\"", "GET \"https://b/k?sig=<removed>&sv=1\""),
            ("X-Amz-Signature=a X-Amz-Signature=b", "X-Amz-Signature=<removed> X-Amz-Signature=<removed>"),
            ("ends with sig=", "ends with sig=<removed>"),
            ("PASSWORD=geheim user=me", "PASSWORD=<removed> user=me"),
            ("token=\"a b\" c", "token=<removed> b\" c"),
            ("from http://me:pw@host:1/x, then s3://b/k@1", "from http://<removed>@host:1/x, then s3://b/k@1"),
            ("é password=ü end", "é password=<removed> end"),
            ("command=\"psql -pgeheim\" name=h", "command=\"psql <removed>\" name=h"),
            ("{\"command\":\"psql -pgeheim\"}", "{\"command\":\"psql <removed>\"}"),
            ("    Command:    psql -pgeheim\n", "    Command:    psql <removed>\n"),
            ("    Command:    sync\n", "    Command:    sync\n"),
        ] {
            assert_eq!(clean_line(line), expected, "{line}");
        }
    }

    #[test]
    fn the_page_lists_the_words_of_keys_that_are_removed() {
        let page = include_str!("../../../docs/cli.md");
        for word in SECRET_WORDS {
            assert!(page.contains(&format!("`{word}`")), "{word}");
            assert!(names_a_secret(&word.to_uppercase()), "{word}");
        }
        for word in BEFORE_SECRETS {
            assert!(page.contains(word.trim()), "{word}");
        }
    }
}
