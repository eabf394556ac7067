//! The first line that a plugin prints: where it listens (hashicorp/go-plugin).

use lifeboat_plugin_proto::{CORE_VERSION, PROTOCOL_VERSION};
use std::net::SocketAddr;
use std::path::PathBuf;

/// A field that is longer holds a certificate.
const LONGEST_WITHOUT_CERTIFICATE: usize = 50;
/// The number of characters of a wrong line that a message shows.
const SHOWN: usize = 200;

/// The address on which a plugin listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A port.
    Tcp(SocketAddr),
}

/// Reads the first line.
///
/// # Errors
/// The reason for which no plugin can be spoken to after it. The text before the first colon or full stop is
/// go-plugin's.
pub(crate) fn parse(line: &[u8]) -> Result<Address, String> {
    let text = String::from_utf8_lossy(line);
    let fields: Vec<&str> = text.trim().split('|').map(str::trim).collect();
    let [core, version, network, address, rest @ ..] = fields.as_slice() else {
        let shown: String = text.trim().chars().take(SHOWN).collect();
        return Err(format!(
            "Unrecognized remote plugin message: {shown:?}. A plugin prints `1|2|unix|PATH|grpc|` before anything else: this is \
             none, or it was made for another kind of machine, or it fails at its start"
        ));
    };
    if *core != CORE_VERSION {
        return Err(format!(
            "Incompatible core API version with plugin. Plugin version: {core}, Core version: {CORE_VERSION}. It must be built anew with \
             a current version of Velero's library for plugins"
        ));
    }
    if *version != PROTOCOL_VERSION {
        return Err(format!(
            "incompatible API version with plugin. Plugin version: {version}, Client versions: [{PROTOCOL_VERSION}]. It is no plugin for \
             Velero 1.0 or later"
        ));
    }
    let address = match *network {
        "unix" if address.starts_with('/') => Address::Unix(address.into()),
        "tcp" => Address::Tcp(address.parse().map_err(|_| format!("it listens on {address:?}, which is no address"))?),
        "unix" => return Err(format!("it listens on {address:?}, which is no absolute path of a socket")),
        other => return Err(format!("unknown address type: {other}")),
    };
    match rest.first().copied().unwrap_or("netrpc") {
        "grpc" => {}
        other => return Err(format!("unsupported plugin protocol {other:?}. Supported: [grpc]")),
    }
    if rest.get(1).is_some_and(|certificate| certificate.len() > LONGEST_WITHOUT_CERTIFICATE) {
        return Err(
            "it wants TLS, which no plugin of Velero does: its environment may hold PLUGIN_CLIENT_CERT".to_owned()
        );
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_is_printed_first_is_taken_or_refused(fields in prop::collection::vec("[12]|unix|tcp|grpc|.{0,9}", 0..8)) {
            let _ = parse(fields.join("|").as_bytes());
        }
    }

    #[test]
    fn a_handshake_says_where_the_plugin_listens() {
        let socket = || Ok(Address::Unix("/tmp/plugin935070143".into()));
        for line in [
            "1|2|unix|/tmp/plugin935070143|grpc|\n",
            "1|2|unix|/tmp/plugin935070143|grpc",
            "  1|2|unix|/tmp/plugin935070143|grpc||true|more\r\n",
        ] {
            assert_eq!(parse(line.as_bytes()), socket(), "{line:?}");
        }
        assert_eq!(parse(b"1|2|tcp|127.0.0.1:10000|grpc|"), Ok(Address::Tcp(([127, 0, 0, 1], 10_000).into())));
    }

    #[test]
    fn any_other_first_line_is_refused_with_the_reason() {
        for (line, expected) in [
            ("", "Unrecognized remote plugin message: \"\""),
            ("Hello, world!", "Unrecognized remote plugin message: \"Hello, world!\""),
            ("1|2|unix", "Unrecognized remote plugin message"),
            ("2|2|unix|/s|grpc|", "Incompatible core API version with plugin. Plugin version: 2, Core version: 1"),
            ("x|2|unix|/s|grpc|", "Incompatible core API version with plugin. Plugin version: x, Core version: 1"),
            ("1|1|unix|/s|grpc|", "incompatible API version with plugin. Plugin version: 1, Client versions: [2]"),
            ("1|2|udp|/s|grpc|", "unknown address type: udp"),
            ("1|2|unix|s|grpc|", "it listens on \"s\", which is no absolute path of a socket"),
            ("1|2|tcp|nowhere|grpc|", "it listens on \"nowhere\", which is no address"),
            ("1|2|unix|/s", "unsupported plugin protocol \"netrpc\". Supported: [grpc]"),
            ("1|2|unix|/s|netrpc|", "unsupported plugin protocol \"netrpc\". Supported: [grpc]"),
        ] {
            let refused = parse(line.as_bytes()).unwrap_err();
            assert!(refused.starts_with(expected), "{line:?}: {refused}");
        }
        let certificate = format!("1|2|unix|/s|grpc|{}", "A".repeat(51));
        assert!(parse(certificate.as_bytes()).unwrap_err().starts_with("it wants TLS"));
        let long = "é".repeat(100_000);
        assert!(parse(long.as_bytes()).unwrap_err().len() < 1000);
        assert!(parse(&[0xff; 100]).is_err());
    }
}
