//! Environment and arguments with which a server starts this program
//! (velero: pkg/plugin/clientmgmt/process/client_builder.go; hashicorp/go-plugin).

use crate::flags::{self, InvalidFlag};
use std::ffi::OsString;
use std::path::PathBuf;
use tracing::level_filters::LevelFilter;

/// Settings that a server gives the plugin that it starts, by the environment and the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    /// The path by which the program was started, unchanged: the server knows it by that.
    pub(crate) command: String,
    /// Lines below it are not logged.
    pub(crate) level: LevelFilter,
    /// The folder for the socket.
    pub(crate) folder: PathBuf,
    /// The group that may use the socket, by name or number.
    pub(crate) group: Option<String>,
    /// True when the server asks if one connection serves for everything.
    pub(crate) is_multiplexing_asked: bool,
}

/// Reasons for which this program does not serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LaunchRefusal {
    #[error("it was not started by a server")]
    NoServer,
    #[error(transparent)]
    Flag(#[from] InvalidFlag),
    #[error(
        "the server asks for TLS between itself and its plugins (PLUGIN_CLIENT_CERT is set), which this plugin does not speak: \
         start it without AutoMTLS, as Velero and Lifeboat do"
    )]
    Tls,
}

impl Launch {
    /// Reads the environment, in which `variable` looks, and the command line with the program's own path.
    pub(crate) fn read(
        variable: impl Fn(&str) -> Option<OsString>,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, LaunchRefusal> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| set(name).map(|value| value.to_string_lossy().into_owned());
        if text("VELERO_PLUGIN").as_deref() != Some("hello") {
            return Err(LaunchRefusal::NoServer);
        }
        let mut arguments = arguments.into_iter();
        let command = arguments.next().unwrap_or_default().to_string_lossy().into_owned();
        let level = flags::log_level(arguments)?;
        if set("PLUGIN_CLIENT_CERT").is_some() {
            return Err(LaunchRefusal::Tls);
        }
        let folder = set("PLUGIN_UNIX_SOCKET_DIR").or_else(|| set("TMPDIR")).unwrap_or_else(|| "/tmp".into());
        Ok(Self {
            command,
            level,
            folder: PathBuf::from(folder),
            group: text("PLUGIN_UNIX_SOCKET_GROUP"),
            is_multiplexing_asked: set("PLUGIN_MULTIPLEX_GRPC").is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(environment: &[(&str, &str)], arguments: &[&str]) -> Result<Launch, LaunchRefusal> {
        let variable =
            |name: &str| environment.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value));
        Launch::read(variable, arguments.iter().map(OsString::from))
    }

    #[test]
    fn a_launch_is_what_the_server_says() {
        let hello = ("VELERO_PLUGIN", "hello");
        let plain = Launch {
            command: "./p".to_owned(),
            level: LevelFilter::INFO,
            folder: "/tmp".into(),
            group: None,
            is_multiplexing_asked: false,
        };
        assert_eq!(read(&[hello], &["./p"]), Ok(plain.clone()));
        let empty = [hello, ("PLUGIN_CLIENT_CERT", ""), ("TMPDIR", ""), ("PLUGIN_MULTIPLEX_GRPC", "")];
        assert_eq!(read(&empty, &["./p"]), Ok(plain.clone()));
        let temporary = Launch { folder: "/var/tmp".into(), ..plain.clone() };
        assert_eq!(read(&[hello, ("TMPDIR", "/var/tmp")], &["./p"]), Ok(temporary));
        let all = [
            hello,
            ("PLUGIN_PROTOCOL_VERSIONS", "2"),
            ("TMPDIR", "/var/tmp"),
            ("PLUGIN_UNIX_SOCKET_DIR", "/run/x"),
            ("PLUGIN_UNIX_SOCKET_GROUP", "staff"),
            ("PLUGIN_MULTIPLEX_GRPC", "true"),
        ];
        let expected = Launch {
            level: LevelFilter::DEBUG,
            folder: "/run/x".into(),
            group: Some("staff".to_owned()),
            is_multiplexing_asked: true,
            ..plain
        };
        assert_eq!(read(&all, &["./p", "--log-level=debug"]), Ok(expected));
    }

    #[test]
    fn it_is_refused_without_a_server_and_with_what_is_not_understood() {
        for (environment, arguments, expected) in [
            (&[][..], &["./p", "--log-level=odd"][..], LaunchRefusal::NoServer),
            (&[("VELERO_PLUGIN", "hallo")], &["./p"], LaunchRefusal::NoServer),
            (&[("VELERO_PLUGIN", "hello"), ("PLUGIN_CLIENT_CERT", "x")], &["./p"], LaunchRefusal::Tls),
            (
                &[("VELERO_PLUGIN", "hello")],
                &["./p", "--log-level=odd"],
                LaunchRefusal::Flag(InvalidFlag::Level("odd".to_owned())),
            ),
        ] {
            assert_eq!(read(environment, arguments), Err(expected));
        }
    }
}
