//! The kernel's questions, handed to the tree. Each runs on a thread of the session, which waits for the answer.

use crate::attributes::{NodeAttributes, NodeKind};
use crate::error::TreeError;
use crate::open_file::OpenFile;
use crate::tree::Tree;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyXattr, Request,
};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;

/// The time for which the kernel keeps an answer: what a snapshot has does not change.
const KEPT: Duration = Duration::from_secs(3600);
/// The block in which sizes are counted.
const BLOCK: u64 = 512;
/// The size of readings that programs are advised to use.
const READ_SIZE: u32 = 128 << 10;
/// Entries that are looked up for one answer to a listing.
const LISTED_AT_ONCE: usize = 512;
/// The most entries whose failure is told; what fails after those fails without a word.
const MOST_TOLD: usize = 10_000;
/// The places of `.` and `..` in a listing.
const DOTS: u64 = 2;

/// Tells a person what could not be read.
pub(crate) type Report = Arc<dyn Fn(String) + Send + Sync>;

/// The file system of a tree.
pub(crate) struct FileSystem {
    pub(crate) tree: Tree,
    pub(crate) runtime: Handle,
    pub(crate) report: Report,
    pub(crate) open: OpenFiles,
    pub(crate) told: Mutex<HashSet<u64>>,
}

/// The files that are open, by their handles.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    files: Mutex<HashMap<u64, Arc<OpenFile>>>,
    next: AtomicU64,
}

impl OpenFiles {
    fn add(&self, file: OpenFile) -> FileHandle {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        self.files().insert(handle, Arc::new(file));
        FileHandle(handle)
    }

    fn get(&self, handle: FileHandle) -> Option<Arc<OpenFile>> {
        self.files().get(&handle.0).cloned()
    }

    fn close(&self, handle: FileHandle) {
        self.files().remove(&handle.0);
    }

    fn files(&self) -> MutexGuard<'_, HashMap<u64, Arc<OpenFile>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileSystem {
    /// Waits for an answer. What is a failure of the repository is told once for each entry.
    fn ask<T>(&self, inode: u64, answer: impl Future<Output = Result<T, TreeError>>) -> Result<T, Errno> {
        self.runtime.block_on(async {
            match answer.await {
                Ok(answer) => Ok(answer),
                Err(error) => {
                    if matches!(error, TreeError::Unreadable(_) | TreeError::Repository(_)) && self.is_new(inode) {
                        let path = self.tree.path(inode).await;
                        (self.report)(format!("/{} cannot be read: {error}", path.display()));
                    }
                    Err(number(&error))
                }
            }
        })
    }

    fn is_new(&self, inode: u64) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.len() < MOST_TOLD && told.insert(inode)
    }

    /// Gives the entries of a directory from a place on to `add`, which says when there is no more room.
    fn listing(
        &self,
        directory: u64,
        from: u64,
        mut add: impl FnMut(u64, u64, &OsStr, &NodeAttributes) -> bool,
    ) -> Result<(), Errno> {
        if from < DOTS {
            let parent = self.tree.parent(directory);
            let dots = [(directory, "."), (parent, "..")];
            for (place, (inode, name)) in (from..DOTS).zip(dots.iter().skip(usize::try_from(from).unwrap_or_default()))
            {
                let attributes = self.ask(*inode, self.tree.attributes(*inode))?;
                if add(*inode, place + 1, OsStr::new(name), &attributes) {
                    return Ok(());
                }
            }
        }
        let mut place = usize::try_from(from.saturating_sub(DOTS)).unwrap_or(usize::MAX);
        if place == 0 {
            self.tell_hidden(directory)?;
        }
        loop {
            let entries = self.ask(directory, self.tree.list(directory, place, LISTED_AT_ONCE))?;
            if entries.is_empty() {
                return Ok(());
            }
            for listed in entries {
                place += 1;
                if add(listed.inode, place as u64 + DOTS, &listed.name, &listed.attributes) {
                    return Ok(());
                }
            }
        }
    }

    /// Tells of entries that cannot be shown.
    fn tell_hidden(&self, directory: u64) -> Result<(), Errno> {
        let hidden = self.ask(directory, self.tree.hidden(directory))?;
        if hidden > 0 && self.is_new(directory) {
            let path = self.runtime.block_on(self.tree.path(directory));
            (self.report)(format!(
                "/{} has {hidden} entries that cannot be shown: their names cannot be those of files, or are there twice",
                path.display()
            ));
        }
        Ok(())
    }
}

fn number(error: &TreeError) -> Errno {
    match error {
        TreeError::NotFound => Errno::ENOENT,
        TreeError::NotADirectory => Errno::ENOTDIR,
        TreeError::IsADirectory => Errno::EISDIR,
        TreeError::WrongType => Errno::EINVAL,
        TreeError::Unreadable(_) | TreeError::Repository(_) => Errno::EIO,
    }
}

fn attributes(inode: u64, node: &NodeAttributes) -> FileAttr {
    let NodeAttributes { kind, size, permissions, uid, gid, modified, device } = *node;
    FileAttr {
        ino: INodeNo(inode),
        size,
        blocks: size.div_ceil(BLOCK),
        atime: modified,
        mtime: modified,
        ctime: modified,
        crtime: modified,
        kind: file_type(kind),
        perm: permissions,
        nlink: if kind == NodeKind::Directory { 2 } else { 1 },
        uid,
        gid,
        rdev: u32::try_from(device).unwrap_or_default(),
        blksize: READ_SIZE,
        flags: 0,
    }
}

fn file_type(kind: NodeKind) -> FileType {
    match kind {
        NodeKind::File => FileType::RegularFile,
        NodeKind::Directory => FileType::Directory,
        NodeKind::Symlink => FileType::Symlink,
        NodeKind::Pipe => FileType::NamedPipe,
        NodeKind::Socket => FileType::Socket,
        NodeKind::CharacterDevice => FileType::CharDevice,
        NodeKind::BlockDevice => FileType::BlockDevice,
    }
}

/// Answers with an extended attribute, or with its length where no room is given.
fn reply_bytes(reply: ReplyXattr, size: u32, bytes: &[u8]) {
    match (size, u32::try_from(bytes.len())) {
        (0, Ok(length)) => reply.size(length),
        (size, Ok(length)) if length <= size => reply.data(bytes),
        _ => reply.error(Errno::ERANGE),
    }
}

impl Filesystem for FileSystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Older kernels lack some, and ask more often.
        for flag in [InitFlags::FUSE_DO_READDIRPLUS, InitFlags::FUSE_READDIRPLUS_AUTO, InitFlags::FUSE_ASYNC_READ] {
            let _ = config.add_capabilities(flag);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.ask(parent.0, self.tree.find(parent.0, name)) {
            Ok((inode, node)) => reply.entry(&KEPT, &attributes(inode, &node), Generation(0)),
            Err(number) => reply.error(number),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.ask(inode.0, self.tree.attributes(inode.0)) {
            Ok(node) => reply.attr(&KEPT, &attributes(inode.0, &node)),
            Err(number) => reply.error(number),
        }
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        match self.ask(inode.0, self.tree.target(inode.0)) {
            Ok(target) => reply.data(&target),
            Err(number) => reply.error(number),
        }
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.ask(inode.0, self.tree.open(inode.0)) {
            Ok(file) => reply.opened(self.open.add(file), FopenFlags::FOPEN_KEEP_CACHE),
            Err(number) => reply.error(number),
        }
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(file) = self.open.get(handle) else { return reply.error(Errno::EBADF) };
        match self.ask(inode.0, self.tree.read(&file, offset, size)) {
            Ok(bytes) => reply.data(&bytes),
            Err(number) => reply.error(number),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.open.close(handle);
        reply.ok();
    }

    fn readdir(&self, _: &Request, inode: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listed = self.listing(inode.0, offset, |inode, next, name, node| {
            reply.add(INodeNo(inode), next, file_type(node.kind), name)
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(number) => reply.error(number),
        }
    }

    fn readdirplus(&self, _: &Request, inode: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let listed = self.listing(inode.0, offset, |inode, next, name, node| {
            reply.add(INodeNo(inode), next, name, &KEPT, &attributes(inode, node), Generation(0))
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(number) => reply.error(number),
        }
    }

    fn getxattr(&self, _: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        match self.ask(inode.0, self.tree.extended_attributes(inode.0)) {
            Ok(all) => match all.iter().flat_map(|all| &**all).find(|one| one.name.as_bytes() == name.as_bytes()) {
                Some(found) => reply_bytes(reply, size, &found.value),
                None => reply.error(Errno::NO_XATTR),
            },
            Err(number) => reply.error(number),
        }
    }

    fn listxattr(&self, _: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        match self.ask(inode.0, self.tree.extended_attributes(inode.0)) {
            Ok(all) => {
                let all = all.iter().flat_map(|all| &**all);
                let names: Vec<u8> = all.flat_map(|one| one.name.bytes().chain([0])).collect();
                reply_bytes(reply, size, &names);
            }
            Err(number) => reply.error(number),
        }
    }
}
