//! The one line that a plugin prints, by which the server finds it (hashicorp/go-plugin).

use lifeboat_plugin_proto::{CORE_VERSION, PROTOCOL_VERSION};
use std::path::Path;

/// The line for a plugin that serves on this socket. It names one version of the protocol, whatever the server offers: one that does not
/// speak it sees that by itself. `is_multiplexing_asked` adds a field that older servers do not understand: that
/// one connection for everything is not to be had.
pub(crate) fn line(socket: &Path, is_multiplexing_asked: bool) -> String {
    let multiplexing = if is_multiplexing_asked { "|false" } else { "" };
    format!("{CORE_VERSION}|{PROTOCOL_VERSION}|unix|{socket}|grpc|{multiplexing}\n", socket = socket.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_six_fields_and_a_seventh_where_it_is_asked_for() {
        let socket = Path::new("/tmp/plugin1");
        assert_eq!(line(socket, false), "1|2|unix|/tmp/plugin1|grpc|\n");
        assert_eq!(line(socket, true), "1|2|unix|/tmp/plugin1|grpc||false\n");
    }
}
