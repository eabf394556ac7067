//! The floor: how fast a plain client lists or creates the objects that the benchmark backs up and restores, or takes
//! snapshots of claims.
//!
//! It speaks HTTP/1.1 by hand over keep-alive connections, reads whole bodies, and looks at nothing in them but the
//! continue token, so that no part of Lifeboat makes the floor slower or faster. It uses none of Lifeboat's crates.
//! Prints its cost as a line of JSON on standard output; connecting is not part of the time.
#![allow(clippy::print_stdout, reason = "its one line is its result")]

mod create;
mod http;
mod list;
mod objects;
mod snapshots;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use objects::Shape;
use snapshots::Disks;
use std::path::PathBuf;

#[derive(Debug, Parser)]
#[command(name = "floor", disable_help_subcommand = true)]
struct Floor {
    #[command(flatten)]
    server: ServerArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct ServerArgs {
    /// Address and port of the API server
    #[arg(long)]
    server: String,
    /// Its certificate authority, PEM
    #[arg(long)]
    authority: PathBuf,
    /// Bearer token
    #[arg(long)]
    token: String,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read lists page by page over one connection
    List {
        /// Objects of a page
        #[arg(long, default_value_t = 500)]
        limit: u32,
        /// Pages of each list, at most
        #[arg(long, default_value_t = u32::MAX)]
        pages: u32,
        /// Paths such as /api/v1/secrets
        #[arg(required = true)]
        paths: Vec<String>,
    },
    /// Create objects over many connections
    Create {
        /// Connections
        #[arg(long, default_value_t = 32)]
        connections: usize,
        /// Objects
        #[arg(long)]
        count: usize,
        #[command(flatten)]
        shape: Shape,
    },
    /// Create the objects of a file over many connections
    CreateLines {
        /// Connections
        #[arg(long, default_value_t = 32)]
        connections: usize,
        /// A path such as /api/v1/namespaces/default/secrets
        path: String,
        /// A file with an object of JSON in each line
        file: PathBuf,
    },
    /// Take snapshots of claims, and wait until they are ready
    Snapshots {
        /// Connections
        #[arg(long, default_value_t = 32)]
        connections: usize,
        #[command(flatten)]
        of: Disks,
    },
}

fn main() -> Result<()> {
    let floor = Floor::parse();
    let server = http::ApiServer::new(&floor.server.server, &floor.server.authority, &floor.server.token)?;
    let line = match floor.command {
        Command::List { limit, pages, paths } => serde_json::to_string(&list::list(&server, &paths, limit, pages)?)?,
        Command::Create { connections, count, shape } => {
            serde_json::to_string(&create::create(&server, &shape, count, connections)?)?
        }
        Command::CreateLines { connections, path, file } => {
            serde_json::to_string(&create::create_lines(&server, &path, &file, connections)?)?
        }
        Command::Snapshots { connections, of } => {
            serde_json::to_string(&snapshots::snapshots(&server, &of, connections)?)?
        }
    };
    println!("{line}");
    Ok(())
}
