//! The one line that a plugin prints, by which the server finds it (plugin-protocol.md 2.1, 2.2).

use std::path::Path;

/// The version of go-plugin's own protocol.
const CORE: u32 = 1;
/// The versions of Velero's protocol that are spoken here.
const VERSIONS: [u32; 1] = [2];

/// The highest version that both sides speak, and our lowest when there is none or the server did not say: it sees by itself then that
/// it cannot go on.
pub(crate) fn negotiate(offered: Option<&str>) -> u32 {
    let offered: Vec<u32> = offered.unwrap_or_default().split(',').filter_map(|v| v.trim().parse().ok()).collect();
    let both = VERSIONS.into_iter().filter(|version| offered.contains(version)).max();
    both.unwrap_or(VERSIONS[0])
}

/// The line for a plugin that serves on this socket. `is_multiplexing_asked` adds a field that older servers do not understand: that
/// one connection for everything is not to be had.
pub(crate) fn line(version: u32, socket: &Path, is_multiplexing_asked: bool) -> String {
    let multiplexing = if is_multiplexing_asked { "|false" } else { "" };
    format!("{CORE}|{version}|unix|{socket}|grpc|{multiplexing}\n", socket = socket.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_six_fields_and_a_seventh_where_it_is_asked_for() {
        let socket = Path::new("/tmp/plugin1");
        assert_eq!(line(2, socket, false), "1|2|unix|/tmp/plugin1|grpc|\n");
        assert_eq!(line(2, socket, true), "1|2|unix|/tmp/plugin1|grpc||false\n");
    }

    #[test]
    fn the_version_is_one_of_ours_whatever_is_offered() {
        for offered in
            [None, Some("2"), Some(""), Some("1"), Some("1,2,3"), Some(" 2 ,x"), Some("nonsense"), Some("99")]
        {
            assert_eq!(negotiate(offered), 2, "{offered:?}");
        }
    }
}
