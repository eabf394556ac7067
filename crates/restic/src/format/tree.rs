//! Trees: a directory each, with its entries in the order of their names.

use super::quoted::unquote;
use super::{FormatError, mode};
use crate::Id;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Deserialize;

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The bytes of its name.
    pub name: Vec<u8>,
    /// Its type, with what only that has.
    pub kind: NodeKind,
    /// Permissions with setuid, setgid and sticky, as POSIX has them.
    pub mode: u32,
    /// The modification time.
    pub modified: Timestamp,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The bytes of a file.
    pub size: u64,
    /// The identity of a file with more than one name: device and inode.
    pub hard_link: Option<(u64, u64)>,
    /// Extended attributes: names and values.
    pub extended_attributes: Vec<(String, Vec<u8>)>,
}

/// The type of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeKind {
    /// A file, with its pieces in their order.
    File(Vec<Id>),
    /// A directory, with its tree.
    Directory(Id),
    /// A symlink, with the bytes of its target.
    Symlink(Vec<u8>),
    /// A named pipe.
    Pipe,
    /// A socket, which nobody can restore: the program that listens makes it.
    Socket,
    /// A device of characters, with its number.
    CharacterDevice(u64),
    /// A device of blocks, with its number.
    BlockDevice(u64),
    /// Another type, in the repository's word, or one that lacks what it needs.
    Unknown(String),
}

#[derive(Deserialize)]
struct TreeJson {
    nodes: Option<Vec<NodeDocument>>,
}

#[derive(Deserialize)]
struct NodeDocument {
    name: String,
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    mode: u32,
    mtime: Option<String>,
    #[serde(default)]
    uid: u32,
    #[serde(default)]
    gid: u32,
    #[serde(default)]
    inode: u64,
    #[serde(default)]
    device_id: u64,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    links: u64,
    linktarget: Option<String>,
    linktarget_raw: Option<String>,
    extended_attributes: Option<Vec<Attribute>>,
    #[serde(default)]
    device: u64,
    content: Option<Vec<Id>>,
    subtree: Option<Id>,
}

#[derive(Deserialize)]
struct Attribute {
    name: String,
    value: Option<String>,
}

/// Reads the plain bytes of a tree.
///
/// # Errors
/// Other JSON, a name or attribute that is not in its form.
pub fn read(plain: &[u8]) -> Result<Vec<Node>, FormatError> {
    let document: TreeJson = serde_json::from_slice(plain)?;
    document.nodes.unwrap_or_default().into_iter().map(node).collect()
}

/// The time of a text. Restic writes the last one of the year 9999 for what lies beyond it.
fn time(text: &str) -> Timestamp {
    let beyond = if text.starts_with("9999-") { Timestamp::MAX } else { Timestamp::UNIX_EPOCH };
    text.parse().unwrap_or(beyond)
}

fn node(node: NodeDocument) -> Result<Node, FormatError> {
    let name = unquote(&node.name)?;
    let kind = match (node.kind.as_str(), node.subtree) {
        ("file", _) => NodeKind::File(node.content.unwrap_or_default()),
        ("dir", Some(tree)) => NodeKind::Directory(tree),
        ("dir", None) => NodeKind::Unknown("dir without a tree".to_owned()),
        ("symlink", _) => NodeKind::Symlink(match node.linktarget_raw {
            Some(raw) => STANDARD.decode(&raw).map_err(FormatError::new)?,
            None => node.linktarget.unwrap_or_default().into_bytes(),
        }),
        ("fifo", _) => NodeKind::Pipe,
        ("socket", _) => NodeKind::Socket,
        ("chardev", _) => NodeKind::CharacterDevice(node.device),
        ("dev", _) => NodeKind::BlockDevice(node.device),
        (other, _) => NodeKind::Unknown(other.to_owned()),
    };
    let is_linked = node.links > 1 && node.inode != 0 && matches!(kind, NodeKind::File(_));
    let attribute = |Attribute { name, value }| {
        let value = value.map_or(Ok(Vec::new()), |value| STANDARD.decode(&value).map_err(FormatError::new))?;
        Ok::<_, FormatError>((name, value))
    };
    let attributes = node.extended_attributes.unwrap_or_default().into_iter().map(attribute);
    Ok(Node {
        name,
        kind,
        mode: mode::posix(node.mode),
        modified: node.mtime.as_deref().map_or(Timestamp::UNIX_EPOCH, time),
        uid: node.uid,
        gid: node.gid,
        size: node.size,
        hard_link: is_linked.then_some((node.device_id, node.inode)),
        extended_attributes: attributes.collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_nobody_can_say_does_not_hide_a_directory() {
        assert_eq!(time("9999-12-31T23:59:59.999999999Z"), Timestamp::MAX);
        assert_eq!(time("0000-01-01T00:00:00Z").to_string(), "0000-01-01T00:00:00Z");
        assert_eq!(time("soon"), Timestamp::UNIX_EPOCH);
    }

    #[test]
    fn a_tree_has_all_that_restic_keeps_of_an_entry() {
        let (a, b) = ("aa".repeat(32), "bb".repeat(32));
        let text = format!(
            r#"{{"nodes":[
            {{"name":"\\xff","type":"file","mode":8388845,"mtime":"2026-01-02T03:04:05.000000006+01:00","uid":7,"gid":8,
              "user":"u","group":"g","inode":9,"device_id":3,"size":5,"links":2,"content":["{a}","{b}"],
              "extended_attributes":[{{"name":"user.x","value":"AAE="}},{{"name":"user.empty","value":null}}]}},
            {{"name":"d","type":"dir","mode":2147484141,"mtime":"1960-01-01T00:00:00Z","subtree":"{a}","content":null}},
            {{"name":"l","type":"symlink","mode":134218239,"mtime":"2026-01-02T03:04:05Z","linktarget":"t\ufffd",
              "linktarget_raw":"dP8="}},
            {{"name":"b","type":"dev","mode":67109296,"mtime":"2026-01-02T03:04:05Z","device":2049}},
            {{"name":"s","type":"socket","mode":0}},
            {{"name":"i","type":"irregular","mode":0}}]}}"#
        );
        let [a, b] = [a, b].map(|id| id.parse::<Id>().unwrap());
        let plain = |name: &str, kind, mode, modified: &str| Node {
            name: name.into(),
            kind,
            mode,
            modified: modified.parse().unwrap(),
            uid: 0,
            gid: 0,
            size: 0,
            hard_link: None,
            extended_attributes: Vec::new(),
        };
        let (usual, none) = ("2026-01-02T03:04:05Z", "1970-01-01T00:00:00Z");
        let expected = vec![
            Node {
                name: vec![0xff],
                uid: 7,
                gid: 8,
                size: 5,
                hard_link: Some((3, 9)),
                extended_attributes: vec![("user.x".to_owned(), vec![0, 1]), ("user.empty".to_owned(), Vec::new())],
                ..plain("", NodeKind::File(vec![a, b]), 0o4355, "2026-01-02T02:04:05.000000006Z")
            },
            plain("d", NodeKind::Directory(a), 0o755, "1960-01-01T00:00:00Z"),
            plain("l", NodeKind::Symlink(b"t\xff".to_vec()), 0o777, usual),
            plain("b", NodeKind::BlockDevice(2049), 0o660, usual),
            plain("s", NodeKind::Socket, 0, none),
            plain("i", NodeKind::Unknown("irregular".to_owned()), 0, none),
        ];
        assert_eq!(read(text.as_bytes()), Ok(expected));
        assert_eq!(read(br#"{"nodes":null}"#), Ok(Vec::new()));
        for bad in ["[]", r#"{"nodes":[{"type":"file"}]}"#, r#"{"nodes":[{"name":"\\q","type":"file"}]}"#] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
