//! Output of tasks: files of their own while they run, a pack of small ones afterwards.
//!
//! A running task writes to plain files. When the task ends, a small file becomes a frame of the
//! pack and is used again, and a larger file is renamed. So 100,000 quiet tasks leave a handful of
//! files. A frame of the pack is campaign, task, attempt (8 bytes each), channel (1 byte), length
//! (8 bytes), all little endian, and the bytes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use super::journal::no_follow;
use crate::orchestrator::wire::{AttemptId, Channel, MAX_CHUNK};

/// The largest output that goes to the pack, in bytes.
const PACKED: u64 = 64 << 10;

/// Most bytes kept of a task's stream.
const CAP: u64 = 64 << 20;

/// Bytes kept at each end of an output over the cap.
const KEPT_END: u64 = 8 << 20;

/// Bytes of standard error that a result carries.
const TAIL: u64 = 4 << 10;

/// Bytes of the task's own error file that a result carries.
const ERROR_HEAD: u64 = 2 << 10;

/// The name of the pack in the folder of a slot.
const PACK: &str = "pack";

/// Length of the head of a frame of the pack, in bytes.
const FRAME: usize = 33;

/// The word for a channel in names of files.
fn word(channel: Channel) -> &'static str {
    match channel {
        Channel::Out => "out",
        Channel::Err => "err",
    }
}

/// The file of a stream of an attempt whose output is too large for the pack.
fn own_file(folder: &Path, task: AttemptId, channel: Channel) -> PathBuf {
    let AttemptId { campaign, task, attempt } = task;
    folder.join(format!("{campaign}.{task}.{attempt}.{}", word(channel)))
}

/// A stream of the task that runs in a lane.
#[derive(Debug)]
pub struct Stream {
    path: PathBuf,
    file: File,
    channel: Channel,
    /// True if the user chose the file: it is neither packed nor cut.
    is_chosen: bool,
    /// End of the part of the file that was given back to the disk, as an offset.
    freed: u64,
}

impl Stream {
    /// The stream of lane `lane`, empty.
    ///
    /// # Errors
    ///
    /// If the file cannot be made.
    pub fn of_lane(folder: &Path, lane: usize, channel: Channel) -> io::Result<Stream> {
        let path = folder.join(format!("lane{lane}.{}", word(channel)));
        let file = open(&path, OpenOptions::new().truncate(false), no_follow())?;
        file.set_len(0)?;
        Ok(Stream { path, file, channel, is_chosen: false, freed: 0 })
    }

    /// A file of the user's choice; folders above it are made.
    ///
    /// # Errors
    ///
    /// If it cannot be opened for appending.
    pub fn chosen(path: PathBuf, channel: Channel) -> io::Result<Stream> {
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        let file = open(&path, &mut OpenOptions::new(), 0)?;
        Ok(Stream { path, file, channel, is_chosen: true, freed: 0 })
    }

    /// A descriptor for the task.
    ///
    /// # Errors
    ///
    /// If the process has too many.
    pub fn for_task(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// True if the user chose the file.
    pub fn is_chosen(&self) -> bool {
        self.is_chosen
    }

    /// Length in bytes.
    pub fn length(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    /// Gives the middle of an output that is over the cap back to the disk.
    pub fn hold_cap(&mut self) {
        let length = self.length();
        if self.is_chosen || length <= CAP {
            return;
        }
        let (from, to) = (KEPT_END.max(self.freed), length - KEPT_END);
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // If the file system has no holes, the output is cut when the task ends.
        if from < to && fallocate(&self.file, hole, from, to - from).is_ok() {
            self.freed = to;
        }
    }

    /// At most [`MAX_CHUNK`] bytes from `from` on.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn read_from(&self, from: u64) -> io::Result<Vec<u8>> {
        read_part(&self.file, from, MAX_CHUNK)
    }

    /// The end of it, as text.
    pub fn tail(&self) -> String {
        let from = self.length().saturating_sub(TAIL);
        let wanted = usize::try_from(TAIL).unwrap_or(0);
        let bytes = read_part(&self.file, from, wanted).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        // A character that the cut went through is left out.
        if from > 0 { text.trim_start_matches('\u{fffd}').to_owned() } else { text }
    }

    /// Stores the stream as output of `task`. Returns true if the lane can use its file again.
    ///
    /// # Errors
    ///
    /// If the disk does not take it.
    fn file_away(&mut self, folder: &Path, task: AttemptId, pack: &mut File) -> io::Result<bool> {
        let length = self.length();
        if self.is_chosen || length == 0 {
            return Ok(!self.is_chosen);
        }
        if length > PACKED {
            if length > CAP {
                self.cut(length)?;
            }
            fs::rename(&self.path, own_file(folder, task, self.channel))?;
            return Ok(false);
        }
        let bytes = read_part(&self.file, 0, usize::try_from(PACKED).unwrap_or(0))?;
        let own = own_file(folder, task, self.channel);
        let AttemptId { campaign, task, attempt } = task;
        let channel = [u8::from(self.channel == Channel::Err)];
        let length = u64::try_from(bytes.len()).map_err(io::Error::other)?.to_le_bytes();
        let numbers = [campaign, task, attempt].map(u64::to_le_bytes).concat();
        let frame = [numbers.as_slice(), &channel, &length, bytes.as_slice()].concat();
        let before = pack.metadata()?.len();
        if pack.write_all(&frame).is_err() {
            // On a full disk a name is still to be had.
            pack.set_len(before)?;
            fs::rename(&self.path, own)?;
            return Ok(false);
        }
        self.file.set_len(0)?;
        Ok(true)
    }

    /// Leaves both ends of an output of `length` bytes, and a line between them.
    fn cut(&mut self, length: u64) -> io::Result<()> {
        let wanted = usize::try_from(KEPT_END).map_err(io::Error::other)?;
        let end = read_part(&self.file, length - KEPT_END, wanted)?;
        self.file.set_len(KEPT_END)?;
        let left_out = length - 2 * KEPT_END;
        write!(self.file, "\n[apportion left out {left_out} bytes here]\n")?;
        self.file.write_all(&end)
    }
}

fn open(path: &Path, options: &mut OpenOptions, flags: i32) -> io::Result<File> {
    options.read(true).append(true).create(true).mode(0o644).custom_flags(flags).open(path)
}

/// At most `most` bytes of `file` from `from` on.
fn read_part(file: &File, from: u64, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; most];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let at = from.saturating_add(u64::try_from(filled).unwrap_or(u64::MAX));
        match file.read_at(rest, at)? {
            0 => break,
            length => filled += length,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// The first 2 KiB of the error file of a task, as text; empty if there is none.
pub fn error_head(path: &Path) -> String {
    let mut options = OpenOptions::new();
    // A task could leave a pipe there, and opening a pipe blocks.
    let flags = no_follow() | i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let Ok(file) = options.read(true).custom_flags(flags).open(path) else { return String::new() };
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    let mut bytes = Vec::new();
    if !is_file || file.take(ERROR_HEAD).read_to_end(&mut bytes).is_err() {
        return String::new();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The output of tasks that ended, in the folder of a slot.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    pack: File,
}

impl Spool {
    /// The spool in `folder`.
    ///
    /// # Errors
    ///
    /// If the pack cannot be opened.
    pub fn open(folder: &Path) -> io::Result<Spool> {
        let pack = open(&folder.join(PACK), &mut OpenOptions::new(), no_follow())?;
        Ok(Spool { folder: folder.to_owned(), pack })
    }

    /// Stores `stream` as output of `task`. Returns the stream if its lane can use it again.
    ///
    /// # Errors
    ///
    /// If the disk does not take it; the output is lost then.
    pub fn keep(&mut self, mut stream: Stream, task: AttemptId) -> io::Result<Option<Stream>> {
        let can_go_on = stream.file_away(&self.folder, task, &mut self.pack)?;
        Ok(can_go_on.then_some(stream))
    }
}

/// Reads the stream of an ended attempt: at most [`MAX_CHUNK`] bytes from `from` on, and true if no
/// byte follows. `None`: no output is kept.
///
/// # Errors
///
/// If the files cannot be read.
pub fn read_kept(
    folder: &Path,
    task: AttemptId,
    channel: Channel,
    from: u64,
) -> io::Result<Option<(Vec<u8>, bool)>> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(no_follow());
    match options.open(own_file(folder, task, channel)) {
        Ok(file) => {
            let bytes = read_part(&file, from, MAX_CHUNK)?;
            let is_all = bytes.len() < MAX_CHUNK;
            return Ok(Some((bytes, is_all)));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let Ok(pack) = options.open(folder.join(PACK)) else { return Ok(None) };
    let mut at = 0;
    while let Some((found, length)) = frame_at(&pack, at)? {
        let start = at + u64::try_from(FRAME).unwrap_or(0);
        if found == (task, channel) {
            let rest = usize::try_from(length.saturating_sub(from)).unwrap_or(usize::MAX);
            let bytes = read_part(&pack, start + from.min(length), rest.min(MAX_CHUNK))?;
            let is_all = bytes.len() >= rest;
            return Ok(Some((bytes, is_all)));
        }
        at = start + length;
    }
    Ok(None)
}

/// Returns the attempt, channel and length of the frame at `at` of the pack.
fn frame_at(pack: &File, at: u64) -> io::Result<Option<((AttemptId, Channel), u64)>> {
    let head = read_part(pack, at, FRAME)?;
    let number = |from: usize| {
        let bytes = head.get(from..from + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let frame = || {
        let task = AttemptId { campaign: number(0)?, task: number(8)?, attempt: number(16)? };
        let channel = if *head.get(24)? == 0 { Channel::Out } else { Channel::Err };
        let length = number(25).filter(|length| *length <= PACKED)?;
        Some(((task, channel), length))
    };
    Ok(frame())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(task: u64) -> AttemptId {
        AttemptId { campaign: 9, task, attempt: 1 }
    }

    #[test]
    fn small_outputs_share_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path()).unwrap();
        let mut stream = Stream::of_lane(folder.path(), 0, Channel::Out).unwrap();
        for task in 1..=500 {
            writeln!(stream.for_task().unwrap(), "out of {task}").unwrap();
            stream = spool.keep(stream, id(task)).unwrap().unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        for task in [1, 250, 500] {
            let kept = read_kept(folder.path(), id(task), Channel::Out, 7).unwrap().unwrap();
            assert_eq!(kept, (format!("{task}\n").into_bytes(), true));
        }
        assert_eq!(read_kept(folder.path(), id(1), Channel::Err, 0).unwrap(), None);
        assert_eq!(read_kept(folder.path(), id(501), Channel::Out, 0).unwrap(), None);
    }

    #[test]
    fn large_outputs_have_a_file_and_the_largest_lose_their_middle() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path()).unwrap();
        let stream = Stream::of_lane(folder.path(), 0, Channel::Err).unwrap();
        stream.for_task().unwrap().write_all(&vec![b'x'; 100 << 10]).unwrap();
        assert_eq!(stream.tail().len(), 4096);
        assert!(spool.keep(stream, id(1)).unwrap().is_none());
        let (bytes, is_all) = read_kept(folder.path(), id(1), Channel::Err, 0).unwrap().unwrap();
        assert_eq!((bytes.len(), is_all), (100 << 10, true));

        let mut stream = Stream::of_lane(folder.path(), 0, Channel::Err).unwrap();
        let mut task = stream.for_task().unwrap();
        let block = vec![b'y'; 1 << 20];
        for _ in 0..80 {
            task.write_all(&block).unwrap();
            stream.hold_cap();
        }
        task.write_all(b"the end").unwrap();
        assert!(spool.keep(stream, id(2)).unwrap().is_none());
        let kept = fs::read(own_file(folder.path(), id(2), Channel::Err)).unwrap();
        assert!(kept.len() < 17 << 20, "{}", kept.len());
        assert!(kept.ends_with(b"the end"));
        let text = String::from_utf8_lossy(&kept);
        assert!(text.contains("[apportion left out 67108871 bytes here]"));
        assert!(!text.contains('\0'));
    }

    #[test]
    fn links_and_pipes_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let link = own_file(folder.path(), id(3), Channel::Out);
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        assert!(read_kept(folder.path(), id(3), Channel::Out, 0).is_err());
        let error = folder.path().join("error");
        assert_eq!(error_head(&error), "");
        std::os::unix::fs::symlink("/etc/passwd", &error).unwrap();
        assert_eq!(error_head(&error), "");
        fs::remove_file(&error).unwrap();
        fs::write(&error, "x".repeat(5_000)).unwrap();
        assert_eq!(error_head(&error).len(), 2048);
    }
}
