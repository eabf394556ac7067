//! An API server that answers as it is told.

use anyhow::Result;
use std::io::Write;
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Answers requests with these codes and bodies (JSON), one after the other, and with the last one again and again; without
/// any, it takes no connection. It runs as a task of this set; the file is a kubeconfig for it.
///
/// # Errors
/// When it cannot listen on loopback, or write the file.
pub async fn scripted_api_server(tasks: &mut JoinSet<()>, answers: Vec<(u16, String)>) -> Result<NamedTempFile> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tasks.spawn(async move {
        let mut answers = answers.into_iter().peekable();
        while let Ok((mut connection, _)) = listener.accept().await {
            let Some((code, body)) = answers.peek().cloned() else { return };
            if answers.len() > 1 {
                answers.next();
            }
            let mut request = [0; 4096];
            let _ = connection.read(&mut request).await;
            let head = format!("HTTP/1.1 {code} x\r\ncontent-type: application/json");
            let length = format!("connection: close\r\ncontent-length: {}", body.len());
            let _ = connection.write_all(format!("{head}\r\n{length}\r\n\r\n{body}").as_bytes()).await;
        }
    });
    let mut kubeconfig = NamedTempFile::new()?;
    write!(
        kubeconfig,
        "{{apiVersion: v1, kind: Config, current-context: c, users: [{{name: u, user: {{}}}}], \
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
         clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]}}"
    )?;
    Ok(kubeconfig)
}
