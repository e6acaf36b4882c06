//! The folders of slots: made by the agent, owned by the user, never opened by the agent again without
//! a look at the owner.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat};
use tokio::net::UnixStream;

use crate::slot::wire::{SETTINGS, SOCKET, SlotSettings};

/// The spool of a node.
#[derive(Clone, Debug)]
pub struct NodeSpool {
    folder: PathBuf,
}

impl NodeSpool {
    /// The spool in `folder`, made if it is not there.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn open(folder: &Path) -> io::Result<NodeSpool> {
        let slots = folder.join("slots");
        // Users pass through to their own folders, and list nothing. A folder that exists keeps its mode.
        for path in [folder, &slots] {
            if !path.exists() {
                DirBuilder::new().recursive(true).create(path)?;
                fs::set_permissions(path, fs::Permissions::from_mode(0o711))?;
            }
        }
        Ok(NodeSpool { folder: fs::canonicalize(slots)? })
    }

    /// Returns the folder on the path to the slots that other users cannot pass through; `None`:
    /// users pass through all.
    pub fn closed(&self) -> Option<&Path> {
        let is_closed = |path: &&Path| {
            fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o001 == 0)
        };
        self.folder.ancestors().find(is_closed)
    }

    /// The folder of a slot.
    pub fn of(&self, slot: &str) -> PathBuf {
        self.folder.join(slot)
    }

    /// Makes the folder of a slot with its settings, and gives it to its owner.
    ///
    /// # Errors
    ///
    /// If it is there, or cannot be made.
    pub fn make(&self, slot: &str, settings: &SlotSettings, owner: (u32, u32)) -> io::Result<()> {
        let path = self.of(slot);
        DirBuilder::new().mode(0o700).create(&path)?;
        // Until the last line only the agent can change the content.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = File::from(rustix::fs::open(&path, flags, Mode::empty())?);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&folder, SETTINGS, flags | OFlags::NOFOLLOW, Mode::from_raw_mode(0o600));
        let mut file = File::from(file?);
        file.write_all(&serde_json::to_vec(settings)?)?;
        let (uid, gid) = (Some(owner.0), Some(owner.1));
        fchown(&file, uid, gid)?;
        fchown(&folder, uid, gid)
    }

    /// Removes the folder of a slot if it is empty.
    pub fn remove(&self, slot: &str) {
        // The content belongs to the user, and is removed first.
        let _ = fs::remove_dir(self.of(slot));
    }

    /// The folders that are there.
    pub fn all(&self) -> Vec<(String, fs::Metadata)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let folders = entries.filter_map(|entry| {
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_dir)?;
            Some((entry.file_name().to_str()?.to_owned(), metadata))
        });
        folders.collect()
    }

    /// Connects to the slot, which has to run as `uid` in the process `pid`.
    ///
    /// # Errors
    ///
    /// If nothing listens there, or something else: a link, or another process.
    pub async fn connect(&self, slot: &str, uid: u32, pid: i32) -> io::Result<UnixStream> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::open(self.of(slot), flags, Mode::empty())?;
        let socket = statat(&folder, SOCKET, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_socket = FileType::from_raw_mode(socket.st_mode) == FileType::Socket;
        if fstat(&folder)?.st_uid != uid || !is_socket {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "not the slot's own socket"));
        }
        let path = format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd());
        let stream = UnixStream::connect(path).await?;
        let peer = stream.peer_cred()?;
        if peer.uid() == uid && peer.pid() == Some(pid) {
            return Ok(stream);
        }
        Err(io::Error::new(ErrorKind::PermissionDenied, "another process listens in its place"))
    }
}

/// Checks that a folder can be written: makes and removes an empty file.
///
/// # Errors
///
/// If it cannot.
pub fn try_out(folder: &Path) -> io::Result<()> {
    let probe = folder.join("probe");
    OpenOptions::new().write(true).create(true).truncate(true).open(&probe)?;
    fs::remove_file(probe)
}
